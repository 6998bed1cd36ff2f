//! Checks every invariant that a search relies on in a mapped graph, in place: one bit per slot and a small
//! stack, however large the graph is.

use super::graph::LinksView;
use crate::error::{Error, Result};
use crate::search::{NodeSet, SlotLinks as _};
use dyad_files::Cancel;

/// Slots on the stack of a traversal: 256 KiB. Slots that do not fit are found by another sweep.
const MAX_STACK: usize = 1 << 16;
/// Slots between two checks for cancellation.
const BETWEEN_CHECKS: u32 = 1 << 14;

fn fail(layer: usize, node: u32, problem: String) -> Error {
    Error::Graph { layer, node, problem }
}

impl LinksView<'_> {
    /// Checks that there are as many copies as the file says, each after what it is a copy of with only other copies
    /// between, and that no link of layer 0 leads to one.
    fn validate_copies(&self) -> Result<()> {
        if self.copies() == 0 {
            return Ok(());
        }
        let slots = || 0..self.order().len() as u32;
        let is_copy = |slot: u32| self.representative(slot) != slot;
        let copies = slots().filter(|slot| is_copy(*slot)).count();
        if copies != self.copies() as usize {
            return Err(fail(
                0,
                0,
                format!(
                    "{copies} slots are copies of others, and the file says {}",
                    self.copies()
                ),
            ));
        }
        let is_apart = |slot: &u32| is_copy(*slot) && self.representative(*slot - 1) != self.representative(*slot);
        if let Some(slot) = slots().find(is_apart) {
            return Err(fail(
                0,
                slot,
                format!("is a copy of {}, and does not follow it", self.representative(slot)),
            ));
        }
        for slot in slots() {
            // Padding of the slot itself, and in one that is a copy its representative, are none.
            if let Some(target) = self
                .row(slot)
                .iter()
                .find(|target| **target != slot && is_copy(**target))
            {
                return Err(fail(0, slot, format!("links to {target}, which is a copy")));
            }
        }
        Ok(())
    }

    /// Checks what [`Graph::validate`](crate::graph::Graph::validate) checks: links lead to slots of their layer, upper
    /// layers are ascending, the entry point is on the highest one. False where it was cancelled.
    pub fn validate(&self, cancel: &dyn Cancel) -> Result<bool> {
        let n = self.order().len();
        for slot in 0..n as u32 {
            if slot.is_multiple_of(BETWEEN_CHECKS) && cancel.is_cancelled() {
                return Ok(false);
            }
            // The slot itself is padding.
            if let Some(target) = self.row(slot).iter().find(|target| **target as usize >= n) {
                return Err(fail(0, slot, format!("links to {target}, which is not on this layer")));
            }
        }
        self.validate_copies()?;
        for (at, layer) in (1..).zip(self.upper_layers()) {
            let (nodes, offsets, links) = (layer.nodes, layer.offsets, layer.links);
            if offsets.len() != nodes.len() + 1
                || offsets.first() != Some(&0)
                || offsets.last() != Some(&(links.len() as u64))
            {
                let (last, nodes, links) = (offsets.last(), nodes.len(), links.len());
                let problem = format!(
                    "{} offsets that end at {last:?} for {nodes} nodes and {links} links",
                    offsets.len()
                );
                return Err(fail(at, 0, problem));
            }
            if let Some(pair) = nodes.windows(2).find(|pair| pair[0] >= pair[1]) {
                return Err(fail(at, pair[1], "nodes are not ascending".to_owned()));
            }
            for (i, (&node, ends)) in (0u32..).zip(nodes.iter().zip(offsets.windows(2))) {
                if i.is_multiple_of(BETWEEN_CHECKS) && cancel.is_cancelled() {
                    return Ok(false);
                }
                if node as usize >= n {
                    return Err(fail(at, node, format!("there are only {n} vectors")));
                }
                if ends[0] > ends[1] {
                    return Err(fail(at, node, "offsets run backwards".to_owned()));
                }
                for &target in links.get(ends[0] as usize..ends[1] as usize).unwrap_or(&[]) {
                    if target == node {
                        return Err(fail(at, node, "links to itself".to_owned()));
                    }
                    if nodes.binary_search(&target).is_err() {
                        return Err(fail(at, node, format!("links to {target}, which is not on this layer")));
                    }
                }
            }
        }
        let entry = self.entry_slot();
        let highest = self.upper_layers().last();
        let on_highest = highest.map_or((entry as usize) < n, |layer| layer.nodes.binary_search(&entry).is_ok());
        if n > 0 && !on_highest {
            let problem = "the entry point is not on the highest layer".to_owned();
            return Err(fail(self.upper_layers().count(), entry, problem));
        }
        Ok(true)
    }

    /// Slots that a traversal of layer 0 does not reach from the entry point; none where `cancel` ended it.
    ///
    /// Slots are numbered breadth first, so that one sweep in their order reaches nearly all of a graph with our
    /// layout: each comes before the slots that it leads to. Links that lead back are followed from a stack.
    pub fn unreached(&self, cancel: &dyn Cancel) -> Option<u64> {
        let n = self.order().len();
        let mut reached = NodeSet::new(n);
        reached.insert(self.entry_slot());
        let mut stack: Vec<u32> = Vec::new();
        let mut again = true;
        let mut steps = 0u32;
        while again {
            again = false;
            for start in 0..n as u32 {
                let mut next = reached.contains(start).then_some(start);
                while let Some(slot) = next {
                    if steps.is_multiple_of(BETWEEN_CHECKS) && cancel.is_cancelled() {
                        return None;
                    }
                    steps = steps.wrapping_add(1);
                    for &target in self.row(slot) {
                        // The sweep itself comes to slots after `start`.
                        if reached.insert(target) && target <= start {
                            if stack.len() < MAX_STACK {
                                stack.push(target);
                            } else {
                                again = true;
                            }
                        }
                    }
                    next = stack.pop();
                }
            }
        }
        // Copies are found with what they are copies of.
        let is_reached = |slot: &u32| reached.contains(self.representative(*slot));
        Some((0..n as u32).filter(|slot| !is_reached(slot)).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::graph::{Graph, GraphLayer};
    use crate::layout::GraphLayout;
    use dyad_files::Never;

    /// What `verify` did before: a copy of the graph on the heap.
    fn by_copy(layout: &GraphLayout) -> (Result<(), String>, u64) {
        let graph: Graph = layout.view().to_graph();
        let valid = graph.validate(layout.order.len()).map_err(|error| error.to_string());
        (
            valid,
            graph.reachable().iter().filter(|reached| !**reached).count() as u64,
        )
    }

    /// A layout of any links, most of which are intact: as a damaged file may hold.
    fn layout() -> impl Strategy<Value = GraphLayout> {
        let upper = prop::collection::vec((prop::collection::btree_set(0u32..40, 1..8), any::<u64>()), 0..3);
        (1usize..60, 1usize..5, any::<u64>(), upper, 0u32..16).prop_map(|(n, degree, seed, upper, damage)| {
            let mut state = seed | 1;
            let mut random = move |below: u64| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) % below.max(1)
            };
            let n64 = n as u64;
            // Some graphs lead back only, some forward only, so that parts are not reached.
            let forward = random(3);
            let links = (0..n * degree).map(|at| {
                let slot = (at / degree) as u64;
                let target = match forward {
                    0 => random(n64),
                    1 => slot + random((n64 - slot).min(4)),
                    _ => slot.saturating_sub(random(3)),
                };
                target as u32
            });
            let links = links.collect();
            let upper: Vec<GraphLayer> = upper
                .into_iter()
                .map(|(nodes, seed)| {
                    let nodes: Vec<u32> = nodes.into_iter().filter(|node| (*node as usize) < n).collect();
                    let other = |at: usize| nodes[(at + 1 + seed as usize % nodes.len()) % nodes.len()];
                    let lists: Vec<Vec<u32>> = (0..nodes.len()).map(|at| vec![other(at)]).collect();
                    let lists: Vec<Vec<u32>> = lists
                        .into_iter()
                        .zip(&nodes)
                        .map(|(list, node)| list.into_iter().filter(|target| target != node).collect())
                        .collect();
                    GraphLayer::from_lists(nodes, &lists)
                })
                .filter(|layer| !layer.nodes.is_empty())
                .collect();
            let entry = upper.last().map_or(random(n64) as u32, |layer| layer.nodes[0]);
            let mut layout = GraphLayout {
                entry,
                copies: 0,
                degree,
                order: (0..n as u32).collect(),
                links,
                upper,
            };
            match damage {
                0 => layout.links[(seed % (n * degree) as u64) as usize] = n as u32 + 3,
                1 => layout.entry = (layout.entry + 1) % n as u32,
                2..=7 => {
                    if let Some(layer) = layout.upper.first_mut() {
                        let at = (seed >> 8) as usize;
                        match damage {
                            2 => layer.nodes.reverse(),
                            3 => layer.nodes[0] = n as u32 + 7,
                            4 if !layer.links.is_empty() => {
                                let at = at % layer.links.len();
                                layer.links[at] = 41;
                            }
                            5 => {
                                let at = at % layer.offsets.len();
                                layer.offsets[at] += 5;
                            }
                            6 => _ = layer.offsets.pop(),
                            _ => layer.links.push(0),
                        }
                    }
                }
                _ => {}
            }
            layout
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn in_place_finds_what_a_copy_finds(layout in layout()) {
            let (valid, unreached) = by_copy(&layout);
            let view = layout.view();
            let validated = view.validate(&Never).map(|whole| assert!(whole));
            prop_assert_eq!(validated.map_err(|error| error.to_string()), valid);
            prop_assert_eq!(view.unreached(&Never), Some(unreached));
            let stop = || true;
            prop_assert!(!view.validate(&stop).unwrap_or(false) && view.unreached(&stop).is_none());
        }
    }

    #[test]
    fn copies_follow_what_they_are_copies_of_and_no_link_leads_to_them() {
        // Slots 1 and 2 are copies of 0; 3 and 0 link to each other.
        let row = |first: u32, rest: u32| [first, rest, rest, rest];
        let links = [row(3, 0), row(0, 0), row(0, 0), row(0, 3)].concat();
        let intact = GraphLayout {
            entry: 3,
            copies: 2,
            degree: 4,
            order: (0..4).collect(),
            links,
            upper: Vec::new(),
        };
        assert!(intact.view().validate(&Never).unwrap());
        assert_eq!(intact.view().unreached(&Never), Some(0));
        let error = |layout: GraphLayout| layout.view().validate(&Never).unwrap_err().to_string();
        let fewer = error(GraphLayout {
            copies: 1,
            ..intact.clone()
        });
        assert!(
            fewer.contains("2 slots are copies of others, and the file says 1"),
            "{fewer}"
        );
        let mut apart = intact.clone();
        apart.links[4..8].copy_from_slice(&row(3, 1));
        apart.copies = 1;
        assert!(error(apart).contains("is a copy of 0, and does not follow it"));
        let mut linked = intact;
        linked.links[13] = 2;
        assert!(error(linked).contains("links to 2, which is a copy"));
    }

    /// Slots that lead back, one to the next, and more of them at once than the stack holds.
    #[test]
    fn links_that_lead_back_are_followed_however_many_there_are() {
        let layout = |n: u32, degree: usize, links: Vec<u32>| GraphLayout {
            copies: 0,
            entry: n - 1,
            degree,
            order: (0..n).collect(),
            links,
            upper: Vec::new(),
        };
        let n = 200_000u32;
        let chain = layout(n, 1, (0..n).map(|slot| slot.saturating_sub(1)).collect());
        assert_eq!(chain.view().unreached(&Never), Some(0));
        // The entry leads to the upper half of a tree whose links all lead back: far more wait than fit.
        let degree = 16;
        let parents = n / 16;
        let links = (0..n).flat_map(|slot| {
            let (first, last) = (slot.saturating_sub(1) as u64 * 16 % u64::from(n), u64::from(slot));
            (0..16u64).map(move |at| {
                if slot >= n - parents {
                    ((first + at) % u64::from(n)).min(last) as u32
                } else {
                    slot
                }
            })
        });
        let mut links: Vec<u32> = links.collect();
        let last = links.len() - degree;
        (0..degree).for_each(|at| links[last + at] = n - 2 - at as u32);
        let tree = layout(n, degree, links);
        let (_, unreached) = by_copy(&tree);
        assert_eq!(tree.view().unreached(&Never), Some(unreached));
    }
}

//! The growing neighbour lists of one layer: each is read by many threads while one at a time writes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dyad_index::search::{Scored, SlotLinks};

/// Which nodes a layer has.
#[derive(Debug)]
pub(super) enum Members {
    /// All: a node is its own position.
    All,
    /// Some, ascending.
    Some(Vec<u32>),
}

impl Members {
    fn position(&self, node: u32) -> Option<usize> {
        match self {
            Self::All => Some(node as usize),
            Self::Some(nodes) => nodes.binary_search(&node).ok(),
        }
    }
}

/// Lists of at most `capacity` links each. A list ends at its first [`EMPTY`].
#[derive(Debug)]
pub(super) struct LinkLists {
    members: Members,
    capacity: usize,
    targets: Vec<AtomicU32>,
    /// Scores of the links, as bits.
    scores: Vec<AtomicU32>,
    /// Links in each list; locked by its writer.
    counts: Vec<Mutex<u32>>,
}

const EMPTY: u32 = u32::MAX;

impl LinkLists {
    pub(super) fn new(members: Members, count: usize, capacity: usize) -> Self {
        let atomics = |value: u32| (0..count * capacity).map(|_| AtomicU32::new(value)).collect();
        Self {
            members,
            capacity,
            targets: atomics(EMPTY),
            scores: atomics(0),
            counts: (0..count).map(|_| Mutex::new(0)).collect(),
        }
    }

    fn row<'a>(&self, values: &'a [AtomicU32], node: u32) -> &'a [AtomicU32] {
        let position = self.members.position(node);
        position
            .and_then(|position| values.get(position * self.capacity..(position + 1) * self.capacity))
            .unwrap_or(&[])
    }

    /// The links of a node with their scores, as they are now.
    pub(super) fn links(&self, node: u32) -> Vec<Scored> {
        let targets = self
            .row(&self.targets, node)
            .iter()
            .map(|target| target.load(Ordering::Acquire));
        let scores = self
            .row(&self.scores, node)
            .iter()
            .map(|score| f32::from_bits(score.load(Ordering::Relaxed)));
        let links = targets.zip(scores).take_while(|(target, _)| *target != EMPTY);
        links.map(|(node, score)| Scored { node, score }).collect()
    }

    /// Keeps the best of a list and `links`, as many as there is room for. What is kept of several calls does not
    /// depend on their order.
    pub(super) fn keep_best(&self, node: u32, links: &[Scored]) {
        let Some(mut count) = self.lock(node) else { return };
        let mut all = self.links(node);
        let known = all.len();
        let is_new = |link: &Scored| !all.iter().take(known).any(|known| known.node == link.node);
        let new: Vec<Scored> = links.iter().filter(|link| is_new(link)).copied().collect();
        all.extend(new);
        all.sort_unstable_by(|a, b| b.cmp(a));
        all.truncate(self.capacity);
        self.put(node, &all, &mut count);
    }

    /// Replaces a list.
    pub(super) fn replace(&self, node: u32, links: &[Scored]) {
        if let Some(mut count) = self.lock(node) {
            self.put(node, links, &mut count);
        }
    }

    fn lock(&self, node: u32) -> Option<MutexGuard<'_, u32>> {
        let count = self
            .members
            .position(node)
            .and_then(|position| self.counts.get(position))?;
        // A writer that panicked has left a list of valid links.
        Some(count.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, node: u32, links: &[Scored], count: &mut u32) {
        let (targets, scores) = (self.row(&self.targets, node), self.row(&self.scores, node));
        for ((link, target), score) in links.iter().zip(targets).zip(scores) {
            score.store(link.score.to_bits(), Ordering::Relaxed);
            target.store(link.node, Ordering::Release);
        }
        for target in targets.iter().skip(links.len()) {
            target.store(EMPTY, Ordering::Release);
        }
        *count = links.len().min(self.capacity) as u32;
    }

    /// Adds links to a node. A full list is replaced by what `prune` keeps of it and the new link.
    pub(super) fn add(&self, node: u32, links: &[Scored], mut prune: impl FnMut(Vec<Scored>) -> Vec<Scored>) {
        let Some(mut count) = self.lock(node) else { return };
        let (targets, scores) = (self.row(&self.targets, node), self.row(&self.scores, node));
        for link in links {
            let used = *count as usize;
            let known = targets
                .iter()
                .take(used)
                .any(|target| target.load(Ordering::Relaxed) == link.node);
            if known || link.node == node {
                continue;
            }
            if let (Some(target), Some(score)) = (targets.get(used), scores.get(used)) {
                score.store(link.score.to_bits(), Ordering::Relaxed);
                target.store(link.node, Ordering::Release);
                *count += 1;
                continue;
            }
            let mut all = self.links(node);
            all.push(*link);
            all.sort_unstable_by(|a, b| b.cmp(a));
            self.put(node, &prune(all), &mut count);
        }
    }
}

impl SlotLinks for LinkLists {
    fn append(&self, slot: u32, links: &mut Vec<u32>) {
        let targets = self
            .row(&self.targets, slot)
            .iter()
            .map(|target| target.load(Ordering::Acquire));
        links.extend(targets.take_while(|target| *target != EMPTY));
    }

    fn prefetch(&self, slot: u32) {
        for line in self.row(&self.targets, slot).chunks(16) {
            dyad_index::kernels::prefetch_start(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scored(node: u32, score: f32) -> Scored {
        Scored { node, score }
    }

    #[test]
    fn lists_take_each_link_once_and_are_pruned_when_full() {
        let lists = LinkLists::new(Members::Some(vec![3, 8]), 2, 3);
        let never = |_| unreachable!("there is room");
        lists.add(
            8,
            &[scored(1, 0.1), scored(2, 0.9), scored(1, 0.1), scored(8, 1.0)],
            never,
        );
        assert_eq!(lists.links(8), [scored(1, 0.1), scored(2, 0.9)]);
        lists.add(8, &[scored(4, 0.5)], never);
        lists.add(8, &[scored(5, 0.7)], |mut all| {
            all.truncate(2);
            all
        });
        assert_eq!(lists.links(8), [scored(2, 0.9), scored(5, 0.7)]);
        assert!(lists.links(3).is_empty() && lists.links(4).is_empty());
        let mut found = Vec::new();
        lists.append(8, &mut found);
        assert_eq!(found, [2, 5]);
        lists.replace(8, &[scored(7, 0.3)]);
        assert_eq!(lists.links(8), [scored(7, 0.3)]);
    }

    #[test]
    fn the_best_are_kept_in_whatever_order_they_come() {
        let offered = [
            vec![scored(1, 0.1), scored(2, 0.9)],
            vec![scored(4, 0.5), scored(2, 0.9)],
            vec![scored(5, 0.7)],
        ];
        for order in [[0usize, 1, 2], [2, 1, 0], [1, 0, 2]] {
            let lists = LinkLists::new(Members::All, 9, 3);
            for at in order {
                lists.keep_best(8, &offered[at]);
            }
            assert_eq!(lists.links(8), [scored(2, 0.9), scored(5, 0.7), scored(4, 0.5)]);
        }
    }
}

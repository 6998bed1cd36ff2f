//! GRAPH: order, links in rows of one width, and the upper layers; written once, then mapped.

use std::io::{self, Write};

use zerocopy::IntoBytes;

use super::{FormatFault, align, section};
use crate::graph::{Graph, GraphLayer};
use crate::kernels;
use crate::layout::GraphLayout;
use crate::search::{SlotLinks, UpperLayers};

const PART: &str = "GRAPH";
/// Bytes before the counts of the upper layers.
const HEAD: u64 = 16;
/// Most layers that a reader accepts: with the probabilities of levels, more are impossible in practice.
pub(crate) const MAX_LAYERS: u32 = 64;
/// Most links per slot that a reader accepts.
pub(crate) const MAX_DEGREE: u32 = 1 << 16;

/// Offsets of the arrays of an upper layer, from the start of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LayerPlace {
    nodes: u64,
    links: u64,
    nodes_at: u64,
    offsets_at: u64,
    links_at: u64,
}

/// Offsets of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GraphOffsets {
    order_at: u64,
    links_at: u64,
    upper: Vec<LayerPlace>,
    end: u64,
}

fn places(n: u64, degree: u64, counts: impl Iterator<Item = (u64, u64)> + Clone) -> Option<GraphOffsets> {
    let upper_layers = counts.clone().count() as u64;
    let mut end = align(HEAD + 16 * upper_layers);
    let mut take = |bytes: u64| {
        let at = end;
        end = at
            .checked_add(bytes)
            .filter(|end| *end < u64::MAX - super::ALIGN)
            .map(align)?;
        Some(at)
    };
    let order_at = take(n.checked_mul(4)?)?;
    let links_at = take(n.checked_mul(degree)?.checked_mul(4)?)?;
    let mut upper = Vec::new();
    for (nodes, links) in counts {
        let nodes_at = take(nodes.checked_mul(4)?)?;
        let offsets_at = take(nodes.checked_add(1)?.checked_mul(8)?)?;
        upper.push(LayerPlace {
            nodes,
            links,
            nodes_at,
            offsets_at,
            links_at: take(links.checked_mul(4)?)?,
        });
    }
    Some(GraphOffsets {
        order_at,
        links_at,
        upper,
        end,
    })
}

/// Writes the section.
pub fn write(layout: &GraphLayout, out: &mut impl Write) -> io::Result<()> {
    let mut table = Vec::new();
    let layers = if layout.order.is_empty() {
        0
    } else {
        layout.upper.len() as u32 + 1
    };
    for value in [layout.entry, layers, layout.degree as u32, layout.copies] {
        table.extend_from_slice(&value.to_le_bytes());
    }
    for layer in &layout.upper {
        table.extend_from_slice(&(layer.nodes.len() as u64).to_le_bytes());
        table.extend_from_slice(&(layer.links.len() as u64).to_le_bytes());
    }
    let mut padded = |bytes: &[u8]| {
        out.write_all(bytes)?;
        let padding = align(bytes.len() as u64) as usize - bytes.len();
        out.write_all(&[0; super::ALIGN as usize][..padding])
    };
    padded(&table)?;
    padded(layout.order.as_bytes())?;
    padded(layout.links.as_bytes())?;
    for layer in &layout.upper {
        padded(layer.nodes.as_bytes())?;
        padded(layer.offsets.as_bytes())?;
        padded(layer.links.as_bytes())?;
    }
    Ok(())
}

/// The table of the section: enough to view the arrays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphTable {
    entry: u32,
    degree: u32,
    copies: u32,
    n: u64,
    places: GraphOffsets,
}

impl GraphTable {
    /// Reads the table of a section over `n` vectors and checks that its arrays fill the section.
    pub fn parse(bytes: &[u8], n: u64) -> Result<Self, FormatFault> {
        let head = section::array::<u32>(bytes, 0, 4, PART)?;
        let at = |place: usize| head.get(place).copied().unwrap_or(0);
        let (entry, layers, degree, copies) = (at(0), at(1), at(2), at(3));
        if layers > MAX_LAYERS || (layers == 0) != (n == 0) {
            let expected = if n == 0 {
                "no layer over no vector".to_owned()
            } else {
                format!("1 to {MAX_LAYERS} layers")
            };
            return Err(FormatFault::new(PART, expected, layers));
        }
        if degree == 0 || degree > MAX_DEGREE {
            return Err(FormatFault::new(
                PART,
                format!("1 to {MAX_DEGREE} links per slot"),
                degree,
            ));
        }
        let counts = section::array::<u64>(bytes, HEAD, u64::from(layers.saturating_sub(1)) * 2, PART)?;
        let counts = counts.as_chunks::<2>().0.iter().map(|[nodes, links]| (*nodes, *links));
        let places = places(n, u64::from(degree), counts)
            .ok_or_else(|| FormatFault::new(PART, "counts that fit a file", "larger ones"))?;
        if places.end != bytes.len() as u64 || (n > 0 && u64::from(entry) >= n) {
            let expected = format!("{} bytes, an entry below {n}", bytes.len());
            return Err(FormatFault::new(
                PART,
                expected,
                format!("{} bytes, entry {entry}", places.end),
            ));
        }
        let table = Self {
            entry,
            degree,
            copies,
            n,
            places,
        };
        table.check_ends(&table.view(bytes))?;
        Ok(table)
    }

    /// Whether some slots are copies.
    pub fn has_copies(&self) -> bool {
        self.copies > 0
    }

    /// Checks what every descent through the upper layers relies on: the entry point is on the highest one, and the
    /// offsets of each start and end where its links do. Reads two offsets per layer, and the nodes of one bisection of
    /// the highest.
    fn check_ends(&self, view: &LinksView<'_>) -> Result<(), FormatFault> {
        for layer in &view.upper {
            let (ends, links) = ((layer.offsets.first(), layer.offsets.last()), layer.links.len() as u64);
            if ends != (Some(&0), Some(&links)) {
                return Err(FormatFault::new(
                    PART,
                    format!("offsets from 0 to {links}"),
                    format!("{ends:?}"),
                ));
            }
        }
        match view.upper.last() {
            Some(highest) if highest.nodes.binary_search(&self.entry).is_err() => Err(FormatFault::new(
                PART,
                "an entry on the highest layer",
                format!("entry {}", self.entry),
            )),
            _ => Ok(()),
        }
    }

    /// A view of the section. `bytes` is what the table was read from.
    pub fn view<'a>(&self, bytes: &'a [u8]) -> LinksView<'a> {
        let values = |at, count| section::array(bytes, at, count, PART).unwrap_or(&[]);
        let upper = self.places.upper.iter().map(|place| LayerView {
            nodes: values(place.nodes_at, place.nodes),
            offsets: section::array(bytes, place.offsets_at, place.nodes + 1, PART).unwrap_or(&[]),
            links: values(place.links_at, place.links),
        });
        LinksView {
            entry: self.entry,
            copies: self.copies,
            degree: self.degree as usize,
            order: values(self.places.order_at, self.n),
            links: values(self.places.links_at, self.n * u64::from(self.degree)),
            upper: upper.collect(),
        }
    }
}

/// A mapped upper layer, as compressed sparse rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct LayerView<'a> {
    pub(super) nodes: &'a [u32],
    pub(super) offsets: &'a [u64],
    pub(super) links: &'a [u32],
}

impl<'a> LayerView<'a> {
    fn neighbours(&self, slot: u32) -> Option<&'a [u32]> {
        let at = self.nodes.binary_search(&slot).ok()?;
        self.links
            .get(*self.offsets.get(at)? as usize..*self.offsets.get(at + 1)? as usize)
    }
}

/// A mapped graph.
#[derive(Debug, Clone)]
pub struct LinksView<'a> {
    entry: u32,
    copies: u32,
    degree: usize,
    order: &'a [u32],
    links: &'a [u32],
    upper: Vec<LayerView<'a>>,
}

impl GraphLayout {
    /// What a search reads, before it is written.
    pub fn view(&self) -> LinksView<'_> {
        let upper = self.upper.iter();
        let upper = upper.map(|layer| LayerView {
            nodes: &layer.nodes,
            offsets: &layer.offsets,
            links: &layer.links,
        });
        let upper = upper.collect();
        let Self {
            entry,
            copies,
            degree,
            order,
            links,
            ..
        } = self;
        LinksView {
            entry: *entry,
            copies: *copies,
            degree: *degree,
            order,
            links,
            upper,
        }
    }
}

impl<'a> LinksView<'a> {
    /// Slot to node.
    pub fn order(&self) -> &'a [u32] {
        self.order
    }

    /// Slots that are copies, as the file says.
    pub(super) fn copies(&self) -> u32 {
        self.copies
    }

    /// Where every search starts.
    pub(super) fn entry_slot(&self) -> u32 {
        self.entry
    }

    /// The layers above 0, lowest first.
    pub(super) fn upper_layers(&self) -> impl Iterator<Item = &LayerView<'a>> {
        self.upper.iter()
    }

    /// Links of a slot on layer 0; the slot itself is padding.
    pub(super) fn row(&self, slot: u32) -> &'a [u32] {
        let start = slot as usize * self.degree;
        self.links.get(start..start + self.degree).unwrap_or(&[])
    }

    /// A copy in memory, for small graphs and as an oracle: nodes are slots, padding is left out.
    pub fn to_graph(&self) -> Graph {
        let slots: Vec<u32> = (0..self.order.len() as u32).collect();
        let links_of = |slot: &u32| -> Vec<u32> {
            let mut links: Vec<u32> = self
                .row(*slot)
                .iter()
                .copied()
                .filter(|target| target != slot)
                .collect();
            // A copy has one link.
            links.dedup();
            links
        };
        let lists: Vec<Vec<u32>> = slots.iter().map(links_of).collect();
        let mut layers = vec![GraphLayer::from_lists(slots, &lists)];
        layers.extend(self.upper.iter().map(|layer| GraphLayer {
            nodes: layer.nodes.to_vec(),
            offsets: layer.offsets.to_vec(),
            links: layer.links.to_vec(),
        }));
        if self.order.is_empty() {
            Graph::default()
        } else {
            Graph {
                entry: self.entry,
                layers,
            }
        }
    }

    /// Nodes and links per layer, lowest first.
    pub fn counts(&self) -> Vec<(usize, usize)> {
        let is_node = |slot: &u32| self.representative(*slot) == *slot;
        let own = |slot: u32| self.row(slot).iter().filter(|target| **target != slot).count();
        let lowest = (
            self.order.len(),
            (0..self.order.len() as u32).filter(is_node).map(own).sum(),
        );
        let upper = self.upper.iter().map(|layer| (layer.nodes.len(), layer.links.len()));
        if self.order.is_empty() {
            Vec::new()
        } else {
            std::iter::once(lowest).chain(upper).collect()
        }
    }
}

impl SlotLinks for LinksView<'_> {
    fn append(&self, slot: u32, links: &mut Vec<u32>) {
        links.extend_from_slice(self.row(slot));
    }

    fn prefetch(&self, slot: u32) {
        kernels::prefetch(self.row(slot).as_bytes());
    }

    fn has_copies(&self) -> bool {
        self.copies > 0
    }

    fn representative(&self, slot: u32) -> u32 {
        if self.copies == 0 {
            return slot;
        }
        // Of a node either its links differ, or its own slot is the last.
        match self.row(slot) {
            [first, .., last] if first == last && *first < slot => *first,
            _ => slot,
        }
    }
}

impl UpperLayers for LinksView<'_> {
    fn entry(&self) -> u32 {
        self.entry
    }

    fn max_layer(&self) -> usize {
        self.upper.len()
    }

    fn upper(&self, layer: usize, slot: u32) -> Option<&[u32]> {
        self.upper.get(layer.checked_sub(1)?)?.neighbours(slot)
    }
}

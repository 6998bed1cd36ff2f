//! GRAPH: the layers as compressed rows, written once and viewed in place.

use std::io::{self, Write};

use zerocopy::IntoBytes;

use super::{Fault, align, section};
use crate::graph::Graph;
use crate::search::GraphLinks;

const PART: &str = "GRAPH";

/// Where the arrays of one layer lie, from the start of the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LayerPlace {
    nodes: u64,
    links: u64,
    nodes_at: u64,
    offsets_at: u64,
    links_at: u64,
}

/// Lays the layers' arrays one after another; gives their places and the section's length.
fn places(counts: impl Iterator<Item = (u64, u64)> + Clone) -> Option<(Vec<LayerPlace>, u64)> {
    let layers = counts.clone().count() as u64;
    let mut end = align(8 + 16 * layers);
    let mut take = |bytes: u64| {
        let at = end;
        end = at.checked_add(bytes).filter(|end| *end < u64::MAX - super::ALIGN).map(align)?;
        Some(at)
    };
    let mut places = Vec::new();
    for (nodes, links) in counts {
        let nodes_at = take(nodes.checked_mul(4)?)?;
        let offsets_at = take(nodes.checked_add(1)?.checked_mul(8)?)?;
        let links_at = take(links.checked_mul(4)?)?;
        places.push(LayerPlace { nodes, links, nodes_at, offsets_at, links_at });
    }
    Some((places, end))
}

/// Bytes of the section for a graph.
pub fn encoded_len(graph: &Graph) -> u64 {
    let counts = graph.layers.iter().map(|layer| (layer.nodes.len() as u64, layer.links.len() as u64));
    places(counts).map_or(u64::MAX, |(_, len)| len)
}

/// Writes the section.
pub fn write(graph: &Graph, out: &mut impl Write) -> io::Result<()> {
    let mut table = Vec::new();
    table.extend_from_slice(&graph.entry.to_le_bytes());
    table.extend_from_slice(&(graph.layers.len() as u32).to_le_bytes());
    for layer in &graph.layers {
        table.extend_from_slice(&(layer.nodes.len() as u64).to_le_bytes());
        table.extend_from_slice(&(layer.links.len() as u64).to_le_bytes());
    }
    let mut padded = |bytes: &[u8]| {
        out.write_all(bytes)?;
        let padding = align(bytes.len() as u64) as usize - bytes.len();
        out.write_all(&[0; super::ALIGN as usize][..padding])
    };
    padded(&table)?;
    for layer in &graph.layers {
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
    layers: Vec<LayerPlace>,
}

impl GraphTable {
    /// Reads the table of a section over `n` vectors and checks that its arrays fill the section.
    pub fn parse(bytes: &[u8], n: u64) -> Result<Self, Fault> {
        let head = section::array::<u32>(bytes, 0, 2, PART)?;
        let (entry, layers) = (head.first().copied().unwrap_or(0), head.get(1).copied().unwrap_or(0));
        if layers > 64 || (layers == 0) != (n == 0) {
            return Err(Fault::new(PART, "1 to 64 layers", layers));
        }
        let counts = section::array::<u64>(bytes, 8, u64::from(layers) * 2, PART)?;
        let counts = counts.as_chunks::<2>().0.iter().map(|[nodes, links]| (*nodes, *links));
        let (layers, len) = places(counts).ok_or_else(|| Fault::new(PART, "counts that fit a file", "larger ones"))?;
        if len != bytes.len() as u64
            || layers.first().map_or(0, |layer| layer.nodes) != n
            || (n > 0 && u64::from(entry) >= n)
        {
            let got = format!("{len} bytes, {:?} nodes, entry {entry}", layers.first().map(|layer| layer.nodes));
            return Err(Fault::new(
                PART,
                format!("{} bytes, {n} nodes on layer 0, an entry below {n}", bytes.len()),
                got,
            ));
        }
        Ok(Self { entry, layers })
    }

    /// The section in place. `bytes` is what the table was read from.
    pub fn view<'a>(&self, bytes: &'a [u8]) -> GraphView<'a> {
        let layers = self.layers.iter().map(|place| LayerView {
            nodes: section::array(bytes, place.nodes_at, place.nodes, PART).unwrap_or(&[]),
            offsets: section::array(bytes, place.offsets_at, place.nodes + 1, PART).unwrap_or(&[]),
            links: section::array(bytes, place.links_at, place.links, PART).unwrap_or(&[]),
        });
        GraphView { entry: self.entry, layers: layers.collect() }
    }
}

#[derive(Debug, Clone, Copy)]
struct LayerView<'a> {
    nodes: &'a [u32],
    offsets: &'a [u64],
    links: &'a [u32],
}

/// A mapped graph. A damaged offset reads as no links.
#[derive(Debug, Clone)]
pub struct GraphView<'a> {
    entry: u32,
    layers: Vec<LayerView<'a>>,
}

impl GraphView<'_> {
    /// A copy in memory, for checks.
    pub fn to_graph(&self) -> Graph {
        let layers = self.layers.iter().map(|layer| crate::graph::Layer {
            nodes: layer.nodes.to_vec(),
            offsets: layer.offsets.to_vec(),
            links: layer.links.to_vec(),
        });
        Graph { entry: self.entry, layers: layers.collect() }
    }

    /// Nodes and links per layer, lowest first.
    pub fn counts(&self) -> Vec<(usize, usize)> {
        self.layers.iter().map(|layer| (layer.nodes.len(), layer.links.len())).collect()
    }
}

impl GraphLinks for GraphView<'_> {
    fn entry(&self) -> u32 {
        self.entry
    }

    fn max_layer(&self) -> usize {
        self.layers.len().saturating_sub(1)
    }

    fn links(&self, layer: usize, node: u32) -> &[u32] {
        let links = self.layers.get(layer).and_then(|view| {
            let at = if layer == 0 { node as usize } else { view.nodes.binary_search(&node).ok()? };
            view.links.get(*view.offsets.get(at)? as usize..*view.offsets.get(at + 1)? as usize)
        });
        links.unwrap_or(&[])
    }
}

//! KEYS: node to document key, and key to node by binary search.

use std::io::{self, Write};

use zerocopy::IntoBytes;

use super::{FormatFault, section};
use crate::search::NodeSet;

const PART: &str = "KEYS";

/// Writes the section; `keys[node]` is the key of a node.
pub fn write(keys: &[String], out: &mut impl Write) -> io::Result<()> {
    let mut offsets = Vec::with_capacity(keys.len() + 1);
    let mut end = 0u64;
    offsets.push(end);
    for key in keys {
        end += key.len() as u64;
        offsets.push(end);
    }
    let mut sorted: Vec<u32> = (0..keys.len() as u32).collect();
    sorted.sort_unstable_by(|a, b| keys.get(*a as usize).cmp(&keys.get(*b as usize)));
    out.write_all(offsets.as_bytes())?;
    out.write_all(sorted.as_bytes())?;
    keys.iter().try_for_each(|key| out.write_all(key.as_bytes()))
}

/// The mapped section.
#[derive(Debug, Clone, Copy)]
pub struct KeysView<'a> {
    offsets: &'a [u64],
    sorted: &'a [u32],
    text: &'a [u8],
}

impl<'a> KeysView<'a> {
    /// Views the section of a shard of `n` vectors.
    pub fn new(bytes: &'a [u8], n: u64) -> Result<Self, FormatFault> {
        let offsets = section::array::<u64>(bytes, 0, n + 1, PART)?;
        let sorted = section::array::<u32>(bytes, (n + 1) * 8, n, PART)?;
        let text = bytes.get(((n + 1) * 8 + n * 4) as usize..).unwrap_or(&[]);
        let ends = (offsets.first(), offsets.last());
        if ends != (Some(&0), Some(&(text.len() as u64))) {
            return Err(FormatFault::new(
                PART,
                format!("offsets from 0 to {}", text.len()),
                format!("{ends:?}"),
            ));
        }
        Ok(Self { offsets, sorted, text })
    }

    /// No keys.
    pub const fn empty() -> Self {
        Self {
            offsets: &[],
            sorted: &[],
            text: &[],
        }
    }

    /// Key of a node as bytes; empty where there is none.
    pub fn bytes(&self, node: u32) -> &'a [u8] {
        let at = node as usize;
        let range = self
            .offsets
            .get(at)
            .zip(self.offsets.get(at + 1))
            .map(|(start, end)| *start as usize..*end as usize);
        range.and_then(|range| self.text.get(range)).unwrap_or(&[])
    }

    /// Key of a node; empty where there is none.
    pub fn key(&self, node: u32) -> &'a str {
        std::str::from_utf8(self.bytes(node)).unwrap_or("")
    }

    /// The node with a key, or none. A fault if the keys around the insertion point are out of order, because the key
    /// may then be elsewhere.
    pub fn find(&self, key: &str) -> Result<Option<u32>, FormatFault> {
        let place = match self
            .sorted
            .binary_search_by(|node| self.bytes(*node).cmp(key.as_bytes()))
        {
            Ok(at) => return Ok(self.sorted.get(at).copied()),
            Err(place) => place,
        };
        // The bisection compared the two keys at the insertion point. If one of them is out of place, it is also out of
        // order with its other neighbour.
        let beside = place.saturating_sub(2)..(place + 2).min(self.sorted.len());
        self.check_order(self.sorted.get(beside).unwrap_or(&[])).map(|()| None)
    }

    /// The nodes whose keys begin with a prefix, in the order of their keys. A fault if these are out of order.
    pub fn prefixed(&self, prefix: &str) -> Result<&'a [u32], FormatFault> {
        let prefix = prefix.as_bytes();
        let begin = self.sorted.partition_point(|node| self.bytes(*node) < prefix);
        let rest = self.sorted.get(begin..).unwrap_or(&[]);
        let found = rest
            .get(..rest.partition_point(|node| self.bytes(*node).starts_with(prefix)))
            .unwrap_or(&[]);
        let beside = begin.saturating_sub(2)..(begin + found.len() + 2).min(self.sorted.len());
        self.check_order(self.sorted.get(beside).unwrap_or(&[])).map(|()| found)
    }

    /// The nodes whose keys are greater than this one, in the order of their keys. A fault if those around the first of
    /// them are out of order.
    pub fn after(&self, key: &str) -> Result<&'a [u32], FormatFault> {
        let is_not_after = |node: &u32| self.bytes(*node) <= key.as_bytes();
        let begin = self.sorted.partition_point(is_not_after);
        let beside = begin.saturating_sub(2)..(begin + 2).min(self.sorted.len());
        self.check_order(self.sorted.get(beside).unwrap_or(&[]))?;
        Ok(self.sorted.get(begin..).unwrap_or(&[]))
    }

    /// Checks that nodes have keys, each greater than the one before.
    fn check_order(&self, nodes: &[u32]) -> Result<(), FormatFault> {
        if let Some(node) = nodes.iter().find(|node| self.bytes(**node).is_empty()) {
            return Err(FormatFault::new(
                PART,
                "a key for each node in the order",
                format!("none for node {node}"),
            ));
        }
        match nodes.windows(2).find(|pair| self.bytes(pair[0]) >= self.bytes(pair[1])) {
            Some(pair) => {
                let got = format!("`{}` before `{}`", self.key(pair[0]), self.key(pair[1]));
                Err(FormatFault::new(PART, "ascending, distinct keys", got))
            }
            None => Ok(()),
        }
    }

    /// The first thing wrong with the section, if any: order, uniqueness, UTF-8.
    pub fn check(&self) -> Result<(), FormatFault> {
        if let Some(at) = self.offsets.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(FormatFault::new(
                PART,
                "ascending offsets",
                format!("a smaller one after node {at}"),
            ));
        }
        let n = self.sorted.len() as u32;
        if let Some(node) =
            (0..n).find(|node| self.bytes(*node).is_empty() || std::str::from_utf8(self.bytes(*node)).is_err())
        {
            return Err(FormatFault::new(
                PART,
                "UTF-8 text for each key",
                format!("something else for node {node}"),
            ));
        }
        if let Some(node) = NodeSet::first_repeated(n as usize, self.sorted) {
            let got = format!("node {node} twice, or too large");
            return Err(FormatFault::new(PART, "each node once in the order", got));
        }
        self.check_order(self.sorted)
    }
}

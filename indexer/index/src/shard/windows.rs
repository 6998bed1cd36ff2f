//! Read-ahead for exact scans. Vectors are mapped with `MADV_RANDOM`, as graph searches read them, so that the kernel
//! reads none ahead by itself: a scan of vectors that are not in memory would wait for each page.

use std::cell::Cell;
use std::ops::Range;

use crate::search::{NodeSet, ROWS_BETWEEN_CHECKS};

/// A filter that allows less than this share (one in N) of the nodes gets no read-ahead: most of what it read would not
/// be needed.
const SPARSE: u64 = 8;

/// The read-ahead windows of one scan, from its first node to its last.
#[derive(Debug)]
pub(super) struct Windows {
    /// Nodes scanned between two checks for cancellation, on average; none where too few are allowed.
    span: Option<u64>,
    /// The node up to which vectors have been requested.
    requested: Cell<u64>,
}

impl Windows {
    /// For a scan of all of `nodes`, or of those that are allowed.
    pub(super) fn new(nodes: usize, allowed: Option<&NodeSet>) -> Self {
        let allowed = allowed.map_or(nodes, NodeSet::len).max(1) as u64;
        let nodes = nodes as u64;
        let span = ROWS_BETWEEN_CHECKS * nodes.div_ceil(allowed);
        Self {
            span: (nodes < allowed * SPARSE).then_some(span),
            requested: Cell::new(0),
        }
    }

    /// The nodes to request when the scan reaches `node` at a check for cancellation: those that it will read until the
    /// check after the next, without those that were requested before.
    pub(super) fn next(&self, node: u32) -> Option<Range<u64>> {
        let (node, end) = (u64::from(node), u64::from(node) + 2 * self.span?);
        let from = self.requested.replace(end).max(node);
        Some(from..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a scan of these nodes has asked for by the time it reads each of them.
    fn scan(nodes: u32, allowed: Option<&NodeSet>) -> (u64, u64) {
        let windows = Windows::new(nodes as usize, allowed);
        let (mut asked, mut unasked, mut bytes) = (vec![false; nodes as usize], 0, 0);
        let all: Vec<u32> = allowed.map_or_else(|| (0..nodes).collect(), |allowed| allowed.iter().collect());
        for (at, node) in (0u64..).zip(all) {
            if at.is_multiple_of(ROWS_BETWEEN_CHECKS) {
                let window = windows.next(node).unwrap_or_default();
                bytes += window.end - window.start;
                for slot in asked.iter_mut().take(window.end as usize).skip(window.start as usize) {
                    *slot = true;
                }
            }
            unasked += u64::from(!asked[node as usize]);
        }
        (unasked, bytes)
    }

    #[test]
    fn every_row_is_requested_before_it_is_read_and_hardly_any_twice() {
        for nodes in [1, 1000, 1024, 1025, 50_000] {
            let (unasked, bytes) = scan(nodes, None);
            assert_eq!(unasked, 0, "{nodes}");
            assert!(
                bytes <= u64::from(nodes) + 3 * ROWS_BETWEEN_CHECKS,
                "{bytes} of {nodes}"
            );
        }
        let mut half = NodeSet::new(50_000);
        half.extend((0..50_000).filter(|node| node % 2 == 0));
        assert_eq!(scan(50_000, Some(&half)).0, 0);
        let mut few = NodeSet::new(50_000);
        few.extend((0..50_000).filter(|node| node % 100 == 0));
        assert_eq!(
            scan(50_000, Some(&few)),
            (500, 0),
            "for few nodes nothing is read that they do not need"
        );
        assert_eq!(Windows::new(0, None).next(0).map(|window| window.start), Some(0));
    }
}

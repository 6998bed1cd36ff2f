//! How a filtered search finds its hits, and what each way costs.

use super::slot_set::MOST_KEPT;

/// Codes that can be scanned at the cost of expanding one candidate, where all nodes are candidates.
///
/// Measured on 100,000 MiniLM sentences at ef 40, in microseconds for 10, 20 and 50 % of them, many questions at a time
/// or one: by a scan 20, 36 and 67, or 22, 40 and 81 (one alone over nodes that are scanned for the first time: 72, 135
/// and 324); by a beam among all 167, 88 and 40, or 222, 116 and 55; by one among the allowed 80, 65 and 54.
/// `DYAD_SHARD=FILE cargo test --release -p dyad-indexer --test it -- --ignored --nocapture graph_and_scan`
pub(super) const CODES_PER_EXPANSION: f64 = 350.0;

/// The same where only allowed nodes are candidates.
pub(super) const CODES_PER_TWO_HOPS: f64 = 800.0;

/// How much more a scan of a code costs where sketches are laid out for every search: of that many nodes they are not
/// kept.
const NOT_KEPT: f64 = 4.0;

/// Least share of allowed nodes at which the graph is searched among them alone: below it, the nodes two links from one
/// hold fewer than `M` allowed ones, and these no longer lead to each other.
pub(super) const LEAST_AMONG_ALLOWED: f64 = 1.0 / 32.0;

/// What a scan of some nodes costs, in codes whose sketches are laid out.
pub(super) fn scan_cost(nodes: usize) -> f64 {
    nodes as f64 * if nodes > MOST_KEPT { NOT_KEPT } else { 1.0 }
}

/// Expansions after which a search among all nodes is given up for a scan of `scanned` nodes: it then costs as much as
/// two scans. A typical question costs less than one, one whose allowed nodes are far away costs more.
pub(super) fn most_expansions(scanned: usize) -> usize {
    (2.0 * scan_cost(scanned) / CODES_PER_EXPANSION) as usize
}

/// About how many of `nodes` there are to `count` of `allowed` ones.
pub(super) fn wide(count: usize, allowed: usize, nodes: usize) -> usize {
    (count as f64 * nodes as f64 / allowed.max(1) as f64).ceil() as usize
}

/// How a filtered search finds its hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilterPlan {
    Scan,
    /// A beam among all nodes, of this width.
    AmongAll(usize),
    AmongAllowed,
}

impl FilterPlan {
    /// The cheapest way for a beam that is `ef` wide, and a filter that allows `allowed` of `nodes`.
    pub(super) fn new(ef: usize, allowed: usize, nodes: usize) -> Self {
        let wide = wide(ef, allowed, nodes).min(nodes);
        let among_all = wide as f64 * CODES_PER_EXPANSION;
        let is_connected = allowed as f64 >= nodes as f64 * LEAST_AMONG_ALLOWED;
        let among_allowed = if is_connected {
            ef as f64 * CODES_PER_TWO_HOPS
        } else {
            f64::INFINITY
        };
        if scan_cost(allowed) <= among_all.min(among_allowed) {
            Self::Scan
        } else if among_allowed < among_all {
            Self::AmongAllowed
        } else {
            Self::AmongAll(wide)
        }
    }
}

/// Whether a search through a filter that allows `allowed` of `nodes` scans those nodes, so that `ef`, at least `k`,
/// has no effect. It then scans for greater widths too.
pub fn filter_scans(ef: usize, allowed: usize, nodes: usize) -> bool {
    FilterPlan::new(ef, allowed, nodes) == FilterPlan::Scan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_way_depends_on_the_share_and_scans_stay_scans_for_wider_beams() {
        let nodes = 1_000_000;
        assert_eq!(FilterPlan::new(64, nodes / 2, nodes), FilterPlan::AmongAll(128));
        assert_eq!(FilterPlan::new(64, nodes / 16, nodes), FilterPlan::AmongAllowed);
        assert_eq!(FilterPlan::new(64, nodes / 128, nodes), FilterPlan::Scan);
        assert_eq!(
            FilterPlan::new(16, nodes / 64, nodes),
            FilterPlan::Scan,
            "too few to lead to each other"
        );
        assert_eq!(FilterPlan::new(16, nodes, 64 * nodes), FilterPlan::AmongAll(1024));
        for allowed in [0, 1, 1_000, 10_000, 70_000, 300_000, nodes] {
            let scans: Vec<bool> = (0..16).map(|power| filter_scans(1 << power, allowed, nodes)).collect();
            assert!(scans.is_sorted() && scans.last() == Some(&true), "{allowed}: {scans:?}");
        }
    }
}

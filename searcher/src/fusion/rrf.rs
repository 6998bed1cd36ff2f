//! Reciprocal rank fusion: `score(d) = sum over rankings of 1 / (k + rank(d))` (Cormack, Clarke and Büttcher 2009, k = 60).

use std::collections::HashMap;

use dyad_index::snapshot::Hit;

/// The constant of the paper.
pub const DEFAULT_RRF_K: u32 = 60;

/// A document's rank and score in one ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// From 1.
    pub rank: u32,
    /// In that ranking's unit.
    pub score: f32,
}

/// Fuses rankings, each best first, and keeps the `take` best; their scores are the sums. Ties go to the smaller key, which is
/// looked up only for them.
pub fn rrf<'k>(rankings: &[&[Hit]], k: u32, take: usize, key: impl Fn(&Hit) -> &'k str) -> Vec<Hit> {
    let mut place_of: HashMap<(usize, u32), usize> = HashMap::new();
    let mut fused: Vec<(f64, Hit)> = Vec::new();
    for ranking in rankings {
        for (rank, hit) in (1u32..).zip(*ranking) {
            let at = *place_of.entry((hit.shard, hit.node)).or_insert(fused.len());
            if at == fused.len() {
                fused.push((0.0, *hit));
            }
            if let Some((sum, _)) = fused.get_mut(at) {
                *sum += 1.0 / (f64::from(k) + f64::from(rank));
            }
        }
    }
    // Sums are compared in f64: two documents whose sums differ are never tied by rounding to f32.
    fused.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then_with(|| key(&a.1).cmp(key(&b.1))));
    fused.into_iter().take(take).map(|(sum, hit)| Hit { score: sum as f32, ..hit }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEYS: [&str; 4] = ["a", "b", "c", "d"];

    fn ranking(keys: &[&str]) -> Vec<Hit> {
        let node = |key: &str| KEYS.iter().position(|other| *other == key).unwrap() as u32;
        let hit = |(i, key): (usize, &&str)| Hit { score: 10.0 - i as f32, shard: 0, node: node(key) };
        keys.iter().enumerate().map(hit).collect()
    }

    #[test]
    fn the_formula_by_hand() {
        let key = |hit: &Hit| KEYS[hit.node as usize];
        let fused = rrf(&[&ranking(&["a", "b", "c"]), &ranking(&["c", "d"])], 60, 10, key);
        let got: Vec<_> = fused.iter().map(|hit| (key(hit), hit.score)).collect();
        let (first, second, third) = (1.0 / 61.0, 1.0 / 62.0, 1.0 / 63.0);
        assert_eq!(
            got,
            [("c", (first + third) as f32), ("a", first as f32), ("b", second as f32), ("d", second as f32)]
        );
    }

    #[test]
    fn nothing_fuses_to_nothing() {
        assert!(rrf(&[&[], &[]], 60, 10, |_| "").is_empty());
        assert!(rrf(&[&ranking(&["a"])], 60, 0, |_| "").is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_sum_over_every_document(a in prop::collection::hash_set(0u32..30, 0..20), b in prop::collection::hash_set(0u32..30, 0..20), k in 0u32..100) {
            // In two shards, and in another order by key than by place.
            let keys: Vec<String> = (0..30u32).map(|at| format!("{:02}", at * 7 % 30)).collect();
            let at = |hit: &Hit| (hit.node * 2 + hit.shard as u32) as usize;
            let hits = |set: &std::collections::HashSet<u32>| -> Vec<Hit> {
                set.iter().map(|at| Hit { score: 0.0, shard: (at % 2) as usize, node: at / 2 }).collect()
            };
            let (a, b) = (hits(&a), hits(&b));
            let part = |ranking: &[Hit], document: usize| {
                ranking.iter().position(|hit| at(hit) == document).map_or(0.0, |at| 1.0 / (f64::from(k) + at as f64 + 1.0))
            };
            let mut expected: Vec<(&str, f64)> =
                (0..30).map(|at| (keys[at].as_str(), part(&a, at) + part(&b, at))).filter(|(_, sum)| *sum > 0.0).collect();
            expected.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(y.0)));
            let got: Vec<&str> = rrf(&[&a, &b], k, 100, |hit| keys[at(hit)].as_str()).iter().map(|hit| keys[at(hit)].as_str()).collect();
            prop_assert_eq!(got, expected.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        }
    }
}

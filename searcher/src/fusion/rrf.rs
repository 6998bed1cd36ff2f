//! Reciprocal rank fusion: `score(d) = sum over rankings of 1 / (k + rank(d))` (Cormack, Clarke and Büttcher 2009, k = 60).

use std::collections::HashMap;

use dyad_index::snapshot::Hit;

/// The paper's constant.
pub const DEFAULT_RRF_K: u32 = 60;

/// A document's place in one ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// From 1.
    pub rank: u32,
    /// In that ranking's unit.
    pub score: f32,
}

/// A document of the fused ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused {
    /// The document; its score is the RRF sum.
    pub hit: Hit,
    /// Its place in each of the rankings, where it has one.
    pub placements: Vec<Option<Placement>>,
}

/// Fuses rankings, each best first, and keeps the `take` best. Ties go to the smaller key.
pub fn rrf(rankings: &[&[Hit]], k: u32, take: usize) -> Vec<Fused> {
    let mut place_of: HashMap<&str, usize> = HashMap::new();
    let mut fused: Vec<(f64, Fused)> = Vec::new();
    for (which, ranking) in rankings.iter().enumerate() {
        for (rank, hit) in (1u32..).zip(*ranking) {
            let at = *place_of.entry(&hit.key).or_insert_with(|| {
                fused.push((0.0, Fused { hit: hit.clone(), placements: vec![None; rankings.len()] }));
                fused.len() - 1
            });
            if let Some((sum, document)) = fused.get_mut(at) {
                *sum += 1.0 / (f64::from(k) + f64::from(rank));
                if let Some(place) = document.placements.get_mut(which) {
                    *place = Some(Placement { rank, score: hit.score });
                }
            }
        }
    }
    // Sums are compared in f64: two documents whose sums differ are never tied by rounding to f32.
    fused.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.hit.key.cmp(&b.1.hit.key)));
    fused.truncate(take);
    let with_score = |(sum, mut document): (f64, Fused)| {
        document.hit.score = sum as f32;
        document
    };
    fused.into_iter().map(with_score).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranking(keys: &[&str]) -> Vec<Hit> {
        let hit = |(i, key): (usize, &&str)| Hit { score: 10.0 - i as f32, key: (*key).to_owned(), shard: 0, node: 0 };
        keys.iter().enumerate().map(hit).collect()
    }

    #[test]
    fn the_formula_by_hand() {
        let fused = rrf(&[&ranking(&["a", "b", "c"]), &ranking(&["c", "d"])], 60, 10);
        let got: Vec<_> = fused.iter().map(|f| (f.hit.key.as_str(), f.hit.score)).collect();
        let (first, second, third) = (1.0 / 61.0, 1.0 / 62.0, 1.0 / 63.0);
        assert_eq!(
            got,
            [("c", (first + third) as f32), ("a", first as f32), ("b", second as f32), ("d", second as f32)]
        );
        assert_eq!(fused[0].placements[0], Some(Placement { rank: 3, score: 8.0 }));
        assert_eq!(fused[3].placements, [None, Some(Placement { rank: 2, score: 9.0 })]);
    }

    #[test]
    fn nothing_fuses_to_nothing() {
        assert!(rrf(&[&[], &[]], 60, 10).is_empty());
        assert!(rrf(&[&ranking(&["a"])], 60, 0).is_empty());
    }

    proptest! {
        #[test]
        fn agrees_with_a_sum_over_every_document(a in prop::collection::hash_set(0u8..30, 0..20), b in prop::collection::hash_set(0u8..30, 0..20), k in 0u32..100) {
            let hits = |set: &std::collections::HashSet<u8>| -> Vec<Hit> {
                set.iter().map(|key| Hit { score: 0.0, key: format!("{key:02}"), shard: 0, node: 0 }).collect()
            };
            let (a, b) = (hits(&a), hits(&b));
            let part = |ranking: &[Hit], key: &str| {
                ranking.iter().position(|hit| hit.key == key).map_or(0.0, |at| 1.0 / (f64::from(k) + at as f64 + 1.0))
            };
            let mut expected: Vec<(String, f64)> = (0u8..30)
                .map(|key| format!("{key:02}"))
                .map(|key| (key.clone(), part(&a, &key) + part(&b, &key)))
                .filter(|(_, sum)| *sum > 0.0)
                .collect();
            expected.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
            let got: Vec<String> = rrf(&[&a, &b], k, 100).into_iter().map(|fused| fused.hit.key).collect();
            prop_assert_eq!(got, expected.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        }
    }
}

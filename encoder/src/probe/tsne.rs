//! Two dimensions by exact t-SNE (van der Maaten and Hinton 2008), the same for a seed.
//!
//! The crate takes its start from us, and adds up in the order of its threads: in a pool of one thread a seed gives the
//! same picture again, to the bit, on the same machine.

use crate::random::Random;
use bhtsne::tSNE;

use super::error::ProbeError;

/// Neighbours that count, as in scikit-learn; fewer for few points.
const PERPLEXITY: f32 = 30.0;
/// Deviation of the start, as in scikit-learn.
const START: f64 = 1e-4;

/// Places of row-major vectors in the plane.
pub fn tsne(vectors: &[f32], dim: usize, seed: u64) -> Result<Vec<[f32; 2]>, ProbeError> {
    let rows: Vec<&[f32]> = vectors.chunks_exact(dim.max(1)).collect();
    let perplexity = PERPLEXITY.min((rows.len().saturating_sub(1) / 3) as f32);
    if perplexity < 1.0 {
        return Err(ProbeError::TooFew {
            least: 4,
            got: rows.len(),
        });
    }
    let mut random = Random::of(&[seed, 0x7473_6e65]);
    let start: Vec<f32> = (0..rows.len() * 2).map(|_| (random.normal() * START) as f32).collect();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .thread_name(|_| "dyad-tsne".to_owned())
        .build()
        .map_err(|source| ProbeError::Thread { source })?;
    let places = pool.install(|| {
        let mut tsne: tSNE<f32, &[f32]> = tSNE::new(&rows);
        tsne.perplexity(perplexity)
            .initial_embedding(start)
            .exact(|one, other| {
                one.iter()
                    .zip(*other)
                    .map(|(one, other)| (one - other) * (one - other))
                    .sum::<f32>()
            });
        tsne.embedding()
    });
    let (places, _) = places.as_chunks::<2>();
    Ok(places.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_stay_together_and_a_seed_gives_the_same_picture() {
        let mut random = Random::new(3);
        let dim = 6;
        let vectors: Vec<f32> = (0..90 * dim)
            .map(|at| (random.normal() * 0.1 + if at / dim % 3 == at % dim { 5.0 } else { 0.0 }) as f32)
            .collect();
        let places = tsne(&vectors, dim, 1).unwrap();
        assert_eq!(places.len(), 90);
        let distance =
            |one: usize, other: usize| (places[one][0] - places[other][0]).hypot(places[one][1] - places[other][1]);
        for point in 0..90 {
            let nearest = (0..90).filter(|&other| other != point);
            let nearest = nearest
                .min_by(|&one, &other| distance(point, one).total_cmp(&distance(point, other)))
                .unwrap();
            assert_eq!(nearest % 3, point % 3, "{point} stands in another cluster");
        }
        assert_eq!(tsne(&vectors, dim, 1).unwrap(), places);
        assert_ne!(tsne(&vectors, dim, 2).unwrap(), places);
    }

    #[test]
    fn few_points_are_placed_and_too_few_refused() {
        let four = tsne(&[0.0, 0.1, 5.0, 5.1], 1, 0).unwrap();
        assert!(four.iter().flatten().all(|value| value.is_finite()), "{four:?}");
        assert!(tsne(&[0.0, 1.0, 2.0], 1, 0).is_err());
        assert!(tsne(&[], 1, 0).is_err());
    }
}

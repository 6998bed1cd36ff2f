//! Relative position biases (Raffel et al. 2020, section 2.1): a learned number per head and bucket of distances, added
//! to attention scores.

use tch::{Kind, TchError, Tensor};

use super::packed::{Packed, on};
use super::parameters::Parameters;
use super::shared_tensor::SharedTensor;
use crate::error::Error;

/// How distances fall into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Buckets {
    pub(crate) count: usize,
    /// Distances from here on share the last bucket.
    pub(crate) max_distance: usize,
}

impl Buckets {
    /// The bucket of a key that is `distance` places after its query: half of the buckets for each direction; in each,
    /// half for single distances and the rest for ranges that grow by the logarithm.
    fn of(self, distance: i64) -> i64 {
        let each = (self.count / 2) as i64;
        let behind = if distance > 0 { each } else { 0 };
        let far = distance.abs();
        let single = (each / 2).max(1);
        if far < single {
            return behind + far;
        }
        let share = (far as f32 / single as f32).ln() / (self.max_distance as f32 / single as f32).ln();
        behind + (single + (share * (each - single) as f32) as i64).min(each - 1)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RelativeBias {
    /// `[buckets, heads]`.
    table: SharedTensor,
    buckets: Buckets,
}

impl RelativeBias {
    /// Reads `name`, a table `[buckets, heads]`.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        name: &str,
        buckets: Buckets,
        heads: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            table: parameters.take(name, &[buckets.count, heads])?.into(),
            buckets,
        })
    }

    /// `[1, heads, s, s]` for each run: computed once for the longest, cut for the others; of a run with padding
    /// `[rows, heads, s, s]`, with its mask.
    pub(crate) fn of(&self, packed: &Packed) -> Result<Vec<Tensor>, TchError> {
        let longest = packed.longest();
        let places = (0..longest).flat_map(|query| (0..longest).map(move |key| self.buckets.of(key - query)));
        let places = on(self.table.device(), &places.collect::<Vec<i64>>())?;
        let all = Tensor::f_embedding(&self.table, &places, -1, false, false)?;
        let all = all
            .f_view([longest, longest, -1])?
            .f_permute([2, 0, 1])?
            .f_unsqueeze(0)?;
        let mut biases = Vec::with_capacity(packed.runs.len());
        for (number, run) in packed.runs.iter().enumerate() {
            let own = all.f_narrow(2, 0, run.tokens)?.f_narrow(3, 0, run.tokens)?;
            let own = own.f_to_kind(self.kind())?;
            biases.push(match packed.mask(number) {
                Some(mask) => own.f_add(&mask.scores().f_to_kind(self.kind())?)?,
                None => own.f_contiguous()?,
            });
        }
        Ok(biases)
    }

    fn kind(&self) -> Kind {
        self.table.kind()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From transformers 5: `T5Attention._relative_position_bucket(torch.arange(-N, N + 1), True, buckets, distance)`.
    #[test]
    fn buckets_are_those_of_transformers() {
        let of = |count, max_distance, distances: std::ops::RangeInclusive<i64>| -> Vec<i64> {
            distances
                .map(|distance| Buckets { count, max_distance }.of(distance))
                .collect()
        };
        assert_eq!(of(8, 20, -6..=6), [2, 2, 2, 2, 2, 1, 0, 5, 6, 6, 6, 6, 6]);
        assert_eq!(of(32, 128, -12..=-7), [9, 8, 8, 8, 8, 7]);
        assert_eq!(of(32, 128, 127..=129), [31, 31, 31]);
    }
}

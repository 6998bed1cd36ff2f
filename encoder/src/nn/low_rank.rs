//! Low-rank adapters of affine maps (LoRA, Hu et al. 2022): the weight stays, and what is learned is a product of two
//! narrow matrices that is added to it.

use serde::{Deserialize, Serialize};
use tch::{Kind, TchError, Tensor};

/// Adapts every map of a transformer, in the place of names.
const ALL: &str = "all-linear";

/// Which maps are adapted, and how. The names are those of the peft library.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LoraSettings {
    /// Rank of what is added to a weight.
    pub rank: usize,
    /// It is multiplied with `alpha / rank`.
    #[serde(default = "default_alpha")]
    pub alpha: f64,
    /// Ends of the names of maps (`q_proj`, `mlp.Wi`), or `all-linear`.
    #[serde(default = "all_linear")]
    pub targets: Vec<String>,
}

fn default_alpha() -> f64 {
    16.0
}

fn all_linear() -> Vec<String> {
    vec![ALL.to_owned()]
}

impl LoraSettings {
    /// Whether a map of this name is adapted.
    pub(crate) fn adapts(&self, name: &str) -> bool {
        let ends_with = |target: &String| {
            let before = name.strip_suffix(target.as_str());
            *target == ALL || before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        };
        self.targets.iter().any(ends_with)
    }

    pub(crate) fn scale(&self) -> f64 {
        self.alpha / self.rank as f64
    }
}

/// What is added to a weight `[out, in]`: `scale * up down` (Hu et al. 2022, eq. 3, where they are B and A).
#[derive(Debug)]
pub(crate) struct LowRankMap {
    /// `[rank, in]`.
    pub(crate) down: Tensor,
    /// `[out, rank]`.
    pub(crate) up: Tensor,
    pub(crate) scale: f64,
}

/// The same tensors.
impl Clone for LowRankMap {
    fn clone(&self) -> Self {
        Self {
            down: self.down.shallow_clone(),
            up: self.up.shallow_clone(),
            scale: self.scale,
        }
    }
}

impl LowRankMap {
    /// `[.., in] -> [.., out]`, computed in the number type of `input`.
    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let narrow = |tensor: &Tensor| tensor.f_to_kind(input.kind());
        let inner = input.f_linear(&narrow(&self.down)?, None::<Tensor>)?;
        inner
            .f_linear(&narrow(&self.up)?, None::<Tensor>)?
            .f_mul_scalar(self.scale)
    }

    /// The weight with what is added to it, in f32.
    pub(crate) fn merged(&self, weight: &Tensor) -> Result<Tensor, TchError> {
        let wide = |tensor: &Tensor| tensor.f_detach()?.f_to_kind(Kind::Float);
        let added = wide(&self.up)?.f_matmul(&wide(&self.down)?)?.f_mul_scalar(self.scale)?;
        wide(weight)?.f_add(&added)
    }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn a_merged_weight_gives_what_both_give() {
        tch::manual_seed(5);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        let (weight, input) = (draw(&[24, 16]), draw(&[7, 16]));
        let map = LowRankMap {
            down: draw(&[3, 16]),
            up: draw(&[24, 3]),
            scale: 0.5,
        };
        let expected = input.linear(&weight, None::<Tensor>) + map.forward(&input).unwrap();
        let merged = input.linear(&map.merged(&weight).unwrap(), None::<Tensor>);
        assert!((merged - expected).abs().max().double_value(&[]) < 1e-4);
        let added = map.merged(&weight).unwrap() - weight;
        let rank = added.linalg_matrix_rank_tol_tensor(&Tensor::from(1e-3_f32), false);
        assert_eq!(rank.int64_value(&[]), 3);
    }

    #[test]
    fn maps_are_named_by_the_ends_of_their_names() {
        let settings = |targets: &[&str]| LoraSettings {
            rank: 4,
            alpha: 8.0,
            targets: targets.iter().map(|target| (*target).to_owned()).collect(),
        };
        let name = "encoder.layer.0.attention.self.query";
        assert!(settings(&["all-linear"]).adapts(name));
        assert!(settings(&["value", "self.query"]).adapts(name) && settings(&[name]).adapts(name));
        assert!(!settings(&["uery"]).adapts(name) && !settings(&["key"]).adapts(name));
        assert!((settings(&[]).scale() - 2.0).abs() < 1e-12);
    }
}

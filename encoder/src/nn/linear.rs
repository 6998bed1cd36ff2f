//! Affine maps, `y = x W^T + b`: one, or several of one input as one.

use tch::{Kind, TchError, Tensor};

use super::exec::Exec;
use super::low_rank::LowRankMap;
use super::parameters::{Parameters, WeightForm};
use super::product::{self, Product};
use crate::error::{Error, torch};

/// Weight `[out, in]` and bias `[out]`.
#[derive(Debug)]
pub(crate) struct Map {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    /// What is learned in place of the weight.
    pub(super) low_rank: Option<LowRankMap>,
}

/// The same tensors.
impl Clone for Map {
    fn clone(&self) -> Self {
        Self {
            weight: self.weight.shallow_clone(),
            bias: self.bias.as_ref().map(Tensor::shallow_clone),
            low_rank: self.low_rank.clone(),
        }
    }
}

/// One map, or several of one input with their outputs side by side: a large product is faster than small ones.
#[derive(Debug, Clone)]
pub(crate) enum Linear {
    /// A step of training may change each of them.
    Learned(Vec<Map>),
    /// The same with products in bfloat16 over weights in f32 (mixed precision, Micikevicius et al. 2018).
    Mixed(Vec<Map>),
    /// All of them, joined, as they stay.
    Fixed(Product),
}

impl Linear {
    /// Reads `{name}.weight` and, if `bias`, `{name}.bias`.
    pub(crate) fn load(
        parameters: &mut dyn Parameters,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        Self::load_joined(parameters, &[(name.to_owned(), output)], input, bias)
    }

    /// Reads several maps of one input as one, each by its name and its number of outputs.
    pub(crate) fn load_joined(
        parameters: &mut dyn Parameters,
        names: &[(String, usize)],
        input: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        let maps = read(parameters, names, input, bias)?;
        Self::of(maps, parameters.form())
    }

    /// As [`Self::load`], and never rounded to int8.
    pub(crate) fn load_exact(
        parameters: &mut dyn Parameters,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Self, Error> {
        let maps = read(parameters, &[(name.to_owned(), output)], input, bias)?;
        Self::of(
            maps,
            if parameters.form() == WeightForm::Int8 {
                WeightForm::Fixed
            } else {
                parameters.form()
            },
        )
    }

    /// Maps that do not change are joined, and packed for the fastest product.
    pub(super) fn of(maps: Vec<Map>, form: WeightForm) -> Result<Self, Error> {
        match form {
            WeightForm::Learned => Ok(Self::Learned(maps)),
            WeightForm::Mixed => Ok(Self::Mixed(maps)),
            WeightForm::Fixed | WeightForm::Int8 => {
                let Map { weight, bias, .. } = join(&maps).map_err(torch("joining weights"))?;
                let product = Product::of(weight, bias, form == WeightForm::Int8);
                Ok(Self::Fixed(product.map_err(torch("laying weights out"))?))
            }
        }
    }

    /// `[.., in] -> [.., out]`.
    pub(crate) fn forward(&self, exec: Exec, input: &Tensor) -> Result<Tensor, TchError> {
        match self {
            Self::Fixed(product) => product.forward(exec, input),
            Self::Learned(maps) => {
                let map = join(maps)?;
                let output = product::learned(input, &map.weight, map.bias.as_ref())?;
                with_low_rank(maps, input, output)
            }
            Self::Mixed(maps) => {
                let map = join(maps)?;
                let narrow = |tensor: &Tensor| tensor.f_to_kind(Kind::BFloat16);
                let bias = map.bias.as_ref().map(narrow).transpose()?;
                let input = narrow(input)?;
                let output = input.f_linear(&narrow(&map.weight)?, bias.as_ref())?;
                with_low_rank(maps, &input, output)
            }
        }
    }
}

fn read(
    parameters: &mut dyn Parameters,
    names: &[(String, usize)],
    input: usize,
    bias: bool,
) -> Result<Vec<Map>, Error> {
    let maps = names.iter().map(|(name, output)| {
        let weight = parameters.take(&format!("{name}.weight"), &[*output, input])?;
        let bias = if bias {
            Some(parameters.take(&format!("{name}.bias"), &[*output])?)
        } else {
            None
        };
        Ok(Map {
            weight,
            bias,
            low_rank: parameters.low_rank(name, *output, input)?,
        })
    });
    maps.collect()
}

fn join(maps: &[Map]) -> Result<Map, TchError> {
    if let [map] = maps {
        return Ok(map.clone());
    }
    let weights: Vec<&Tensor> = maps.iter().map(|map| &map.weight).collect();
    let biases: Vec<&Tensor> = maps.iter().filter_map(|map| map.bias.as_ref()).collect();
    let bias = if biases.is_empty() {
        None
    } else {
        Some(Tensor::f_cat(&biases, 0)?)
    };
    Ok(Map {
        weight: Tensor::f_cat(&weights, 0)?,
        bias,
        low_rank: None,
    })
}

/// `output` of joined maps, `[.., out]`, with what the adapters of each of them add.
fn with_low_rank(maps: &[Map], input: &Tensor, output: Tensor) -> Result<Tensor, TchError> {
    if maps.iter().all(|map| map.low_rank.is_none()) {
        return Ok(output);
    }
    let added = maps.iter().map(|map| {
        if let Some(low_rank) = &map.low_rank {
            return low_rank.forward(input);
        }
        let mut size = input.size();
        size.pop();
        size.extend(map.weight.size().first());
        Tensor::f_zeros(size, (output.kind(), output.device()))
    });
    let added: Vec<Tensor> = added.collect::<Result<_, _>>()?;
    output.f_add(&Tensor::f_cat(&added, -1)?)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;

    #[test]
    fn joined_maps_give_their_outputs_side_by_side() {
        tch::manual_seed(3);
        let draw = |size: &[i64]| Tensor::randn(size, (Kind::Float, Device::Cpu));
        for biased in [true, false] {
            let map = || Map {
                weight: draw(&[24, 16]),
                bias: biased.then(|| draw(&[24])),
                low_rank: None,
            };
            let maps = [map(), map(), map()];
            let linears = [WeightForm::Fixed, WeightForm::Learned].map(|form| Linear::of(maps.to_vec(), form).unwrap());
            for rows in [1, 63, 64, 903] {
                let x = draw(&[rows, 16]);
                let single: Vec<Tensor> = maps
                    .iter()
                    .map(|map| x.linear(&map.weight, map.bias.as_ref()))
                    .collect();
                let expected = Tensor::cat(&single, 1);
                for linear in &linears {
                    let got = linear.forward(Exec::ONE_THREAD, &x).unwrap();
                    assert_eq!(got.size(), expected.size());
                    assert!((got - &expected).abs().max().double_value(&[]) < 1e-4, "{rows}");
                }
            }
        }
    }
}

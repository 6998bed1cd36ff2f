//! The gradients of one step.
//!
//! Taken straight from backpropagation ([`Gradients::backward`]) they cost no pass of their own: nothing is set to zero
//! before and nothing added up. Such tensors may share memory with one another, so nothing here writes into them;
//! scaling is a number that the optimizer multiplies with as it reads.

use std::ops::Range;

use tch::{Kind, TchError, Tensor};

use super::chunks::{SMALL, flat};

/// Gradients of some tensors, in their order; a tensor that the loss does not depend on has none.
#[derive(Debug)]
pub struct Gradients {
    tensors: Vec<Option<Gradient>>,
    /// `None` for 1.
    scale: Option<f64>,
}

#[derive(Debug)]
struct Gradient {
    tensor: Tensor,
    /// Made here, so that it can be added to in place.
    own: bool,
}

impl Gradients {
    /// Runs the way back from `loss`, a single number, and frees the tape. `tensors` all have to require a gradient.
    /// Their `.grad()` stays as it is.
    pub fn backward(loss: &Tensor, tensors: &[Tensor]) -> Result<Self, TchError> {
        let gradients = Tensor::f_run_backward(&[loss], tensors, false, false)?;
        Ok(Self::owned(gradients))
    }

    /// The gradients that earlier calls of `backward` have summed in `.grad()`.
    pub fn from_tensors(tensors: &[Tensor]) -> Result<Self, TchError> {
        Ok(Self::owned(
            tensors.iter().map(Tensor::f_grad).collect::<Result<_, _>>()?,
        ))
    }

    fn owned(gradients: Vec<Tensor>) -> Self {
        let held = |tensor: Tensor| tensor.defined().then_some(Gradient { tensor, own: false });
        Self {
            tensors: gradients.into_iter().map(held).collect(),
            scale: None,
        }
    }

    /// Adds those of another part of the batch, of the same tensors and not scaled.
    pub fn add(&mut self, more: Self) -> Result<(), TchError> {
        if more.tensors.len() != self.tensors.len() || more.scale.or(self.scale).is_some() {
            let reason = "gradients that are added have to be of the same tensors and not scaled yet";
            return Err(TchError::Shape(reason.to_owned()));
        }
        tch::no_grad(|| {
            for (held, more) in self.tensors.iter_mut().zip(more.tensors) {
                *held = match (held.take(), more) {
                    (Some(mut sum), Some(more)) if sum.own => {
                        let _ = sum.tensor.f_add_(&more.tensor)?;
                        Some(sum)
                    }
                    (Some(sum), Some(more)) => Some(Gradient {
                        tensor: sum.tensor.f_add(&more.tensor)?,
                        own: true,
                    }),
                    (sum, more) => sum.or(more),
                };
            }
            Ok(())
        })
    }

    /// Multiplies all of them with a number, such as one over the number of parts of a batch.
    pub fn scale(&mut self, factor: f64) {
        self.scale = Some(self.scale.unwrap_or(1.0) * factor);
    }

    /// Multiplies those of the tensors at some places alone, at once.
    pub fn scale_at(&mut self, places: Range<usize>, factor: f64) -> Result<(), TchError> {
        tch::no_grad(|| {
            for held in self.tensors.get_mut(places).unwrap_or_default().iter_mut().flatten() {
                // Written into only where nobody else reads it.
                if held.own {
                    let _ = held.tensor.f_mul_scalar_(factor)?;
                } else {
                    *held = Gradient {
                        tensor: held.tensor.f_mul_scalar(factor)?,
                        own: true,
                    };
                }
            }
            Ok(())
        })
    }

    /// A factor still to be applied; `None` for 1.
    pub(super) fn factor(&self) -> Option<f64> {
        self.scale
    }

    pub(super) fn len(&self) -> usize {
        self.tensors.len()
    }

    /// The gradient of the tensor at a place, not yet multiplied.
    pub(super) fn at(&self, place: usize) -> Option<&Tensor> {
        Some(&self.tensors.get(place)?.as_ref()?.tensor)
    }

    /// The Euclidean norm of all of them together, in f64: NaN or infinite if any value is, 0 without any. One value is
    /// read from the device.
    pub fn norm(&self) -> Result<f64, TchError> {
        self.norm_of(0..self.tensors.len())
    }

    /// The same of the tensors at some places alone.
    pub fn norm_of(&self, places: Range<usize>) -> Result<f64, TchError> {
        let held = self.tensors.get(places).unwrap_or_default().iter().flatten();
        let tensors: Vec<&Tensor> = held.map(|held| &held.tensor).collect();
        let on_gpu = tensors.iter().any(|tensor| tensor.device().is_cuda());
        let squares = tch::no_grad(|| squares(&tensors, on_gpu))?;
        if squares.is_empty() {
            return Ok(0.0);
        }
        let sum = Tensor::f_stack(&squares, 0)?.f_sum(Kind::Double)?.f_double_value(&[])?;
        Ok(sum.sqrt() * self.scale.unwrap_or(1.0).abs())
    }
}

/// The sum of the squares of each of some tensors; with `join` of the small ones together.
fn squares(tensors: &[&Tensor], join: bool) -> Result<Vec<Tensor>, TchError> {
    // As a product with itself: torch's own norm of ten million values in f32 is off in the fourth digit.
    let dot = |values: Tensor| {
        let values = values.f_to_kind(Kind::Float)?;
        values.f_dot(&values)
    };
    let (small, large): (Vec<&Tensor>, Vec<&Tensor>) =
        tensors.iter().partition(|tensor| join && tensor.numel() <= SMALL);
    let mut squares = large
        .into_iter()
        .map(|tensor| dot(flat(tensor)?))
        .collect::<Result<Vec<_>, _>>()?;
    if !small.is_empty() {
        let small = small.into_iter().map(flat).collect::<Result<Vec<_>, _>>()?;
        squares.push(dot(Tensor::f_cat(&small, 0)?)?);
    }
    Ok(squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_are_the_same_together() {
        let tensors = [Tensor::from_slice(&[1.0_f32, -2.0]), Tensor::from_slice(&[3.0_f32])];
        for (join, expected) in [(false, vec![5.0, 9.0]), (true, vec![14.0])] {
            let squares = squares(&tensors.each_ref(), join).unwrap();
            assert_eq!(
                squares
                    .iter()
                    .map(|square| square.double_value(&[]))
                    .collect::<Vec<_>>(),
                expected
            );
        }
        assert!(squares(&[], true).unwrap().is_empty());
    }

    fn learned() -> [Tensor; 3] {
        [[1.0_f32, 2.0], [3.0, 4.0], [5.0, 6.0]].map(|values| Tensor::from_slice(&values).set_requires_grad(true))
    }

    fn values(gradients: &Gradients, place: usize) -> Vec<f32> {
        Vec::try_from(gradients.at(place).unwrap()).unwrap()
    }

    #[test]
    fn both_ways_give_the_same_and_what_is_not_used_has_none() {
        let learned = learned();
        let loss = || (&learned[0] * &learned[1]).sum(None);
        let taken = Gradients::backward(&loss(), &learned).unwrap();
        assert!(!learned[0].grad().defined());
        loss().backward();
        let kept = Gradients::from_tensors(&learned).unwrap();
        for gradients in [&taken, &kept] {
            assert_eq!(
                (values(gradients, 0), values(gradients, 1)),
                (vec![3.0, 4.0], vec![1.0, 2.0])
            );
            assert!(gradients.at(2).is_none());
            assert!((gradients.norm().unwrap() - 30f64.sqrt()).abs() < 1e-6);
        }
    }

    #[test]
    fn adding_writes_into_nothing_that_is_shared() {
        let learned = learned();
        // The gradient of a sum is one tensor for both of its terms.
        let loss = || (&learned[0] + &learned[1]).square().sum(None);
        let mut sum = Gradients::backward(&loss(), &learned).unwrap();
        for _ in 0..2 {
            sum.add(Gradients::backward(&loss(), &learned).unwrap()).unwrap();
        }
        sum.add(Gradients::backward(&learned[2].sum(None), &learned).unwrap())
            .unwrap();
        for place in 0..2 {
            assert_eq!(values(&sum, place), [24.0, 36.0]);
        }
        assert_eq!(values(&sum, 2), [1.0, 1.0]);
        sum.scale(0.5);
        assert!((sum.norm().unwrap() - 0.5 * (2.0 * (24f64.powi(2) + 36f64.powi(2)) + 2.0).sqrt()).abs() < 1e-5);
        sum.scale_at(1..2, 2.0).unwrap();
        assert_eq!(
            (values(&sum, 0), values(&sum, 1), values(&sum, 2)),
            (vec![24.0, 36.0], vec![48.0, 72.0], vec![1.0, 1.0])
        );
        assert!(
            sum.add(Gradients::backward(&loss(), &learned).unwrap()).is_err(),
            "scaled already"
        );
        assert!(
            sum.add(Gradients::backward(&loss(), &learned[..2]).unwrap()).is_err(),
            "of other tensors"
        );
    }

    #[test]
    fn a_value_that_is_not_finite_shows_in_the_norm() {
        for bad in [f32::NAN, f32::INFINITY] {
            let learned = learned();
            let loss = (&learned[0] * Tensor::from_slice(&[1.0, bad])).sum(None);
            assert!(
                !Gradients::backward(&loss, &learned)
                    .unwrap()
                    .norm()
                    .unwrap()
                    .is_finite()
            );
        }
        assert!(
            Gradients::from_tensors(&learned()).unwrap().norm().unwrap().abs() < 1e-12,
            "none at all"
        );
    }
}

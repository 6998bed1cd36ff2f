//! What `benches/peers/loss_reference.py` wrote: values by PyTorch and transformers, and the inputs that it drew.
//!
//!     .venv/bin/python benches/peers/loss_reference.py --out encoder/tests/golden

use serde_json::Value;
use tch::{Kind, Tensor};

use crate::fixture::{golden, read_json};

/// `loss.json` or `optim.json`.
pub(crate) fn reference(name: &str) -> Value {
    read_json(&golden().join(name))
}

/// The same sines as in the script: rounded to f32, of kind `kind`.
pub(crate) fn values(shape: &[i64], seed: f64, kind: Kind) -> Tensor {
    let value = |place: i64| (((place + 1) as f64 * 12.9898 + seed * 78.233).sin() * 1.5) as f32;
    let values: Vec<f32> = (0..shape.iter().product()).map(value).collect();
    Tensor::from_slice(&values).view(shape).to_kind(kind)
}

/// The same, to be learned.
pub(crate) fn learned(shape: &[i64], seed: f64, kind: Kind) -> Tensor {
    values(shape, seed, kind).set_requires_grad(true)
}

pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap())
        .collect()
}

pub(crate) fn flat(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().to_kind(Kind::Double).reshape([-1])).unwrap()
}

/// The largest difference between numbers of the same place.
pub(crate) fn apart(ours: &[f64], theirs: &[f64]) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.iter().chain(theirs).all(|value| value.is_finite()));
    ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

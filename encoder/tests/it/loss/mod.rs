//! Losses and their gradients against PyTorch, against differences, and against one another.
//!
//! | file | what |
//! |---|---|
//! | `in_batch.rs` | the in-batch softmax and its temperature |
//! | `distillation.rs` | distillation |
//! | `geometry.rs` | the geometry terms of ENDX |

use serde_json::Value;
use tch::{Kind, Tensor};

use crate::reference::{apart, flat, numbers};

mod distillation;
mod geometry;
mod in_batch;

/// Compares a loss and its gradients with those of the script. In f64 it is the same to rounding; in f32 as near as f32
/// goes.
fn agrees(name: &str, expected: &Value, loss: &Tensor, inputs: &[(&str, &Tensor)]) {
    let close = if loss.kind() == Kind::Double { 1e-7 } else { 2e-4 };
    let value = expected["value"].as_f64().unwrap();
    assert!(
        (loss.double_value(&[]) - value).abs() < close * value.abs().max(1.0),
        "{name}: {loss:?} {value}"
    );
    loss.backward();
    for (input, tensor) in inputs {
        let gradient = &expected["gradients"][input];
        if gradient.is_null() {
            assert!(!tensor.grad().defined(), "{name}: {input} gets a gradient");
            continue;
        }
        let difference = apart(&flat(&tensor.grad()), &numbers(gradient));
        assert!(difference < close, "{name}: {input} {difference}");
    }
}

/// The gradient of `loss` at `inputs` by central differences, in f64, against the tape's.
fn follows_differences(name: &str, inputs: &[Tensor], loss: impl Fn(&[Tensor]) -> Tensor) {
    const STEP: f64 = 1e-5;
    loss(inputs).backward();
    for (number, input) in inputs.iter().enumerate() {
        let gradient = flat(&input.grad());
        for (place, expected) in gradient.iter().enumerate() {
            let at = |by: f64| {
                let moved: Vec<Tensor> = inputs.iter().map(|tensor| tensor.detach().copy()).collect();
                let mut cell = moved[number].view([-1]).get(place as i64);
                let _ = cell.f_add_scalar_(by).unwrap();
                loss(&moved).double_value(&[])
            };
            let difference = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            assert!(
                (difference - expected).abs() < 1e-5,
                "{name}: {number} {place}: {difference} {expected}"
            );
        }
    }
}

fn mask(rows: i64, columns: i64, marked: &[(i64, i64)]) -> Tensor {
    let values: Vec<bool> = (0..rows * columns)
        .map(|place| marked.contains(&(place / columns, place % columns)))
        .collect();
    Tensor::from_slice(&values).view([rows, columns])
}

//! Losses over vectors and scores, each differentiable and a scalar.
//!
//! | file | what | source |
//! |---|---|---|
//! | `similarity.rs` | cosine or inner product of all pairs | |
//! | `temperature.rs` | what scores are divided by, fixed or learned | Dong et al. 2022, Ni et al. 2022 |
//! | `in_batch.rs` | sampled softmax over a batch and its hard negatives, one way or both | Dong et al. 2022; Ni et al. 2022, equations 1 and 2 |
//! | `distill.rs` | a teacher's scores: KL divergence and MarginMSE | Hofstätter et al. 2020 |
//! | `matryoshka.rs` | vectors cut to several sizes | Kusupati et al. 2022 |
//! | `geometry.rs` | ENDX: the geometry of one embedding space after that of another | Wang et al. 2021, equations 6 to 12 |
//! | `endx.rs` | ENDX: the whole loss and the weights' growth | Wang et al. 2021, equation 13 and section 4.4 |
//!
//! Shapes in comments: `b` questions, `n` documents, `d` values of a vector. Everything is computed in f32, whatever
//! the vectors' number type (f64 stays f64), on the vectors' device. Shapes that do not fit are a [`TchError::Shape`].

mod distill;
mod endx;
mod geometry;
mod in_batch;
mod matryoshka;
mod similarity;
mod temperature;

pub use distill::{kl_divergence, margin_mse};
pub use endx::{Endx, GeometryWeights, Ramp};
pub use geometry::{GeometryLoss, GeometryTerms, Kernel, MatchedPairs};
pub use in_batch::InBatch;
pub use matryoshka::{Matryoshka, MatryoshkaSize};
pub use similarity::Similarity;
pub use temperature::Temperature;

use tch::{Kind, TchError, Tensor};

/// At least f32.
fn wide(tensor: &Tensor) -> Result<Tensor, TchError> {
    tensor.f_to_kind(if tensor.f_kind()? == Kind::Double {
        Kind::Double
    } else {
        Kind::Float
    })
}

/// Refuses a tensor whose shape is not `expected`.
fn shaped(what: &str, tensor: &Tensor, expected: &[i64]) -> Result<(), TchError> {
    let got = tensor.size();
    if got == expected {
        return Ok(());
    }
    Err(TchError::Shape(format!(
        "{what} must have the shape {expected:?}, got: {got:?}"
    )))
}

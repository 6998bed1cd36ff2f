//! How like two vectors are.

use serde::{Deserialize, Serialize};
use tch::{Kind, TchError, Tensor};

use super::wide;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// How like two vectors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Similarity {
    /// The inner product of the vectors at unit length (Dong et al. 2022, Ni et al. 2022).
    #[default]
    Cosine,
    /// The inner product as it is (Wang et al. 2021).
    InnerProduct,
}

impl Similarity {
    /// All pairs of `[b, d]` and `[n, d]`: `[b, n]`.
    pub fn scores(self, questions: &Tensor, documents: &Tensor) -> Result<Tensor, TchError> {
        let (questions, documents) = (self.prepared(questions)?, self.prepared(documents)?);
        questions.f_matmul(&documents.f_transpose(0, 1)?)
    }

    /// Vectors whose inner products are the similarity, in f32 or wider.
    pub(super) fn prepared(self, vectors: &Tensor) -> Result<Tensor, TchError> {
        let [_, _] = vectors.size()[..] else {
            return Err(TchError::Shape(format!(
                "vectors must be a matrix, got: {:?}",
                vectors.size()
            )));
        };
        let vectors = wide(vectors)?;
        match self {
            Self::InnerProduct => Ok(vectors),
            Self::Cosine => {
                let norms = vectors.f_linalg_norm(2.0, &[1i64][..], true, None::<Kind>)?;
                vectors.f_div(&norms.f_clamp_min(SMALLEST_NORM)?)
            }
        }
    }
}

//! The network: from token ids to unit vectors.
//!
//! | file | what |
//! |---|---|
//! | `network.rs` | the whole way of one batch: transformer, pooling, projection, normalisation |
//! | `bert.rs` | BERT encoder: embeddings and layers |
//! | `embedding.rs` | token, position and type tables |
//! | `attention.rs` | multi-head self-attention |
//! | `linear.rs`, `norm.rs` | affine map, layer normalisation |
//! | `pooling.rs` | token vectors to one vector: mean, cls, max |
//! | `projection.rs` | `Dense` modules |
//!
//! Everything here is plain tensors without a tape: callers hold `tch::no_grad`. Shapes in comments: `b` rows, `s`
//! tokens (padded), `h` hidden size. Every operation is the fallible form, so that a GPU without memory is an error and
//! not a panic.

mod attention;
mod bert;
mod embedding;
mod linear;
mod network;
mod norm;
mod pooling;
mod projection;

pub(crate) use bert::Bert;
pub(crate) use network::{Network, Step};
pub(crate) use pooling::Pooling;
pub(crate) use projection::Dense;

/// A side of the dual encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tower {
    /// Embeds what is asked.
    Question,
    /// Embeds what may answer.
    Answer,
}

impl Tower {
    /// `question` or `answer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Answer => "answer",
        }
    }
}

impl std::fmt::Display for Tower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Tower {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "question" => Ok(Self::Question),
            "answer" => Ok(Self::Answer),
            _ => Err(format!("tower must be `question` or `answer`, got: {name}")),
        }
    }
}

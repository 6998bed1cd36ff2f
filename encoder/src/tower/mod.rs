//! The network: from token ids to unit vectors.
//!
//! | file | what |
//! |---|---|
//! | `network.rs` | the whole way of one batch: transformer, pooling, projection, normalisation |
//! | `many.rs` | any number of texts, in batches, side by side on the CPU |
//! | `packed.rs` | a batch on the device, without padding |
//! | `parameters.rs`, `held.rs` | where tensors come from; tensors that clones of a network share |
//! | `bert.rs` | the BERT family: BERT, RoBERTa, DistilBERT, MPNet |
//! | `t5.rs` | the encoder of T5 1.0 and 1.1 |
//! | `recurrent.rs` | LSTM, GRU and RNN |
//! | `embedding.rs` | token, position and type tables |
//! | `attention.rs`, `relative.rs` | multi-head self-attention, biases by relative position |
//! | `kernels/` | kernels of our own for the CPU |
//! | `linear.rs`, `product.rs` | affine maps; how they multiply in f32 and int8 |
//! | `feed_forward.rs`, `norm.rs` | feed-forward blocks, normalisation of layers and by root mean square |
//! | `pooling.rs` | token vectors to one vector |
//! | `multihop.rs` | token vectors to several weighted means |
//! | `projection.rs` | `Dense` modules |
//!
//! Shapes in comments: `t` tokens of all rows of a batch, `s` tokens of a row, `h` hidden size. Every operation is the
//! fallible form, so that a GPU without memory is an error and not a panic.

mod attention;
mod bert;
mod embedding;
mod feed_forward;
mod held;
mod kernels;
mod linear;
mod many;
mod multihop;
mod network;
mod norm;
mod packed;
mod parameters;
mod pooling;
mod product;
mod projection;
mod recurrent;
mod relative;
mod t5;
#[cfg(test)]
mod tests;

use bert::Bert;
pub(crate) use feed_forward::FeedForward;
pub(crate) use kernels::Cores;
pub(crate) use linear::Linear;
pub(crate) use many::Many;
pub(crate) use multihop::MultiHop;
pub use network::VectorLength;
pub(crate) use network::{Loaded, Network, Passed, Route, Transformer};
pub(crate) use norm::LayerNorm;
pub(crate) use packed::Packed;
pub(crate) use parameters::Parameters;
pub(crate) use pooling::Pooling;
pub(crate) use product::{Filling, by_kernels};
pub(crate) use projection::Dense;
use recurrent::Recurrent;
use t5::T5;

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

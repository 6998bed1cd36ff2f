//! The network: from token ids to unit vectors.
//!
//! | file | what |
//! |---|---|
//! | `network.rs`, `output.rs` | the forward pass of one batch: transformer, pooling, projection, normalisation; what it gives |
//! | `exec.rs` | by what a pass is computed, and on how many threads |
//! | `pool/` | threads that share the work of kernels |
//! | `packed.rs`, `runs.rs` | a batch on the device; rows that are computed together |
//! | `parameters.rs`, `shared_tensor.rs` | where tensors come from; tensors that clones of a network share |
//! | `bert.rs` | the BERT family: BERT, RoBERTa, DistilBERT, MPNet |
//! | `t5.rs` | the encoder of T5 1.0 and 1.1 |
//! | `rotary/` | encoders with rotary positions: ModernBERT, GTE, NomicBERT, Qwen3, Gemma3 |
//! | `recurrent.rs` | LSTM, GRU and RNN |
//! | `static_table.rs` | a table of token vectors without a network over it |
//! | `embedding.rs` | token, position and type tables |
//! | `attention/`, `relative.rs`, `rotation.rs` | multi-head self-attention, biases and rotations by position |
//! | `kernels/` | kernels of our own for the CPU |
//! | `low_rank.rs` | low-rank adapters (LoRA) |
//! | `linear.rs`, `product/` | affine maps; how they multiply in f32 and int8 |
//! | `feed_forward.rs`, `norm.rs` | feed-forward blocks, normalisation of layers and by root mean square |
//! | `pooling.rs` | token vectors to one vector |
//! | `multihop.rs` | token vectors to several weighted means |
//! | `projection.rs` | `Dense` modules, and the maps of heads |
//!
//! Shapes in comments: `t` tokens of all rows of a batch, `s` tokens of a row, `h` hidden size. Every operation is the
//! fallible form, so that a GPU without memory is an error and not a panic.

mod attention;
mod bert;
mod embedding;
mod exec;
mod feed_forward;
mod kernels;
mod linear;
mod low_rank;
mod multihop;
mod network;
mod norm;
mod output;
mod packed;
mod parameters;
mod pool;
mod pooling;
mod product;
mod projection;
mod recurrent;
mod relative;
mod rotary;
mod rotation;
mod runs;
mod shared_tensor;
mod static_table;
mod t5;
#[cfg(test)]
mod tests;

pub(crate) use exec::Exec;
#[cfg(feature = "train")]
pub(crate) use feed_forward::FeedForward;
#[cfg(feature = "train")]
pub(crate) use linear::Linear;
pub use low_rank::LoraSettings;
pub(crate) use low_rank::LowRankMap;
pub(crate) use multihop::MultiHop;
pub use network::VectorLength;
pub(crate) use network::{LoadedModule, Network, Transformer};
#[cfg(feature = "train")]
pub(crate) use norm::LayerNorm;
pub use output::Output;
#[cfg(all(test, feature = "train"))]
pub(crate) use packed::Packed;
#[cfg(feature = "train")]
pub(crate) use packed::on;
pub use parameters::Parameter;
pub(crate) use parameters::{Parameters, WeightForm};
pub(crate) use pool::KernelPool;
pub(crate) use pooling::PoolingLayer;
pub(crate) use product::{Padding, by_kernels};
pub(crate) use projection::{Dense, HeadMap};
pub(crate) use runs::RunCosts;

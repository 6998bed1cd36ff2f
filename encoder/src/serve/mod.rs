//! One model for many callers: a handle in process, and gRPC and HTTP over it.
//!
//! ```text
//! caller -> admission (tokens) -> tokenizer threads -> admission (time) -> queue -> batches -> model threads -> caller
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | start a model, embed texts or score pairs with a deadline |
//! | `request.rs` | texts or token ids, truncation, dimensions |
//! | `passages.rs` | passages in their documents: late chunking |
//! | `prompts.rs` | prompts of requests, kept as the model is prompted with them |
//! | `precision.rs` | vectors in fewer bits |
//! | `submit.rs` | from a request to the queue: checks, admission |
//! | `input_splitter.rs` | from a request's input to tokens |
//! | `admission.rs` | how much may wait, and who is refused |
//! | `line.rs` | who can be answered in his time; pure data |
//! | `rate.rs` | how fast the model embeds, measured; pure data |
//! | `queue.rs` | waiting requests and the batch that is cut next; pure data |
//! | `reply.rs`, `error.rs` | a request's vectors as they come together, and why they may not |
//! | `served.rs` | the model, a dual encoder or a cross encoder |
//! | `backend.rs` | the threads of the model |
//! | `ready.rs` | whether the model works: a forward pass that is judged |
//! | `metrics.rs` | what is counted, for Prometheus |
//! | `service.rs` | gRPC: `Info`, `Encode`, `EncodeStream`, `Score` |
//! | `http/` | HTTP: OpenAI's `/v1/embeddings`, `/v1/rerank`, probes, metrics |

mod admission;
mod backend;
mod error;
mod handle;
pub mod http;
mod input_splitter;
mod line;
mod metrics;
mod passages;
mod precision;
mod prompts;
mod queue;
mod rate;
mod ready;
mod reply;
mod request;
mod served;
mod service;
mod submit;

pub use error::{EncodeError, NotReady};
pub use handle::{Handle, ServedModelOptions};
pub use passages::{ReadDocument, ReadPassage};
pub use precision::Precision;
pub use reply::EncodedReply;
pub use request::{EncodeOptions, Input, RequestPrompt, Truncation};
pub use service::EncoderService;

pub use crate::config::Tower;

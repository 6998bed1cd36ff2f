//! One model for many callers: a handle in process, and the gRPC service over it.
//!
//! ```text
//! caller -> admission (tokens) -> tokenizer threads -> queue -> batch -> model thread -> caller
//! ```
//!
//! | file | what |
//! |---|---|
//! | `handle.rs` | start a model, embed texts with a deadline |
//! | `admission.rs` | how much may wait, and who is refused |
//! | `queue.rs` | waiting requests and the batch that is cut next; pure data |
//! | `reply.rs` | a request's vectors as they come together |
//! | `backend.rs` | the thread that owns the model |
//! | `service.rs` | gRPC: `Info`, `Encode`, `EncodeStream` |

mod admission;
mod backend;
mod handle;
mod queue;
mod reply;
mod service;

pub use handle::{Handle, Options};
pub use reply::{EncodeError, Encoded};
pub use service::EncoderService;

pub use crate::tower::Tower;

//! Clients with a deadline on every call and bounded retries.
//!
//! | file | what lives there |
//! |---|---|
//! | `channel.rs` | connecting |
//! | `backoff.rs` | deadlines and tries: which failures are worth another one, and when |
//! | `error.rs` | why a call failed |
//! | `encoder.rs` | `Encoder` |
//! | `searcher.rs` | `Searcher` and `Admin` |

mod backoff;
mod channel;
mod encoder;
mod error;
mod searcher;

pub use backoff::ClientConfig;
pub use encoder::EncoderClient;
pub use error::ClientError;
pub use searcher::{AdminClient, SearcherClient};

//! Clients with a deadline on every call and bounded retries.
//!
//! | file | what lives there |
//! |---|---|
//! | `channel.rs` | connecting; configuration; errors |
//! | `backoff.rs` | which failures are worth another try, and when |
//! | `encoder.rs` | `Encoder` |
//! | `searcher.rs` | `Searcher` and `Admin` |

mod backoff;
mod channel;
mod encoder;
mod searcher;

pub use channel::{ClientConfig, ClientError};
pub use encoder::EncoderClient;
pub use searcher::{AdminClient, SearcherClient};

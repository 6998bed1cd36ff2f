//! Clients with a deadline on every call and bounded retries.
//!
//! | file | contents |
//! |---|---|
//! | `channel.rs` | connection |
//! | `credentials.rs` | CAs, client certificate, API key |
//! | `backoff.rs` | deadlines and retries: which failures are retried, and when |
//! | `error.rs` | errors of a call |
//! | `encoder.rs` | `Encoder` |
//! | `index.rs` | `Index` |
//! | `leaf.rs` | `Leaf` |
//! | `searcher.rs` | `Searcher` and `Admin` |

mod backoff;
mod channel;
mod credentials;
mod encoder;
mod error;
mod index;
mod leaf;
mod searcher;

pub use backoff::ClientConfig;
pub use channel::{ClientConnection, check_url, connect};
pub use credentials::{ApiKey, CredentialError, CredentialOptions, Credentials};
pub use encoder::EncoderClient;
pub use error::ClientError;
pub use index::{ChangeTerms, IndexClient};
pub use leaf::LeafClient;
pub use searcher::{AdminClient, SearcherClient};

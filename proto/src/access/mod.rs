//! Who may call what: API keys with roles, and what they restrict their holders to.
//!
//! A key is `dyad_ID_SECRET`: the id finds it, the secret has 256 random bits. The file of keys has the secret's
//! SHA-256 alone; a secret of that length needs no slow hash. A request carries it as `authorization: Bearer KEY`, or
//! as `x-api-key: KEY`.
//!
//! | file | contents |
//! |---|---|
//! | `role.rs` | roles, and the role that each call needs |
//! | `key_record.rs`, `key_file.rs` | the file of keys: read, created in, revoked in |
//! | `key.rs`, `keys.rs` | the keys that a server accepts |
//! | `served_indexes.rs` | the indexes of a server by name, and the keys that are for others |
//! | `control.rs` | the check of a request |
//! | `caller.rs` | the caller of a request, with its restrictions |
//! | `audit.rs` | the log of calls that change something |

mod audit;
mod caller;
mod control;
mod key;
mod key_file;
mod key_record;
mod keys;
mod role;
mod served_indexes;

pub use audit::{Audit, AuditError};
pub use caller::Caller;
pub use control::AccessControl;
pub use key_file::{KeyFile, KeyFileError, NewKey};
pub use key_record::KeyRecord;
pub use keys::{ApiKeys, KeyUsage};
pub use role::{Needed, Role};
pub use served_indexes::ServedIndexes;

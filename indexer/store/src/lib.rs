//! Indexes in an object store (S3, Google Cloud Storage, Azure Blob Storage, a directory): the files of an index
//! directory under the same names.
//!
//! ```text
//! s3://bucket/prefix/CURRENT                  moved by a conditional put: of two pushes at once, one wins
//!                    manifest-000007.json     put if absent, before the files that only it names
//!                    shards/ID/...  deletions/...  metadata/ID/...
//! ```
//!
//! What is pulled is verified by the checksums of its manifest before anything of it is published, and a push or a pull
//! that was ended goes on with what it has not transferred yet. Credentials come from the environment alone (`AWS_`,
//! `GOOGLE_` and `AZURE_` variables).
//!
//! | file | contents |
//! |---|---|
//! | `remote.rs` | a place in a store: opened by URL, its current generation |
//! | `objects.rs` | its objects: read, put where absent, listed, removed |
//! | `transfers.rs` | files to objects and back, several at once, verified |
//! | `manifests.rs` | its manifests: listed, put where absent |
//! | `pattern.rs` | the objects that a pattern names |
//! | `files.rs` | the files of a generation |
//! | `push.rs` | a generation to the store |
//! | `pull.rs` | the store's current generation, or a part of it, to a directory |
//! | `learned/` | what was learned for an index, next to its generations |
//! | `commit.rs` | a generation published whose files are there already |
//! | `gc.rs` | what nothing needs is removed |
//! | `cache.rs` | directories that mirror the indexes of stores, within a number of bytes |
//! | `fetched.rs` | what a mirror has fetched last |
//! | `evict.rs` | generations and shards of a mirror that nobody needs, and their files, are removed |
//! | `fixture.rs` | an index for tests |
//! | `error.rs` | errors |
#![forbid(unsafe_code)]

mod cache;
mod commit;
mod error;
mod evict;
mod fetched;
mod files;
#[cfg(test)]
mod fixture;
mod gc;
mod learned;
mod manifests;
mod objects;
mod pattern;
mod pull;
mod push;
mod remote;
mod transfers;

pub use cache::{Cache, Mirror};
pub use commit::{Committed, commit, is_published};
pub use error::Error;
pub use gc::{CollectedObjects, gc};
pub use learned::{LearnedMove, LearnedOutcome};
pub use objects::{Object, is_plain};
pub use pattern::find;
pub use pull::{PullOptions, Pulled, pull, pull_part};
pub use push::{Pushed, push};
pub use remote::{Current, RemoteStore, without_secrets};
pub use transfers::PushOptions;

//! Files of an index: mapping, values that are written once and then mapped, the writer's lock.
//!
//! | file | contents |
//! |---|---|
//! | `mapped.rs` | the only place that maps a file |
//! | `scratch.rs` | values written once, then mapped, without a name |
//! | `lock.rs` | one writer per index, for moments |

mod lock;
mod mapped;
mod scratch;

pub use lock::WriteLock;
pub use mapped::Mapped;
pub use scratch::Scratch;

//! Files of an index: mapping, values that are written once and then mapped, the writer's lock.
//!
//! | file | contents |
//! |---|---|
//! | `mapped.rs` | the only place that maps a file |
//! | `scratch.rs` | values written once, then mapped, without a name |
//! | `hot_bytes.rs` | whether what searches read at random fits into memory |
//! | `lock.rs` | one writer per index, for moments |

mod hot_bytes;
mod lock;
mod mapped;
mod scratch;

pub(crate) use hot_bytes::HotBytes;
pub use lock::WriteLock;
pub use mapped::MmapFile;
pub(crate) use mapped::SharedMap;
pub use scratch::ScratchFile;

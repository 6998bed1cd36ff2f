//! **The byte specification of `dense.dyad`, version 1.** All integers are little-endian.
//!
//! | file | what lives there |
//! |---|---|
//! | `header.rs` | the first 512 bytes: counts and the section table |
//! | `section.rs` | bytes to typed slices, checked |
//! | `graph.rs` | GRAPH: writing and viewing |
//! | `keys.rs` | KEYS: writing and viewing |
//!
//! ```text
//! 0    magic            8 bytes  "DYADENSE"
//! 8    version          u32      1; a reader refuses a larger one
//! 12   dim              u32      values per vector
//! 16   vectors          u64      n
//! 24   file_len         u64      bytes of the whole file
//! 32   row_stride       u32      values per stored row: dim rounded up to 16, the rest is zero
//! 36   sections         u32      entries in the table, at most 12
//! 40   reserved         24 bytes zero
//! 64   section table    12 x 32 bytes, unused entries zero
//!        kind           u32      1 META, 2 VECTORS, 3 CODES (reserved), 4 GRAPH, 5 KEYS, 6 CERTIFICATE
//!        reserved       u32      zero
//!        offset         u64      from the start of the file, a multiple of 64
//!        len            u64      bytes
//!        crc32c         u32      of these bytes
//!        reserved       u32      zero
//! 448  reserved         60 bytes zero
//! 508  crc32c           u32      of bytes 0..508
//! 512  sections, each at a multiple of 64, padding is zero
//! ```
//!
//! * META: JSON, [`ShardMeta`](crate::shard::ShardMeta): model, build parameters.
//! * VECTORS: `n * row_stride` f32.
//! * GRAPH: `entry: u32, layers: u32`, then per layer `nodes: u64, links: u64` (counts), padding to 64, then per layer,
//!   each array at a multiple of 64 from the section's start: `nodes: [u32]`, `offsets: [u64; nodes + 1]`, `links: [u32]`.
//!   Layer 0 first; its nodes are 0..n.
//! * KEYS: `offsets: [u64; n + 1]` into the text, `sorted: [u32; n]` nodes in ascending order of key, then the keys'
//!   UTF-8 text, one after another.
//! * CERTIFICATE: JSON, [`Certificate`](crate::certificate::Certificate).
//!
//! Opening reads header, META, CERTIFICATE and the table of GRAPH, all of a size that does not depend on n. What the
//! bulk sections hold is trusted no further than memory safety: an index out of range reads as nothing. `verify` reads
//! everything.

#[cfg(target_endian = "big")]
compile_error!("dense.dyad is mapped as little-endian values; big-endian machines would need a converting reader");

pub mod graph;
pub mod header;
pub mod keys;
pub mod section;

pub use header::{Header, SectionEntry};

/// Version that this build writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Alignment of sections and of the arrays in GRAPH: a cache line.
pub const ALIGN: u64 = 64;

/// Rounds up to a multiple of [`ALIGN`].
pub const fn align(offset: u64) -> u64 {
    offset.div_ceil(ALIGN) * ALIGN
}

/// What a section holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum SectionKind {
    /// Model and build parameters, JSON.
    Meta = 1,
    /// Rows of f32.
    Vectors = 2,
    /// Links.
    Graph = 4,
    /// Document keys.
    Keys = 5,
    /// What the build measured, JSON.
    Certificate = 6,
}

impl SectionKind {
    /// Every section of version 1, in file order.
    pub const ALL: [Self; 5] = [Self::Meta, Self::Vectors, Self::Graph, Self::Keys, Self::Certificate];

    /// Name as in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "META",
            Self::Vectors => "VECTORS",
            Self::Graph => "GRAPH",
            Self::Keys => "KEYS",
            Self::Certificate => "CERTIFICATE",
        }
    }
}

/// Fault in a file's bytes: which part, what was expected, what is there. The reader adds the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Header field or section.
    pub part: String,
    /// What a sound file holds.
    pub expected: String,
    /// What this one holds.
    pub got: String,
}

impl Fault {
    /// A fault in `part`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and formatted texts alike, written where they are known"
    )]
    pub fn new(part: impl Into<String>, expected: impl ToString, got: impl ToString) -> Self {
        Self { part: part.into(), expected: expected.to_string(), got: got.to_string() }
    }
}

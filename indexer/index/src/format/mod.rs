//! **The byte specification of `dense.dyad`, versions 2 to 5.** All integers are little-endian.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | the first 512 bytes: counts and the section table |
//! | `section.rs` | bytes to typed slices, checked |
//! | `rows.rs` | VECTORS: writing and viewing |
//! | `mapped_rows.rs` | rows of f32 in a file of their own |
//! | `codes.rs` | CODES: writing and viewing |
//! | `graph.rs` | GRAPH: writing and viewing |
//! | `invariants.rs` | whether a mapped graph is valid |
//! | `keys.rs` | KEYS: writing and viewing |
//!
//! ```text
//! 0    magic            8 bytes  "DYADENSE"
//! 8    version          u32      2, one more where `copies` of GRAPH is not 0, two more where row_type is 2; a reader
//!                                refuses others
//! 12   dim              u32      values per vector, at most 65,536
//! 16   vectors          u64      n, fewer than 2^31
//! 24   file_len         u64      bytes of the whole file
//! 32   row_stride       u32      values per stored row: dim rounded up to whole cache lines, the rest is zero; 1 where
//!                                row_type is 2
//! 36   sections         u32      entries in the table, at most 12
//! 40   row_type         u32      0 f32, 1 f16, 2 int8
//! 44   reserved         20 bytes zero
//! 64   section table    12 x 32 bytes, unused entries zero
//!        kind           u32      1 META, 2 VECTORS, 3 CODES, 4 GRAPH, 5 KEYS, 6 CERTIFICATE
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
//! * VECTORS: `n * row_stride` values, by node. Cold: read for the last few candidates of a search, and by exact ones.
//!   Where `row_type` is 2, `[u32; n]`: the slot of each node, whose int8 row stands for the vector (see [`crate::quant`]).
//! * CODES: `seed: u64` of the rotation, `dim: u32`, `line_words: u32`, `row_bytes: u64`, zeros up to 64, then, each at
//!   a multiple of 64, `centre: [f32; dim]`, sketches `[u64; n * line_words]` and int8 rows `[u8; n * row_bytes]`, both
//!   by slot. A sketch: the signs of the rotated residual, value `i` in bit `i % 64` of word `i / 64`; in the next two
//!   words four f32: sketch factor, error, int8 scale, bias (see [`crate::quant`]); zeros. An int8 row: value + 128.
//! * GRAPH: `entry: u32` (slot), `layers: u32`, `degree: u32`, `copies: u32`, then per layer above 0 `nodes: u64,
//!   links: u64` (counts), then, each at a multiple of 64, `order: [u32; n]` (slot to node), the links of layer 0
//!   `[u32; n * degree]` (short lists padded with the slot itself), and per layer above 0, lowest first,
//!   `slots: [u32]` ascending, `offsets: [u64; slots + 1]`, `links: [u32]`. All links are slots. `copies` slots have the vector of another,
//!   which comes before them, with nothing but its other copies between: all of their links are that slot, and no link leads to them.
//! * KEYS: `offsets: [u64; n + 1]` into the text, `sorted: [u32; n]` nodes in ascending order of key, then the keys'
//!   UTF-8 text, one after another.
//! * CERTIFICATE: JSON, [`Certificate`](crate::certificate::Certificate).
//!
//! Opening reads header, META, CERTIFICATE, the centre in CODES and the table of GRAPH, all of a size that does not
//! depend on n. What the bulk sections hold is trusted no further than memory safety: an index out of range reads as
//! empty. `verify` reads everything.

#[cfg(target_endian = "big")]
compile_error!("dense.dyad is mapped as little-endian values; big-endian machines would need a converting reader");

pub mod codes;
pub mod graph;
pub mod header;
mod invariants;
pub mod keys;
mod mapped_rows;
pub mod rows;
pub mod section;

pub use header::{SectionEntry, ShardHeader};
pub use mapped_rows::MappedRows;
pub use rows::RowType;

/// Newest version that this build reads: with copies, and without rows besides the codes. Version 1 had no codes.
pub const VERSION: u32 = 5;
/// Version of a shard in which every vector is a node of the graph and has its row, which earlier releases read too.
/// With copies it is one more.
pub const OLDEST_VERSION: u32 = 2;
/// How much more it is of a shard whose int8 codes stand for the vectors.
pub const INT8_VERSIONS: u32 = 2;

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
    /// Rows of f32 or f16.
    Vectors = 2,
    /// Sketches and int8 rows.
    Codes = 3,
    /// Links.
    Graph = 4,
    /// Document keys.
    Keys = 5,
    /// What the build measured, JSON.
    Certificate = 6,
}

impl SectionKind {
    /// Every section, in file order.
    pub const ALL: [Self; 6] = [
        Self::Meta,
        Self::Vectors,
        Self::Codes,
        Self::Graph,
        Self::Keys,
        Self::Certificate,
    ];

    /// Name as in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "META",
            Self::Vectors => "VECTORS",
            Self::Codes => "CODES",
            Self::Graph => "GRAPH",
            Self::Keys => "KEYS",
            Self::Certificate => "CERTIFICATE",
        }
    }
}

/// The sections that graph searches read in random order, and nearly all of them sooner or later: they have to be in
/// memory. Others are read for the last few candidates only, and stay on disk until then.
pub const HOT_SECTIONS: [SectionKind; 2] = [SectionKind::Codes, SectionKind::Graph];

/// A fault in a file's bytes: which part, what was expected, what was found. The reader adds the path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatFault {
    /// Header field or section.
    pub part: String,
    /// The content of an intact file.
    pub expected: String,
    /// The content of this file.
    pub got: String,
}

impl FormatFault {
    /// A fault in `part`.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers and formatted texts alike, written where they are known"
    )]
    pub fn new(part: impl Into<String>, expected: impl ToString, got: impl ToString) -> Self {
        Self {
            part: part.into(),
            expected: expected.to_string(),
            got: got.to_string(),
        }
    }
}

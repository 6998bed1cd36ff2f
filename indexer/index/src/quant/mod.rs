//! Quantised codes, which a search compares before the full vectors.
//!
//! | file | contents |
//! |---|---|
//! | `rotation.rs` | a seeded orthogonal transform that spreads a vector's energy over all coordinates |
//! | `codec.rs` | one shard's quantiser: centre, rotation, and what they make of rows and questions |
//! | `prepared.rs` | a question, rounded for comparison with codes |
//! | `codes.rs` | the codes of all rows: sketches of one bit per value, and int8 rows; their scores |
//! | `blocks.rs` | sketches in blocks, as a scan of many rows reads them |
//! | `decode.rs` | vectors from their int8 rows, where an index has no others |
//! | `check.rs` | check of stored codes against a row |
//!
//! Every row has two codes, made of the same rotated residual `r = R (x - c)`, where `c` is the mean of all rows:
//!
//! * a **sketch**: the sign of each value of `r`, and the factors that turn agreements of signs into an unbiased
//!   estimate of the inner product (`RaBitQ`: Gao and Long 2024, arXiv:2405.12497). One cache line at 384 values.
//! * an **int8 row**: `r` divided by `max |r| / 127` and rounded. Its score is within a few 1e-4 of the exact one for
//!   unit vectors, and the best candidates are scored again from the vectors themselves.
//!
//! The rotation makes one scale per row sufficient: after it, no coordinate is much larger than the others.

mod blocks;
mod check;
mod codec;
mod codes;
mod decode;
mod prepared;
mod rotation;

pub(crate) use blocks::SketchBlocks;
pub(crate) use check::CheckScratch;
pub use codec::Codec;
pub use codes::{Codes, CodesView, line_words, row_bytes};
pub use decode::CodeRows;
pub use prepared::PreparedQuery;
pub use rotation::Rotation;

#[cfg(test)]
mod tests;

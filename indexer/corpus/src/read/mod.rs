//! Corpus readers: a streaming iterator over every format of a corpus.
//!
//! | file | contents |
//! |---|---|
//! | `input.rs` | opening a file or standard input, decompression by content, bytes counted for progress |
//! | `lines.rs` | numbered UTF-8 lines of bounded length |
//! | `jsonl.rs` | one JSON object per line: field names, types |
//! | `tsv.rs` | tab-separated columns, with or without a header |
//! | `beir.rs` | the files of a BEIR folder |
//! | `keys.rs` | detection of duplicate keys |
//! | `flaws.rs` | flawed records: skipped, listed, reported together |
//! | `unstored.rs` | fields that are not stored |
//! | `corpus.rs` | [`CorpusReader`]: the above, one document at a time |

mod beir;
mod corpus;
mod flaws;
mod input;
mod jsonl;
mod keys;
mod lines;
#[cfg(test)]
mod tests;
mod tsv;
mod unstored;

pub use beir::BeirFolder;
pub use corpus::{CorpusReader, Format, ReadOptions};
pub(crate) use corpus::{LineFormat, check_key, line_format};
pub(crate) use input::Input;
pub use input::is_stream;
pub(crate) use jsonl::{Record, message, missing, wrong_type};
pub(crate) use keys::Keys;
pub(crate) use lines::Lines;
pub(crate) use tsv::{Columns, quoted_fields};

/// Longest key, in bytes. Far above any identifier in use, far below what term dictionaries can hold.
pub const MAX_KEY_BYTES: usize = 4096;

/// Longest text that is accepted unless the options say otherwise: 1 MiB.
pub(crate) const DEFAULT_MAX_TEXT_BYTES: usize = 1 << 20;

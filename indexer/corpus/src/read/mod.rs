//! Corpus readers: a streaming iterator over every format of a corpus.
//!
//! | file | contents |
//! |---|---|
//! | `input.rs` | opening a file or standard input, decompression by content, bytes counted for progress |
//! | `gzip.rs` | gzip files of several members |
//! | `kind.rs` | files that are no text, by their first bytes |
//! | `lines.rs` | numbered UTF-8 lines of bounded length |
//! | `jsonl.rs` | one JSON object per line: field names, types |
//! | `tsv.rs` | tab-separated columns, with or without a header |
//! | `trec.rs` | TREC's `<DOC>` elements |
//! | `trec_markup.rs` | tags, elements and plain text in them |
//! | `parquet.rs` | rows of a Parquet file |
//! | `text_file.rs` | a file of Markdown or plain text as one document |
//! | `front_matter.rs` | fields in YAML before Markdown |
//! | `markdown.rs` | the text of Markdown, and its headings |
//! | `html.rs` | the text of HTML in Markdown |
//! | `sections.rs` | headings of a document, and the parts that passages are cut of |
//! | `records.rs` | one file of any format as a sequence of documents |
//! | `beir.rs` | the files of a BEIR folder |
//! | `text_folder.rs` | files of Markdown and plain text in a folder |
//! | `files.rs` | one file, or all of a pattern |
//! | `split.rs` | documents as passages |
//! | `whole_documents.rs` | documents in a file of their own |
//! | `options.rs` | how a corpus is read |
//! | `arguments.rs` | the same as arguments of a command, with the feature `clap` |
//! | `keys.rs` | detection of duplicate keys |
//! | `flaws.rs` | flawed records: skipped, listed, reported together |
//! | `unseen.rs` | fields that are named, and not there |
//! | `unstored.rs` | fields that are not stored |
//! | `corpus.rs` | [`CorpusReader`]: the above, one document at a time |

#[cfg(feature = "clap")]
mod arguments;
mod beir;
mod corpus;
mod files;
mod flaws;
mod front_matter;
mod gzip;
mod html;
mod input;
mod jsonl;
mod keys;
mod kind;
mod lines;
mod markdown;
mod options;
mod parquet;
mod records;
mod sections;
mod split;
#[cfg(test)]
mod tests;
mod text_file;
mod text_folder;
mod trec;
mod trec_markup;
mod tsv;
mod unseen;
mod unstored;
mod whole_documents;

#[cfg(feature = "clap")]
pub use arguments::ReadArguments;
pub use beir::BeirFolder;
pub use corpus::CorpusReader;
pub use corpus::check_key;
pub(crate) use corpus::{LineFormat, line_format};
pub(crate) use input::InputStream;
pub use input::is_stream;
pub(crate) use jsonl::{JsonRecord, explained, message, missing, wrong_type};
pub(crate) use keys::SeenKeys;
pub(crate) use lines::InputLines;
pub(crate) use options::DEFAULT_MAX_TEXT_BYTES;
pub use options::{CorpusFormat, FieldNames, ReadOptions, Split, UnseenFieldPolicy};
pub(crate) use tsv::{Columns, quoted_fields};
pub use whole_documents::WholeDocuments;

/// Longest key, in bytes. Far above any identifier in use, far below what term dictionaries can hold.
pub const MAX_KEY_BYTES: usize = 4096;
/// Bytes that the metadata of a document may have as compact JSON, from files and over gRPC alike: 1 MiB.
pub const MAX_METADATA_BYTES: usize = 1 << 20;

//! Corpus readers: a streaming iterator over every format of a corpus.
//!
//! | file | contents |
//! |---|---|
//! | `input.rs` | opening a file or standard input, decompression by content, bytes counted for progress |
//! | `gzip.rs` | gzip files of several members |
//! | `kind.rs` | files that are no text, by their first bytes |
//! | `lines.rs` | numbered UTF-8 lines of bounded length |
//! | `format.rs` | the table of formats |
//! | `record_source.rs` | what every format's reader offers |
//! | `jsonl.rs` | records of JSON: field names, types |
//! | `json_lines.rs` | one JSON object per line |
//! | `tsv.rs` | tab-separated columns, with or without a header |
//! | `csv.rs` | comma-separated columns with a header line |
//! | `csv_header.rs` | which column is which field |
//! | `csv_record.rs` | records of comma-separated values in a memory of bounded size |
//! | `trec.rs` | TREC's `<DOC>` elements |
//! | `trec_markup.rs` | tags, elements and plain text in them |
//! | `parquet.rs` | rows of a Parquet file |
//! | `text_file.rs` | a file of Markdown, HTML or plain text as one document |
//! | `front_matter.rs` | fields in YAML before Markdown |
//! | `markdown.rs` | the text of Markdown, and its headings |
//! | `markdown_html.rs` | the text of HTML in Markdown |
//! | `html/mod.rs` | the text of HTML, and its headings |
//! | `text_blocks.rs` | the blocks of a text with mark-up, and its sections |
//! | `sections.rs` | headings of a document, and the parts that passages are cut of |
//! | `records.rs` | the reader of a file by its format |
//! | `beir.rs` | the files of a BEIR folder |
//! | `text_folder.rs` | files in a folder that are a document each |
//! | `files.rs` | one file, or all of a pattern |
//! | `split.rs` | documents as passages |
//! | `whole_documents.rs` | documents in a file of their own |
//! | `options.rs` | how a corpus is read |
//! | `arguments.rs` | the same as arguments of a command, with the feature `clap` |
//! | `keys.rs` | detection of duplicate keys |
//! | `flaws.rs` | flawed records: skipped, listed, reported together |
//! | `field_notes.rs` | what is noted of the fields of all records |
//! | `missing_field.rs` | records without a key or a text |
//! | `mixed_types.rs` | fields that are numbers here and texts there |
//! | `unseen.rs` | fields that are named, and not there |
//! | `unstored.rs` | fields that are not stored |
//! | `corpus.rs` | [`CorpusReader`]: the above, one document at a time |

#[cfg(feature = "clap")]
mod arguments;
mod beir;
mod corpus;
mod csv;
mod csv_header;
mod csv_record;
mod field_notes;
mod files;
mod flaws;
mod format;
mod front_matter;
mod gzip;
mod html;
mod input;
mod json_lines;
mod jsonl;
mod keys;
mod kind;
mod lines;
mod markdown;
mod markdown_html;
mod missing_field;
mod mixed_types;
mod options;
mod parquet;
mod record_source;
mod records;
mod sections;
mod split;
#[cfg(test)]
mod tests;
mod text_blocks;
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
pub use format::CorpusFormat;
pub(crate) use format::{LineFormat, endings_of_questions, format_of_questions};
pub(crate) use input::InputStream;
pub use input::is_stream;
pub(crate) use jsonl::{JsonRecord, explained, message, missing, wrong_type};
pub(crate) use keys::SeenKeys;
pub(crate) use lines::InputLines;
pub(crate) use options::DEFAULT_MAX_TEXT_BYTES;
pub use options::{FieldNames, ReadOptions, Split, UnseenFieldPolicy};
pub(crate) use tsv::{Columns, quoted_fields};
pub use whole_documents::WholeDocuments;

/// Longest key, in bytes. Far above any identifier in use, far below what term dictionaries can hold.
pub const MAX_KEY_BYTES: usize = 4096;
/// Bytes that the metadata of a document may have as compact JSON, from files and over gRPC alike: 1 MiB.
pub const MAX_METADATA_BYTES: usize = 1 << 20;

//! How a corpus is read: format, names of fields, passages, what is flawed.
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::format::CorpusFormat;

/// Longest text that is accepted unless the options say otherwise: 1 MiB.
pub(crate) const DEFAULT_MAX_TEXT_BYTES: usize = 1 << 20;

/// Names of the fields of JSON lines and of Parquet's columns, in place of the usual ones.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FieldNames {
    /// The name of the field that holds the key.
    pub key: Option<String>,
    /// The name of the field that holds the title.
    pub title: Option<String>,
    /// The name of the field that holds the text.
    pub text: Option<String>,
    /// Fields that are stored with the metadata, under their names.
    pub metadata: Vec<String>,
}

/// Passages in place of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Most words of a passage; whole sentences, and parts of a sentence where it has more. Words stand between white
    /// space.
    pub words: usize,
    /// Most words that a passage repeats from the end of the one before it, in whole sentences; less than `words`.
    pub overlap: usize,
}

impl Split {
    /// Refuses what makes no passages.
    pub fn new(words: usize, overlap: usize) -> Result<Self, String> {
        if words == 0 || overlap >= words {
            return Err(format!(
                "passages need at least 1 word and an overlap below their length, got: {words} and {overlap}"
            ));
        }
        Ok(Self { words, overlap })
    }
}

/// What is done where no record has a field that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnseenFieldPolicy {
    /// Of a part of a corpus, or of a few documents: others may have it.
    #[default]
    Allowed,
    /// It is an error at the end of the corpus: a misspelt name would lose titles or metadata silently.
    Refused,
}

/// How to read a corpus.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The format of the corpus.
    pub format: CorpusFormat,
    /// Names of fields.
    pub fields: FieldNames,
    /// Splits documents into passages with keys `KEY#0`, `KEY#1` and so on. Their metadata say of which document
    /// (`document`) they are, and which passage (`passage`), and in Markdown and HTML under which headings (`heading`),
    /// each of which begins a passage.
    pub split: Option<Split>,
    /// File of the documents that the passages of the corpus were cut from, see
    /// [`Document::place`](crate::Document::place).
    pub documents: Option<PathBuf>,
    /// Longest passage (title included) that is accepted, in bytes; 1 MiB by default.
    pub max_text_bytes: usize,
    /// Most flawed records to skip; with more the reader fails and lists them. `None`, the default, is 0 for a
    /// command that has no option `--max-bad`.
    pub max_bad: Option<u64>,
    /// Whether a key may come more than once. Without, the second record of a key is flawed.
    pub repeated_keys: bool,
    /// Whether only keys and metadata are read, of JSON lines: a record without text is not flawed.
    pub metadata_only: bool,
    /// Whether a corpus may have no document at all; without, that is refused.
    pub allow_empty: bool,
    /// Whether a field that is named may be in no record.
    pub unseen_fields: UnseenFieldPolicy,
    /// File that lists every flawed record, one JSON object (`file`, `line`, `reason`) per line.
    pub rejects: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: CorpusFormat::Auto,
            fields: FieldNames::default(),
            split: None,
            documents: None,
            max_text_bytes: DEFAULT_MAX_TEXT_BYTES,
            max_bad: None,
            repeated_keys: false,
            metadata_only: false,
            allow_empty: false,
            unseen_fields: UnseenFieldPolicy::Allowed,
            rejects: None,
        }
    }
}

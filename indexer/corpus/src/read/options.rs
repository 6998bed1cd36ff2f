//! How a corpus is read: format, names of fields, passages, what is flawed.
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Longest text that is accepted unless the options say otherwise: 1 MiB.
pub(crate) const DEFAULT_MAX_TEXT_BYTES: usize = 1 << 20;

/// The format of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CorpusFormat {
    /// A folder is [`CorpusFormat::Beir`], or, without `corpus.jsonl`, one of [`CorpusFormat::Markdown`] and
    /// [`CorpusFormat::Text`]: its files whose names end in `.md`, `.markdown` and `.txt`, also in folders in it.
    /// Standard input is [`CorpusFormat::Jsonl`]; a file is recognised by its name without `.gz` or `.zst`: `.jsonl`,
    /// `.ndjson` and `.json` are [`CorpusFormat::Jsonl`], `.tsv` and `.txt` are [`CorpusFormat::Tsv`], `.parquet` is
    /// [`CorpusFormat::Parquet`], `.trec` and `.sgml` are [`CorpusFormat::Trec`], `.md` and `.markdown` are
    /// [`CorpusFormat::Markdown`].
    #[default]
    Auto,
    /// One JSON object per line: key (`_id`, `id`, `docid` or `key`; a string or an integer), optional `title`, text
    /// (`text` or `contents`), optional object `metadata`. Where several names are there, the first of the list counts.
    /// A null field counts as absent. [`FieldNames`] gives other names. Other fields are not stored
    /// ([`crate::CorpusReader::warnings`] names them).
    Jsonl,
    /// `key<TAB>text` (MS MARCO's collections and questions), or the columns of a header line such as
    /// `id<TAB>text<TAB>title` (DPR).
    Tsv,
    /// A folder that holds `corpus.jsonl`, possibly compressed.
    Beir,
    /// A Parquet file whose columns have the names of JSON's fields, read row group by row group.
    Parquet,
    /// `<DOC>` elements with `<DOCNO>` and `<TEXT>` (TREC's collections), in UTF-8.
    Trec,
    /// A Markdown file is a document: its key is the path in the folder of the corpus, its title that of the front
    /// matter (YAML), or the first heading of level 1, or the name of the file; its metadata are the other fields of
    /// the front matter, and `path`. Of a folder all files that [`CorpusFormat::Auto`] finds are read as Markdown.
    Markdown,
    /// As [`CorpusFormat::Markdown`], with the content of the file as it stands, and the name of the file as its title.
    Text,
}

const FORMATS: [(&str, CorpusFormat); 8] = [
    ("auto", CorpusFormat::Auto),
    ("jsonl", CorpusFormat::Jsonl),
    ("tsv", CorpusFormat::Tsv),
    ("beir", CorpusFormat::Beir),
    ("parquet", CorpusFormat::Parquet),
    ("trec", CorpusFormat::Trec),
    ("markdown", CorpusFormat::Markdown),
    ("text", CorpusFormat::Text),
];

impl FromStr for CorpusFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = FORMATS
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, format)| *format);
        known.ok_or_else(|| {
            format!("format must be auto, jsonl, tsv, beir, parquet, trec, markdown or text, got: {text}")
        })
    }
}

impl fmt::Display for CorpusFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            FORMATS
                .iter()
                .find(|(_, format)| format == self)
                .map_or("auto", |(name, _)| name),
        )
    }
}

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
    /// (`document`) they are, and which passage (`passage`), and in Markdown under which headings (`heading`), each of
    /// which begins a passage.
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

/// Detects the format of a file from its name.
pub(super) fn format_of(path: &Path) -> Result<CorpusFormat, Error> {
    if path == Path::new("-") {
        return Ok(CorpusFormat::Jsonl);
    }
    match ending(path).as_deref() {
        Some("jsonl" | "ndjson" | "json") => Ok(CorpusFormat::Jsonl),
        Some("tsv" | "txt") => Ok(CorpusFormat::Tsv),
        Some("parquet") => Ok(CorpusFormat::Parquet),
        Some("trec" | "sgml") => Ok(CorpusFormat::Trec),
        Some("md" | "markdown") => Ok(CorpusFormat::Markdown),
        _ => Err(Error::UnknownFormat { path: path.to_owned() }),
    }
}

/// The ending of a file's name without `.gz` or `.zst`, in small letters; none where it has no dot.
pub(super) fn ending(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    without_compression(&name)
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_owned())
}

/// A name without `.gz` or `.zst`.
pub(super) fn without_compression(name: &str) -> &str {
    name.strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(name)
}

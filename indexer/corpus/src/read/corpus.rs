//! The reader of all corpus formats.
use std::path::{Path, PathBuf};

use super::beir::BeirFolder;
use super::flaws::Flaws;
use super::keys::Keys;
use super::lines::Lines;
use super::tsv::Columns;
use super::unstored::Unstored;
use super::{DEFAULT_MAX_TEXT_BYTES, MAX_KEY_BYTES, jsonl};
use crate::document::{Document, Located};
use crate::error::Error;
use crate::problem::Problem;

/// The format of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Format {
    /// A folder is [`Format::Beir`]; standard input is [`Format::Jsonl`]; a file is recognised by its name without `.gz` or
    /// `.zst`: `.jsonl`, `.ndjson` and `.json` are [`Format::Jsonl`], `.tsv` and `.txt` are [`Format::Tsv`].
    #[default]
    Auto,
    /// One JSON object per line: key (`_id`, `id`, `docid` or `key`; a string or an integer), optional `title`, text
    /// (`text` or `contents`), optional object `metadata`. Where several names are there, the first of the list counts.
    /// A null field counts as absent. Other fields are not stored ([`CorpusReader::warnings`] names them).
    Jsonl,
    /// `key<TAB>text` (MS MARCO), or the columns of a header line such as `id<TAB>text<TAB>title` (DPR).
    Tsv,
    /// A folder that holds `corpus.jsonl`, possibly compressed.
    Beir,
}

/// How to read a corpus.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The format of the corpus.
    pub format: Format,
    /// Longest passage (title included) that is accepted, in bytes; 1 MiB by default.
    pub max_text_bytes: usize,
    /// Most flawed records to skip; with more the reader fails and lists them. `None`, the default, is 0 for a
    /// command that has no option `--max-bad`.
    pub max_bad: Option<u64>,
    /// Whether a key may come more than once. Without, the second record of a key is flawed.
    pub repeated_keys: bool,
    /// Whether only keys and metadata are read, of JSON lines: a record without text is not flawed.
    pub metadata_only: bool,
    /// File that lists every flawed record, one JSON object (`file`, `line`, `reason`) per line.
    pub rejects: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: Format::Auto,
            max_text_bytes: DEFAULT_MAX_TEXT_BYTES,
            max_bad: None,
            repeated_keys: false,
            metadata_only: false,
            rejects: None,
        }
    }
}

/// The line format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Jsonl,
    Tsv,
}

/// Detects the format of a file from its name.
pub(crate) fn line_format(path: &Path) -> Result<LineFormat, Error> {
    if path == Path::new("-") {
        return Ok(LineFormat::Jsonl);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(&name);
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("jsonl" | "ndjson" | "json") => Ok(LineFormat::Jsonl),
        Some("tsv" | "txt") => Ok(LineFormat::Tsv),
        _ => Err(Error::UnknownFormat { path: path.to_owned() }),
    }
}

/// Refuses keys that are empty or too long to store.
pub(crate) fn check_key(key: &str) -> Result<(), Problem> {
    if key.trim().is_empty() {
        return Err(Problem::EmptyKey);
    }
    if key.len() > MAX_KEY_BYTES {
        return Err(Problem::KeyTooLong { bytes: key.len(), limit: MAX_KEY_BYTES });
    }
    Ok(())
}

/// Streams the documents of a corpus in its own order.
///
/// Text is held one line at a time; only 128 bits per key stay in memory, to refuse duplicates. Flawed are records of broken
/// JSON or invalid UTF-8, with missing fields or fields of the wrong type, with an empty or duplicate key, or with a
/// [passage](Document::passage) that is empty or longer than [`ReadOptions::max_text_bytes`]; after one more than
/// [`ReadOptions::max_bad`] the rest is read only for what else is flawed, and all are refused together. Always refused are
/// streams that are cut short and a corpus without documents. After an error the reader is at its end.
#[derive(Debug)]
pub struct CorpusReader {
    lines: Lines,
    parser: Parser,
    metadata_only: bool,
    /// Absent where keys may be repeated.
    keys: Option<Keys>,
    max_text_bytes: usize,
    flaws: Flaws,
    unstored: Unstored,
    documents: u64,
    finished: bool,
}

#[derive(Debug)]
enum Parser {
    Jsonl,
    /// `None` until the first line was seen.
    Tsv(Option<Columns>),
}

impl CorpusReader {
    /// Opens a corpus; `-` is standard input. The format is that of [`ReadOptions::format`].
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, Error> {
        let is_folder = path.is_dir();
        let (file, line_format) = match options.format {
            Format::Beir => (BeirFolder::open(path)?.corpus()?, LineFormat::Jsonl),
            Format::Auto if is_folder => (BeirFolder::open(path)?.corpus()?, LineFormat::Jsonl),
            Format::Auto => {
                // A missing file is reported as missing, whatever its name.
                if path != Path::new("-") && !path.exists() {
                    return Err(Error::NotFound { path: path.to_owned() });
                }
                (path.to_owned(), line_format(path)?)
            }
            Format::Jsonl => (path.to_owned(), LineFormat::Jsonl),
            Format::Tsv => (path.to_owned(), LineFormat::Tsv),
        };
        let parser = match line_format {
            LineFormat::Jsonl => Parser::Jsonl,
            LineFormat::Tsv if options.metadata_only => return Err(Error::UnknownFormat { path: file }),
            LineFormat::Tsv => Parser::Tsv(None),
        };
        let lines = Lines::open(&file, options.max_text_bytes)?;
        Ok(Self {
            flaws: Flaws::of(lines.path(), options.max_bad, options.rejects.as_deref())?,
            lines,
            parser,
            metadata_only: options.metadata_only,
            keys: (!options.repeated_keys).then(Keys::default),
            max_text_bytes: options.max_text_bytes,
            unstored: Unstored::default(),
            documents: 0,
            finished: false,
        })
    }

    /// Bytes read of the file on disk (compressed where it is), for progress.
    pub fn bytes_read(&self) -> u64 {
        self.lines.bytes_read()
    }

    /// Size of the file on disk; `None` for standard input.
    pub fn total_bytes(&self) -> Option<u64> {
        self.lines.total_bytes()
    }

    /// Bytes of the corpus decompressed, estimated; `None` for standard input. Packed text is taken to be a third of its size.
    pub fn plain_bytes(&self) -> Option<u64> {
        Some(self.lines.total_bytes()?.saturating_mul(if self.lines.is_packed() { 3 } else { 1 }))
    }

    /// The file being read, or `standard input`.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Flawed records so far.
    pub fn rejected(&self) -> u64 {
        self.flaws.total()
    }

    /// Warnings for the user, after the reading: records that were skipped, fields that are not stored.
    pub fn warnings(&self) -> Vec<String> {
        self.flaws.skipped().into_iter().chain(self.unstored.message()).collect()
    }

    fn read(&mut self) -> Result<Option<Located<Document>>, Error> {
        loop {
            match self.advance() {
                Ok(found) => {
                    if found.is_none() {
                        self.flaws.flush()?;
                    }
                    return Ok(found);
                }
                Err(error) => self.flaws.take(error)?,
            }
            if self.flaws.too_many() {
                let refusal = self.refuse_all();
                self.flaws.flush()?;
                return Err(refusal);
            }
        }
    }

    /// Reads on, only to find other flawed records.
    fn refuse_all(&mut self) -> Error {
        let end = loop {
            match self.advance().map_err(|error| self.flaws.take(error)) {
                Ok(Some(_)) | Err(Ok(())) => {}
                Ok(None) | Err(Err(Error::Empty { .. })) => break None,
                Err(Err(error)) => break Some(error),
            }
        };
        self.flaws.refusal(end)
    }

    fn advance(&mut self) -> Result<Option<Located<Document>>, Error> {
        let Some((line, text)) = self.lines.advance()? else {
            if self.documents == 0 {
                return Err(Error::Empty { path: self.lines.path().to_owned(), expected: "documents" });
            }
            return Ok(None);
        };
        let parsed = match &mut self.parser {
            Parser::Jsonl if self.metadata_only => jsonl::metadata(text),
            Parser::Jsonl => jsonl::document(text, &mut self.unstored),
            Parser::Tsv(Some(columns)) => columns.document(text),
            Parser::Tsv(columns @ None) => match Columns::from_header(text) {
                Some(header) => {
                    *columns = Some(header);
                    return self.advance();
                }
                None => columns.insert(Columns::plain()).document(text),
            },
        };
        let document = parsed
            .and_then(|document| {
                let checked =
                    if self.metadata_only { check_key(&document.key) } else { check(&document, self.max_text_bytes) };
                checked.map(|()| document)
            })
            .and_then(|document| {
                self.keys.as_mut().map_or(Ok(()), |keys| keys.insert(&document.key, line)).map(|()| document)
            })
            .map_err(|problem| self.lines.refuse(problem))?;
        self.documents += 1;
        Ok(Some(Located { value: document, line }))
    }
}

fn check(document: &Document, max_text_bytes: usize) -> Result<(), Problem> {
    check_key(&document.key)?;
    let bytes = document.passage().len();
    if bytes == 0 {
        return Err(Problem::EmptyText { key: document.key.clone() });
    }
    if bytes > max_text_bytes {
        return Err(Problem::TextTooLong { key: document.key.clone(), bytes, limit: max_text_bytes });
    }
    Ok(())
}

impl Iterator for CorpusReader {
    type Item = Result<Located<Document>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.read().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}

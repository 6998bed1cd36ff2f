//! The formats of a corpus, in one table: what each is called, by which endings of names it is recognised, and what it
//! may hold. Options, messages and help texts are made of it.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The format of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CorpusFormat {
    /// A folder is [`CorpusFormat::Beir`], or, without `corpus.jsonl`, a folder of files that are a document each
    /// ([`CorpusFormat::is_one_document`]), also in folders in it. Standard input is [`CorpusFormat::Jsonl`], and a
    /// file is what [`CorpusFormat::of_name`] says.
    #[default]
    Auto,
    /// One JSON object per line: key (`_id`, `id`, `docid` or `key`; a string or an integer), optional `title`, text
    /// (`text` or `contents`), optional object `metadata`. Where several names are there, the first of the list counts.
    /// A null field counts as absent. [`FieldNames`](crate::FieldNames) gives other names. Other fields are not stored
    /// ([`crate::CorpusReader::warnings`] names them).
    Jsonl,
    /// `key<TAB>text` (MS MARCO's collections and questions), or the columns of a header line such as
    /// `id<TAB>text<TAB>title` (DPR).
    Tsv,
    /// Comma-separated values (RFC 4180) with a header line that names their columns as [`CorpusFormat::Jsonl`] names
    /// fields, such as `id,title,text`. Values are texts.
    Csv,
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
    /// As [`CorpusFormat::Markdown`], of HTML: the title is that of the page, or its first heading of level 1, or the
    /// name of the file; text is what a reader of the page sees, without navigation.
    Html,
    /// As [`CorpusFormat::Markdown`], with the content of the file as it stands, and the name of the file as its title.
    Text,
}

/// The form of the lines of a question set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineFormat {
    Jsonl,
    Tsv,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct FormatEntry {
    pub(super) format: CorpusFormat,
    /// What `--format` calls it.
    pub(super) name: &'static str,
    /// What a sentence calls it.
    pub(super) title: &'static str,
    /// Endings of the names of its files, without `.gz` or `.zst`.
    pub(super) endings: &'static [&'static str],
    /// Endings by which its files are found in a folder of documents; none where a file may hold many documents.
    pub(super) folder_endings: &'static [&'static str],
    /// Whether each line is a record, whatever the lines before it are.
    can_be_cut: bool,
    /// How questions are read that have this format; none where they cannot have it.
    questions: Option<LineFormat>,
    /// What it is, for help texts.
    pub(super) summary: &'static str,
}

const AUTO: FormatEntry = FormatEntry {
    format: CorpusFormat::Auto,
    name: "auto",
    title: "any format",
    endings: &[],
    folder_endings: &[],
    can_be_cut: false,
    questions: None,
    summary: "By the name of the file, or the content of the folder",
};

/// All formats, each once.
pub(super) const FORMATS: [FormatEntry; 10] = [
    AUTO,
    FormatEntry {
        format: CorpusFormat::Jsonl,
        name: "jsonl",
        title: "JSON lines",
        endings: &["jsonl", "ndjson", "json"],
        folder_endings: &[],
        can_be_cut: true,
        questions: Some(LineFormat::Jsonl),
        summary: "One JSON object per line",
    },
    FormatEntry {
        format: CorpusFormat::Tsv,
        name: "tsv",
        title: "TSV",
        endings: &["tsv", "txt"],
        folder_endings: &[],
        can_be_cut: false,
        questions: Some(LineFormat::Tsv),
        summary: "A key, a tab and a text per line, or the columns that a header line names",
    },
    FormatEntry {
        format: CorpusFormat::Csv,
        name: "csv",
        title: "CSV",
        endings: &["csv"],
        folder_endings: &[],
        can_be_cut: false,
        questions: None,
        summary: "Comma-separated values with a header line, whose columns have the names of JSON's fields",
    },
    FormatEntry {
        format: CorpusFormat::Beir,
        name: "beir",
        title: "BEIR",
        endings: &[],
        folder_endings: &[],
        can_be_cut: false,
        questions: None,
        summary: "A folder that holds corpus.jsonl",
    },
    FormatEntry {
        format: CorpusFormat::Parquet,
        name: "parquet",
        title: "Parquet",
        endings: &["parquet"],
        folder_endings: &[],
        can_be_cut: false,
        questions: None,
        summary: "Rows whose columns have the names of JSON's fields",
    },
    FormatEntry {
        format: CorpusFormat::Trec,
        name: "trec",
        title: "TREC",
        endings: &["trec", "sgml"],
        folder_endings: &[],
        can_be_cut: false,
        questions: None,
        summary: "<DOC> elements, as TREC's collections have them",
    },
    FormatEntry {
        format: CorpusFormat::Markdown,
        name: "markdown",
        title: "Markdown",
        endings: &["md", "markdown"],
        folder_endings: &["md", "markdown"],
        can_be_cut: false,
        questions: None,
        summary: "Each file is a document of Markdown",
    },
    FormatEntry {
        format: CorpusFormat::Html,
        name: "html",
        title: "HTML",
        endings: &["html", "htm"],
        folder_endings: &["html", "htm"],
        can_be_cut: false,
        questions: None,
        summary: "Each file is a document of HTML",
    },
    FormatEntry {
        format: CorpusFormat::Text,
        name: "text",
        title: "text",
        endings: &[],
        folder_endings: &["txt"],
        can_be_cut: false,
        questions: None,
        summary: "Each file is a document, as it stands",
    },
];

impl CorpusFormat {
    /// The format of a file by the ending of its name, without `.gz` or `.zst`; nothing where that does not say it.
    pub fn of_name(path: &Path) -> Option<Self> {
        let ending = ending(path)?;
        let found = FORMATS.iter().find(|entry| entry.endings.contains(&ending.as_str()));
        found.map(|entry| entry.format)
    }

    /// Whether a file is one document, and its path the key.
    pub fn is_one_document(self) -> bool {
        !self.entry().folder_endings.is_empty()
    }

    /// The format of a file that is read in this one: [`CorpusFormat::Auto`] stands for what its name says.
    pub fn of_file(self, path: &Path) -> Option<Self> {
        match self {
            Self::Auto => Self::of_name(path),
            given => Some(given),
        }
    }

    /// Whether a file that is read in this format can be cut at the end of any line, and its parts be read on their
    /// own. Its name has to say so too: nothing that is compressed can be cut.
    pub fn can_be_cut(self, path: &Path) -> bool {
        let name = path.to_string_lossy().to_ascii_lowercase();
        let is_packed = without_compression(&name) != name;
        let by_name = Self::of_name(path).filter(|_| !is_packed);
        by_name.is_some_and(|by_name| by_name.entry().can_be_cut && self.of_file(path) == Some(by_name))
    }

    /// The paths that can be read as a corpus, for the help text of an argument.
    pub fn paths_of_corpora() -> String {
        format!(
            "a file whose name ends in {} (text also with .gz or .zst after it), a BEIR folder, a folder of {} files, each of which is a document, \
             a pattern of files such as 'parts/*.parquet', or `-` for standard input",
            endings_of_corpora(),
            titles_of_documents("and")
        )
    }

    fn entry(self) -> &'static FormatEntry {
        let found = FORMATS.iter().find(|entry| entry.format == self);
        found.unwrap_or(&AUTO)
    }
}

impl FromStr for CorpusFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = FORMATS.iter().find(|entry| entry.name == text);
        known.map(|entry| entry.format).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|entry| entry.name).collect();
            format!("format must be {}, got: {text}", listed(&names, "or"))
        })
    }
}

impl fmt::Display for CorpusFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().name)
    }
}

/// The format of a file in a folder of documents, by the ending of its name.
pub(super) fn format_in_folder(path: &Path) -> Option<CorpusFormat> {
    let ending = ending(path)?;
    let found = FORMATS
        .iter()
        .find(|entry| entry.folder_endings.contains(&ending.as_str()));
    found.map(|entry| entry.format)
}

/// The form of the lines of a question set, by the ending of its name; nothing where it says no format of questions.
pub(crate) fn format_of_questions(path: &Path) -> Option<LineFormat> {
    if path == Path::new("-") {
        return Some(LineFormat::Jsonl);
    }
    CorpusFormat::of_name(path)?.entry().questions
}

/// Such as `.jsonl, .ndjson or .md`: endings of files that can be a corpus, or a part of one.
pub(super) fn endings_of_corpora() -> String {
    listed_endings(|entry| entry.endings)
}

/// Endings of files that can be questions.
pub(crate) fn endings_of_questions() -> String {
    listed_endings(|entry| if entry.questions.is_some() { entry.endings } else { &[] })
}

/// Endings of the files that one format has.
pub(super) fn endings_of(format: CorpusFormat) -> String {
    listed_endings(|entry| if entry.format == format { entry.endings } else { &[] })
}

/// Endings of the files that are read in a folder of documents.
pub(super) fn endings_in_folders() -> String {
    listed_endings(|entry| entry.folder_endings)
}

/// Such as `Markdown and text`: the formats whose files are a document each.
pub(super) fn titles_of_documents(conjunction: &str) -> String {
    let documents = FORMATS.iter().filter(|entry| entry.format.is_one_document());
    let titles: Vec<&str> = documents.map(|entry| entry.title).collect();
    listed(&titles, conjunction)
}

/// Such as `markdown or text`: what `--format` calls these formats.
pub(super) fn names_of_documents() -> String {
    let documents = FORMATS.iter().filter(|entry| entry.format.is_one_document());
    let names: Vec<&str> = documents.map(|entry| entry.name).collect();
    listed(&names, "or")
}

fn listed_endings(endings_of: impl Fn(&FormatEntry) -> &'static [&'static str]) -> String {
    let endings = FORMATS.iter().flat_map(endings_of);
    let dotted: Vec<String> = endings.map(|ending| format!(".{ending}")).collect();
    listed(&dotted, "or")
}

/// Such as `a, b or c`.
fn listed<T: AsRef<str>>(names: &[T], conjunction: &str) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} {conjunction} {last}", rest.join(", ")),
        _ => names.concat(),
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

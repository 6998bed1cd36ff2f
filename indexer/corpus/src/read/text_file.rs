//! A file of Markdown, HTML or plain text, which is one document.

use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::field_notes::FieldNotes;
use super::format::{names_of_documents, without_compression};
use super::front_matter::{FrontMatter, UnreadFrontMatter};
use super::html::text_of_html_file;
use super::input::{InputStream, is_stream};
use super::markdown::text_of_markdown;
use super::options::ReadOptions;
use super::record_source::{Numbered, RecordSource, SourceProgress};
use super::sections::Section;
use super::text_blocks::ShownText;
use super::unstored::Unstored;
use crate::document::Document;
use crate::error::Error;
use crate::metadata::Metadata;
use crate::problem::CorpusProblem;

const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Field of the metadata with the path of the file, unless its front matter has one.
const PATH: &str = "path";

/// What a file is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    Markdown,
    Html,
    Plain,
}

/// A file that is read whole.
#[derive(Debug)]
pub(super) struct TextFile {
    path: PathBuf,
    /// What can be read; why it cannot where the file is of another kind.
    input: Result<InputStream, ForeignText>,
    /// Path in the folder of the corpus, with `/` between its parts; none where it is not UTF-8.
    key: Option<String>,
    form: TextForm,
    /// Longest file, unpacked.
    most: usize,
    is_read: bool,
    /// The sections of the document.
    sections: Vec<Section>,
}

/// A file that is no text, whatever its name says: one flawed record among others.
#[derive(Debug)]
struct ForeignText {
    reason: String,
}

impl TextFile {
    /// Opens a file of a corpus whose folder is `root`. Refused are streams, which have no name.
    pub(super) fn open(path: &Path, form: TextForm, root: &Path, max_text_bytes: usize) -> Result<Self, Error> {
        if is_stream(path) {
            return Err(Error::TextOfStream {
                path: path.to_owned(),
                formats: names_of_documents(),
            });
        }
        let input = match InputStream::open(path) {
            Err(refused @ (Error::ForeignFile { .. } | Error::LfsPointer { .. })) => Err(ForeignText {
                reason: refused.to_string(),
            }),
            opened => Ok(opened?),
        };
        Ok(Self {
            path: path.to_owned(),
            input,
            key: key_of(path, root),
            form,
            most: max_text_bytes.saturating_mul(8).max(16 << 20),
            is_read: false,
            sections: Vec::new(),
        })
    }

    /// The document; nothing after it.
    fn next_document(&mut self, unstored: &mut Unstored) -> Result<Option<Numbered>, Error> {
        if self.is_read {
            return Ok(None);
        }
        self.is_read = true;
        let input = match &mut self.input {
            Ok(input) => input,
            Err(ForeignText { reason }) => {
                return Ok(Some((
                    1,
                    Err(CorpusProblem::Record {
                        message: reason.clone(),
                    }),
                )));
            }
        };
        let mut bytes = Vec::new();
        let limit = (self.most as u64).saturating_add(1);
        if let Err(source) = input.bytes.by_ref().take(limit).read_to_end(&mut bytes) {
            return Err(input.refuse(source, 0));
        }
        if bytes.len() > self.most {
            return Ok(Some((1, Err(CorpusProblem::FileTooLarge { limit: self.most }))));
        }
        let content = match std::str::from_utf8(&bytes) {
            Ok(content) => normalised(content),
            Err(error) => return Ok(Some(not_utf8(&bytes, error.valid_up_to()))),
        };
        let Some(key) = self.key.clone() else {
            return Ok(Some((1, Err(CorpusProblem::NameNotUtf8))));
        };
        let document = self.document(key, &content, unstored);
        Ok(Some((1, document)))
    }

    fn document(&mut self, key: String, content: &str, unstored: &mut Unstored) -> Result<Document, CorpusProblem> {
        let front = match self.form {
            TextForm::Markdown => FrontMatter::parse(content),
            TextForm::Html | TextForm::Plain => None,
        };
        let mut front = front.unwrap_or_else(|| FrontMatter::none(content));
        if let Some(UnreadFrontMatter { line, reason }) = front.unread.take() {
            unstored.add_front_matter(&self.path, line, &reason);
        }
        if !front.has(PATH) {
            front
                .fields
                .push((PATH.to_owned(), Value::from(key.as_str()).to_string()));
        }
        let read = match self.form {
            TextForm::Markdown => text_of_markdown(front.rest, front.title.take()),
            TextForm::Html => text_of_html_file(content),
            TextForm::Plain => ShownText {
                text: content.trim_start_matches('\n').trim_end().to_owned(),
                ..ShownText::default()
            },
        };
        self.sections = read.sections;
        // A name alone is no text: such a file is empty.
        let name = || {
            if read.text.trim().is_empty() {
                String::new()
            } else {
                stem(&self.path)
            }
        };
        let fields = front
            .fields
            .iter()
            .map(|(name, json)| format!("{}:{json}", Value::from(name.as_str())));
        let json = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        Ok(Document {
            key,
            title: read.title.unwrap_or_else(name),
            text: read.text,
            metadata: Metadata::parse(&json).map_err(|error| CorpusProblem::Json {
                message: error.to_string(),
            })?,
            place: None,
        })
    }
}

impl RecordSource for TextFile {
    fn advance(&mut self, _: &ReadOptions, notes: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        self.next_document(&mut notes.unstored)
    }

    fn progress(&self) -> SourceProgress<'_> {
        match &self.input {
            Ok(input) => input.progress(),
            Err(_) => SourceProgress {
                path: &self.path,
                bytes_read: 0,
                is_packed: false,
            },
        }
    }

    fn sections(&self) -> &[Section] {
        &self.sections
    }
}

/// Without a byte order mark, and with `\n` at the ends of lines.
fn normalised(content: &str) -> String {
    let content = content.strip_prefix(BYTE_ORDER_MARK).unwrap_or(content);
    content.replace("\r\n", "\n").replace('\r', "\n")
}

/// The line of a byte that is not UTF-8, and what is wrong there.
fn not_utf8(bytes: &[u8], at: usize) -> Numbered {
    let before = bytes.get(..at).unwrap_or_default();
    let line = before.split(|&byte| byte == b'\n').count() as u64;
    let offset = before.rsplit(|&byte| byte == b'\n').next().map_or(0, <[u8]>::len);
    (line, Err(CorpusProblem::NotUtf8 { offset }))
}

/// The path of a file in a folder, with `/` between its parts; its name where it is elsewhere.
fn key_of(path: &Path, root: &Path) -> Option<String> {
    let (path, root) = (plain(path), plain(root));
    let inside = match path.strip_prefix(&root) {
        Ok(inside) => inside,
        Err(_) => Path::new(path.file_name()?),
    };
    let parts: Option<Vec<&str>> = inside.components().map(|part| part.as_os_str().to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

/// Without `.` in it.
fn plain(path: &Path) -> PathBuf {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .collect()
}

/// The name of a file without its endings.
fn stem(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let name = without_compression(&name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_paths_in_the_folder() {
        let key = |path: &str, root: &str| key_of(Path::new(path), Path::new(root)).unwrap();
        assert_eq!(key("notes/a/b.md", "notes"), "a/b.md");
        assert_eq!(key("./notes/a/./b.md", "notes/"), "a/b.md");
        assert_eq!(key("b.md", ""), "b.md");
        assert_eq!(key("../x/b.md", "../x"), "b.md");
        assert_eq!(key("/x/b.md", "/y"), "b.md");
        assert_eq!(stem(Path::new("x/a.b.MD.gz")), "a.b");
        assert_eq!(stem(Path::new("README")), "README");
    }

    #[test]
    fn a_byte_that_is_no_text_has_a_line() {
        let (line, problem) = not_utf8(b"a\nbc\xff", 4);
        assert_eq!(
            (line, problem.unwrap_err().to_string().contains("at byte 2 of the line")),
            (2, true)
        );
        assert_eq!(normalised("\u{feff}a\r\nb\rc\n"), "a\nb\nc\n");
    }
}

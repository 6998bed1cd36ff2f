//! TREC's collections: `<DOC>` elements, each with a `<DOCNO>`, usually with a title and one or more `<TEXT>` elements;
//! or with the key as an attribute, as LDC writes it (`<DOC id="NYT_ENG_20020731.0001" type="story">`: Gigaword,
//! AQUAINT-2).
//!
//! Title is the first of `TITLE`, `HEADLINE`, `HEAD`, `HL` and `TTL`; text are the contents of `TEXT`, or where there
//! is none all that is in no other known element. Tags within them are left out, and the entities of HTML that stand
//! for one character of ASCII are read. Names of elements may be of any case.

use std::ops::Range;

use super::field_notes::FieldNotes;
use super::lines::InputLines;
use super::options::ReadOptions;
use super::record_source::{Numbered, RecordSource, SourceProgress};
use super::trec_markup::{Tag, elements, end_of_tag, find, plain, tag};
use crate::document::Document;
use crate::error::Error;
use crate::problem::CorpusProblem;

const OPEN: &str = "<DOC";
const CLOSE: &str = "</DOC";

/// Attributes of `<DOC>` that hold its key, where it has no `<DOCNO>`.
const KEY_ATTRIBUTES: [&str; 2] = ["ID", "DOCNO"];
const TITLES: [&str; 5] = ["TITLE", "HEADLINE", "HEAD", "HL", "TTL"];

/// Elements that are no text where there is no `TEXT`.
const OTHERS: [&str; 6] = ["DOCNO", "DOCID", "DOCHDR", "DATE", "FILEID", "PARENT"];

/// The documents of one file.
#[derive(Debug)]
pub(super) struct TrecDocuments {
    lines: InputLines,
    /// Longest document, mark-up included.
    most: usize,
    /// The last line, where a part of it is left.
    rest: Option<TrecPart>,
    place: TrecState,
    /// Lines of text outside of documents, and the first of them.
    outside: Option<(u64, u64)>,
}

/// A line from a place on.
#[derive(Debug)]
struct TrecPart {
    line: u64,
    text: String,
    at: usize,
}

impl TrecPart {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// After this number of bytes more.
    fn after(mut self, bytes: usize) -> Self {
        self.at += bytes;
        self
    }
}

/// Where the reading stands.
#[derive(Debug)]
enum TrecState {
    /// Between documents.
    Between,
    /// In a document that began on a line.
    Within(u64, String),
    /// In a document that is flawed, and told already.
    Skipping,
}

impl TrecDocuments {
    pub(super) fn new(lines: InputLines, max_text_bytes: usize) -> Self {
        let most = max_text_bytes.saturating_mul(8).max(16 << 20);
        Self {
            lines,
            most,
            rest: None,
            place: TrecState::Between,
            outside: None,
        }
    }

    /// The next document, by the line of its `<DOC>`; nothing at the end. What stands between documents is left out. A
    /// document ends at the next `<DOC>`, too, and is then flawed.
    fn next_document(&mut self) -> Result<Option<Numbered>, Error> {
        loop {
            let Some(part) = self.next_part()? else {
                let TrecState::Within(first, _) = std::mem::replace(&mut self.place, TrecState::Between) else {
                    return Ok(None);
                };
                return Ok(Some((first, Err(unclosed("the file is cut short")))));
            };
            let (line, text) = (part.line, part.rest());
            let open = find(text, OPEN);
            // An end after the next beginning is not looked for: a line may have many documents.
            let before = text.get(..open.unwrap_or(text.len())).unwrap_or_default();
            let close = find(before, CLOSE).map(|at| (at, end_of_tag(text, at)));
            match std::mem::replace(&mut self.place, TrecState::Between) {
                TrecState::Between => {
                    self.outside = note_outside(self.outside, line, before);
                    if let Some(at) = open {
                        // Its attributes are read with its content.
                        (self.place, self.rest) = (
                            TrecState::Within(line, String::new()),
                            Some(part.after(at + OPEN.len())),
                        );
                    }
                }
                TrecState::Skipping => match (open, close) {
                    (_, Some((_, end))) => self.rest = Some(part.after(end)),
                    (Some(open), None) => self.rest = Some(part.after(open)),
                    (None, None) => self.place = TrecState::Skipping,
                },
                TrecState::Within(first, mut document) => {
                    if let Some((content, end)) = close {
                        document.push_str(text.get(..content).unwrap_or_default());
                        self.rest = Some(part.after(end));
                        return Ok(Some((first, parse(&document))));
                    }
                    if let Some(open) = open {
                        self.rest = Some(part.after(open));
                        return Ok(Some((first, Err(unclosed("another one begins")))));
                    }
                    document.push_str(text);
                    document.push('\n');
                    if document.len() > self.most {
                        self.place = TrecState::Skipping;
                        return Ok(Some((first, Err(CorpusProblem::LineTooLong { limit: self.most }))));
                    }
                    self.place = TrecState::Within(first, document);
                }
            }
        }
    }

    /// What is left of a line, or the next one. A line that cannot be read spoils the document that it is in.
    fn next_part(&mut self) -> Result<Option<TrecPart>, Error> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        match self.lines.advance() {
            Ok(line) => Ok(line.map(|(line, text)| TrecPart {
                line,
                text: text.to_owned(),
                at: 0,
            })),
            Err(error) => {
                if matches!(self.place, TrecState::Within(..)) {
                    self.place = TrecState::Skipping;
                }
                Err(error)
            }
        }
    }
}

impl RecordSource for TrecDocuments {
    fn advance(&mut self, _: &ReadOptions, _: &mut FieldNotes) -> Result<Option<Numbered>, Error> {
        self.next_document()
    }

    fn progress(&self) -> SourceProgress<'_> {
        self.lines.progress()
    }

    /// About text outside of documents, which belongs to none.
    fn warning(&self) -> Option<String> {
        let (lines, first) = self.outside?;
        let file = self.lines.path().display();
        Some(format!(
            "{lines} lines of `{file}` are outside of every <DOC> and were left out; the first is line {first}"
        ))
    }
}

/// Adds a line to those with text outside of documents; tags alone (a root element, a prolog, comments) hold none.
fn note_outside(outside: Option<(u64, u64)>, line: u64, text: &str) -> Option<(u64, u64)> {
    if text.trim().is_empty() || plain(text).is_empty() {
        return outside;
    }
    let (lines, first) = outside.unwrap_or((0, line));
    Some((lines + 1, first))
}

pub(super) fn unclosed(why: &str) -> CorpusProblem {
    CorpusProblem::Record {
        message: format!("no </DOC> after <DOC>: {why}"),
    }
}

/// The contents of the elements of a name; `upper` is the document in capitals.
fn contents<'a>(document: &'a str, upper: &str, name: &str) -> Result<Vec<&'a str>, CorpusProblem> {
    let found = elements(upper, name);
    if !found.is_closed {
        return Err(CorpusProblem::Record {
            message: format!("no </{name}> after <{name}>"),
        });
    }
    let places = found.places.into_iter();
    Ok(places.filter_map(|(content, _)| document.get(content)).collect())
}

/// A `<DOC>` after its name: attributes, and content.
fn parse(document: &str) -> Result<Document, CorpusProblem> {
    let Tag { attributes, end } = tag(document)?;
    let document = document.get(end..).unwrap_or_default();
    let upper = document.to_ascii_uppercase();
    let of = |name: &str| contents(document, &upper, name);
    let missing = || CorpusProblem::MissingField {
        expected: "<DOCNO>, or an attribute `id` of <DOC>".to_owned(),
    };
    let element = of("DOCNO")?.first().map(|key| key.trim().to_owned());
    let named = |name: &&str| {
        attributes
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| plain(value))
    };
    let key = element
        .or_else(|| KEY_ATTRIBUTES.iter().find_map(named))
        .ok_or_else(missing)?;
    let texts = of("TEXT")?;
    let mut title = String::new();
    for name in TITLES {
        // Without <TEXT>, what is open stays part of the text, as in pages of HTML.
        let Ok(found) = of(name).or_else(|problem| if texts.is_empty() { Ok(Vec::new()) } else { Err(problem) }) else {
            return Err(CorpusProblem::Record {
                message: format!("no </{name}> after <{name}>"),
            });
        };
        if let Some(first) = found.first() {
            title = plain(first);
            break;
        }
    }
    let text = if texts.is_empty() {
        let names = TITLES.iter().chain(&OTHERS);
        let mut others: Vec<Range<usize>> = names
            .flat_map(|name| elements(&upper, name).places)
            .map(|(_, whole)| whole)
            .collect();
        others.sort_by_key(|whole| (whole.start, whole.end));
        let (mut rest, mut at) = (String::new(), 0);
        for whole in others {
            rest.push_str(document.get(at..whole.start).unwrap_or_default());
            at = at.max(whole.end);
        }
        rest.push_str(document.get(at..).unwrap_or_default());
        plain(&rest)
    } else {
        texts.iter().map(|text| plain(text)).collect::<Vec<_>>().join("\n")
    };
    Ok(Document {
        key,
        title,
        text,
        metadata: None,
        place: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_an_element_or_an_attribute() {
        let key = |document: &str| {
            parse(document)
                .map(|document| document.key)
                .map_err(|error| error.to_string())
        };
        for attributes in [
            r#" id="a&amp;b" type="story""#,
            " type='story' ID='a&amp;b'",
            " docno=a&b type=story",
        ] {
            assert_eq!(key(&format!("{attributes}>text")).as_deref(), Ok("a&b"), "{attributes}");
        }
        assert_eq!(key(r#" id="other"><DOCNO> own </DOCNO>text"#).as_deref(), Ok("own"));
        assert!(key(r#" type="story">text"#).unwrap_err().contains("attribute `id`"));
        assert_eq!(key(r#" id="a>b" type="story">text"#).as_deref(), Ok("a>b"));
        assert_eq!(
            key("><DOCNO> AT&amp;T </DOCNO>text").as_deref(),
            Ok("AT&amp;T"),
            "as it stands"
        );
        for flawed in [" never ends", " id=\"x>text", " id=\"x type=\"s\">text", " id=\"x"] {
            assert!(key(flawed).unwrap_err().contains("has no end"), "{flawed}");
        }
    }

    #[test]
    fn a_tag_is_found_by_its_whole_name() {
        assert_eq!(find("<DOCNO><docs><DOC id=3>", OPEN), Some(13));
        assert_eq!(find("x <doc>", OPEN), Some(2));
        assert_eq!(find("</DOC >", CLOSE), Some(0));
        assert_eq!(find("<DOC", OPEN), Some(0), "its tag may end on the next line");
        assert_eq!(find("<DOCUMENT>", OPEN), None);
    }

    #[test]
    fn no_part_of_a_document_is_left_out() {
        let text = |content: &str| {
            let document = format!("><DOCNO>1</DOCNO>{content}");
            parse(&document)
                .map(|document| document.text)
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            text("<TEXT>one</TEXT ><text a=b>two</Text\n>").as_deref(),
            Ok("one\ntwo")
        );
        assert!(text("<TEXT>one</TEXT><TEXT>two").unwrap_err().contains("no </TEXT>"));
        assert!(
            text("<HEADLINE>news <TEXT>one</TEXT>")
                .unwrap_err()
                .contains("no </HEADLINE>")
        );
        assert_eq!(
            text("<html><head><title>t</title>a page").as_deref(),
            Ok("a page"),
            "HTML may leave elements open"
        );
        let told = |outside: &str| note_outside(None, 3, outside).is_some();
        assert!(told("<DOCUMENT><DOCNO>2</DOCNO>") && told("a > b") && told("text <b>") && !told(" <root> <!-- x -->"));
    }

    #[test]
    fn many_tags_on_a_line_take_a_time_that_grows_with_its_length() {
        let many = "<".repeat(1 << 20);
        assert_eq!(plain(&many), many);
        let open = "<a".repeat(1 << 19);
        assert_eq!(plain(&open), open);
        assert_eq!(elements(&"<TEXT>".repeat(1 << 17), "TEXT").places.len(), 0);
    }
}

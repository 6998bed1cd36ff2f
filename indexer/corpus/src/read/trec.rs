//! TREC's collections: `<DOC>` elements, each with a `<DOCNO>`, usually with a title and one or more `<TEXT>` elements.
//!
//! Title is the first of `TITLE`, `HEADLINE`, `HEAD`, `HL` and `TTL`; text are the contents of `TEXT`, or where there is none all that is in no
//! other known element. Tags within them are left out, and the entities of HTML that stand for one character of ASCII are read. Names of
//! elements may be of any case.
use std::ops::Range;

use super::lines::Lines;
use crate::document::Document;
use crate::error::Error;
use crate::problem::Problem;

const OPEN: &str = "<DOC>";
const CLOSE: &str = "</DOC>";
const TITLES: [&str; 5] = ["TITLE", "HEADLINE", "HEAD", "HL", "TTL"];
/// Elements that are no text where there is no `TEXT`.
const OTHERS: [&str; 6] = ["DOCNO", "DOCID", "DOCHDR", "DATE", "FILEID", "PARENT"];
const ENTITIES: [(&str, &str); 6] =
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&nbsp;", " "), ("&amp;", "&")];

/// A record, and its line or row, from 1.
pub(super) type Numbered = (u64, Result<Document, Problem>);

/// The documents of one file.
#[derive(Debug)]
pub(super) struct TrecDocuments {
    lines: Lines,
    /// Longest document, mark-up included.
    most: usize,
    /// What is left of the last line, and its number.
    rest: Option<(u64, String)>,
    place: Place,
}

/// Where the reading stands.
#[derive(Debug)]
enum Place {
    /// Between documents.
    Between,
    /// In a document that began on a line.
    Within(u64, String),
    /// In a document that is flawed, and told already.
    Skipping,
}

impl TrecDocuments {
    pub(super) fn new(lines: Lines, max_text_bytes: usize) -> Self {
        let most = max_text_bytes.saturating_mul(8).max(16 << 20);
        Self { lines, most, rest: None, place: Place::Between }
    }

    pub(super) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The next document, by the line of its `<DOC>`; nothing at the end. What stands between documents is left out. A document ends at the next
    /// `<DOC>`, too, and is then flawed.
    pub(super) fn advance(&mut self) -> Result<Option<Numbered>, Error> {
        loop {
            let Some((line, text)) = self.next_part()? else {
                let Place::Within(first, _) = std::mem::replace(&mut self.place, Place::Between) else {
                    return Ok(None);
                };
                return Ok(Some((first, Err(unclosed("the file is cut short")))));
            };
            let after = |at: usize, tag: &str| Some((line, text.get(at + tag.len()..).unwrap_or_default().to_owned()));
            let (open, close) = (find(&text, OPEN), find(&text, CLOSE));
            match std::mem::replace(&mut self.place, Place::Between) {
                Place::Between => {
                    if let Some(at) = open {
                        (self.place, self.rest) = (Place::Within(line, String::new()), after(at, OPEN));
                    }
                }
                Place::Skipping => match (open, close) {
                    (Some(open), close) if close.is_none_or(|close| open < close) => {
                        self.rest = Some(from(line, &text, open));
                    }
                    (_, Some(close)) => self.rest = after(close, CLOSE),
                    _ => self.place = Place::Skipping,
                },
                Place::Within(first, mut document) => {
                    if let Some(open) = open.filter(|open| close.is_none_or(|close| *open < close)) {
                        self.rest = Some(from(line, &text, open));
                        return Ok(Some((first, Err(unclosed("another one begins")))));
                    }
                    document.push_str(text.get(..close.unwrap_or(text.len())).unwrap_or_default());
                    if let Some(close) = close {
                        self.rest = after(close, CLOSE);
                        return Ok(Some((first, parse(&document))));
                    }
                    document.push('\n');
                    if document.len() > self.most {
                        self.place = Place::Skipping;
                        return Ok(Some((first, Err(Problem::LineTooLong { limit: self.most }))));
                    }
                    self.place = Place::Within(first, document);
                }
            }
        }
    }

    /// What is left of a line, or the next one. A line that cannot be read spoils the document that it is in.
    fn next_part(&mut self) -> Result<Option<(u64, String)>, Error> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        match self.lines.advance() {
            Ok(line) => Ok(line.map(|(line, text)| (line, text.to_owned()))),
            Err(error) => {
                if matches!(self.place, Place::Within(..)) {
                    self.place = Place::Skipping;
                }
                Err(error)
            }
        }
    }
}

fn from(line: u64, text: &str, at: usize) -> (u64, String) {
    (line, text.get(at..).unwrap_or_default().to_owned())
}

fn unclosed(why: &str) -> Problem {
    Problem::Record { message: format!("no {CLOSE} after {OPEN}: {why}") }
}

/// The content of a `<DOC>`.
fn parse(document: &str) -> Result<Document, Problem> {
    let upper = document.to_ascii_uppercase();
    let of = |name: &str| -> Vec<&str> {
        elements(&upper, name).into_iter().filter_map(|(content, _)| document.get(content)).collect()
    };
    let missing = || Problem::MissingField { expected: "<DOCNO>".to_owned() };
    let key = of("DOCNO").first().map(|key| key.trim().to_owned()).ok_or_else(missing)?;
    let title = TITLES.iter().find_map(|name| of(name).first().map(|title| plain(title))).unwrap_or_default();
    let texts = of("TEXT");
    let text = if texts.is_empty() {
        let mut others: Vec<Range<usize>> =
            TITLES.iter().chain(&OTHERS).flat_map(|name| elements(&upper, name)).map(|(_, whole)| whole).collect();
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
    Ok(Document { key, title, text, metadata: None })
}

/// The elements of a name: the place of the content, and that of all with its tags. `upper` is the text in capitals, byte by byte.
fn elements(upper: &str, name: &str) -> Vec<(Range<usize>, Range<usize>)> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = upper.get(from..).and_then(|rest| rest.find(&open)) {
        let start = from + at;
        let after_name = start + open.len();
        from = after_name;
        // `<TEXT>` or `<TEXT attribute>`, and not `<TEXTS>`.
        let rest = upper.get(after_name..).unwrap_or_default();
        if !rest.starts_with(['>', ' ', '\t', '\n']) {
            continue;
        }
        let Some(end_of_tag) = rest.find('>') else { break };
        let begin = after_name + end_of_tag + 1;
        let Some(length) = upper.get(begin..).and_then(|rest| rest.find(&close)) else { break };
        from = begin + length + close.len();
        found.push((begin..begin + length, start..from));
    }
    found
}

/// Without tags, and with entities read.
fn plain(text: &str) -> String {
    let mut without = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        without.push_str(before);
        let is_tag = tag[1..].starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next));
        if let Some(end) = tag.find('>').filter(|_| is_tag) {
            without.push(' ');
            rest = &tag[end + 1..];
        } else {
            without.push('<');
            rest = &tag[1..];
        }
    }
    without.push_str(rest);
    if without.contains('&') {
        // `&amp;` last, so that `&amp;lt;` is `&lt;`.
        for (entity, character) in ENTITIES {
            without = without.replace(entity, character);
        }
    }
    without.trim().to_owned()
}

fn find(line: &str, tag: &str) -> Option<usize> {
    line.to_ascii_uppercase().find(tag)
}

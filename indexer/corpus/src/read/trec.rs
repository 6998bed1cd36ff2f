//! TREC's collections: `<DOC>` elements, each with a `<DOCNO>`, usually with a title and one or more `<TEXT>` elements.
//!
//! Title is the first of `TITLE`, `HEADLINE`, `HEAD`, `HL` and `TTL`; text are the contents of `TEXT`, or where there is none all that is in no
//! other known element. Tags within them are left out, and the entities of HTML that stand for one character of ASCII are read. Names of
//! elements may be of any case.
use super::lines::Lines;
use crate::document::Document;
use crate::error::Error;
use crate::problem::Problem;

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
    /// The last one was left in its middle.
    skipping: bool,
}

impl TrecDocuments {
    pub(super) fn new(lines: Lines, max_text_bytes: usize) -> Self {
        Self { lines, most: max_text_bytes.saturating_mul(8).max(16 << 20), skipping: false }
    }

    pub(super) fn lines(&self) -> &Lines {
        &self.lines
    }

    /// The next document, by the line of its `<DOC>`; nothing at the end. What stands between documents is left out.
    pub(super) fn advance(&mut self) -> Result<Option<Numbered>, Error> {
        let (mut first, mut document) = (0, String::new());
        loop {
            let skipping = std::mem::replace(&mut self.skipping, true);
            let Some((line, text)) = self.lines.advance()? else {
                self.skipping = false;
                let cut = || Problem::Record { message: "no </DOC> after <DOC>: the file is cut short".to_owned() };
                return Ok((first > 0).then(|| (first, Err(cut()))));
            };
            self.skipping = skipping;
            if skipping {
                self.skipping = !contains(text, "</DOC>");
                continue;
            }
            if first == 0 {
                if let Some(at) = find(text, "<DOC>") {
                    first = line;
                    document.push_str(text.get(at..).unwrap_or_default());
                }
            } else {
                document.push('\n');
                document.push_str(text);
            }
            if first > 0 && contains(text, "</DOC>") {
                return Ok(Some((first, parse(&document))));
            }
            if document.len() > self.most {
                self.skipping = true;
                return Ok(Some((first, Err(Problem::LineTooLong { limit: self.most }))));
            }
        }
    }
}

fn parse(document: &str) -> Result<Document, Problem> {
    let upper = document.to_ascii_uppercase();
    let of = |name: &str| elements(&upper, document, name);
    let missing = || Problem::MissingField { expected: "<DOCNO>".to_owned() };
    let key = of("DOCNO").first().map(|key| key.trim().to_owned()).ok_or_else(missing)?;
    let title = TITLES.iter().find_map(|name| of(name).first().map(|title| plain(title))).unwrap_or_default();
    let texts = of("TEXT");
    let text = if texts.is_empty() {
        let mut rest = document.to_owned();
        for name in TITLES.iter().chain(&OTHERS) {
            for element in of(name) {
                rest = rest.replacen(element, "", 1);
            }
        }
        plain(&rest)
    } else {
        texts.iter().map(|text| plain(text)).collect::<Vec<_>>().join("\n")
    };
    Ok(Document { key, title, text, metadata: None })
}

/// Contents of the elements of a name. `upper` is the same text in capitals, byte by byte.
fn elements<'a>(upper: &str, text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}"), format!("</{name}>"));
    let (mut found, mut from) = (Vec::new(), 0);
    while let Some(at) = upper.get(from..).and_then(|rest| rest.find(&open)) {
        let begin = from + at + open.len();
        from = begin;
        // `<TEXT>` or `<TEXT attribute>`, and not `<TEXTS>`.
        let rest = upper.get(begin..).unwrap_or_default();
        if !rest.starts_with(['>', ' ', '\t', '\n']) {
            continue;
        }
        let Some(end_of_tag) = rest.find('>') else { break };
        let begin = begin + end_of_tag + 1;
        let Some(length) = upper.get(begin..).and_then(|rest| rest.find(&close)) else { break };
        found.extend(text.get(begin..begin + length));
        from = begin + length;
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

fn contains(line: &str, tag: &str) -> bool {
    find(line, tag).is_some()
}

fn find(line: &str, tag: &str) -> Option<usize> {
    line.to_ascii_uppercase().find(tag)
}

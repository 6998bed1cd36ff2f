//! The mark-up of TREC's collections: tags with their attributes, elements by name, and text without tags.

use std::ops::Range;

use crate::problem::CorpusProblem;

const ENTITIES: [(&str, &str); 6] = [
    ("&lt;", "<"),
    ("&gt;", ">"),
    ("&quot;", "\""),
    ("&apos;", "'"),
    ("&nbsp;", " "),
    ("&amp;", "&"),
];

/// The elements of one name.
pub(super) struct TrecElements {
    /// The place of the content of each, and that of all with its tags.
    pub(super) places: Vec<(Range<usize>, Range<usize>)>,
    /// Whether each that begins has an end.
    pub(super) is_closed: bool,
}

/// The elements of a name. `upper` is the text in capitals, byte by byte.
pub(super) fn elements(upper: &str, name: &str) -> TrecElements {
    let (open, close) = (format!("<{name}"), format!("</{name}"));
    let (mut found, mut from) = (
        TrecElements {
            places: Vec::new(),
            is_closed: true,
        },
        0,
    );
    while let Some(start) = find_from(upper, &open, from) {
        let Some(end_of_tag) = upper.get(start..).and_then(|tag| tag.find('>')) else {
            found.is_closed = false;
            break;
        };
        let begin = start + end_of_tag + 1;
        let Some(end) = find_from(upper, &close, begin) else {
            found.is_closed = false;
            break;
        };
        from = self::end_of_tag(upper, end);
        found.places.push((begin..end, start..from));
    }
    found
}

/// As [`find`], from a place on.
fn find_from(text: &str, tag: &str, from: usize) -> Option<usize> {
    Some(from + find(text.get(from..)?, tag)?)
}

/// Without tags, and with entities read.
pub(super) fn plain(text: &str) -> String {
    let mut without = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        without.push_str(before);
        if !tag[1..].starts_with(|next: char| next.is_ascii_alphabetic() || "/!?".contains(next)) {
            without.push('<');
            rest = &tag[1..];
            continue;
        }
        rest = tag;
        // Where this tag has no end, none after it has one.
        let Some(end) = tag.find('>') else { break };
        without.push(' ');
        rest = &tag[end + 1..];
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

/// Where a tag of this name begins: `<DOC>` or `<DOC attribute>`, and not `<DOCNO>`.
pub(super) fn find(line: &str, tag: &str) -> Option<usize> {
    let mut places = line.match_indices('<').map(|(at, _)| at);
    places.find(|at| is_tag_at(line.as_bytes(), *at, tag))
}

fn is_tag_at(line: &[u8], at: usize, tag: &str) -> bool {
    let end = at + tag.len();
    let is_named = line
        .get(at..end)
        .is_some_and(|name| name.eq_ignore_ascii_case(tag.as_bytes()));
    let next = line.get(end);
    is_named && next.is_none_or(|next| matches!(next, b'>' | b' ' | b'\t' | b'\r' | b'\n'))
}

/// The place after a tag that begins at `at`.
pub(super) fn end_of_tag(text: &str, at: usize) -> usize {
    let length = text.get(at..).and_then(|tag| tag.find('>'));
    length.map_or(text.len(), |length| at + length + 1)
}

/// A tag after its name.
pub(super) struct Tag<'a> {
    /// Names in capitals, and values as they stand.
    pub(super) attributes: Vec<(String, &'a str)>,
    /// The place after it.
    pub(super) end: usize,
}

/// Reads a tag after its name. Values are in double quotes, in single ones, or without.
pub(super) fn tag(text: &str) -> Result<Tag<'_>, CorpusProblem> {
    let unclosed = || CorpusProblem::Record {
        message: "the tag <DOC> has no end, or a quote in it has none".to_owned(),
    };
    let (mut attributes, mut at) = (Vec::new(), 0);
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let stop = rest.find(['=', '>']).ok_or_else(unclosed)?;
        let (before, after) = rest.split_at(stop);
        at += stop + 1;
        if after.starts_with('>') {
            return Ok(Tag { attributes, end: at });
        }
        let name = before
            .split_whitespace()
            .next_back()
            .unwrap_or_default()
            .to_ascii_uppercase();
        let value = after[1..].trim_start();
        at += after.len() - 1 - value.len();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let (value, length) = if let Some(quote) = quote {
            let end = value[1..].find(quote).ok_or_else(unclosed)?;
            let next = value[end + 2..].chars().next();
            if next.is_none_or(|next| !next.is_whitespace() && !matches!(next, '>' | '/')) {
                return Err(unclosed());
            }
            (&value[1..=end], end + 2)
        } else {
            let end = value
                .find(|c: char| c.is_whitespace() || c == '>')
                .ok_or_else(unclosed)?;
            (&value[..end], end)
        };
        at += length;
        attributes.push((name, value));
    }
}

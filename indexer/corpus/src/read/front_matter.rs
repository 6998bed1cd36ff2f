//! Front matter: the fields in YAML 1.2 that a Markdown file may begin with, between two lines `---`.
//!
//! It is what YAML reads as a mapping; between other such lines is text. Scalars have the types of YAML's core schema
//! as far as JSON can write them with the same digits: `1.10` and `12` are numbers, `007`, `0x1F`, `.inf` and dates are
//! texts.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, StrInput};

/// Most lists and mappings within each other; deeper ones are not understood.
const MOST_DEPTH: usize = 16;
const TITLE: &str = "title";

/// The fields of a file.
#[derive(Debug, Default)]
pub(super) struct FrontMatter<'a> {
    /// The field `title`.
    pub(super) title: Option<String>,
    /// The others with their values as JSON, in their order; without those that are null.
    pub(super) fields: Vec<(String, String)>,
    /// The first thing that is not stored, if any.
    pub(super) unread: Option<UnreadFrontMatter>,
    /// What follows the front matter in the file.
    pub(super) rest: &'a str,
    /// The field that was read last, where nothing has followed it so far.
    last: Option<ReadField>,
}

/// A field, by its line of YAML from 1.
#[derive(Debug)]
struct ReadField {
    line: usize,
    name: String,
}

/// What of a front matter is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnreadFrontMatter {
    /// Line of the file, from 1.
    pub(super) line: u64,
    pub(super) reason: String,
}

impl<'a> FrontMatter<'a> {
    /// Of a file that has none.
    pub(super) fn none(text: &'a str) -> Self {
        Self {
            rest: text,
            ..Self::default()
        }
    }

    /// Of a file whose lines end with `\n`; nothing where it begins otherwise.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (yaml, rest) = enclosed(text)?;
        if yaml.is_empty() {
            return Some(Self::none(rest));
        }
        let mut found = Self::none(rest);
        let mut events = YamlEvents {
            parser: Parser::new_from_str(yaml),
            line: 0,
            has_mapping: false,
            names: HashSet::new(),
        };
        match found.read(&mut events) {
            Ok(true) => Some(found),
            Ok(false) => None,
            Err(error) => {
                let is_mapping = events.has_mapping || begins_with_field(yaml);
                found.note_fault(&error);
                is_mapping.then_some(found)
            }
        }
    }

    /// Whether there is a field of this name, other than `title`.
    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// Reads all fields; false where YAML has no mapping.
    fn read(&mut self, events: &mut YamlEvents<'a>) -> Result<bool, ScanError> {
        loop {
            match events.advance()? {
                Some(Event::StreamStart | Event::DocumentStart(_) | Event::Nothing) => {}
                Some(Event::MappingStart(..)) => break,
                _ => return Ok(false),
            }
        }
        events.has_mapping = true;
        loop {
            let name = match events.advance()? {
                None | Some(Event::MappingEnd) => break,
                Some(Event::Scalar(name, ..)) => Some(name.into_owned()),
                Some(other) => {
                    events.json(other, 0)?;
                    None
                }
            };
            self.last = None;
            let line = events.line;
            let Some(value) = events.advance()? else { break };
            self.add(name, value, line, events)?;
        }
        while let Some(event) = events.advance()? {
            if !matches!(event, Event::DocumentEnd | Event::StreamEnd | Event::Nothing) {
                self.note(events.line, "a second document of YAML".to_owned());
                break;
            }
        }
        Ok(true)
    }

    /// Adds a field whose value begins with an event.
    fn add(
        &mut self,
        name: Option<String>,
        value: Event<'a>,
        line: usize,
        events: &mut YamlEvents<'a>,
    ) -> Result<(), ScanError> {
        let title = match &value {
            Event::Scalar(text, ..) => Some(text.trim().to_owned()),
            _ => None,
        };
        let json = events.json(value, 0)?;
        let Some(name) = name else {
            self.note(line, "a field whose name is no text".to_owned());
            return Ok(());
        };
        self.last = Some(ReadField {
            line,
            name: name.clone(),
        });
        match (json, title) {
            (Some(json), _) if json == "null" => {}
            _ if !events.names.insert(name.clone()) => {
                self.note(line, format!("field `{}` again", name.escape_debug()));
            }
            (Some(_), Some(title)) if name == TITLE => self.title = Some(title).filter(|title| !title.is_empty()),
            (Some(json), _) if name != TITLE => self.fields.push((name, json)),
            _ => self.note(line, format!("the value of field `{}`", name.escape_debug())),
        }
        Ok(())
    }

    /// Notes where YAML has a fault. The field before it may have an end that is not its own, and is not stored either.
    fn note_fault(&mut self, fault: &ScanError) {
        let mut line = fault.marker().line();
        if let Some(last) = self.last.take() {
            line = last.line.min(line);
            self.fields.retain(|(name, _)| *name != last.name);
            self.title = self.title.take().filter(|_| last.name != TITLE);
        }
        self.note(line, format!("no YAML from here on: {}", fault.info()));
    }

    /// Notes what is not stored, by its line of YAML from 1.
    fn note(&mut self, line: usize, reason: String) {
        // The line `---` is the first of the file.
        self.unread.get_or_insert(UnreadFrontMatter {
            line: line as u64 + 1,
            reason,
        });
    }
}

/// What stands between two lines `---` at the beginning, and what follows them. As in Pandoc, the first is followed by
/// no empty line.
fn enclosed(text: &str) -> Option<(&str, &str)> {
    let (first, after) = text.split_once('\n')?;
    if first.trim_end() != "---" || after.lines().next()?.trim().is_empty() {
        return None;
    }
    let mut at = 0;
    for line in after.split_inclusive('\n') {
        if matches!(line.trim_end(), "---" | "...") {
            return Some((after.get(..at)?, after.get(at + line.len()..)?));
        }
        at += line.len();
    }
    None
}

/// Whether the first line is a field, so that YAML with a fault in it is a front matter nevertheless.
fn begins_with_field(yaml: &str) -> bool {
    let first = yaml
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    let Some((name, value)) = first.split_once(':') else {
        return false;
    };
    let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-');
    !name.is_empty() && name.chars().all(is_name) && (value.is_empty() || value.starts_with([' ', '\t']))
}

/// The events of YAML.
struct YamlEvents<'a> {
    parser: Parser<'a, StrInput<'a>>,
    /// Line of the last event, from 1.
    line: usize,
    /// Whether the fields have begun.
    has_mapping: bool,
    /// Names of fields so far.
    names: HashSet<String>,
}

impl<'a> YamlEvents<'a> {
    fn advance(&mut self) -> Result<Option<Event<'a>>, ScanError> {
        let Some(next) = self.parser.next_event() else {
            return Ok(None);
        };
        let (event, span) = next?;
        self.line = span.start.line();
        Ok(Some(event))
    }

    /// A value as JSON, from its first event on; nothing where JSON has no such value, as for anchors of others.
    fn json(&mut self, event: Event<'a>, depth: usize) -> Result<Option<String>, ScanError> {
        match event {
            Event::Scalar(text, style, _, tag) => Ok(Some(scalar(&text, style == ScalarStyle::Plain && tag.is_none()))),
            Event::SequenceStart(..) | Event::MappingStart(..) if depth >= MOST_DEPTH => {
                self.skip()?;
                Ok(None)
            }
            Event::SequenceStart(..) => self.sequence(depth + 1),
            Event::MappingStart(..) => self.mapping(depth + 1),
            _ => Ok(None),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Option<String>, ScanError> {
        let mut items = Some(Vec::new());
        while let Some(event) = self.advance()? {
            if matches!(event, Event::SequenceEnd) {
                break;
            }
            let item = self.json(event, depth)?;
            items = items.zip(item).map(|(mut items, item)| {
                items.push(item);
                items
            });
        }
        Ok(items.map(|items| format!("[{}]", items.join(","))))
    }

    fn mapping(&mut self, depth: usize) -> Result<Option<String>, ScanError> {
        let mut fields = Some(Vec::new());
        while let Some(event) = self.advance()? {
            let name = match event {
                Event::MappingEnd => break,
                Event::Scalar(name, ..) => Some(quoted(&name)),
                other => {
                    self.json(other, depth)?;
                    None
                }
            };
            let Some(event) = self.advance()? else { break };
            let value = self.json(event, depth)?;
            fields = fields.zip(name.zip(value)).map(|(mut fields, (name, value))| {
                fields.push(format!("{name}:{value}"));
                fields
            });
        }
        Ok(fields.map(|fields| format!("{{{}}}", fields.join(","))))
    }

    /// Reads to the end of the list or mapping that has begun.
    fn skip(&mut self) -> Result<(), ScanError> {
        let mut open = 1_usize;
        while open > 0 {
            match self.advance()? {
                Some(Event::SequenceStart(..) | Event::MappingStart(..)) => open += 1,
                Some(Event::SequenceEnd | Event::MappingEnd) => open -= 1,
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }
}

/// A scalar as JSON, typed where it stands without quotes.
fn scalar(text: &str, is_plain: bool) -> String {
    match text {
        "" | "~" | "null" | "Null" | "NULL" if is_plain => "null".to_owned(),
        "true" | "True" | "TRUE" if is_plain => "true".to_owned(),
        "false" | "False" | "FALSE" if is_plain => "false".to_owned(),
        number if is_plain && is_json_number(number) => number.to_owned(),
        text => quoted(text),
    }
}

/// Whether a text is a number of JSON (RFC 8259) that a double can hold.
fn is_json_number(text: &str) -> bool {
    let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
    is_finite && serde_json::from_str::<serde_json::Number>(text).is_ok()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> (Option<String>, String, Option<UnreadFrontMatter>) {
        let text = format!("---\n{yaml}---\nrest");
        let found = FrontMatter::parse(&text).unwrap();
        assert_eq!(found.rest, "rest");
        let fields: Vec<String> = found
            .fields
            .iter()
            .map(|(name, json)| format!("{name}={json}"))
            .collect();
        (found.title, fields.join(" "), found.unread)
    }

    #[test]
    fn fields_have_types_and_their_digits() {
        let yaml = "# note\ntitle: \"A: b\" # why\ndate: 2024-01-02\nversion: 1.10\nn: 12\nzip: 007\nhex: 0x1F\nbig: 1e400\n\
                    draft: false\nquoted: 'true'\nnone:\nnull2: ~\ntags: [a, \"b c\", 3]\nmore:\n  - x\n  - y: 1\n\
                    long: >\n  two\n  lines\n";
        let (title, fields, unread) = read(yaml);
        assert_eq!(title.as_deref(), Some("A: b"));
        let expected = r#"date="2024-01-02" version=1.10 n=12 zip="007" hex="0x1F" big="1e400" draft=false quoted="true" tags=["a","b c",3] more=["x",{"y":1}] long="two lines\n""#;
        assert_eq!(fields, expected);
        assert_eq!(unread, None);
        assert_eq!(read("title: 2024\n").0.as_deref(), Some("2024"));
        assert_eq!(read("title:\na: 1\n"), (None, "a=1".to_owned(), None));
    }

    #[test]
    fn what_is_not_understood_is_told_by_its_line() {
        let unread = |yaml: &str| {
            let (_, fields, unread) = read(yaml);
            let unread = unread.unwrap();
            (fields, unread.line, unread.reason)
        };
        let told = |line: u64, reason: &str| ("a=1".to_owned(), line, reason.to_owned());
        let (fields, line, reason) = unread("a: 1\nx: &y 2\nz: *y\nb: 3\n");
        assert_eq!(
            (fields.as_str(), line, reason.as_str()),
            ("a=1 x=2 b=3", 4, "the value of field `z`")
        );
        let (fields, line, _) = unread("a: 1\nb: *nowhere\n");
        assert_eq!((fields.as_str(), line), ("a=1", 3));
        assert_eq!(unread("a: 1\na: 2\n"), told(3, "field `a` again"));
        assert_eq!(unread("a: 1\ntitle: [x]\n"), told(3, "the value of field `title`"));
        assert_eq!(unread("a: 1\n[b]: 2\n"), told(3, "a field whose name is no text"));
        let deep = format!("a: 1\nb: {}{}\n", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(unread(&deep).1, 3);
        let (fields, line, reason) = unread("a: 1\nb: c: d\n");
        assert_eq!((fields.as_str(), line), ("a=1", 3), "{reason}");
        assert!(reason.starts_with("no YAML from here on: "), "{reason}");
        let (fields, line, _) = unread("a: 1\nb: c\n  d: e\nf: 2\n");
        assert_eq!((fields.as_str(), line), ("a=1", 3));
        let (fields, line, _) = unread("b: c: d\na: 1\n");
        assert_eq!((fields.as_str(), line), ("", 2));
    }

    #[test]
    fn many_fields_take_a_time_that_grows_with_their_length() {
        let fields = (0..1 << 17)
            .map(|number| format!("f{number}: {number}\n"))
            .collect::<Vec<_>>()
            .concat();
        assert_eq!(read(&fields).1.split(' ').count(), 1 << 17);
        for part in ["[", "{a: ", "- ", "&a ", "\"", "a: [\n", "? ", "!a ", "a: |\n  b\n"] {
            FrontMatter::parse(&format!("---\na: 1\nb: {}\n---\n", part.repeat(1 << 14)));
        }
    }

    #[test]
    fn rules_are_no_front_matter() {
        for text in [
            "",
            "---",
            "---\n",
            "---\n\ntitle: a\n---\n",
            "---\ntitle: a\n",
            "---\ntext\n---\n",
            "---\n# Heading\n---\n",
            "---\n- a\n---\n",
            "--- \n*bold: text*\n---\n",
            "text\n---\na: 1\n---\n",
            "----\na: 1\n---\n",
        ] {
            assert!(FrontMatter::parse(text).is_none(), "{text:?}");
        }
        for text in ["---\n---\nrest", "--- \na: 1\n...  \nrest", "---\na: 1\n---"] {
            assert!(FrontMatter::parse(text).is_some(), "{text:?}");
        }
    }
}

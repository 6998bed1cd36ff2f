//! The elements of a JSON array, one in memory at a time.
//!
//! Only brackets and strings are recognised here; elements are validated by the JSON parser.
use std::io::Read;

use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::InputStream;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Elements of the array that a file is, or that the field of its one object holds.
#[derive(Debug)]
pub(super) struct Elements {
    input: InputStream,
    chunk: Vec<u8>,
    at: usize,
    /// Line of the next byte, and of the element's first.
    line: u64,
    first_line: u64,
    element: Vec<u8>,
    max_bytes: usize,
    place: ArrayPosition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArrayPosition {
    /// Before the array, which is the file's value or that of a field.
    Before(Option<&'static str>),
    /// After `[`, where `]` may follow.
    First,
    /// After an element.
    Between,
    /// After the array.
    End,
}

impl Elements {
    /// Elements of at most `max_bytes`; with `field`, of the array under it in the file's object.
    pub(super) fn from_stream(input: InputStream, field: Option<&'static str>, max_bytes: usize) -> Self {
        let place = ArrayPosition::Before(field);
        Self {
            input,
            chunk: Vec::new(),
            at: 0,
            line: 1,
            first_line: 1,
            element: Vec::new(),
            max_bytes,
            place,
        }
    }

    /// The next element and the line it begins on.
    pub(super) fn advance(&mut self) -> Result<Option<(u64, &str)>, Error> {
        let found = self.step();
        if found.is_err() {
            self.place = ArrayPosition::End;
        }
        if !found? {
            return Ok(None);
        }
        match std::str::from_utf8(&self.element) {
            Ok(text) => Ok(Some((self.first_line, text))),
            Err(error) => Err(self.refuse(
                0,
                CorpusProblem::NotUtf8 {
                    offset: error.valid_up_to(),
                },
            )),
        }
    }

    /// An error `below` lines under the current element's first.
    pub(super) fn refuse(&self, below: u64, problem: CorpusProblem) -> Error {
        Error::Line {
            path: self.input.path.clone(),
            line: self.first_line + below,
            problem,
        }
    }

    pub(super) fn input(&self) -> &InputStream {
        &self.input
    }

    fn step(&mut self) -> Result<bool, Error> {
        if let ArrayPosition::Before(field) = self.place {
            self.enter(field)?;
            self.place = ArrayPosition::First;
        }
        if self.place == ArrayPosition::End {
            return Ok(false);
        }
        let mut byte = self.solid()?;
        if byte == Some(b']') {
            return self.leave().map(|()| false);
        }
        if self.place == ArrayPosition::Between {
            if byte != Some(b',') {
                return Err(self.unexpected("`,` or `]`", byte));
            }
            byte = self.solid()?;
        }
        self.first_line = self.line;
        self.place = ArrayPosition::Between;
        let begins = |byte: u8| matches!(byte, b'{' | b'[' | b'"' | b'-' | b't' | b'f' | b'n') || byte.is_ascii_digit();
        match byte {
            Some(byte) if begins(byte) => self.collect(byte).map(|()| true),
            _ => Err(self.unexpected("a record", byte)),
        }
    }

    /// Moves past the `[` of the array.
    fn enter(&mut self, field: Option<&'static str>) -> Result<(), Error> {
        let byte = self.solid()?;
        let Some(field) = field else {
            return if byte == Some(b'[') {
                Ok(())
            } else {
                Err(self.unexpected("`[`", byte))
            };
        };
        if byte != Some(b'{') {
            return Err(self.unexpected("`{`", byte));
        }
        let wanted = format!("\"{field}\"");
        loop {
            let byte = self.solid()?;
            if byte != Some(b'"') {
                return Err(self.unexpected("a field whose value is an array of records", byte));
            }
            self.collect(b'"')?;
            let found = self.element == wanted.as_bytes();
            let byte = self.solid()?;
            if byte != Some(b':') {
                return Err(self.unexpected("`:`", byte));
            }
            let byte = self.solid()?;
            match byte {
                Some(b'[') if found => return Ok(()),
                Some(byte) if !found => self.collect(byte)?,
                _ => return Err(self.unexpected("`[`", byte)),
            }
            let byte = self.solid()?;
            if byte != Some(b',') {
                return Err(self.unexpected("`,`", byte));
            }
        }
    }

    /// Reads what follows the array; only brackets may, and other fields.
    fn leave(&mut self) -> Result<(), Error> {
        self.place = ArrayPosition::End;
        while self.byte()?.is_some() {}
        Ok(())
    }

    /// Collects the value that begins with `first`.
    fn collect(&mut self, first: u8) -> Result<(), Error> {
        self.element.clear();
        self.element.push(first);
        let (mut depth, mut in_string) = (usize::from(matches!(first, b'{' | b'[')), first == b'"');
        while depth > 0 || in_string || !matches!(first, b'{' | b'[' | b'"') {
            let byte = self.byte()?;
            let Some(byte) = byte else {
                return Err(self.unexpected("the end of the record that begins here", None));
            };
            if !in_string && depth == 0 && matches!(byte, b',' | b']' | b'}') {
                // A number or a word ends before what follows it.
                self.at -= 1;
                return Ok(());
            }
            if self.element.len() >= self.max_bytes {
                return Err(self.refuse(0, CorpusProblem::LineTooLong { limit: self.max_bytes }));
            }
            self.element.push(byte);
            match byte {
                b'\\' if in_string => {
                    if let Some(escaped) = self.byte()? {
                        self.element.push(escaped);
                    }
                }
                b'"' => in_string = !in_string,
                b'{' | b'[' if !in_string => depth += 1,
                b'}' | b']' if !in_string => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// The next byte that is no whitespace.
    fn solid(&mut self) -> Result<Option<u8>, Error> {
        loop {
            match self.byte()? {
                Some(b' ' | b'\t' | b'\n' | b'\r') => {}
                // A byte order mark.
                Some(0xef) if self.chunk.get(..3) == Some(&[0xef, 0xbb, 0xbf]) && self.at == 1 => self.at = 3,
                other => return Ok(other),
            }
        }
    }

    fn byte(&mut self) -> Result<Option<u8>, Error> {
        if self.at == self.chunk.len() {
            self.chunk.clear();
            self.at = 0;
            let read = Read::take(&mut self.input.bytes, CHUNK_BYTES as u64).read_to_end(&mut self.chunk);
            if let Err(source) = read {
                self.chunk.clear();
                return Err(self.input.refuse(source, self.line.saturating_sub(1)));
            }
        }
        let byte = self.chunk.get(self.at).copied();
        if byte.is_some() {
            self.at += 1;
        }
        self.line += u64::from(byte == Some(b'\n'));
        Ok(byte)
    }

    fn unexpected(&self, expected: &'static str, got: Option<u8>) -> Error {
        let got = match got {
            None => "the end of the file".to_owned(),
            Some(byte) if byte.is_ascii_graphic() => format!("`{}`", char::from(byte)),
            Some(byte) => format!("byte {byte:#04x}"),
        };
        // The element's first line inside of an element, else the current line.
        let line = if expected.starts_with("the end of the record") {
            self.first_line
        } else {
            self.line
        };
        Error::Line {
            path: self.input.path.clone(),
            line,
            problem: CorpusProblem::NotAnArray { expected, got },
        }
    }
}

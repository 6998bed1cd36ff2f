//! Numbered lines of a text file: UTF-8, of bounded length, without their line ends.
use std::io::{BufRead, Read};
use std::path::Path;

use super::input::InputStream;
use super::record_source::SourceProgress;
use crate::error::Error;
use crate::problem::CorpusProblem;

const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Lines of one input. Blank lines are counted and skipped; a byte order mark and carriage returns are dropped.
#[derive(Debug)]
pub(crate) struct InputLines {
    input: InputStream,
    buffer: Vec<u8>,
    line: u64,
    max_line_bytes: usize,
}

impl InputLines {
    /// Opens `path` (`-` is standard input) for records whose text may hold `max_text_bytes`.
    pub(crate) fn open(path: &Path, max_text_bytes: usize) -> Result<Self, Error> {
        Ok(Self::from_stream(InputStream::open(path)?, max_text_bytes))
    }

    /// As [`InputLines::open`], over what is open.
    pub(crate) fn from_stream(input: InputStream, max_text_bytes: usize) -> Self {
        // A text can grow sixfold as JSON escapes, and title and metadata come on top; more than this is never parsed,
        // so that a file without line ends cannot fill the memory.
        let max_line_bytes = max_text_bytes.saturating_mul(8).max(16 << 20);
        Self {
            input,
            buffer: Vec::new(),
            line: 0,
            max_line_bytes,
        }
    }

    /// The next line that is not blank, with its number.
    pub(crate) fn advance(&mut self) -> Result<Option<(u64, &str)>, Error> {
        loop {
            if !self.fill()? {
                return Ok(None);
            }
            if self.buffer.iter().skip(self.mark_bytes()).any(|&byte| byte != b' ') {
                break;
            }
        }
        match std::str::from_utf8(&self.buffer) {
            Ok(text) => Ok(Some((self.line, text.get(self.mark_bytes()..).unwrap_or_default()))),
            Err(error) => Err(self.refuse(CorpusProblem::NotUtf8 {
                offset: error.valid_up_to(),
            })),
        }
    }

    /// Length of the byte order mark at the start of the current line.
    fn mark_bytes(&self) -> usize {
        if self.line == 1 && self.buffer.starts_with(BYTE_ORDER_MARK.as_bytes()) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        }
    }

    /// Reads one line into the buffer; false at the end of the input.
    fn fill(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        let limit = (self.max_line_bytes as u64).saturating_add(2);
        let read = Read::take(&mut self.input.bytes, limit).read_until(b'\n', &mut self.buffer);
        if let Err(source) = read {
            return Err(self.input.refuse(source, self.line));
        }
        if self.buffer.is_empty() {
            return Ok(false);
        }
        self.line += 1;
        let whole = self.buffer.last() == Some(&b'\n');
        if whole {
            self.buffer.pop();
        }
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        if self.buffer.len() > self.max_line_bytes {
            // Reading can go on with the next line.
            let rest = if whole {
                Ok(0)
            } else {
                self.input.bytes.skip_until(b'\n')
            };
            if let Err(source) = rest {
                return Err(self.input.refuse(source, self.line));
            }
            return Err(self.refuse(CorpusProblem::LineTooLong {
                limit: self.max_line_bytes,
            }));
        }
        Ok(true)
    }

    /// An error at the current line.
    pub(crate) fn refuse(&self, problem: CorpusProblem) -> Error {
        Error::Line {
            path: self.input.path.clone(),
            line: self.line,
            problem,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.input.path
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.input.consumed()
    }

    /// How far the file is read.
    pub(super) fn progress(&self) -> SourceProgress<'_> {
        self.input.progress()
    }

    pub(crate) fn total_bytes(&self) -> Option<u64> {
        self.input.total_bytes
    }
}

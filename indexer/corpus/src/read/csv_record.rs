//! Records of comma-separated values, one after another, in a memory of bounded size.

use std::io::{BufRead as _, ErrorKind};
use std::ops::Range;
use std::path::Path;

use csv_core::{ReadRecordResult, Reader};

use super::input::InputStream;
use super::record_source::SourceProgress;
use crate::error::Error;
use crate::problem::CorpusProblem;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Most columns of a record.
const MOST_COLUMNS: usize = 4096;
/// Bytes of a record that there is room for at first.
const FIRST_BYTES: usize = 64 << 10;

/// A record: where its fields are, see [`CsvRecords::field`], or what is wrong with it.
#[derive(Debug)]
pub(super) struct RawRecord {
    /// Its first line, from 1.
    pub(super) line: u64,
    pub(super) content: Result<Vec<Range<usize>>, CorpusProblem>,
}

/// The records of one file.
pub(super) struct CsvRecords {
    input: InputStream,
    parser: Reader,
    /// Fields of the last record, one after another, without quotes.
    fields: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// Line of the next byte, from 1; 0 before the first.
    line: u64,
    /// Longest record.
    most: usize,
}

impl std::fmt::Debug for CsvRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvRecords")
            .field("input", &self.input)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

/// How much of a record was read.
#[derive(Debug, Default)]
struct RecordSize {
    /// Bytes of its fields; what does not fit is overwritten.
    bytes: usize,
    /// Fields whose ends are kept.
    ends: usize,
    /// Fields whose ends are not.
    more_fields: usize,
    is_too_long: bool,
}

impl CsvRecords {
    /// Of a file that is open, for records whose text may hold `max_text_bytes`.
    pub(super) fn new(input: InputStream, max_text_bytes: usize) -> Self {
        Self {
            input,
            parser: Reader::new(),
            fields: vec![0; FIRST_BYTES],
            ends: vec![0; MOST_COLUMNS],
            line: 0,
            // As `InputLines` has it for a line, so that a quote that is never closed cannot fill the memory.
            most: max_text_bytes.saturating_mul(8).max(16 << 20),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.input.path
    }

    pub(super) fn progress(&self) -> SourceProgress<'_> {
        self.input.progress()
    }

    /// A field of the last record.
    pub(super) fn field(&self, place: &Range<usize>) -> &[u8] {
        self.fields.get(place.clone()).unwrap_or_default()
    }

    /// The next record; nothing at the end. Blank lines between records are left out.
    pub(super) fn advance(&mut self) -> Result<Option<RawRecord>, Error> {
        loop {
            if !self.skip_line_ends()? {
                return Ok(None);
            }
            let line = self.line;
            let content = self.read()?;
            let is_blank = content.as_ref().is_ok_and(|fields| match fields.as_slice() {
                [only] => self.field(only).trim_ascii().is_empty(),
                _ => false,
            });
            if !is_blank {
                return Ok(Some(RawRecord { line, content }));
            }
        }
    }

    /// Goes to the first byte of the next record; false where there is none.
    fn skip_line_ends(&mut self) -> Result<bool, Error> {
        if self.line == 0 {
            self.line = 1;
            let head = self.input.peek(BYTE_ORDER_MARK.len())?;
            if head == BYTE_ORDER_MARK {
                self.input.bytes.consume(head.len());
            }
        }
        loop {
            let line = self.line;
            let next = match self.input.bytes.fill_buf() {
                Ok(buffer) => buffer.first().copied(),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.input.refuse(source, line - 1)),
            };
            match next {
                Some(b'\n') => self.line += 1,
                Some(b'\r') => {}
                next => return Ok(next.is_some()),
            }
            self.input.bytes.consume(1);
        }
    }

    /// Reads a record to its end, also where it is flawed.
    fn read(&mut self) -> Result<Result<Vec<Range<usize>>, CorpusProblem>, Error> {
        let mut size = RecordSize::default();
        loop {
            let line = self.line;
            let buffer = match self.input.bytes.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.input.refuse(source, line - 1)),
            };
            let is_end = buffer.is_empty();
            // A line end finishes the last record, unless it is between quotes.
            let given = if is_end { b"\n" } else { buffer };
            let (result, read, bytes, ends) = self.parser.read_record(
                given,
                self.fields.get_mut(size.bytes..).unwrap_or_default(),
                self.ends.get_mut(size.ends..).unwrap_or_default(),
            );
            if !is_end {
                let lines = given.iter().take(read).filter(|byte| **byte == b'\n').count();
                self.line += lines as u64;
                self.input.bytes.consume(read);
            }
            size.bytes += bytes;
            size.ends += ends;
            match result {
                ReadRecordResult::Record => return Ok(self.fields_of(&size)),
                ReadRecordResult::InputEmpty if is_end => return Ok(Err(CorpusProblem::OpenQuote)),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.make_room(&mut size),
                ReadRecordResult::OutputEndsFull => {
                    size.more_fields += size.ends;
                    size.ends = 0;
                }
                ReadRecordResult::End => return Ok(Err(CorpusProblem::OpenQuote)),
            }
        }
    }

    /// Lets a record have more bytes, up to the longest one; of a longer one nothing is kept.
    fn make_room(&mut self, size: &mut RecordSize) {
        if self.fields.len() < self.most {
            let length = self.fields.len().saturating_mul(2).min(self.most);
            self.fields.resize(length, 0);
        } else {
            size.is_too_long = true;
            size.bytes = 0;
        }
    }

    /// Where the fields of a record are that was read to its end.
    fn fields_of(&self, size: &RecordSize) -> Result<Vec<Range<usize>>, CorpusProblem> {
        if size.is_too_long {
            return Err(CorpusProblem::RecordTooLong { limit: self.most });
        }
        if size.more_fields > 0 {
            return Err(CorpusProblem::Columns {
                expected: format!("at most {MOST_COLUMNS}"),
                got: size.more_fields + size.ends,
            });
        }
        let mut begin = 0;
        let ends = self.ends.iter().take(size.ends);
        let field = |end: &usize| std::mem::replace(&mut begin, *end)..*end;
        Ok(ends.map(field).collect())
    }
}

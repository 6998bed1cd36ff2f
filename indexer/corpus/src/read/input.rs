//! Opens a file or standard input as a stream of plain bytes.
//!
//! Compression is detected from the first bytes, not from the name: neither gzip's `1f 8b` nor Zstandard's `28 b5 2f fd` can begin
//! UTF-8 text, so a misnamed file is still read correctly. Gzip files of several members and files of several
//! Zstandard frames are read to their end.
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::error::Error;

/// Bytes of the read buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// Whether the path is standard input or a pipe, which can be read only once.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new("-") || (path.exists() && !path.is_file() && !path.is_dir())
}

/// Plain bytes of a source, and how much of it has been consumed.
pub(crate) struct Input {
    /// For messages: the path, or `standard input`.
    pub(crate) path: PathBuf,
    /// Name of the compression, if any.
    pub(crate) compression: Option<&'static str>,
    /// Size on disk; `None` for standard input and other things without a length.
    pub(crate) total_bytes: Option<u64>,
    pub(crate) bytes: Box<dyn BufRead + Send>,
    consumed: Arc<AtomicU64>,
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::from_reader(PathBuf::from("standard input"), None, io::stdin());
        }
        let file = fs_err::File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::other(format!("expected a file, got a folder: {}", path.display())));
        }
        let total_bytes = metadata.is_file().then_some(metadata.len());
        Self::from_reader(path.to_owned(), total_bytes, file)
    }

    fn from_reader(path: PathBuf, total_bytes: Option<u64>, reader: impl Read + Send + 'static) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut counted = Counted { reader, consumed: Arc::clone(&consumed) };
        let mut magic = Vec::with_capacity(4);
        Read::take(&mut counted, 4).read_to_end(&mut magic)?;
        let compression = if magic.starts_with(&[0x1f, 0x8b]) {
            Some("gzip")
        } else if magic == [0x28, 0xb5, 0x2f, 0xfd] {
            Some("zstd")
        } else {
            None
        };
        let raw = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(magic).chain(counted));
        let bytes: Box<dyn BufRead + Send> = match compression {
            Some("gzip") => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw))),
            Some(_) => Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::stream::read::Decoder::with_buffer(raw)?)),
            None => Box::new(raw),
        };
        Ok(Self { path, compression, total_bytes, bytes, consumed })
    }

    /// The first bytes, `most` of them at most, which stay to be read.
    pub(crate) fn peek(&mut self, most: usize) -> Result<Vec<u8>, Error> {
        let mut head = Vec::new();
        if let Err(source) = Read::take(&mut self.bytes, most as u64).read_to_end(&mut head) {
            return Err(self.refuse(source, 0));
        }
        let rest = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// The error of a read that failed after `line`.
    pub(crate) fn refuse(&self, source: io::Error, line: u64) -> Error {
        let path = self.path.clone();
        match (source.kind(), self.compression) {
            (io::ErrorKind::UnexpectedEof, Some(compression)) => Error::CutShort { path, line, compression },
            _ => Error::Read { path, line, reason: source },
        }
    }

    /// Bytes of the source consumed so far, compressed where the source is.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Input")
            .field("path", &self.path)
            .field("compression", &self.compression)
            .field("total_bytes", &self.total_bytes)
            .field("consumed", &self.consumed())
            .finish_non_exhaustive()
    }
}

struct Counted<R> {
    reader: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

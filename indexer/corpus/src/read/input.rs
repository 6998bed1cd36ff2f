//! Opens a file or standard input as a stream of plain bytes.
//!
//! Compression is detected from the first bytes, not from the name: neither gzip's `1f 8b` nor Zstandard's `28 b5 2f
//! fd`, nor the skippable frames that pzstd begins with, can begin UTF-8 text, so a misnamed file is still read
//! correctly. Gzip files of several members and files of several Zstandard frames are read to their end. What is
//! nothing that can be read is refused by its name.
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dyad_files::is_lfs_pointer;

use super::gzip::GzipMembers;
use super::kind::{ForeignKind, HEAD_BYTES, foreign};
use super::record_source::SourceProgress;
use crate::error::Error;

/// Bytes of the read buffer.
const BUFFER_BYTES: usize = 256 * 1024;
/// The largest window of a Zstandard frame, as a power of two: that of `zstd --ultra --long=31`. Memory is taken as a
/// frame fills it.
const LARGEST_WINDOW_LOG: u32 = 31;

/// Whether the path is standard input or a pipe, which can be read only once.
pub fn is_stream(path: &Path) -> bool {
    path == Path::new("-") || (path.exists() && !path.is_file() && !path.is_dir())
}

/// Plain bytes of a source, and how much of it has been consumed.
pub(crate) struct InputStream {
    /// The name of the input for messages: the path, or `standard input`.
    pub(crate) path: PathBuf,
    /// Name of the compression, if any.
    pub(crate) compression: Option<&'static str>,
    /// Size on disk; `None` for standard input and other things without a length.
    pub(crate) total_bytes: Option<u64>,
    pub(crate) bytes: Box<dyn BufRead + Send>,
    consumed: Arc<AtomicU64>,
}

impl InputStream {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new("-") {
            return Self::from_reader(PathBuf::from("standard input"), None, io::stdin());
        }
        let file = fs_err::File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::other(format!("expected a file, got a folder: {}", path.display())).into());
        }
        let total_bytes = metadata.is_file().then_some(metadata.len());
        Self::from_reader(path.to_owned(), total_bytes, file)
    }

    fn from_reader(path: PathBuf, total_bytes: Option<u64>, reader: impl Read + Send + 'static) -> Result<Self, Error> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut counted = CountedReader {
            reader,
            consumed: Arc::clone(&consumed),
        };
        let head = head(&mut counted)?;
        let compression = compression(&head);
        let refused = |ForeignKind { what, fix }: ForeignKind| Error::ForeignFile {
            path: path.clone(),
            what,
            fix,
        };
        if compression.is_none()
            && let Some(kind) = foreign(&head)
        {
            return Err(refused(kind));
        }
        if is_lfs_pointer(&head) {
            return Err(Error::LfsPointer { path });
        }
        let raw = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(counted));
        let bytes: Box<dyn BufRead + Send> = match compression {
            Some("gzip") => Box::new(BufReader::with_capacity(BUFFER_BYTES, GzipMembers::new(raw))),
            Some(_) => {
                let mut frames = zstd::stream::read::Decoder::with_buffer(raw)?;
                frames.window_log_max(LARGEST_WINDOW_LOG)?;
                Box::new(BufReader::with_capacity(BUFFER_BYTES, frames))
            }
            None => Box::new(raw),
        };
        let mut input = Self {
            path,
            compression,
            total_bytes,
            bytes,
            consumed,
        };
        input.refuse_foreign_content()?;
        Ok(input)
    }

    /// Compressed files may hold what is no text, too.
    fn refuse_foreign_content(&mut self) -> Result<(), Error> {
        if self.compression.is_none() {
            return Ok(());
        }
        match self.bytes.fill_buf() {
            Ok(head) => match foreign(head).or(compression(head).map(|_| TWICE)) {
                Some(ForeignKind { what, fix }) => Err(Error::ForeignFile {
                    path: self.path.clone(),
                    what,
                    fix,
                }),
                None => Ok(()),
            },
            Err(error) => Err(self.refuse(error, 0)),
        }
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
            (io::ErrorKind::UnexpectedEof, Some(compression)) => Error::CutShort {
                path,
                line,
                compression,
            },
            _ => Error::Read {
                path,
                line,
                reason: source,
            },
        }
    }

    /// How far the source is read.
    pub(super) fn progress(&self) -> SourceProgress<'_> {
        SourceProgress {
            path: &self.path,
            bytes_read: self.consumed(),
            is_packed: self.compression.is_some(),
        }
    }

    /// Bytes of the source consumed so far, compressed where the source is.
    pub(crate) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }
}

/// Bytes by which compressions are told.
const MAGIC_BYTES: usize = 4;

/// What was compressed already when it was compressed, as a server does that compresses every file.
const TWICE: ForeignKind = ForeignKind {
    what: "compressed twice",
    fix: "Unpack it once: `gzip -dc FILE > NEW`, or `zstd -dc FILE > NEW`",
};

/// Up to [`HEAD_BYTES`] first bytes: as many as come at once, since a pipe may have no more for a while, and enough to
/// tell a compression.
fn head(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let (mut head, mut length) = (vec![0; HEAD_BYTES], 0);
    while length < MAGIC_BYTES {
        match reader.read(head.get_mut(length..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(length);
    Ok(head)
}

/// Name of the compression that begins so.
fn compression(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        _ => None,
    }
}

impl fmt::Debug for InputStream {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("InputStream")
            .field("path", &self.path)
            .field("compression", &self.compression)
            .field("total_bytes", &self.total_bytes)
            .field("consumed", &self.consumed())
            .finish_non_exhaustive()
    }
}

struct CountedReader<R> {
    reader: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

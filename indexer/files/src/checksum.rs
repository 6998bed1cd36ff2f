//! CRC-32C of the bytes that a writer has written, and of files.

use std::io::{self, Read as _, Write};
use std::path::Path;

use crate::cancel::{Cancel, Never};

/// Counts and hashes (CRC-32C) the bytes that the inner writer accepted.
#[derive(Debug)]
pub struct ChecksumWriter<W> {
    inner: W,
    crc: u32,
    written: u64,
}

impl<W: Write> ChecksumWriter<W> {
    /// Nothing written yet.
    pub fn new(inner: W) -> Self {
        Self {
            inner,
            crc: 0,
            written: 0,
        }
    }

    /// The inner writer, the checksum, the number of bytes.
    pub fn finish(self) -> (W, u32, u64) {
        (self.inner, self.crc, self.written)
    }
}

impl<W: Write> Write for ChecksumWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let accepted = self.inner.write(bytes)?;
        self.crc = bytes
            .get(..accepted)
            .map_or(self.crc, |bytes| crc32c::crc32c_append(self.crc, bytes));
        self.written += accepted as u64;
        Ok(accepted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Length and CRC-32C of a file.
pub fn crc32c_of_file(path: &Path) -> io::Result<(u64, u32)> {
    Ok(crc32c_of_file_until(path, &Never)?.unwrap_or_default())
}

/// [`crc32c_of_file`]; none where it was cancelled.
pub fn crc32c_of_file_until(path: &Path, cancel: &dyn Cancel) -> io::Result<Option<(u64, u32)>> {
    let mut file = fs_err::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let (mut len, mut crc) = (0, 0);
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(Some((len, crc)));
        }
        len += read as u64;
        crc = buffer
            .get(..read)
            .map_or(crc, |bytes| crc32c::crc32c_append(crc, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes at most three bytes at a time.
    struct Short(Vec<u8>);

    impl Write for Short {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..some]);
            Ok(some)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn short_writes_are_hashed_as_written() {
        let mut writer = ChecksumWriter::new(Short(Vec::new()));
        writer.write_all(b"hello dyad").unwrap();
        let (inner, crc, written) = writer.finish();
        assert_eq!(inner.0, b"hello dyad");
        assert_eq!((crc, written), (crc32c::crc32c(b"hello dyad"), 10));
    }
}

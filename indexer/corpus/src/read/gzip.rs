//! Gzip files of several members, with the zeros that some writers put after the last one.
//!
//! Tapes and block devices pad with zeros, and Python's `gzip` reads over them; what else follows a member is refused.
use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// The plain bytes of all members.
pub(super) struct GzipMembers<R: BufRead> {
    state: MemberState<R>,
}

/// Where the reading stands.
enum MemberState<R: BufRead> {
    /// In a member.
    Member(GzDecoder<R>),
    /// After a member.
    Between(R),
    /// At the end.
    Ended,
    /// After an error, which is no end: whoever reads on is told again.
    Failed(io::ErrorKind, String),
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(raw: R) -> Self {
        Self {
            state: MemberState::Member(GzDecoder::new(raw)),
        }
    }

    /// One step; nothing where no byte has come, and more may.
    fn step(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.state {
            MemberState::Member(member) => {
                let read = member.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(Some(read));
                }
                if let MemberState::Member(member) = std::mem::replace(&mut self.state, MemberState::Ended) {
                    self.state = MemberState::Between(member.into_inner());
                }
                Ok(None)
            }
            MemberState::Between(raw) => {
                let next = first_after_zeros(raw)?;
                let MemberState::Between(raw) = std::mem::replace(&mut self.state, MemberState::Ended) else {
                    return Ok(None);
                };
                match next {
                    None => Ok(Some(0)),
                    Some(0x1f) => {
                        self.state = MemberState::Member(GzDecoder::new(raw));
                        Ok(None)
                    }
                    Some(_) => {
                        let reason =
                            "bytes that are no gzip follow the last gzip member. Cut them off, or fetch the file again";
                        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
                    }
                }
            }
            MemberState::Ended => Ok(Some(0)),
            MemberState::Failed(kind, reason) => Err(io::Error::new(*kind, reason.clone())),
        }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.step(buffer) {
                Ok(None) => {}
                Ok(Some(read)) => return Ok(read),
                Err(error) => {
                    // An interrupted read is tried again.
                    if error.kind() != io::ErrorKind::Interrupted {
                        self.state = MemberState::Failed(error.kind(), error.to_string());
                    }
                    return Err(error);
                }
            }
        }
    }
}

/// Skips zeros; the byte after them stays to be read.
fn first_after_zeros(raw: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let available = raw.fill_buf()?;
        if available.is_empty() {
            return Ok(None);
        }
        let zeros = available.iter().take_while(|byte| **byte == 0).count();
        let found = available.get(zeros).copied();
        raw.consume(zeros);
        if found.is_some() {
            return Ok(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write as _};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn read(bytes: &[u8], buffer: usize) -> Result<String, String> {
        let mut text = String::new();
        let raw = BufReader::with_capacity(buffer, bytes);
        GzipMembers::new(raw)
            .read_to_string(&mut text)
            .map(|_| text)
            .map_err(|error| error.to_string())
    }

    /// Every other read is interrupted.
    struct Interrupted<R>(R, bool);

    impl<R: Read> Read for Interrupted<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                Err(io::ErrorKind::Interrupted.into())
            } else {
                self.0.read(buffer)
            }
        }
    }

    #[test]
    fn an_interrupted_read_is_no_end_and_neither_is_an_error() {
        let bytes = [&member("one ")[..], &[0; 99], &member("two")].concat();
        let mut text = String::new();
        let raw = BufReader::with_capacity(3, Interrupted(&bytes[..], false));
        GzipMembers::new(raw).read_to_string(&mut text).unwrap();
        assert_eq!(text, "one two");
        let mut cut = GzipMembers::new(&bytes[..10]);
        for _ in 0..3 {
            assert!(cut.read(&mut [0; 9]).is_err());
        }
    }

    #[test]
    fn members_follow_each_other_and_zeros_are_padding() {
        let [one, two, none] = [member("one "), member("two"), member("")];
        for buffer in [1, 7, 4096] {
            assert_eq!(read(&[&one[..], &two, &none].concat(), buffer).unwrap(), "one two");
            assert_eq!(
                read(&[&one[..], &[0; 512], &two, &[0; 10_000]].concat(), buffer).unwrap(),
                "one two"
            );
            let message = read(&[&one[..], b"rest"].concat(), buffer).unwrap_err();
            assert!(message.contains("follow the last gzip member"), "{message}");
            assert!(read(&one[..one.len() - 3], buffer).is_err(), "cut short");
            assert!(
                read(&[&one[..], &two[..8]].concat(), buffer).is_err(),
                "cut short in the second member"
            );
        }
    }
}

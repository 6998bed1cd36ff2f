//! Requests that a client has compressed, over gRPC (`grpc-encoding`) and HTTP (`Content-Encoding`): gzip and
//! Zstandard, unpacked off the runtime's threads, into no more bytes than a plain request may have.

use std::io::Read;

use flate2::bufread::GzDecoder;
use tokio::sync::Semaphore;

/// Bytes that are unpacked before memory for more is held.
const STEP: usize = 64 << 10;
/// The largest window of Zstandard, as a power of two: 8 MiB, which RFC 9659 asks of every sender.
const LARGEST_WINDOW_LOG: u32 = 23;
/// Requests that are unpacked at once in this process; others wait.
const UNPACKED_AT_ONCE: usize = 4;

static UNPACKING: Semaphore = Semaphore::const_new(UNPACKED_AT_ONCE);

/// Runs `unpack` on a thread of its own, when fewer than [`UNPACKED_AT_ONCE`] others run.
pub(super) async fn when_there_is_room<T: Send + 'static>(
    unpack: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UnpackError> {
    let ended = |_| UnpackError::Damaged("unpacked by a thread that has ended".to_owned());
    let permit = UNPACKING.acquire().await.map_err(|_| UnpackError::Full)?;
    let unpacked = tokio::task::spawn_blocking(move || (unpack(), permit))
        .await
        .map_err(ended)?;
    Ok(unpacked.0)
}

/// How the bytes of a request are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Gzip,
    Zstd,
}

/// Names of those that are unpacked, for headers and messages.
pub(super) const ACCEPTED: &str = "identity,gzip,zstd";

/// Why bytes were not unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UnpackError {
    /// They would be more than a request may have.
    TooLarge,
    /// There is no memory for them now.
    Full,
    /// They are not what the header says.
    Damaged(String),
}

impl Encoding {
    /// The encoding of this name; none of `identity` and of no name. An error for a name that is not known.
    pub(super) fn named(name: &str) -> Result<Option<Self>, ()> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "zstd" => Ok(Some(Self::Zstd)),
            _ => Err(()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Adds what was packed to `plain`, `limit` bytes at most. `reserve` holds memory for that number of bytes of
    /// `plain`, or says that there is none, or no more need of it. Gzip has one member: empty ones would take time
    /// without bytes.
    pub(super) fn unpack(
        self,
        packed: &[u8],
        mut plain: Vec<u8>,
        limit: usize,
        mut reserve: impl FnMut(usize) -> bool,
    ) -> Result<Vec<u8>, UnpackError> {
        let damaged =
            |error: std::io::Error| UnpackError::Damaged(format!("no {} that can be read: {error}", self.name()));
        let mut reader: Box<dyn Read + '_> = match self {
            Self::Gzip => Box::new(OneMember(GzDecoder::new(packed))),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(damaged)?;
                decoder.window_log_max(LARGEST_WINDOW_LOG).map_err(damaged)?;
                Box::new(decoder)
            }
        };
        let before = plain.len();
        loop {
            let most = limit.saturating_add(1).saturating_sub(plain.len() - before).min(STEP);
            if plain.capacity() - plain.len() < most {
                // Twice as much, so that little is copied.
                let grown =
                    (2 * plain.len()).clamp(plain.len() + most, before.saturating_add(limit).saturating_add(STEP));
                if !reserve(grown) {
                    return Err(UnpackError::Full);
                }
                plain.reserve_exact(grown - plain.len());
            }
            let read = Read::take(&mut reader, most as u64)
                .read_to_end(&mut plain)
                .map_err(damaged)?;
            if plain.len() - before > limit {
                return Err(UnpackError::TooLarge);
            }
            if read < most {
                return Ok(plain);
            }
        }
    }
}

/// A gzip member after which nothing may follow.
struct OneMember<'a>(GzDecoder<&'a [u8]>);

impl Read for OneMember<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        if read == 0 && !buffer.is_empty() && !self.0.get_ref().is_empty() {
            let reason = "bytes follow its first member. Compress all of the request at once";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, reason));
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(encoding: Encoding, plain: &[u8]) -> Vec<u8> {
        match encoding {
            Encoding::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(plain).unwrap();
                encoder.finish().unwrap()
            }
            Encoding::Zstd => zstd::encode_all(plain, 19).unwrap(),
        }
    }

    #[test]
    fn what_was_packed_comes_back_within_the_limit() {
        let plain: Vec<u8> = (0..200_000_u32).flat_map(u32::to_le_bytes).collect();
        for encoding in [Encoding::Gzip, Encoding::Zstd] {
            for length in [0, 1, STEP - 1, STEP, STEP + 1, plain.len()] {
                let (packed, plain) = (packed(encoding, &plain[..length]), &plain[..length]);
                let unpacked = encoding.unpack(&packed, b"head".to_vec(), length, |_| true).unwrap();
                assert_eq!(unpacked, [b"head", plain].concat(), "{encoding:?} {length}");
                if length > 0 {
                    let refused = encoding.unpack(&packed, Vec::new(), length - 1, |_| true);
                    assert_eq!(refused, Err(UnpackError::TooLarge), "{encoding:?} {length}");
                    let cut = encoding.unpack(&packed[..packed.len() - 3], Vec::new(), length, |_| true);
                    assert!(matches!(cut, Err(UnpackError::Damaged(_))), "{encoding:?} {length}");
                }
            }
            if encoding == Encoding::Gzip {
                let twice = [packed(encoding, b"one"), packed(encoding, b"")].concat();
                let refused = encoding.unpack(&twice, Vec::new(), 100, |_| true);
                assert!(matches!(refused, Err(UnpackError::Damaged(reason)) if reason.contains("first member")));
            }
            assert!(matches!(
                encoding.unpack(b"plain text", Vec::new(), 100, |_| true),
                Err(UnpackError::Damaged(_))
            ));
        }
    }

    #[test]
    fn a_bomb_takes_no_more_memory_than_is_held_for_it() {
        let bomb = packed(Encoding::Zstd, &vec![0; 64 << 20]);
        assert!(bomb.len() < 10_000);
        let mut held = 0;
        let reserve = |bytes: usize| {
            held = bytes;
            bytes <= 1 << 20
        };
        assert_eq!(
            Encoding::Zstd.unpack(&bomb, Vec::new(), usize::MAX >> 1, reserve),
            Err(UnpackError::Full)
        );
        assert!(held <= 2 << 20, "refused before it is taken");
        assert_eq!(
            Encoding::Zstd.unpack(&bomb, Vec::new(), 1 << 20, |_| true),
            Err(UnpackError::TooLarge)
        );
    }

    #[test]
    fn names_are_those_of_the_headers() {
        assert_eq!(Encoding::named(" GZIP "), Ok(Some(Encoding::Gzip)));
        assert_eq!(Encoding::named("zstd"), Ok(Some(Encoding::Zstd)));
        assert_eq!(
            (Encoding::named("identity"), Encoding::named("br")),
            (Ok(None), Err(()))
        );
    }
}

//! What an HTTP/2 connection writes between two flushes, in one system call: the headers, the message and the status of a small reply are three
//! frames.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that wait for a flush: a frame of the usual largest size, and what comes before it.
const MOST: usize = 32 << 10;

/// A stream that sends when it is flushed, or when more than [`MOST`] bytes wait.
///
/// `h2` sends the payload of a frame apart, and flushes before it takes the next frame, where the payload has 256 bytes or more; 1,024 where
/// the stream takes no several slices at once, as this one says. Below that, all frames that are ready are written together.
#[derive(Debug)]
pub(super) struct WriteBuffer<S> {
    stream: S,
    waiting: Vec<u8>,
    /// How much of it is sent.
    sent: usize,
}

impl<S> WriteBuffer<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, waiting: Vec::new(), sent: 0 }
    }

    #[cfg(test)]
    pub(super) fn stream(&self) -> &S {
        &self.stream
    }
}

impl<S: AsyncWrite + Unpin> WriteBuffer<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.waiting.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.waiting.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteBuffer<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteBuffer<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.waiting.len() >= MOST {
            ready!(self.poll_send(cx))?;
        }
        let taken = bytes.get(..MOST - self.waiting.len()).unwrap_or(bytes);
        self.waiting.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// Counts writes.
    struct Counting<S>(S, usize);

    impl<S: AsyncWrite + Unpin> AsyncWrite for Counting<S> {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let polled = Pin::new(&mut self.0).poll_write(cx, bytes);
            self.1 += usize::from(polled.is_ready());
            polled
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    #[tokio::test]
    async fn all_that_is_written_before_a_flush_is_sent_at_once() {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut writer = WriteBuffer::new(Counting(ours, 0));
        for piece in [&b"headers, "[..], b"message, ", b"status"] {
            writer.write_all(piece).await.unwrap();
        }
        assert_eq!(writer.stream().1, 0);
        writer.flush().await.unwrap();
        assert_eq!(writer.stream().1, 1);
        let mut got = [0; 24];
        theirs.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"headers, message, status");
        writer.flush().await.unwrap();
        assert_eq!(writer.stream().1, 1, "nothing waits");
    }

    /// A reader with a small window takes a part of each write; nothing is lost, doubled, or held for ever.
    #[tokio::test]
    async fn bytes_keep_their_order_whatever_the_sizes() {
        let (ours, mut theirs) = tokio::io::duplex(1_000);
        let mut writer = WriteBuffer::new(ours);
        let sent: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        let expected = sent.clone();
        let write = async move {
            let (mut rest, mut size) = (sent.as_slice(), 1);
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(size.min(rest.len()));
                writer.write_all(piece).await.unwrap();
                if size % 3 == 0 {
                    writer.flush().await.unwrap();
                }
                (rest, size) = (after, size * 7 % 50_021);
            }
            writer.shutdown().await.unwrap();
        };
        let mut got = Vec::new();
        let ((), read) = tokio::join!(write, theirs.read_to_end(&mut got));
        read.unwrap();
        assert!(got == expected);
    }
}

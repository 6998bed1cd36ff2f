//! Writes of an HTTP connection, with a deadline: a client that does not read its reply holds neither the reply's
//! memory nor its connection for long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::reply::LEAST_RATE;

/// A stream whose writes fail where its peer reads slower than [`LEAST_RATE`], except for pauses of `stall` in all.
#[derive(Debug)]
pub(super) struct WriteDeadline<S> {
    stream: S,
    stall: Duration,
    /// When the peer is too late; none while it has taken everything.
    until: Option<Instant>,
    sleep: Pin<Box<Sleep>>,
}

impl<S> WriteDeadline<S> {
    pub(super) fn new(stream: S, stall: Duration) -> Self {
        Self {
            stream,
            stall,
            until: None,
            sleep: Box::pin(tokio::time::sleep(stall)),
        }
    }

    fn written(&mut self, polled: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let latest = Instant::now() + self.stall;
        match polled {
            Poll::Pending => {
                let until = *self.until.get_or_insert(latest);
                if self.sleep.deadline() != until {
                    self.sleep.as_mut().reset(until);
                }
                if self.sleep.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "the client does not read its reply",
                    )));
                }
                Poll::Pending
            }
            Poll::Ready(Ok(bytes)) => {
                let earned = Duration::from_micros(bytes as u64 * 1_000_000 / LEAST_RATE as u64);
                self.until = self.until.map(|until| (until + earned).min(latest));
                Poll::Ready(Ok(bytes))
            }
            failed @ Poll::Ready(Err(_)) => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteDeadline<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(polled, cx)
    }

    /// Called once everything has been written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.until = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const STALL: Duration = Duration::from_millis(300);

    /// Writes 4 MiB to a reader that takes that many bytes after each pause.
    async fn write_to_reader_of(bytes: usize, pause: Duration) -> io::Result<()> {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut writer = WriteDeadline::new(ours, STALL);
        let write = async move {
            writer.write_all(&vec![7; 4 << 20]).await?;
            writer.flush().await
        };
        let read = async {
            let mut taken = vec![0; bytes];
            while theirs.read_exact(&mut taken).await.is_ok() {
                tokio::time::sleep(pause).await;
            }
            std::future::pending::<()>().await;
        };
        let written = async {
            tokio::select! {
                written = write => written,
                () = read => Ok(()),
            }
        };
        tokio::time::timeout(Duration::from_mins(1), written).await.unwrap()
    }

    #[tokio::test]
    async fn who_reads_nothing_or_too_slowly_is_too_late_and_who_reads_steadily_is_not() {
        let error = write_to_reader_of(1, Duration::from_hours(1)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // Each pause alone is shorter than the limit.
        let error = write_to_reader_of(4 << 10, STALL / 4).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        write_to_reader_of(256 << 10, Duration::from_millis(1)).await.unwrap();
    }

    #[tokio::test]
    async fn a_pause_between_replies_does_not_count() {
        let (ours, mut theirs) = tokio::io::duplex(64 << 10);
        let mut writer = WriteDeadline::new(ours, STALL);
        for _ in 0..3 {
            writer.write_all(&[7; 8 << 10]).await.unwrap();
            writer.flush().await.unwrap();
            tokio::time::sleep(STALL).await;
            theirs.read_exact(&mut [0; 8 << 10]).await.unwrap();
        }
        // More than the buffer holds: the time begins now.
        let (all, mut taken) = (vec![7; 128 << 10], vec![0; 128 << 10]);
        let (written, read) = tokio::join!(writer.write_all(&all), theirs.read_exact(&mut taken));
        written.unwrap();
        read.unwrap();
    }
}

//! A client's connection in few system calls: what is written until a flush goes out together.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};

use super::transport::ClientTransport;

/// Bytes that are gathered until a flush: a frame of the usual largest size, and what comes before it.
const WRITE_BUFFER: usize = 32 << 10;

/// A client's connection, whose writes are gathered until they are flushed: the headers, the message and the status of
/// a small reply are three frames of HTTP/2.
///
/// `h2` writes the payload of a frame apart, and flushes before it takes the next frame, where the payload has 256
/// bytes or more; 1,024 where the stream takes no several slices at once, as this one says. Below that, all frames that
/// are ready go out in one system call. The clock sees the connection inside, which gets only what is really written:
/// what fills the buffer while the client reads nothing is no progress.
pub(super) struct ClientStream(BufWriter<ClientTransport>);

impl ClientStream {
    pub(super) fn new(transport: ClientTransport) -> Self {
        Self(BufWriter::with_capacity(WRITE_BUFFER, transport))
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::super::client_clock::{ClientClock, MissedDeadline};
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    async fn connected(reply_stall: Duration) -> (ClientStream, TcpStream, Arc<ClientClock>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let clock = Arc::new(ClientClock::new(HOUR, 0, reply_stall));
        let transport = ClientTransport::new(stream, Arc::clone(&clock));
        (ClientStream::new(transport), client, clock)
    }

    #[tokio::test]
    async fn what_is_written_until_a_flush_is_sent_together() {
        let (mut connection, mut client, _) = connected(HOUR).await;
        assert!(!connection.is_write_vectored());
        for piece in [&b"headers, "[..], b"message, ", b"status"] {
            connection.write_all(piece).await.unwrap();
        }
        let mut got = [0; 100];
        assert_eq!(client.try_read(&mut got).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        connection.flush().await.unwrap();
        let read = client.read(&mut got).await.unwrap();
        assert_eq!(&got[..read], b"headers, message, status");
    }

    /// As answers to pings would be.
    #[tokio::test]
    async fn small_writes_into_the_buffer_do_not_help_a_client_that_reads_nothing() {
        let (mut connection, _client, clock) = connected(Duration::from_secs(1)).await;
        let (begun, pause) = (Instant::now(), Duration::from_millis(100));
        let piece = vec![7; 64 << 10];
        while tokio::time::timeout(pause, connection.write_all(&piece)).await.is_ok() {}
        while clock.missed(false).is_none() {
            assert!(begun.elapsed() < Duration::from_secs(20), "the connection stays open");
            let write = async {
                connection.write_all(b"pong").await?;
                connection.flush().await
            };
            assert!(tokio::time::timeout(pause, write).await.is_err(), "the client has read");
        }
        assert_eq!(clock.missed(false), Some(MissedDeadline::Reading));
    }
}

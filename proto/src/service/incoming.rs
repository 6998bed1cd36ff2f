//! Connections of a gRPC server: without Nagle's algorithm, plain or with TLS, bounded in number, closed when they are
//! silent or when their client does not read its replies. What is written until a flush goes out together.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::{Stream, stream};
use tokio::io::{AsyncRead, AsyncWrite, BufWriter, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep};
use tonic::transport::server::Connected;

use super::accept::Failures;
use super::reply::Owed;
use super::tls::{Protocol, Tls};
use super::transport::Transport;

/// Bytes of the preface of an HTTP/2 connection.
const PREFACE: usize = 24;
/// Time after which a connection on which no API key was accepted makes room, where others wait.
const STRANGER: Duration = Duration::from_secs(5);
/// Bytes that are gathered until a flush: a frame of the usual largest size, and what comes before it.
const WRITE_BUFFER: usize = 32 << 10;
/// Interval at which a connection checks its deadlines.
const TICK: Duration = Duration::from_secs(1);

/// Limits of connections.
#[derive(Debug, Clone)]
pub(super) struct ConnectionBounds {
    pub(super) connections: usize,
    pub(super) preface: Duration,
    pub(super) reply_stall: Duration,
    /// Whether the server drains: connections that have sent nothing by then are closed.
    pub(super) draining: watch::Receiver<bool>,
    /// Of the connections.
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether calls need API keys: connections on which none was accepted then make room for new ones.
    pub(super) has_keys: bool,
}

/// The other end of a connection, in the extensions of each of its requests.
#[derive(Debug, Clone, Default)]
pub(super) struct Client {
    pub(super) owed: Owed,
    pub(super) address: Option<SocketAddr>,
    /// Set once a call with an API key was accepted.
    pub(super) is_known: Arc<AtomicBool>,
}

/// The stream of accepted connections; more than the bound wait in the system's queue.
pub(super) fn incoming(
    listener: TcpListener,
    bounds: ConnectionBounds,
) -> impl Stream<Item = io::Result<BufferedConnection>> {
    let free = Arc::new(Semaphore::new(bounds.connections));
    let full = Arc::new(AtomicBool::new(false));
    stream::unfold(
        (listener, free, Failures::default(), bounds),
        move |(listener, free, mut failures, bounds)| {
            let full = Arc::clone(&full);
            async move {
                loop {
                    let permit = if let Ok(permit) = Arc::clone(&free).try_acquire_owned() {
                        permit
                    } else {
                        failures.warn(&format!(
                            "{} gRPC connections are open, and more wait",
                            bounds.connections
                        ));
                        full.store(true, Ordering::Relaxed);
                        let permit = Arc::clone(&free).acquire_owned().await.ok()?;
                        full.store(false, Ordering::Relaxed);
                        permit
                    };
                    match listener.accept().await {
                        Ok((stream, address)) => {
                            // The status of a call goes out in a write of its own after a message of a kilobyte or
                            // more, which Nagle's algorithm keeps back until the client's system has acknowledged the
                            // reply: 40 ms.
                            if let Err(error) = stream.set_nodelay(true) {
                                tracing::debug!(%error, "no TCP_NODELAY");
                            }
                            let full = bounds.has_keys.then(|| Arc::clone(&full));
                            let connection = ServerConnection::new(stream, address, &bounds, (permit, full));
                            return Some((
                                Ok(BufferedConnection::new(connection)),
                                (listener, free, failures, bounds),
                            ));
                        }
                        Err(error) => failures.pause_after(&error, "gRPC").await,
                    }
                }
            }
        },
    )
}

/// A client's connection, whose writes are gathered until they are flushed: the headers, the message and the status of
/// a small reply are three frames.
///
/// `h2` writes the payload of a frame apart, and flushes before it takes the next frame, where the payload has 256
/// bytes or more; 1,024 where the stream takes no several slices at once, as this one says. Below that, all frames that
/// are ready go out in one system call. Deadlines are those of the connection inside, which sees only what is really
/// written: what fills the buffer while the client reads nothing is no progress.
#[derive(Debug)]
pub(super) struct BufferedConnection(BufWriter<ServerConnection>);

impl BufferedConnection {
    fn new(connection: ServerConnection) -> Self {
        Self(BufWriter::with_capacity(WRITE_BUFFER, connection))
    }
}

impl Connected for BufferedConnection {
    type ConnectInfo = Client;

    fn connect_info(&self) -> Client {
        self.0.get_ref().client.clone()
    }
}

impl AsyncRead for BufferedConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BufferedConnection {
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

/// What is under the buffer.
#[derive(Debug)]
struct ServerConnection {
    stream: Transport,
    client: Client,
    reply_stall: Duration,
    draining: watch::Receiver<bool>,
    /// Since when the send buffer has been full.
    blocked: Option<Instant>,
    /// Deadline of the preface, and the bytes of it received so far.
    preface: (Instant, usize),
    /// When a client that has shown no API key may be closed, and whether others wait for its place; none where no keys
    /// are needed.
    stranger: Option<(Instant, Arc<AtomicBool>)>,
    tick: Pin<Box<Sleep>>,
    _permit: OwnedSemaphorePermit,
}

impl ServerConnection {
    fn new(
        stream: TcpStream,
        address: SocketAddr,
        bounds: &ConnectionBounds,
        (permit, full): (OwnedSemaphorePermit, Option<Arc<AtomicBool>>),
    ) -> Self {
        Self {
            stream: Transport::new(stream, bounds.tls.as_ref(), Protocol::Grpc),
            client: Client {
                owed: Owed::new(bounds.reply_stall),
                address: Some(address),
                is_known: Arc::default(),
            },
            reply_stall: bounds.reply_stall,
            draining: bounds.draining.clone(),
            blocked: None,
            preface: (Instant::now() + bounds.preface, 0),
            stranger: full.map(|full| (Instant::now() + STRANGER.min(bounds.preface), full)),
            tick: Box::pin(tokio::time::sleep(TICK.min(bounds.preface))),
            _permit: permit,
        }
    }

    /// Records whether the send buffer is full.
    fn written<T>(&mut self, polled: Poll<T>) -> Poll<T> {
        if polled.is_ready() {
            self.blocked = None;
        } else {
            self.blocked.get_or_insert_with(Instant::now);
        }
        polled
    }

    /// An error where the client has missed a deadline. Checked by reads and writes: a connection that cannot write is
    /// not read.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while self.tick.as_mut().poll(cx).is_ready() {
            let (deadline, received) = self.preface;
            if received < PREFACE && (Instant::now() >= deadline || *self.draining.borrow()) {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client sent no HTTP/2 preface",
                ));
            }
            if let Some((until, full)) = &self.stranger
                && Instant::now() >= *until
                && full.load(Ordering::Relaxed)
                && !self.client.is_known.load(Ordering::Relaxed)
            {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "others wait, and the client has shown no API key",
                ));
            }
            let blocked = self.blocked.is_some_and(|since| since.elapsed() > self.reply_stall);
            if blocked || self.client.owed.is_overdue() {
                let client = self.client.address.map(|address| address.to_string());
                tracing::info!(client, "closed a connection: its client does not read its replies");
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the client does not read its replies",
                ));
            }
            self.tick.as_mut().reset(Instant::now() + TICK);
        }
        Ok(())
    }
}

impl AsyncRead for ServerConnection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.preface.1 < PREFACE {
            self.preface.1 += buffer.filled().len() - before;
        }
        polled
    }
}

impl AsyncWrite for ServerConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.written(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    async fn accepted(reply_stall: Duration) -> (BufferedConnection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_begun, draining) = watch::channel(false);
        let bounds = ConnectionBounds {
            connections: 2,
            preface: HOUR,
            reply_stall,
            draining,
            tls: None,
            has_keys: false,
        };
        let (accepted, client) = tokio::join!(
            async { Box::pin(incoming(listener, bounds)).next().await.unwrap().unwrap() },
            TcpStream::connect(address)
        );
        (accepted, client.unwrap())
    }

    #[tokio::test]
    async fn accepted_connections_send_at_once() {
        let (accepted, _client) = accepted(HOUR).await;
        assert!(matches!(&accepted.0.get_ref().stream, Transport::Plain(stream) if stream.nodelay().unwrap()));
    }

    #[tokio::test]
    async fn what_is_written_until_a_flush_is_sent_together() {
        let (mut connection, mut client) = accepted(HOUR).await;
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
        let (mut connection, _client) = accepted(Duration::from_secs(1)).await;
        let (begun, pause) = (Instant::now(), Duration::from_millis(100));
        let piece = vec![7; 64 << 10];
        while tokio::time::timeout(pause, connection.write_all(&piece)).await.is_ok() {}
        let error = loop {
            assert!(begun.elapsed() < Duration::from_secs(20), "the connection stays open");
            let write = async {
                connection.write_all(b"pong").await?;
                connection.flush().await
            };
            if let Ok(Err(error)) = tokio::time::timeout(pause, write).await {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}

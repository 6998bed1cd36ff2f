//! A client's connection, plain or with TLS, whose bytes its clock sees. The handshake is a part of the first read or
//! write, so that the deadlines of these bound it and nothing waits for it before the next connection is accepted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::Accept;

use super::client_clock::ClientClock;
use super::protocol::ServedProtocol;
use super::tls::Tls;

/// A connection and its clock.
pub(super) struct ClientTransport {
    state: TransportState,
    clock: Arc<ClientClock>,
}

enum TransportState {
    Handshake(Box<Accept<TcpStream>>, Arc<Tls>),
    Open(Box<dyn ByteStream>),
    /// The handshake has failed.
    Failed,
}

trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

impl ClientTransport {
    /// A plain connection.
    pub(super) fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, clock: Arc<ClientClock>) -> Self {
        let state = TransportState::Open(Box::new(stream));
        Self { state, clock }
    }

    /// A connection on which `protocol` is spoken inside TLS.
    pub(super) fn with_tls(
        stream: TcpStream,
        tls: &Arc<Tls>,
        protocol: ServedProtocol,
        clock: Arc<ClientClock>,
    ) -> Self {
        let accept = tls.acceptor(protocol).accept(stream);
        let state = TransportState::Handshake(Box::new(accept), Arc::clone(tls));
        Self { state, clock }
    }

    /// The stream once the handshake is done.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn ByteStream>>> {
        if let TransportState::Handshake(accept, tls) = &mut self.state {
            match ready!(Pin::new(&mut **accept).poll(cx)) {
                Ok(stream) => self.state = TransportState::Open(Box::new(stream)),
                Err(error) => {
                    tls.note_failure();
                    tracing::debug!(%error, "a TLS handshake failed");
                    self.state = TransportState::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match &mut self.state {
            TransportState::Open(stream) => Ok(Pin::new(&mut **stream)),
            TransportState::Handshake(..) | TransportState::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }

    fn written<T>(&self, polled: Poll<T>) -> Poll<T> {
        self.clock.note_written(polled.is_pending());
        polled
    }
}

impl AsyncRead for ClientTransport {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = ready!(self.poll_stream(cx))?.poll_read(cx, buffer);
        self.clock.note_received(buffer.filled().len() - before);
        polled
    }
}

impl AsyncWrite for ClientTransport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = ready!(self.poll_stream(cx))?.poll_write(cx, bytes);
        self.written(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = ready!(self.poll_stream(cx))?.poll_flush(cx);
        self.written(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            TransportState::Open(stream) => Pin::new(stream).poll_shutdown(cx),
            // A connection that is closed before or in its handshake has nothing to say.
            TransportState::Handshake(..) | TransportState::Failed => Poll::Ready(Ok(())),
        }
    }
}

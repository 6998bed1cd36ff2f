//! A client's connection, plain or with TLS. The handshake is a part of the first read or write, so that the deadlines
//! of these bound it and nothing waits for it before the next connection is accepted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::Accept;
use tokio_rustls::server::TlsStream;

use super::protocol::ServedProtocol;
use super::tls::Tls;

/// A connection.
pub(super) enum Transport {
    Plain(TcpStream),
    Handshake(Box<Accept<TcpStream>>, Arc<Tls>),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Failed,
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Handshake(..) => "Handshake",
            Self::Encrypted(_) => "Encrypted",
            Self::Failed => "Failed",
        })
    }
}

impl Transport {
    /// Around an accepted connection.
    pub(super) fn new(stream: TcpStream, tls: Option<&Arc<Tls>>, protocol: ServedProtocol) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(tls) => Self::Handshake(Box::new(tls.acceptor(protocol).accept(stream)), Arc::clone(tls)),
        }
    }

    /// The stream once the handshake is done.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Stream>>> {
        if let Self::Handshake(accept, tls) = self {
            match ready!(Pin::new(&mut **accept).poll(cx)) {
                Ok(stream) => *self = Self::Encrypted(Box::new(stream)),
                Err(error) => {
                    tls.note_failure();
                    tracing::debug!(%error, "a TLS handshake failed");
                    *self = Self::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match self {
            Self::Plain(stream) => Ok(Pin::new(stream)),
            Self::Encrypted(stream) => Ok(Pin::new(&mut **stream)),
            Self::Handshake(..) | Self::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl AsyncRead for Transport {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_read(cx, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?.poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A connection that is closed before or in its handshake has nothing to say.
        match &mut *self {
            Self::Handshake(..) | Self::Failed => Poll::Ready(Ok(())),
            _ => ready!(self.poll_stream(cx))?.poll_shutdown(cx),
        }
    }
}

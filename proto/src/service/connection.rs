//! One connection, from its TLS handshake to its end, and the requests on it.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::body::Incoming;
use hyper::service::{Service as _, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;

use super::client_clock::{ClientClock, MissedDeadline};
use super::client_stream::ClientStream;
use super::connection_slots::{CLOSE_GRACE, ConnectionSlot};
use super::edge::{EdgeConfig, ServerEdge};
use super::protocol::ServedProtocol;
use super::reply::{SentReply, UntilSent};
use super::transport::ClientTransport;

/// Interval at which a connection's deadlines are checked.
const TICK: Duration = Duration::from_millis(500);

/// An accepted connection, in the extensions of each of its requests.
#[derive(Debug)]
pub(super) struct ServedConnection {
    /// The client's address.
    pub(super) peer: Option<SocketAddr>,
    pub(super) slot: ConnectionSlot,
    clock: Arc<ClientClock>,
    edge: Arc<ServerEdge>,
}

/// Serves a connection until its client leaves, misses a deadline, or has to go: because the server drains, the
/// connection is old, or it gives way to another.
pub(super) async fn serve_connection(stream: TcpStream, slot: ConnectionSlot, routes: Router, edge: Arc<ServerEdge>) {
    let EdgeConfig {
        protocol,
        opening,
        reply_stall,
        ..
    } = edge.config;
    set_options(&stream, protocol, reply_stall);
    let connection = Arc::new(ServedConnection {
        peer: stream.peer_addr().ok(),
        slot,
        clock: Arc::new(ClientClock::new(opening, protocol.preface(), reply_stall)),
        edge: Arc::clone(&edge),
    });
    let transport = match &edge.config.tls {
        None => ClientTransport::new(stream, Arc::clone(&connection.clock)),
        Some(tls) => ClientTransport::with_tls(stream, tls, protocol, Arc::clone(&connection.clock)),
    };
    let (requests, routes) = (Arc::clone(&connection), TowerToHyperService::new(routes));
    let service = service_fn(move |request| requests.answer(&routes, request));
    let wire = edge
        .config
        .wire
        .serve_connection(TokioIo::new(ClientStream::new(transport)), service);
    let (mut wire, mut time_to_end) = (pin!(wire), pin!(edge.time_to_end()));
    let (mut is_ending, mut closed_at) = (false, None);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            ended = wire.as_mut() => {
                // Clients that leave, send no headers or do not speak the protocol are not an error of the server.
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = &mut time_to_end, if !is_ending => {
                is_ending = true;
                wire.as_mut().graceful_shutdown();
            }
            () = connection.slot.closed() => {
                closed_at.get_or_insert_with(Instant::now);
                wire.as_mut().graceful_shutdown();
            }
            _ = tick.tick() => if connection.overstays(closed_at) {
                return;
            }
        }
    }
}

fn set_options(stream: &TcpStream, protocol: ServedProtocol, reply_stall: Duration) {
    // The status of a call goes out in a write of its own after a message of a kilobyte or more, which Nagle's
    // algorithm keeps back until the client's system has acknowledged the reply: 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    // What is in the system's buffer when the last write has returned. HTTP/2 finds out by pings.
    if protocol == ServedProtocol::Http
        && let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(reply_stall))
    {
        tracing::debug!(%error, "no limit on the time for writing");
    }
}

impl ServedConnection {
    /// Whether the client has missed a deadline, or the connection, which was to give way at `closed_at`, has not ended
    /// by itself. Where a request came at the last moment, it is answered.
    fn overstays(&self, closed_at: Option<Instant>) -> bool {
        let client = self.peer.map(|peer| peer.to_string());
        match self.clock.missed(self.edge.is_draining()) {
            Some(missed @ MissedDeadline::Reading) => tracing::info!(client, "closed a connection: {missed}"),
            Some(missed @ MissedDeadline::Opening) => tracing::debug!(client, "closed a connection: {missed}"),
            None => return closed_at.is_some_and(|at| at.elapsed() >= CLOSE_GRACE) && self.slot.gives_way(),
        }
        true
    }

    /// Has a request answered, and keeps what the reply needs until it is sent.
    fn answer(
        self: &Arc<Self>,
        routes: &TowerToHyperService<Router>,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<SentReply>, Infallible>> + Send + use<> {
        let (under_way, clock) = (RequestUnderWay::begin(Arc::clone(self)), Arc::clone(&self.clock));
        request.extensions_mut().insert(Arc::clone(self));
        let reply = routes.call(request);
        async move {
            let mut reply = reply.await?;
            let kept = reply.extensions_mut().remove::<UntilSent>();
            Ok(reply.map(|body| SentReply::new(body, clock, Box::new((kept, under_way)))))
        }
    }

    /// Whether it holds its slot by its requests: over HTTP/1.1, which has one at a time.
    fn is_held_by_requests(&self) -> bool {
        self.edge.config.protocol == ServedProtocol::Http
    }
}

/// A request from its arrival until its reply is sent.
struct RequestUnderWay(Arc<ServedConnection>);

impl RequestUnderWay {
    fn begin(connection: Arc<ServedConnection>) -> Self {
        connection.edge.under_way.fetch_add(1, Ordering::Relaxed);
        if connection.is_held_by_requests() {
            connection.slot.hold();
        }
        Self(connection)
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        if self.0.is_held_by_requests() {
            self.0.slot.release();
        }
        self.0.edge.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepted_connections_send_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        for protocol in [ServedProtocol::Grpc, ServedProtocol::Http] {
            stream.set_nodelay(false).unwrap();
            set_options(&stream, protocol, Duration::from_secs(1));
            assert!(stream.nodelay().unwrap(), "{protocol}");
        }
    }
}

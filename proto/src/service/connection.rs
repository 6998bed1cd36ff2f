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
use tokio::sync::watch;

use super::client_clock::{ClientClock, MissedDeadline};
use super::client_stream::ClientStream;
use super::connection_slots::{CLOSE_GRACE, ConnectionSlot};
use super::edge::{EdgeConfig, ServerEdge};
use super::protocol::ServedProtocol;
use super::reply::{SentReply, UntilSent};
use super::transport::Transport;

/// Interval at which a connection's deadlines are checked.
const TICK: Duration = Duration::from_millis(500);

/// The other end of a connection, in the extensions of each of its requests.
#[derive(Debug, Clone)]
pub(super) struct ConnectedClient {
    pub(super) address: Option<SocketAddr>,
    pub(super) slot: Arc<ConnectionSlot>,
}

/// Serves a connection until its client leaves, misses a deadline, or has to go: because the server drains, the
/// connection is old, or it gives way to another.
pub(super) async fn serve_connection(stream: TcpStream, slot: ConnectionSlot, routes: Router, edge: Arc<ServerEdge>) {
    let EdgeConfig {
        protocol,
        wire,
        tls,
        opening,
        reply_stall,
        ..
    } = &edge.config;
    set_options(&stream, *protocol, *reply_stall);
    let client = ConnectedClient {
        address: stream.peer_addr().ok(),
        slot: Arc::new(slot),
    };
    let clock = Arc::new(ClientClock::new(*opening, protocol.preface(), *reply_stall));
    let watch = ConnectionWatch {
        client: client.clone(),
        clock: Arc::clone(&clock),
        draining: edge.draining(),
    };
    let transport = Transport::new(stream, tls.as_ref(), *protocol);
    let stream = TokioIo::new(ClientStream::new(transport, Arc::clone(&clock)));
    let requests = RequestTracker {
        routes: TowerToHyperService::new(routes),
        client,
        clock,
        edge: Arc::clone(&edge),
    };
    let service = service_fn(move |request| requests.answer(request));
    let mut connection = pin!(wire.serve_connection(stream, service));
    let mut time_to_end = pin!(time_to_end(&edge));
    let (mut is_ending, mut closed_at) = (false, None);
    let mut tick = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                // Clients that leave, send no headers or do not speak the protocol are not an error of the server.
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended early");
                }
                return;
            }
            () = &mut time_to_end, if !is_ending => {
                is_ending = true;
                connection.as_mut().graceful_shutdown();
            }
            () = watch.client.slot.closed() => {
                closed_at.get_or_insert_with(Instant::now);
                connection.as_mut().graceful_shutdown();
            }
            _ = tick.tick() => if watch.overstays(closed_at) {
                return;
            }
        }
    }
}

fn set_options(stream: &TcpStream, protocol: ServedProtocol, reply_stall: Duration) {
    // The status of a call goes out in a write of its own after a message of a kilobyte or more, which Nagle's algorithm
    // keeps back until the client's system has acknowledged the reply: 40 ms.
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

/// Completes when the server drains, or has ended, or the connection is old.
async fn time_to_end(edge: &ServerEdge) {
    let mut draining = edge.draining();
    tokio::select! {
        _ = draining.wait_for(|draining| *draining) => {}
        () = tokio::time::sleep(edge.config.connection_age) => {}
    }
}

/// What decides whether a connection is closed at once.
struct ConnectionWatch {
    client: ConnectedClient,
    clock: Arc<ClientClock>,
    draining: watch::Receiver<bool>,
}

impl ConnectionWatch {
    /// Whether the client has missed a deadline, or the connection, which was to give way at `closed_at`, has not ended
    /// by itself. Where a request came at the last moment, it is answered.
    fn overstays(&self, closed_at: Option<Instant>) -> bool {
        let client = self.client.address.map(|address| address.to_string());
        match self.clock.missed(*self.draining.borrow()) {
            Some(missed @ MissedDeadline::Reading) => tracing::info!(client, "closed a connection: {missed}"),
            Some(missed @ MissedDeadline::Opening) => tracing::debug!(client, "closed a connection: {missed}"),
            None => return closed_at.is_some_and(|at| at.elapsed() >= CLOSE_GRACE) && self.client.slot.gives_way(),
        }
        true
    }
}

/// The requests of a connection.
struct RequestTracker {
    routes: TowerToHyperService<Router>,
    client: ConnectedClient,
    clock: Arc<ClientClock>,
    edge: Arc<ServerEdge>,
}

impl RequestTracker {
    /// Has a request answered, and keeps what the reply needs until it is sent.
    fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<SentReply>, Infallible>> + Send + use<> {
        let under_way = RequestUnderWay::begin(&self.client.slot, &self.edge);
        request.extensions_mut().insert(self.client.clone());
        let (reply, clock) = (self.routes.call(request), Arc::clone(&self.clock));
        async move {
            let mut reply = reply.await?;
            let kept = reply.extensions_mut().remove::<UntilSent>();
            Ok(reply.map(|body| SentReply::new(body, clock, Box::new((kept, under_way)))))
        }
    }
}

/// A request from its arrival until its reply is sent.
struct RequestUnderWay {
    slot: Arc<ConnectionSlot>,
    edge: Arc<ServerEdge>,
}

impl RequestUnderWay {
    fn begin(slot: &Arc<ConnectionSlot>, edge: &Arc<ServerEdge>) -> Self {
        edge.under_way.fetch_add(1, Ordering::Relaxed);
        slot.begin_request();
        Self {
            slot: Arc::clone(slot),
            edge: Arc::clone(edge),
        }
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        self.slot.end_request();
        self.edge.under_way.fetch_sub(1, Ordering::Relaxed);
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

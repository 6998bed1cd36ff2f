//! The HTTP server: requests finish before it ends, and no client can delay it.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use dyad_proto::service::{self, HttpConfig, ServeError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

struct Running {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), ServeError>>,
}

async fn start(config: HttpConfig) -> Running {
    let listener = service::bind_for("127.0.0.1:0", "--http").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let sleep = async || {
        tokio::time::sleep(Duration::from_millis(300)).await;
        "slept"
    };
    let pieces = async || {
        let pieces = futures_util::stream::unfold(0, |number| async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            (number < 4).then(|| {
                (
                    Ok::<_, std::convert::Infallible>(format!("piece {number} ")),
                    number + 1,
                )
            })
        });
        axum::body::Body::from_stream(pieces)
    };
    let routes = Router::new()
        .route("/", get("hello"))
        .route("/sleep", get(sleep))
        .route("/pieces", get(pieces));
    let task = tokio::spawn(service::serve_http(
        listener,
        routes,
        async { drop(stopped.await) },
        config,
    ));
    Running { address, stop, task }
}

/// Sends bytes and reads until the server closes.
async fn exchange(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut reply = String::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut reply))
        .await
        .unwrap()
        .unwrap();
    reply
}

async fn ended(task: tokio::task::JoinHandle<Result<(), ServeError>>) -> Result<(), ServeError> {
    tokio::time::timeout(Duration::from_secs(20), task)
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn a_running_request_is_answered_and_idle_connections_do_not_hold_up_the_end() {
    let server = start(HttpConfig::default()).await;
    let idle = TcpStream::connect(server.address).await.unwrap();
    let mut kept = TcpStream::connect(server.address).await.unwrap();
    kept.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(kept.read(&mut [0; 1024]).await.unwrap() > 0);
    // Kept alive by its request, and answered after the signal.
    let address = server.address;
    let sleeping = tokio::spawn(async move { exchange(address, "GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    assert!(sleeping.await.unwrap().ends_with("slept"));
    ended(server.task).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
    drop((idle, kept));
}

#[tokio::test]
async fn a_drain_has_a_deadline() {
    let server = start(HttpConfig {
        drain: Duration::from_millis(10),
        ..HttpConfig::default()
    })
    .await;
    let mut sleeping = TcpStream::connect(server.address).await.unwrap();
    sleeping
        .write_all(b"GET /sleep HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.stop.send(()).unwrap();
    assert!(matches!(ended(server.task).await, Err(ServeError::Drain(_))));
    let mut reply = Vec::new();
    let _ = sleeping.read_to_end(&mut reply).await;
    assert!(reply.is_empty(), "dropped, not answered");
}

#[tokio::test]
async fn slow_headers_are_cut_off() {
    let server = start(HttpConfig {
        header_timeout: Duration::from_millis(50),
        ..HttpConfig::default()
    })
    .await;
    for bytes in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "] {
        let reply = exchange(server.address, bytes).await;
        assert!(!reply.contains("hello"), "{reply}");
    }
    let reply = exchange(server.address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(reply.ends_with("hello"), "an idle connection is closed too: {reply}");
}

#[tokio::test]
async fn connections_are_bounded_and_wait_their_turn() {
    let server = start(HttpConfig {
        connections: 1,
        ..HttpConfig::default()
    })
    .await;
    // A request in flight is not cut off, and holds the only slot.
    let address = server.address;
    let request = "GET /sleep HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let sleeping = tokio::spawn(async move { exchange(address, request).await });
    // Taken first, so that it is the one that is served.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    second
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut reply = String::new();
    let early = tokio::time::timeout(Duration::from_millis(100), second.read_to_string(&mut reply)).await;
    assert!(early.is_err(), "it waits: {reply}");
    assert!(sleeping.await.unwrap().ends_with("slept"));
    tokio::time::timeout(Duration::from_secs(20), second.read_to_string(&mut reply))
        .await
        .unwrap()
        .unwrap();
    assert!(reply.ends_with("hello"), "{reply}");
}

#[tokio::test]
async fn connections_without_a_request_give_way() {
    // Longer than the test may take: nothing but giving way makes room.
    let header_timeout = Duration::from_mins(10);
    let server = start(HttpConfig {
        connections: 3,
        header_timeout,
        ..HttpConfig::default()
    })
    .await;
    let mut held = Vec::new();
    // Silent, with half a header, and kept alive after a request.
    for bytes in ["", "GET / HTTP/1.1\r\nHost", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        if bytes.ends_with("\r\n\r\n") {
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        }
        held.push(stream);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut newer = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut reply = [0; 1024];
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut reply))
            .await
            .unwrap()
            .unwrap();
        assert!(reply[..read].ends_with(b"hello"));
        newer.push(stream);
    }
    for mut stream in held {
        let ended = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0; 1024]))
            .await
            .unwrap();
        assert!(matches!(ended, Ok(0) | Err(_)), "ended by the server");
    }
}

#[tokio::test]
async fn an_address_in_use_names_its_option() {
    let server = start(HttpConfig::default()).await;
    let error = service::bind_for(&server.address.to_string(), "--http")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("choose another one with `--http`"), "{error}");
}

#[tokio::test]
async fn a_reply_that_is_being_sent_is_not_cut_for_a_new_connection() {
    let server = start(HttpConfig {
        connections: 1,
        ..HttpConfig::default()
    })
    .await;
    let address = server.address;
    let request = "GET /pieces HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    // It takes the only place once that is free.
    let other =
        tokio::spawn(async move { exchange(address, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await });
    let mut reply = String::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut reply))
        .await
        .unwrap()
        .unwrap();
    assert!(reply.contains("piece 3") && reply.ends_with("0\r\n\r\n"), "{reply}");
    assert!(other.await.unwrap().ends_with("hello"));
}

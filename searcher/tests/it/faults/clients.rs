//! Clients that read or send slowly, send rubbish, or do nothing: they end or are refused, and others are answered.

use std::time::Duration;

use dyad_proto::service::HttpConfig;
use dyad_proto::v1::Mode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::Code;

use super::process::{Answer, Server, Tower, until};
use crate::fixture::write_index;
use crate::http_client::{Http, over_with};
use crate::limits::{large, large_index};

const MINUTE: Duration = Duration::from_mins(1);
const MIB: usize = 1 << 20;

async fn over_small() -> (tempfile::TempDir, Tower, Server) {
    let (index, tower) = (tempfile::tempdir().unwrap(), Tower::start("127.0.0.1:0").await);
    write_index(index.path(), 1, "f00d");
    let server = Server::start(index.path(), &tower.service.url, &[]).await;
    (index, tower, server)
}

fn head(path: &str, length: usize, more: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{more}\r\n"
    )
}

/// Sends a request for 40 MiB and reads a little of the reply at a time, after each pause; returns the bytes read when
/// the server ends it.
async fn read_slowly(http: &Http, bytes: usize, pause: Duration) -> usize {
    let body = json!({"query": "number", "mode": "MODE_BM25", "k": 40}).to_string();
    let mut stream = TcpStream::connect(http.address).await.unwrap();
    stream
        .write_all(format!("{}{body}", head("/v1/search", body.len(), "")).as_bytes())
        .await
        .unwrap();
    let (mut all, mut some) = (0, vec![0; bytes]);
    loop {
        tokio::time::sleep(pause).await;
        match stream.read(&mut some).await {
            Ok(0) | Err(_) => return all,
            Ok(read) => all += read,
        }
    }
}

/// The replies of slow readers fill the memory for replies, until they are ended.
#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_read_a_reply_over_http_is_ended_and_gives_its_memory_back() {
    let server = large().await;
    let config = HttpConfig {
        reply_stall: Duration::from_millis(500),
        ..HttpConfig::default()
    };
    let http = over_with(std::sync::Arc::clone(&server.engine), config).await;
    let tenth = Duration::from_millis(100);
    let slow = async { tokio::join!(read_slowly(&http, 4 << 10, tenth), read_slowly(&http, 1 << 10, tenth)) };
    let others = async {
        let body = json!({"query": "number", "mode": "MODE_BM25", "k": 40}).to_string();
        let headers = "Content-Type: application/json\r\nX-Request-Timeout: 60\r\n";
        let reply = http.send("POST", "/v1/search", headers, &body).await;
        assert_eq!(reply.status, 200, "{}", reply.json["error"]);
        assert_eq!(reply.json["hits"].as_array().unwrap().len(), 40);
    };
    let ((one, other), ()) = tokio::time::timeout(2 * MINUTE, async { tokio::join!(slow, others) })
        .await
        .unwrap();
    assert!(one < 40 * MIB && other < 40 * MIB, "{one} and {other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_dribble_are_given_up_while_others_are_answered() {
    let (_index, _tower, server) = over_small().await;
    let right = server.answers().await;
    // With a deadline of their own, and without: then 5 seconds, and a second for each 64 KiB that came.
    let dribble = async |more: &'static str| {
        let mut stream = TcpStream::connect(server.http.address).await.unwrap();
        stream
            .write_all(head("/v1/search", 1000, more).as_bytes())
            .await
            .unwrap();
        let (mut read, mut write) = stream.into_split();
        let sending = tokio::spawn(async move {
            while write.write_all(b" ").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let mut reply = vec![0; 4096];
        let bytes = tokio::time::timeout(MINUTE, read.read(&mut reply))
            .await
            .unwrap()
            .unwrap();
        sending.abort();
        String::from_utf8(reply[..bytes].to_vec()).unwrap()
    };
    let all = (0..20).map(|number| {
        dribble(if number % 2 == 0 {
            ""
        } else {
            "X-Request-Timeout: 0.5\r\n"
        })
    });
    let (replies, meanwhile) = tokio::join!(futures_util::future::join_all(all), server.answers());
    for reply in replies {
        assert!(
            reply.starts_with("HTTP/1.1 408 ") && reply.contains("DEADLINE_EXCEEDED"),
            "{reply}"
        );
    }
    assert_eq!((&meanwhile, &server.answers().await), (&right, &right));
    server.admits_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_idle_connections_leave_room() {
    dyad_searcher::run::open_files::raise_limit();
    let (_index, _tower, server) = over_small().await;
    let (right, threads) = (server.answers().await, server.number("Threads"));
    let mut idle = Vec::new();
    for number in 0..1100 {
        let mut stream = TcpStream::connect(server.http.address).await.unwrap();
        // Some have begun a request.
        if number % 2 == 0 {
            stream.write_all(b"POST /v1/sea").await.unwrap();
        }
        idle.push(stream);
    }
    assert_eq!(server.answers().await, right);
    drop(idle);
    assert_eq!(server.answers().await, right);
    server.settles(1, threads).await;
}

/// JSON that would take far more memory than bytes is refused before it is decoded.
#[tokio::test(flavor = "multi_thread")]
async fn deep_and_huge_json_is_refused_and_takes_no_memory() {
    let (_index, _tower, server) = over_small().await;
    let right = server.answers().await;
    let fill = |begin: &str, piece: &str| format!("{begin}{}", piece.repeat((4 * MIB - begin.len()) / piece.len()));
    let bodies = [
        (
            "recursion limit",
            format!("{}{}", r#"{"filter": {"not": "#, r#"{"not": "#.repeat(500)),
        ),
        (
            "strings, objects and arrays",
            fill(r#"{"filter": {"not": "#, r#"{"not": "#),
        ),
        ("strings, objects and arrays", fill("", "[")),
        (
            "strings, objects and arrays",
            fill(r#"{"filter": {"all": {"filters": ["#, "{},"),
        ),
        ("strings, objects and arrays", fill(r#"{"fields": ["#, r#""","#)),
        ("values", fill(r#"{"vector": ["#, "0,")),
        ("line 1", fill(r#"{"query": ""#, "x")),
        ("line 1", fill("", "\u{1}")),
    ];
    let before = server.number("VmRSS");
    for _ in 0..3 {
        let sent = bodies.iter().map(|(part, body)| {
            let (headers, http) = ("Content-Type: application/json\r\n", &server.http);
            async move { (part, http.send("POST", "/v1/search", headers, body).await) }
        });
        for (part, reply) in futures_util::future::join_all(sent).await {
            let error = &reply.json["error"];
            assert_eq!(
                (reply.status, &error["status"]),
                (400, &json!("INVALID_ARGUMENT")),
                "{part}: {error}"
            );
            assert!(error["message"].as_str().unwrap().contains(part), "{part}: {error}");
        }
    }
    // Of 8 bodies of 4 MiB at once: no more than a few times their bytes.
    let grown = server.number("VmHWM").saturating_sub(before) / 1024;
    assert!(grown < 160, "{grown} MiB");
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
}

/// The largest replies of all calls side by side: each is whole, or refused with its reason, and memory is bounded.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_replies_stay_within_the_memory_for_replies() {
    let (index, tower) = (large_index(), Tower::start("127.0.0.1:0").await);
    let server = Server::start(index.path(), &tower.service.url, &[]).await;
    let small = async || server.ask(2, Mode::Hybrid, "number 12", MINUTE).await;
    let right = small().await;
    let before = server.number("VmRSS");
    let hybrid = |more: serde_json::Value| {
        let mut body = json!({"query": "the old river number", "mode": "MODE_HYBRID", "k": 10_000});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let group = |hits: u32| json!({"field": "thing", "hits": hits});
    let bodies = [
        (hybrid(json!({})), false),
        (hybrid(json!({"group_by": group(100)})), false),
        (hybrid(json!({"k": 40, "snippet_bytes": 4096})), true),
        (
            hybrid(json!({"k": 6, "group_by": group(6), "snippet_bytes": 4096})),
            true,
        ),
        (
            hybrid(json!({"fields": ["title"], "snippet_bytes": 4096, "group_by": group(100)})),
            true,
        ),
        (hybrid(json!({"mode": "MODE_COMPARE", "k": 10})), true),
    ];
    // As many at once as there are places for costly ones.
    for some in bodies.chunks(3) {
        let sent = some.iter().map(|(body, fits)| {
            let (headers, http) = (
                "Content-Type: application/json\r\nX-Request-Timeout: 240\r\n",
                &server.http,
            );
            async move {
                (
                    fits,
                    http.send("POST", "/v1/search", headers, &body.to_string()).await,
                    body,
                )
            }
        });
        for (fits, reply, body) in futures_util::future::join_all(sent).await {
            let (expected, status) = if *fits {
                (200, json!(null))
            } else {
                (400, json!("OUT_OF_RANGE"))
            };
            let error = &reply.json["error"];
            assert_eq!((reply.status, &error["status"]), (expected, &status), "{body}: {error}");
        }
    }
    let grown = server.number("VmHWM").saturating_sub(before) / 1024;
    // 96 MiB of documents, of which each reply is in up to three forms while it becomes JSON.
    assert!(grown < 400, "{grown} MiB");
    let same = |one: &Answer, other: &Answer| one.keys == other.keys && other.code == Code::Ok;
    until("small ones are answered", async || {
        small().await.iter().zip(&right).all(|(one, other)| same(other, one))
    })
    .await;
    server.admits_all().await;
}

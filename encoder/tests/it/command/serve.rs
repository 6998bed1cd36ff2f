//! `dyad-encoder serve`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use dyad_proto::client::{ClientConfig, EncoderClient};

use super::{command, signal, text};
use crate::fixture::tiny;

#[tokio::test(flavor = "multi_thread")]
async fn serve_says_where_it_listens_and_stops_cleanly() {
    let model = tiny("plain").display().to_string();
    let mut running = command(&["serve", "--model", &model, "--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.strip_prefix("listening on ").unwrap().trim().to_owned();
    let client = EncoderClient::connect(&format!("http://{address}"), ClientConfig::default())
        .await
        .unwrap();
    assert_eq!(client.info().await.unwrap().name, "plain");

    let taken = command(&["serve", "--model", &model, "--listen", &address])
        .output()
        .unwrap();
    let message = text(&taken.stderr);
    assert!(
        taken.status.code() == Some(1) && message.contains(&address) && message.contains("--listen"),
        "{message}"
    );

    drop(client);
    signal("-TERM", running.id());
    assert!(running.wait().unwrap().success());
}

/// As where the program that has started it was killed.
#[test]
fn serve_ends_with_its_input_where_that_is_asked_for() {
    let model = tiny("plain").display().to_string();
    let arguments = [
        "serve",
        "--model",
        &model,
        "--listen",
        "127.0.0.1:0",
        "--lame-duck-s",
        "0",
        "--while-input",
    ];
    let mut running = command(&arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(running.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        line.starts_with("listening on ") && running.try_wait().unwrap().is_none(),
        "{line}"
    );
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_answers_over_http_beside_grpc() {
    let model = tiny("plain").display().to_string();
    let free = "127.0.0.1:0";
    let mut running = command(&["serve", "--model", &model, "--listen", free, "--http", free])
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(running.stdout.take().unwrap()).lines();
    let grpc = lines
        .next()
        .unwrap()
        .unwrap()
        .strip_prefix("listening on ")
        .unwrap()
        .to_owned();
    let http = lines
        .next()
        .unwrap()
        .unwrap()
        .strip_prefix("HTTP on ")
        .unwrap()
        .to_owned();
    let client = EncoderClient::connect(&format!("http://{grpc}"), ClientConfig::default())
        .await
        .unwrap();
    assert_eq!(client.info().await.unwrap().name, "plain");
    let mut stream = std::net::TcpStream::connect(&http).unwrap();
    stream
        .write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut status = String::new();
    BufReader::new(&stream).read_line(&mut status).unwrap();
    assert_eq!(status.trim(), "HTTP/1.1 200 OK");

    let taken = command(&["serve", "--model", &model, "--listen", free, "--http", &http])
        .output()
        .unwrap();
    let message = text(&taken.stderr);
    assert!(
        taken.status.code() == Some(1) && message.contains(&http) && message.contains("--http"),
        "{message}"
    );

    // One signal ends both; the connection that is kept alive holds up neither.
    drop(client);
    signal("-TERM", running.id());
    assert!(running.wait().unwrap().success());
}

#[test]
fn the_configuration_of_the_unit_can_be_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/encoder.toml");
    let output = command(&["config", "print", "--config", path])
        .env_remove("DYAD_MODEL")
        .env("DYAD_ENCODER_DTYPE", "bf16")
        .output()
        .unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    assert!(
        out.contains(&format!("model = \"/opt/dyad/model\" # file {path}\n")),
        "{out}"
    );
    assert!(
        out.contains("dtype = \"bf16\" # environment DYAD_ENCODER_DTYPE\n"),
        "{out}"
    );
}

//! Certificates, API keys and the configuration of a running searcher are replaced under load, again and again: no
//! request fails.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, CredentialOptions, Credentials, SearcherClient};
use dyad_proto::v1::Mode;
use tempfile::TempDir;

use crate::fixture::{request, write_index};
use crate::pki::Ca;

/// Between two replacements.
const PAUSE: Duration = Duration::from_millis(1500);
const SOON: Duration = Duration::from_mins(1);

/// The binary; it ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn create(keys: &Path, name: &str) -> String {
    let new = NewKey {
        name: name.into(),
        role: Role::Read,
        indexes: Vec::new(),
        filter: None,
        concurrency: None,
    };
    KeyFile::change(keys, |file| file.create(new)).unwrap()
}

fn config(ca: &Path, key: &str) -> ClientConfig {
    let options = CredentialOptions {
        ca: Some(ca.to_owned()),
        ..CredentialOptions::default()
    };
    let credentials = Credentials::open(&options).unwrap().with_api_key(key).unwrap();
    ClientConfig {
        attempts: 1,
        credentials,
        ..ClientConfig::default()
    }
}

async fn ask(url: &str, ca: &Path, key: &str) -> Result<(), ClientError> {
    let client = SearcherClient::connect(url, config(ca, key)).await?;
    client.search(request(Mode::Bm25, "the deep river", 3)).await.map(drop)
}

async fn load_with_replacements(time: Duration) {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs_err::create_dir(at("index")).unwrap();
    write_index(&at("index"), 1, "f00d");
    let (one, other) = (Ca::new("one"), Ca::new("other"));
    let (of_one, of_other) = (one.file(&folder, "one.pem"), other.file(&folder, "other.pem"));
    let both = at("both.pem");
    let read = |path: &Path| fs_err::read_to_string(path).unwrap();
    fs_err::write(&both, read(&of_one) + &read(&of_other)).unwrap();
    let server = one.sign(&folder, "server");
    let (keys, file) = (at("keys.json"), at("searcher.toml"));
    let key = create(&keys, "load");
    let configure = |timeout_ms: usize| {
        fs_err::write(
            &file,
            format!("default-timeout-ms = {timeout_ms}\nquestion-tower = [\"none\"]\n"),
        )
        .unwrap();
    };
    configure(10_000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"));
    command
        .args(["serve", "--listen", "127.0.0.1:0"])
        .arg("--index")
        .arg(at("index"))
        .arg("--config")
        .arg(&file);
    command
        .arg("--tls-cert")
        .arg(&server.cert)
        .arg("--tls-key")
        .arg(&server.key)
        .arg("--keys")
        .arg(&keys);
    let mut process = Process(command.env("RUST_LOG", "off").stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = format!("https://{}", line.trim().strip_prefix("listening on ").unwrap());

    // Clients that stay, and clients that connect again for each question.
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for number in 0..4 {
        let (url, both, key) = (url.clone(), both.clone(), key.clone());
        let (stop, asked) = (Arc::clone(&stop), Arc::clone(&asked));
        clients.push(tokio::spawn(async move {
            let stays = SearcherClient::connect(&url, config(&both, &key)).await.unwrap();
            while !stop.load(Ordering::Relaxed) {
                if number < 2 {
                    stays.search(request(Mode::Bm25, "the deep river", 3)).await.unwrap();
                } else {
                    ask(&url, &both, &key).await.unwrap();
                }
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let until = async |what: &str, ca: &Path, key: &str, is_answered: bool| {
        let late = Instant::now() + SOON;
        while ask(&url, ca, key).await.is_ok() != is_answered {
            assert!(Instant::now() < late, "never: {what}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let started = Instant::now();
    let mut rounds = 0;
    while started.elapsed() < time || rounds < 2 {
        rounds += 1;
        let (ca, trusted) = if rounds % 2 == 0 {
            (&one, &of_one)
        } else {
            (&other, &of_other)
        };
        ca.sign(&folder, "server");
        let name = format!("round {rounds}");
        let second = create(&keys, &name);
        configure(10_000 + rounds);
        until("the certificate and the key are taken over", trusted, &second, true).await;
        KeyFile::change(&keys, |file| file.revoke(&keys, &name).map(drop)).unwrap();
        until("the key is refused", trusted, &second, false).await;
        tokio::time::sleep(PAUSE).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let asked = asked.load(Ordering::Relaxed);
    let told = format!("{asked} requests, {rounds} replacements, none failed\n");
    std::io::stderr().write_all(told.as_bytes()).unwrap();
    assert!(asked > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_certificates_keys_and_configuration_are_replaced() {
    load_with_replacements(Duration::from_secs(4)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two minutes of load"]
async fn two_minutes_of_replacements_under_load() {
    load_with_replacements(Duration::from_mins(2)).await;
}

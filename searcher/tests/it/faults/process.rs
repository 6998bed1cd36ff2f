//! The binary in a process of its own, its clients over gRPC and HTTP, and what the process holds.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_proto::v1::admin_client::AdminClient;
use dyad_proto::v1::searcher_client::SearcherClient;
use dyad_proto::v1::{self, Mode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Code, Request};

use crate::encoder_service::{EncoderService, encoder_at};
use crate::fixture::{documents, keys, request};
use crate::http_client::Http;

/// Single requests that a searcher takes at once: half of all, the others are for batches and exact scans.
pub(super) const REQUESTS: usize = 8;
/// Longest wait for what is to happen soon.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Polls until something is so.
pub(super) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let late = Instant::now() + LONGEST_WAIT;
    while !is_so().await {
        assert!(Instant::now() < late, "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An encoder service in a runtime of its own, so that it can be killed with its connections.
pub(super) struct Tower {
    runtime: Option<tokio::runtime::Runtime>,
    pub(super) service: EncoderService,
}

impl Tower {
    pub(super) async fn start(address: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let address = address.trim_start_matches("http://").to_owned();
        let service = runtime
            .spawn(async move { encoder_at(&address, "f00d").await })
            .await
            .unwrap();
        Self {
            runtime: Some(runtime),
            service,
        }
    }

    pub(super) fn asked(&self) -> usize {
        self.service.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Tower {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

/// What came back, over gRPC or HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) keys: Vec<String>,
    pub(super) generation: u64,
    pub(super) degraded: String,
    /// Whether a refusal has a retry hint.
    pub(super) has_hint: bool,
}

/// gRPC's codes with their names and HTTP's numbers.
const CODES: [(Code, &str, u16); 9] = [
    (Code::InvalidArgument, "INVALID_ARGUMENT", 400),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED", 504),
    (Code::NotFound, "NOT_FOUND", 404),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED", 429),
    (Code::FailedPrecondition, "FAILED_PRECONDITION", 400),
    (Code::OutOfRange, "OUT_OF_RANGE", 400),
    (Code::Internal, "INTERNAL", 500),
    (Code::Unavailable, "UNAVAILABLE", 503),
    (Code::DataLoss, "DATA_LOSS", 500),
];

/// A process that ends when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A searcher that ends when dropped.
pub(super) struct Server {
    process: Process,
    pub(super) http: Http,
    pub(super) grpc: SearcherClient<Channel>,
    pub(super) admin: AdminClient<Channel>,
}

impl Server {
    /// Serves an index. Questions are embedded each time.
    pub(super) async fn start(index: &Path, tower: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"));
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--http",
            "127.0.0.1:0",
            "--question-tower",
            tower,
        ]);
        command.args([
            "--max-requests",
            &(2 * REQUESTS).to_string(),
            "--question-cache-mb",
            "0",
        ]);
        command.arg("--index").arg(index).args(more).env("RUST_LOG", "off");
        let mut process = Process(command.stdout(Stdio::piped()).spawn().unwrap());
        let out = process.0.stdout.take().unwrap();
        let (send, mut sent) = mpsc::channel(2);
        std::thread::spawn(move || {
            BufReader::new(out)
                .lines()
                .map_while(Result::ok)
                .take(2)
                .try_for_each(|line| send.blocking_send(line))
        });
        let mut lines: Vec<String> = Vec::new();
        let read = async {
            while let Some(line) = sent.recv().await {
                lines.push(line);
            }
        };
        let ended = tokio::time::timeout(LONGEST_WAIT, read).await.is_ok();
        assert!(
            ended && lines.len() == 2,
            "expected two lines, of gRPC and HTTP, got {lines:?}"
        );
        let url = format!("http://{}", lines[0].strip_prefix("listening on ").unwrap());
        let http = Http::at(lines[1].strip_prefix("HTTP on ").unwrap().parse().unwrap());
        let grpc = SearcherClient::connect(url.clone())
            .await
            .unwrap()
            .max_decoding_message_size(usize::MAX);
        Self {
            process,
            http,
            grpc,
            admin: AdminClient::connect(url).await.unwrap(),
        }
    }

    /// Whether the process still runs.
    pub(super) fn runs(&mut self) -> bool {
        self.process.0.try_wait().unwrap().is_none()
    }

    fn proc(&self, name: &str) -> String {
        fs_err::read_to_string(format!("/proc/{}/{name}", self.process.0.id())).unwrap()
    }

    /// A number of `/proc/PID/status`.
    pub(super) fn number(&self, name: &str) -> usize {
        let status = self.proc("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':')
            .split_whitespace()
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// The directories of shards that are mapped, and whether their files still have names.
    pub(super) fn mapped_shards(&self) -> Vec<(String, bool)> {
        let maps = self.proc("maps");
        let shard = |line: &str| {
            let (_, path) = line.split_once("/shards/")?;
            Some((path.split('/').next()?.to_owned(), !line.ends_with("(deleted)")))
        };
        let mut found: Vec<_> = maps.lines().filter_map(shard).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Waits until nothing but shards of one generation is mapped, and there are no more threads than a few above
    /// `threads`: those for blocking work end by themselves.
    pub(super) async fn settles(&self, generation: u64, threads: usize) {
        let prefix = format!("g{generation}-");
        let of_it = |(shard, has_name): &(String, bool)| *has_name && shard.starts_with(&prefix);
        until("only the served generation is mapped", async || {
            self.mapped_shards().iter().all(of_it)
        })
        .await;
        until("no more threads than before", async || {
            self.number("Threads") <= threads + 2
        })
        .await;
    }

    pub(super) async fn over_grpc(&self, request: v1::SearchRequest, time: Duration) -> Answer {
        let mut call = Request::new(request);
        call.set_timeout(time);
        match self.grpc.clone().search(call).await {
            Ok(reply) => {
                let v1::SearchResponse {
                    hits,
                    generation,
                    degraded_reason,
                    ..
                } = reply.into_inner();
                let keys = keys(&hits).into_iter().map(str::to_owned).collect();
                let (code, message) = (Code::Ok, String::new());
                Answer {
                    code,
                    message,
                    keys,
                    generation,
                    degraded: degraded_reason,
                    has_hint: false,
                }
            }
            Err(status) => {
                let (code, message) = (status.code(), status.message().to_owned());
                let has_hint = status.metadata().contains_key("grpc-retry-pushback-ms");
                Answer {
                    code,
                    message,
                    keys: Vec::new(),
                    generation: 0,
                    degraded: String::new(),
                    has_hint,
                }
            }
        }
    }

    pub(super) async fn over_http(&self, request: v1::SearchRequest, time: Duration) -> Answer {
        let body = json!({"query": request.query, "mode": request.mode, "k": request.k}).to_string();
        let headers = format!(
            "Content-Type: application/json\r\nX-Request-Timeout: {}\r\n",
            time.as_secs_f64()
        );
        let reply = self.http.send("POST", "/v1/search", &headers, &body).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (json, error) = (&reply.json, &reply.json["error"]);
        let code = if reply.status == 200 {
            Code::Ok
        } else {
            let (code, _, number) = CODES.iter().find(|(_, name, _)| error["status"] == *name).unwrap();
            assert_eq!((reply.status, &error["code"]), (*number, &json!(number)), "{json}");
            *code
        };
        Answer {
            code,
            message: text(&error["message"]),
            keys: json["hits"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|hit| text(&hit["key"]))
                .collect(),
            generation: json["generation"].as_u64().unwrap_or_default(),
            degraded: text(&json["degraded_reason"]),
            has_hint: reply.head.contains("retry-after: ") && reply.head.contains("retry-after-ms: "),
        }
    }

    /// Asks one question side by side, half of the time over gRPC and half over HTTP.
    pub(super) async fn ask(&self, clients: usize, mode: Mode, query: &str, time: Duration) -> Vec<Answer> {
        let ask = |client: usize| async move {
            let request = request(mode, query, 5);
            if client.is_multiple_of(2) {
                self.over_grpc(request, time).await
            } else {
                self.over_http(request, time).await
            }
        };
        futures_util::future::join_all((0..clients).map(ask)).await
    }

    /// The hits of some questions in all modes, the same over gRPC and HTTP and in each of them what it has to be.
    pub(super) async fn answers(&self) -> BTreeMap<String, Vec<String>> {
        let mut all = BTreeMap::new();
        for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
            for (key, text) in documents().iter().step_by(13) {
                let answers = self.ask(2, mode, text, LONGEST_WAIT).await;
                for answer in &answers {
                    assert_eq!((answer.code, answer.degraded.as_str()), (Code::Ok, ""), "{answer:?}");
                    assert_eq!(&answer.keys[0], key, "{mode:?}");
                    assert_eq!(answer.keys, answers[0].keys);
                }
                all.insert(format!("{mode:?} {text}"), answers[0].keys.clone());
            }
        }
        all
    }

    /// As many requests as there are places are taken at once: none of them was lost to an earlier request. They wait
    /// for a tower that is slow until their deadline.
    pub(super) async fn admits_all(&self) {
        let is_taken = |answer: &Answer| answer.code == Code::DeadlineExceeded;
        until("all places are free", async || {
            // So that the circuit breaker stays closed.
            self.answers_soon().await;
            let answers = self
                .ask(REQUESTS, Mode::Dense, "sleep number 4", Duration::from_secs(1))
                .await;
            answers.iter().all(is_taken)
        })
        .await;
    }

    /// Waits until a question is answered by its vector.
    pub(super) async fn answers_soon(&self) {
        until("the tower is asked", async || {
            self.ask(1, Mode::Dense, "number 12", LONGEST_WAIT).await[0].code == Code::Ok
        })
        .await;
    }
}

/// Clients that ask all the time, whose answers are right each time.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<usize>>,
}

impl Load {
    /// Two clients over gRPC and two over HTTP, which get all documents in the order of `expected`.
    pub(super) fn start(server: &Arc<Server>, mode: Mode) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let client = |client: usize| {
            let (server, stop) = (Arc::clone(server), Arc::clone(&stop));
            tokio::spawn(async move {
                let documents = documents();
                let mut answered = 0;
                while !stop.load(Ordering::SeqCst) {
                    let (key, text) = &documents[(answered * 7 + client) % documents.len()];
                    let request = request(mode, text, 1);
                    let answer = if client.is_multiple_of(2) {
                        server.over_grpc(request, LONGEST_WAIT).await
                    } else {
                        server.over_http(request, LONGEST_WAIT).await
                    };
                    assert_eq!((answer.code, answer.degraded.as_str()), (Code::Ok, ""), "{answer:?}");
                    assert_eq!(answer.keys, std::slice::from_ref(key), "{answer:?}");
                    answered += 1;
                }
                answered
            })
        };
        let clients = (0..4).map(client).collect();
        Self { stop, clients }
    }

    /// Ends the clients, each of which has been answered.
    pub(super) async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            assert!(client.await.unwrap() > 0);
        }
    }
}

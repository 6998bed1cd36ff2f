//! A searcher with known answers, and ways to misbehave.
//!
//! Question `n` ("question n", judged: document `n`) is answered as follows, out of the documents `n` and ten
//! strangers.
//!
//! - dense exact: `n` at rank `n % 4 + 1`, eleven hits.
//! - dense: the same, but where `n % 5 == 0` the document is missing.
//! - hybrid: the document alone, exact or not.
//! - BM25: the document alone where `n` is even, nothing where it is odd.

use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dyad_bench::quality::{JudgedQuestions, QualityJob, RankingMode};
use dyad_proto::client::{ClientConfig, SearcherClient};
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::searcher_server::{Searcher, SearcherServer};
use dyad_proto::{v1, validate};
use tokio::sync::oneshot;
use tokio_stream::Stream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

pub(crate) const QUESTIONS: u32 = 150;
pub(crate) const FINGERPRINT: &str = "0123456789abcdef0123456789abcdef";

/// What a response has wrong with it, by the number of its question.
pub(crate) type Spoil = fn(u32, &mut v1::SearchResponse);

/// What the server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) batches: Mutex<Vec<Vec<v1::SearchRequest>>>,
    under_way: AtomicUsize,
    pub(crate) most_under_way: AtomicUsize,
}

struct Known {
    seen: Arc<Seen>,
    spoil: Spoil,
    /// Whether it has the judged documents.
    holds: bool,
}

fn number(query: &str) -> u32 {
    query.strip_prefix("question ").unwrap().parse().unwrap()
}

fn answer(request: &v1::SearchRequest) -> v1::SearchResponse {
    let n = number(&request.query);
    let own = n.to_string();
    let strangers = (0..10).map(|stranger| format!("x{stranger}"));
    let keys: Vec<String> = match (request.mode(), request.exact) {
        (v1::Mode::Dense, exact) => {
            let mut keys: Vec<String> = strangers.collect();
            if exact || !n.is_multiple_of(5) {
                keys.insert(n as usize % 4, own);
            }
            keys
        }
        (v1::Mode::Hybrid, _) => vec![own],
        _ if n.is_multiple_of(2) => vec![own],
        _ => Vec::new(),
    };
    let hits = (1u32..).zip(keys).take(request.k as usize);
    // A third is a score that needs all its digits.
    let hits = hits.map(|(rank, key)| v1::Hit {
        rank,
        key,
        score: 1.0 / (rank as f32 * 3.0),
        ..v1::Hit::default()
    });
    v1::SearchResponse {
        hits: hits.collect(),
        mode: request.mode,
        generation: 7,
        fingerprint: FINGERPRINT.to_owned(),
        ..v1::SearchResponse::default()
    }
}

#[tonic::async_trait]
impl Searcher for Known {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        validate::search_request(request.get_ref())?;
        Ok(Response::new(answer(request.get_ref())))
    }

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let request = request.into_inner();
        validate::search_batch_request(&request)?;
        let under_way = self.seen.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        // Long enough for calls made together to meet here.
        tokio::time::sleep(Duration::from_millis(30)).await;
        let responses = request.requests.iter().map(|request| {
            let mut response = answer(request);
            (self.spoil)(number(&request.query), &mut response);
            response
        });
        let responses = responses.collect();
        self.seen.batches.lock().unwrap().push(request.requests);
        self.seen.under_way.fetch_sub(1, Ordering::SeqCst);
        Ok(Response::new(v1::SearchBatchResponse { responses }))
    }

    type SearchStreamStream = Pin<Box<dyn Stream<Item = Result<v1::SearchStreamResponse, Status>> + Send>>;

    async fn search_stream(
        &self,
        _: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchStreamStream>, Status> {
        Err(Status::unimplemented("no streams and explanations are asked here"))
    }

    async fn get_documents(
        &self,
        request: Request<v1::GetDocumentsRequest>,
    ) -> Result<Response<v1::GetDocumentsResponse>, Status> {
        let request = request.into_inner();
        validate::fields(&request)?;
        let (found, missing) = request.keys.into_iter().partition::<Vec<String>, _>(|_| self.holds);
        let documents = found.into_iter().map(|key| v1::Document {
            key,
            ..v1::Document::default()
        });
        Ok(Response::new(v1::GetDocumentsResponse {
            documents: documents.collect(),
            missing,
        }))
    }

    async fn sample_documents(
        &self,
        _: Request<v1::SampleDocumentsRequest>,
    ) -> Result<Response<v1::SampleDocumentsResponse>, Status> {
        Err(Status::unimplemented(
            "no streams, samples and explanations are asked here",
        ))
    }

    async fn scroll_documents(
        &self,
        _: Request<v1::ScrollDocumentsRequest>,
    ) -> Result<Response<v1::ScrollDocumentsResponse>, Status> {
        Err(Status::unimplemented("nothing is read back here"))
    }

    async fn count_documents(
        &self,
        _: Request<v1::CountDocumentsRequest>,
    ) -> Result<Response<v1::CountDocumentsResponse>, Status> {
        Err(Status::unimplemented("nothing is read back here"))
    }

    async fn list_fields(&self, _: Request<v1::ListFieldsRequest>) -> Result<Response<v1::ListFieldsResponse>, Status> {
        Err(Status::unimplemented("nothing is read back here"))
    }

    async fn explain(&self, _: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        Err(Status::unimplemented("no streams and explanations are asked here"))
    }
}

pub(crate) struct Running {
    pub(crate) url: String,
    pub(crate) seen: Arc<Seen>,
    pub(crate) stop: oneshot::Sender<()>,
}

/// A server whose responses `spoil` may change.
pub(crate) async fn start(spoil: Spoil) -> Running {
    serve(spoil, true).await
}

/// A server with an index of other documents.
pub(crate) async fn start_strange() -> Running {
    serve(|_, _| (), false).await
}

async fn serve(spoil: Spoil, holds: bool) -> Running {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel();
    let seen = Arc::new(Seen::default());
    let routes = Routes::new(service::searcher(Known {
        seen: Arc::clone(&seen),
        spoil,
        holds,
    }));
    let health = Health::new().serving::<SearcherServer<Known>>().await;
    let shutdown = async { stopped.await.unwrap_or(()) };
    tokio::spawn(service::serve(
        listener,
        routes,
        health,
        shutdown,
        ServerConfig::default(),
    ));
    Running { url, seen, stop }
}

/// A server that answers as it should.
pub(crate) async fn start_honest() -> Running {
    start(|_, _| ()).await
}

/// A client that gives up quickly.
pub(crate) async fn client(url: &str) -> SearcherClient {
    let config = ClientConfig {
        attempts: 2,
        first_wait: Duration::from_millis(1),
        ..ClientConfig::default()
    };
    SearcherClient::connect(url, config).await.unwrap()
}

/// A BEIR folder with all questions and one that nobody judged.
pub(crate) fn write_folder(folder: &Path) {
    use std::fmt::Write as _;
    let (mut queries, mut qrels) = (String::new(), "query-id\tcorpus-id\tscore\n".to_owned());
    for n in 0..QUESTIONS {
        writeln!(queries, "{{\"_id\":\"{n}\",\"text\":\"question {n}\"}}").unwrap();
        writeln!(qrels, "{n}\t{n}\t1").unwrap();
    }
    writeln!(queries, "{{\"_id\":\"unjudged\",\"text\":\"question 1000\"}}").unwrap();
    fs_err::create_dir_all(folder.join("qrels")).unwrap();
    fs_err::write(folder.join("queries.jsonl"), queries).unwrap();
    fs_err::write(folder.join("qrels/test.tsv"), qrels).unwrap();
}

/// The folder's judged questions, and a job that writes its runs there.
pub(crate) fn prepare(folder: &Path, modes: &[RankingMode]) -> (JudgedQuestions, QualityJob) {
    write_folder(folder);
    let run_dir = folder.join("runs");
    fs_err::create_dir_all(&run_dir).unwrap();
    let job = QualityJob {
        modes: modes.to_vec(),
        run_dir,
        k: 100,
        concurrency: 4,
        drop_identical_ids: false,
        rerank: 0,
    };
    (JudgedQuestions::read(folder, "test").unwrap(), job)
}

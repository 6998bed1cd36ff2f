//! Calls that are answered once searchers serve their changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_proto::v1;
use dyad_proto::v1::admin_server::{Admin, AdminServer};
use dyad_proto::v1::index_client::IndexClient as RawClient;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status};

use crate::command_line::dyad_indexer;
use crate::fixture::Fixture;
use crate::serve::{Serving, message, serve_with};

const NAME: &str = "served";

/// What a searcher does otherwise than a good one.
#[derive(Default)]
struct SearcherFaults {
    /// Reloads that still find the generation before, as those of a mirror do.
    late: u64,
    /// What each reload is refused with.
    refusal: Option<Status>,
    /// How long each takes.
    time: Duration,
}

/// A searcher that serves what `CURRENT` names once it is asked to.
struct FakeSearcher {
    index: std::path::PathBuf,
    reloads: Arc<AtomicU64>,
    /// Reloads that are late, as far as there are any left.
    late: AtomicU64,
    faults: SearcherFaults,
}

#[tonic::async_trait]
impl Admin for FakeSearcher {
    async fn reload(&self, request: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        self.reloads.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.into_inner().index, NAME);
        if let Some(refusal) = &self.faults.refusal {
            return Err(refusal.clone());
        }
        tokio::time::sleep(self.faults.time).await;
        let current = manifest::current(&self.index).unwrap().generation;
        let is_late = self
            .late
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |late| late.checked_sub(1))
            .is_ok();
        Ok(Response::new(v1::ReloadResponse {
            previous_generation: 0,
            generation: current - u64::from(is_late),
        }))
    }

    async fn list_indexes(
        &self,
        _: Request<v1::ListIndexesRequest>,
    ) -> Result<Response<v1::ListIndexesResponse>, Status> {
        Err(Status::unimplemented("not of this test"))
    }

    async fn status(&self, _: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Err(Status::unimplemented("not of this test"))
    }

    async fn rollback(&self, _: Request<v1::RollbackRequest>) -> Result<Response<v1::RollbackResponse>, Status> {
        Err(Status::unimplemented("not of this test"))
    }

    async fn verify(&self, _: Request<v1::VerifyRequest>) -> Result<Response<v1::VerifyResponse>, Status> {
        Err(Status::unimplemented("not of this test"))
    }
}

/// The address of a searcher, and how often it was asked to reload.
struct RunningSearcher {
    url: String,
    reloads: Arc<AtomicU64>,
}

impl RunningSearcher {
    fn begin(runtime: &Runtime, fixture: &Fixture, faults: SearcherFaults) -> Self {
        let reloads = Arc::new(AtomicU64::new(0));
        let searcher = FakeSearcher {
            index: fixture.index(),
            reloads: Arc::clone(&reloads),
            late: AtomicU64::new(faults.late),
            faults,
        };
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = Server::builder().add_service(AdminServer::new(searcher));
        runtime.spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { url, reloads }
    }

    fn reloads(&self) -> u64 {
        self.reloads.load(Ordering::SeqCst)
    }

    /// Waits until a server that was just started has looked at it.
    fn was_checked(&self) {
        let until = Instant::now() + LONG;
        while self.reloads() == 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.reloads(), 1);
    }
}

fn serving(fixture: &Fixture, searchers: &[&str]) -> Serving {
    let mut options = vec!["--merge", "never", "--keep", "all"];
    for searcher in searchers {
        options.extend(["--searcher", searcher]);
    }
    let index = format!("{NAME}={}", fixture.index().display());
    serve_with(&index, &options)
}

/// Adds one document, and waits until it is searchable, at most for a time.
fn upsert(serving: &Serving, number: usize, time: Duration) -> Result<v1::ChangeResponse, Status> {
    let request = v1::UpsertRequest {
        documents: vec![message(number)],
        wait: v1::Wait::Searchable.into(),
        ..v1::UpsertRequest::default()
    };
    serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        let mut call = Request::new(tokio_stream::iter([request]));
        call.set_timeout(time);
        Ok(client.upsert(call).await?.into_inner())
    })
}

const LONG: Duration = Duration::from_mins(1);

#[test]
fn a_change_is_answered_once_all_searchers_serve_it() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let runtime = Runtime::new().unwrap();
    let prompt = RunningSearcher::begin(&runtime, &fixture, SearcherFaults::default());
    let late = RunningSearcher::begin(
        &runtime,
        &fixture,
        SearcherFaults {
            late: 3,
            ..SearcherFaults::default()
        },
    );
    let serving = serving(&fixture, &[&prompt.url, &late.url, &prompt.url]);
    for searcher in [&prompt, &late] {
        searcher.was_checked();
    }
    let reply = upsert(&serving, 30, LONG).unwrap();
    assert_eq!((reply.generation, reply.searchable), (2, Some(true)));
    assert_eq!((prompt.reloads(), late.reloads()), (2, 4));
    // What changes nothing is there once the current generation is served.
    let again = upsert(&serving, 30, LONG).unwrap();
    assert_eq!(
        (again.generation, again.unchanged, again.searchable),
        (0, 1, Some(true))
    );
    assert_eq!(prompt.reloads(), 3);
    // A call that does not wait asks nobody.
    assert_eq!(serving.upsert(&[message(31)]).unwrap().searchable, None);
    let deleted = serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        let request = v1::DeleteRequest {
            keys: vec!["doc-0030".to_owned()],
            wait: v1::Wait::Searchable.into(),
            ..v1::DeleteRequest::default()
        };
        client.delete(tokio_stream::iter([request])).await.unwrap().into_inner()
    });
    assert_eq!((deleted.generation, deleted.searchable), (4, Some(true)));
    assert_eq!((prompt.reloads(), late.reloads()), (4, 6));
}

#[test]
fn a_change_that_searchers_do_not_serve_is_made_and_said_not_to_be_searchable() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let runtime = Runtime::new().unwrap();
    let refusing = RunningSearcher::begin(
        &runtime,
        &fixture,
        SearcherFaults {
            refusal: Some(Status::permission_denied("no")),
            ..SearcherFaults::default()
        },
    );
    let behind = RunningSearcher::begin(
        &runtime,
        &fixture,
        SearcherFaults {
            late: u64::MAX,
            ..SearcherFaults::default()
        },
    );
    for (searcher, time) in [
        (refusing.url.as_str(), LONG),
        (behind.url.as_str(), Duration::from_secs(2)),
        ("http://127.0.0.1:1", Duration::from_secs(2)),
    ] {
        let fixture = Fixture::new(20);
        fixture.build().unwrap();
        let serving = serving(&fixture, &[searcher]);
        let began = Instant::now();
        let reply = upsert(&serving, 30, time).unwrap();
        assert_eq!((reply.generation, reply.searchable), (2, Some(false)), "{searcher}");
        assert!(began.elapsed() < LONG, "{searcher}");
        assert_eq!(manifest::current(&fixture.index()).unwrap().generation, 2);
        // It changes nothing, and what was so already is not served either.
        let again = upsert(&serving, 30, Duration::from_secs(2)).unwrap();
        assert_eq!((again.generation, again.searchable), (0, Some(false)), "{searcher}");
    }
    // At the start, and once for each call.
    assert_eq!(refusing.reloads(), 3);
    assert!(behind.reloads() > 1);
}

#[test]
fn calls_that_wait_together_share_reloads() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let runtime = Runtime::new().unwrap();
    let slow = RunningSearcher::begin(
        &runtime,
        &fixture,
        SearcherFaults {
            time: Duration::from_millis(500),
            ..SearcherFaults::default()
        },
    );
    let serving = serving(&fixture, &[&slow.url]);
    slow.was_checked();
    let calls = (0..16).map(|number| {
        let url = serving.url.clone();
        serving.runtime.spawn(async move {
            let mut client = RawClient::connect(url).await.unwrap();
            let request = v1::UpsertRequest {
                documents: vec![message(number)],
                wait: v1::Wait::Searchable.into(),
                ..v1::UpsertRequest::default()
            };
            client.upsert(tokio_stream::iter([request])).await.unwrap().into_inner()
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let reply = serving.runtime.block_on(call).unwrap();
        assert_eq!((reply.unchanged, reply.searchable), (1, Some(true)));
    }
    // One by one they would be sixteen more.
    assert!(slow.reloads() < 10, "{}", slow.reloads());
}

#[test]
fn where_no_searcher_is_given_nothing_is_changed() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let serving = serving(&fixture, &[]);
    let refused = upsert(&serving, 30, LONG).unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("--searcher http://HOST:PORT"), "{refused}");
    assert_eq!(manifest::current(&fixture.index()).unwrap().generation, 1);
    let refused = serving.runtime.block_on(async {
        let mut client = RawClient::connect(serving.url.clone()).await.unwrap();
        let [mut first, mut later] = [30, 31].map(|number| v1::UpsertRequest {
            documents: vec![message(number)],
            ..v1::UpsertRequest::default()
        });
        first.set_wait(v1::Wait::Durable);
        later.set_wait(v1::Wait::Searchable);
        client.upsert(tokio_stream::iter([first, later])).await.unwrap_err()
    });
    assert!(refused.message().contains("`wait`"), "{refused}");
}

#[test]
fn a_wrong_address_is_refused_at_the_start() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let mut command = dyad_indexer();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--searcher",
        "127.0.0.1:7700",
        "--index",
    ]);
    let output = command.arg(fixture.index()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("`127.0.0.1:7700` is not a server's URL"),
        "{error}"
    );
}

//! Indexes that do not fit into memory: refused with figures before they are opened, at the start and at a reload.

use std::path::Path;

use dyad_proto::client::{AdminClient, ClientConfig};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_searcher::memory::{IndexMemory, ProcessMemory, ProcessMemoryLimit};
use dyad_searcher::question::QuestionTowers;
use dyad_searcher::run::{EngineConfig, IndexPath};
use dyad_searcher::{Engine, Error};
use tonic::Code;

use crate::command_line::run_beside;
use crate::fixture::{US, documents, request, searcher, searcher_over, write_index, write_index_of};

const OPTION: &str = "--memory-limit-mb";

fn limited(bytes: u64) -> EngineConfig {
    let memory = ProcessMemory {
        limit: Some(ProcessMemoryLimit::from_option(bytes, OPTION)),
        program: 7 << 20,
        buffers: 0,
    };
    EngineConfig {
        memory,
        ..EngineConfig::default()
    }
}

fn open(paths: Vec<IndexPath>, config: EngineConfig) -> Result<Engine, Error> {
    Engine::open_all(paths, QuestionTowers::default(), config)
}

/// What a searcher over the indexes needs.
fn needed(paths: Vec<IndexPath>) -> u64 {
    open(paths, limited(u64::MAX)).unwrap().memory().1.total()
}

/// Documents of which more are in a later generation.
fn write(index: &Path, generation: u64, count: usize) {
    let documents: Vec<_> = (0..count)
        .map(|number| (format!("doc-{number}"), format!("the old river number {number}")))
        .collect();
    write_index_of(&documents, index, generation, "f00d");
}

#[tokio::test]
async fn what_is_hot_and_cold_is_all_of_the_files_and_status_tells() {
    let server = searcher().await;
    let status = server.admin().await.status(v1::StatusRequest::default()).await.unwrap();
    let memory = status.memory.unwrap();
    let files: u64 = status
        .shards
        .iter()
        .map(|shard| shard.dense_bytes + shard.text_bytes)
        .sum();
    assert_eq!(memory.index_hot + memory.index_cold, files);
    // A complete graph: more than the links alone, and less than vectors, keys and texts.
    assert!(
        memory.index_hot > 60 * 29 * 4 && memory.index_hot < files / 2,
        "{memory:?}"
    );
    assert_eq!((memory.limit, memory.limit_source.as_str()), (0, ""));
    assert!(memory.anonymous > 0 && memory.file > 0 && memory.needed >= (96 << 20) + memory.index_hot);
    // The same as of the files that are not open.
    let snapshot = server.engine.index("", &US).unwrap().snapshot();
    let of_files = IndexMemory::of_files(server.index.path(), snapshot.manifest());
    assert_eq!(
        (of_files.hot, of_files),
        (memory.index_hot, IndexMemory::from_snapshot(&snapshot))
    );
    let (code, out, _) = run_beside(&["admin", "--server", &server.url, "status"]).await;
    assert!(
        code == Some(0) && out.contains("memory          limit none, at most "),
        "{out}"
    );
    assert!(
        out.contains("index files     ") && out.contains("hot (graphs and codes)"),
        "{out}"
    );
}

#[tokio::test]
async fn an_index_that_does_not_fit_is_refused_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let index = |name: &str, count| {
        let path = directory.path().join(name);
        fs_err::create_dir_all(&path).unwrap();
        write(&path, 1, count);
        IndexPath::new(&path)
    };
    let (large, small) = (index("large", 60), index("small", 20));
    let (one, both) = (needed(vec![large.clone()]), needed(vec![small.clone(), large.clone()]));
    assert!(both > one && one > (96 + 7) << 20);
    open(vec![large.clone()], limited(one)).unwrap();
    open(vec![large.clone(), small.clone()], limited(both)).unwrap();
    for (paths, limit) in [(vec![large.clone()], one - 1), (vec![small, large], both - 1)] {
        let Err(error @ Error::DoesNotFit(_)) = open(paths, limited(limit)) else {
            panic!("an index that does not fit")
        };
        let text = error.to_string();
        assert!(
            text.contains("index `large` does not fit into memory") && text.contains("(`--memory-limit-mb`)"),
            "{text}"
        );
        assert!(
            text.contains("7.0 MiB for the program") && text.contains("96.0 MiB for full caches"),
            "{text}"
        );
        assert_eq!(tonic::Status::from(error).code(), Code::FailedPrecondition);
    }
    // The caches count with all that they may hold.
    let cached = EngineConfig {
        filter_cache: 1 << 20,
        ..limited(one + (1 << 20) - 1)
    };
    assert!(matches!(
        open(vec![IndexPath::new(&directory.path().join("large"))], cached),
        Err(Error::DoesNotFit(_))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_does_not_fit_leaves_the_one_that_is_served() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let limit = needed(vec![IndexPath::new(index.path())]);
    let server = searcher_over(index, limited(limit)).await;
    let admin = AdminClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap();
    // One of the same size is served in place of the other: both need not fit together.
    write_index(server.index.path(), 2, "f00d");
    assert_eq!(admin.reload(v1::ReloadRequest::default()).await.unwrap().generation, 2);
    write(server.index.path(), 3, 80);
    let refused = admin
        .reload(v1::ReloadRequest::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("FailedPrecondition") && refused.contains("does not fit into memory"),
        "{refused}"
    );
    let rollback = v1::RollbackRequest {
        generation: 3,
        ..Default::default()
    };
    assert!(
        admin
            .rollback(rollback)
            .await
            .unwrap_err()
            .to_string()
            .contains("does not fit into memory")
    );
    let reply = server
        .client
        .search(request(Mode::Dense, &documents()[12].1, 1))
        .await
        .unwrap();
    assert_eq!((reply.generation, reply.hits[0].key.as_str()), (2, "doc-12"));
    // The one before is served again when it is asked for.
    let rollback = v1::RollbackRequest {
        generation: 1,
        ..Default::default()
    };
    assert_eq!(admin.rollback(rollback).await.unwrap().generation, 1);
}

#[tokio::test]
async fn the_option_of_the_command_refuses_before_the_port_opens() {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let path = index.path().to_str().unwrap();
    let serve = [
        "serve",
        "--index",
        path,
        "--question-tower",
        "none",
        "--listen",
        "127.0.0.1:0",
        OPTION,
        "100",
    ];
    let (code, out, error) = run_beside(&serve).await;
    assert!(code == Some(1) && out.is_empty(), "{out}");
    assert!(
        error.contains("does not fit into memory") && error.contains("100.0 MiB (`--memory-limit-mb`)"),
        "{error}"
    );
    // Requests over HTTP, and two more forms of the replies.
    let (_, _, with_http) = run_beside(&[&serve[..], &["--http", "127.0.0.1:0"]].concat()).await;
    let buffers = |error: &str| -> f64 {
        let (before, _) = error.split_once(" MiB for full caches").unwrap();
        before.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(
        (buffers(&with_http) - buffers(&error) - 448.0).abs() < 0.2,
        "{with_http}"
    );
}

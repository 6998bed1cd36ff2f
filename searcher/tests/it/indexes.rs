//! Several indexes in one searcher: each request is answered from the one that it names, and what is done to one leaves
//! the others alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dyad_proto::client::Credentials;
use dyad_proto::client::{AdminClient, ClientConfig};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};
use dyad_searcher::{Engine, Error};
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::fixture::{EncoderService, Served, US, encoder, keys, request, serve, write_index_of};
use crate::http::over_engine;

/// Documents of an index: their keys tell which one.
fn documents(hundred: usize, count: usize) -> Vec<(String, String)> {
    let document = |number: usize| {
        (
            format!("doc-{number}"),
            format!("the old river number {}", number % 100),
        )
    };
    (0..count).map(|number| document(100 * hundred + number)).collect()
}

/// Writes a generation of an index into a folder of this name.
fn write(
    directory: &Path,
    name: &str,
    (hundred, count): (usize, usize),
    generation: u64,
    fingerprint: &str,
) -> IndexPath {
    let path = directory.join(name);
    fs_err::create_dir_all(&path).unwrap();
    write_index_of(&documents(hundred, count), &path, generation, fingerprint);
    IndexPath::new(&path)
}

/// Of these names, the first of them the default: `doc-100` and others in the first, `doc-200` and others in the
/// second.
fn write_all(directory: &Path, names: &[&str]) -> Vec<IndexPath> {
    let all = (1..)
        .zip(names)
        .map(|(hundred, name)| write(directory, name, (hundred, 10), 1, "f00d"));
    all.enumerate()
        .map(|(at, index)| IndexPath {
            is_default: at == 0,
            ..index
        })
        .collect()
}

async fn towers(services: &[&EncoderService]) -> QuestionTowers {
    let connected = services
        .iter()
        .map(|service| QuestionTower::connect(&service.url, Credentials::default()));
    QuestionTowers::new(futures_util::future::try_join_all(connected).await.unwrap(), false).unwrap()
}

/// A searcher over the indexes `zoo`, which is the default, and `alp` of one directory.
struct Several {
    directory: tempfile::TempDir,
    _encoder: EncoderService,
    engine: Arc<Engine>,
    served: Served,
    admin: AdminClient,
}

const NAMES: [&str; 2] = ["zoo", "alp"];

async fn several() -> Several {
    let (directory, encoder) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    let caches = EngineConfig {
        filter_cache: 1 << 20,
        question_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let indexes = write_all(directory.path(), &NAMES);
    let engine = Arc::new(Engine::open_all(indexes, towers(&[&encoder]).await, caches).unwrap());
    let served = serve(Arc::clone(&engine)).await;
    let admin = AdminClient::connect(&served.url, ClientConfig::default())
        .await
        .unwrap();
    Several {
        directory,
        _encoder: encoder,
        engine,
        served,
        admin,
    }
}

fn of(index: &str, request: v1::SearchRequest) -> v1::SearchRequest {
    v1::SearchRequest {
        index: index.to_owned(),
        ..request
    }
}

/// Whether all hits are of an index, by its hundred.
fn are_of(hits: &[v1::Hit], hundred: usize) -> bool {
    let prefix = format!("doc-{hundred}");
    !hits.is_empty() && keys(hits).iter().all(|key| key.len() == 7 && key.starts_with(&prefix))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_from_the_index_that_it_names() {
    let server = several().await;
    let client = &server.served.client;
    for (name, index, hundred) in [("", "zoo", 1), ("zoo", "zoo", 1), ("alp", "alp", 2)] {
        for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
            let reply = client
                .search(of(name, request(mode, "river number 3", 5)))
                .await
                .unwrap();
            assert!(
                are_of(&reply.hits, hundred) && reply.index == index,
                "{name} {mode:?}: {reply:?}"
            );
            assert_eq!(reply.coverage.unwrap().documents, 10);
        }
        let compared = client
            .search(of(name, request(Mode::Compare, "river number 3", 5)))
            .await
            .unwrap();
        assert!(are_of(&compared.comparison.unwrap().hybrid, hundred));
        let requests = (0..4).map(|number| of(name, request(Mode::Hybrid, &format!("river number {number}"), 2)));
        let batch = client
            .search_batch(v1::SearchBatchRequest {
                requests: requests.collect(),
            })
            .await
            .unwrap();
        assert!(
            batch
                .responses
                .iter()
                .all(|reply| are_of(&reply.hits, hundred) && reply.index == index)
        );
        let key = format!("doc-{hundred}07");
        let search = Some(of(name, request(Mode::Bm25, "river number 7", 1)));
        let explained = client
            .explain(v1::ExplainRequest {
                key: key.clone(),
                search,
            })
            .await
            .unwrap();
        assert_eq!(explained.hit.unwrap().rank, 1);
        let wanted = vec!["doc-107".to_owned(), "doc-207".to_owned()];
        let found = v1::GetDocumentsRequest {
            keys: wanted.clone(),
            index: name.to_owned(),
            ..Default::default()
        };
        let found = client.get_documents(found).await.unwrap();
        assert_eq!(
            (
                found.documents[0].key.as_str(),
                found.documents.len(),
                found.missing.len()
            ),
            (key.as_str(), 1, 1)
        );
    }
    // The requests of a stream may differ, and each reply says of which index it is.
    let names = ["alp", "zoo", "", "alp"];
    let requests = names.map(|name| of(name, request(Mode::Hybrid, "river number 5", 3)));
    let replies = client
        .search_stream(tokio_stream::iter(requests), Duration::from_mins(1))
        .await
        .unwrap();
    let replies: Vec<v1::SearchResponse> = replies.map(|reply| reply.unwrap().response.unwrap()).collect().await;
    for (reply, (index, hundred)) in replies.iter().zip([("alp", 2), ("zoo", 1), ("zoo", 1), ("alp", 2)]) {
        assert!(are_of(&reply.hits, hundred) && reply.index == index, "{reply:?}");
    }
    assert_eq!(replies.len(), 4);
    let mixed = ["alp", "zoo"]
        .map(|name| of(name, request(Mode::Bm25, "river", 1)))
        .to_vec();
    let error = client
        .search_batch(v1::SearchBatchRequest { requests: mixed })
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`requests[1].index`: expected `alp`, as `requests[0]` has, got `zoo`"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_unknown_or_none_is_refused_with_those_that_there_are() {
    let server = several().await;
    let client = &server.served.client;
    let said = |error: String, path: &str| {
        let expected = format!("`{path}`: there is no index named `sea`. There are `alp`, `zoo`");
        assert!(error.contains("(NotFound)") && error.contains(&expected), "{error}");
    };
    let sea = || of("sea", request(Mode::Bm25, "river", 1));
    said(client.search(sea()).await.unwrap_err().to_string(), "index");
    let batch = v1::SearchBatchRequest {
        requests: vec![sea(), sea()],
    };
    said(
        client.search_batch(batch).await.unwrap_err().to_string(),
        "requests[0].index",
    );
    let explain = v1::ExplainRequest {
        key: "doc-101".into(),
        search: Some(sea()),
    };
    said(client.explain(explain).await.unwrap_err().to_string(), "search.index");
    let index = || "sea".to_owned();
    let documents = v1::GetDocumentsRequest {
        keys: vec!["doc-101".into()],
        index: index(),
        ..Default::default()
    };
    said(client.get_documents(documents).await.unwrap_err().to_string(), "index");
    said(
        server
            .admin
            .status(v1::StatusRequest { index: index() })
            .await
            .unwrap_err()
            .to_string(),
        "index",
    );
    said(
        server
            .admin
            .reload(v1::ReloadRequest { index: index() })
            .await
            .unwrap_err()
            .to_string(),
        "index",
    );
    said(
        server
            .admin
            .verify(v1::VerifyRequest { index: index() })
            .await
            .unwrap_err()
            .to_string(),
        "index",
    );
    let back = v1::RollbackRequest {
        generation: 1,
        index: index(),
    };
    said(server.admin.rollback(back).await.unwrap_err().to_string(), "index");
    let mut replies = client
        .search_stream(
            tokio_stream::iter([v1::SearchRequest { id: 7, ..sea() }]),
            Duration::from_mins(1),
        )
        .await
        .unwrap();
    let status = replies.next().await.unwrap().unwrap_err();
    assert!(status.code() == tonic::Code::NotFound && status.message().starts_with("request with id 7: `index`"));

    let error = client
        .search(of("../zoo", request(Mode::Bm25, "river", 1)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("(InvalidArgument)") && error.contains("`index`: expected the name of an index"),
        "{error}"
    );
    let error = server
        .admin
        .status(v1::StatusRequest { index: "a b".into() })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("`index`: expected the name of an index"), "{error}");

    // None of several is the default, where no one says which.
    let mut indexes = write_all(server.directory.path(), &NAMES);
    indexes[0].is_default = false;
    let engine = Engine::open_all(indexes, QuestionTowers::default(), EngineConfig::default()).unwrap();
    let error = engine.index("", &US).unwrap_err();
    assert_eq!(
        tonic::Status::from(engine.index("", &US).unwrap_err()).code(),
        tonic::Code::InvalidArgument
    );
    assert!(
        error
            .to_string()
            .contains("none of several is the default. There are `alp`, `zoo`"),
        "{error}"
    );
    assert_eq!(engine.index("alp", &US).unwrap().name(), "alp");
}

#[tokio::test]
async fn the_same_over_http() {
    let server = several().await;
    let http = over_engine(Arc::clone(&server.engine)).await;
    let search = |index: &str| json!({"query": "river number 3", "mode": "MODE_HYBRID", "k": 3, "index": index});
    for (name, index, hundred) in [("", "zoo", 1), ("alp", "alp", 2)] {
        let got = http.post("/v1/search", &search(name)).await;
        assert_eq!((got.status, &got.json["index"]), (200, &json!(index)));
        let key = got.json["hits"][0]["key"].as_str().unwrap();
        assert!(key.starts_with(&format!("doc-{hundred}")), "{key}");
        let documents = http
            .post("/v1/documents", &json!({"keys": ["doc-207"], "index": name}))
            .await;
        assert_eq!(documents.json["documents"].as_array().unwrap().len(), hundred - 1);
    }
    let got = http.post("/v1/search", &search("sea")).await;
    let error = got.json["error"]["message"].as_str().unwrap();
    assert!(
        got.status == 404 && error.contains("there is no index named `sea`"),
        "{error}"
    );
    assert_eq!(http.post("/v1/search", &search("a/b")).await.status, 400);
    let got = http.send("GET", "/v1/indexes", "", "").await;
    let indexes = got.json["indexes"].as_array().unwrap();
    let told = indexes
        .iter()
        .map(|index| (index["name"].as_str().unwrap(), index["is_default"].as_bool().unwrap()));
    assert_eq!(
        (got.status, told.collect::<Vec<_>>()),
        (200, vec![("alp", false), ("zoo", true)])
    );
    assert_eq!(
        (&indexes[0]["documents"], &indexes[0]["model"]["fingerprint"]),
        (&json!(10), &json!("f00d"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_rollback_and_verification_are_of_one_index() {
    let server = several().await;
    let (client, admin) = (&server.served.client, &server.admin);
    let generations = async || {
        let listed = admin.list_indexes(v1::ListIndexesRequest {}).await.unwrap().indexes;
        listed
            .into_iter()
            .map(|index| (index.name, index.generation, index.documents))
            .collect::<Vec<_>>()
    };
    let all = |alp, zoo| [("alp", alp), ("zoo", zoo)].map(|(name, (number, count))| (name.to_owned(), number, count));
    for (hundred, name) in (1..).zip(NAMES) {
        write(server.directory.path(), name, (hundred, 12), 2, "f00d");
    }
    assert_eq!(generations().await, all((1, 10), (1, 10)));
    let reply = admin.reload(v1::ReloadRequest { index: "alp".into() }).await.unwrap();
    assert_eq!((reply.previous_generation, reply.generation), (1, 2));
    assert_eq!(generations().await, all((2, 12), (1, 10)));
    for (name, generation) in [("alp", 2), ("zoo", 1)] {
        let reply = client.search(of(name, request(Mode::Dense, "river", 1))).await.unwrap();
        assert_eq!((reply.index.as_str(), reply.generation), (name, generation));
    }
    // No name: of the default.
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!(generations().await, all((2, 12), (2, 12)));
    let back = v1::RollbackRequest {
        generation: 1,
        index: "alp".into(),
    };
    assert_eq!(admin.rollback(back).await.unwrap().generation, 1);
    assert_eq!(generations().await, all((1, 10), (2, 12)));
    let current = |name: &str| dyad_index::manifest::current_generation(&server.directory.path().join(name)).unwrap();
    assert_eq!((current("alp"), current("zoo")), (Some(1), Some(2)));
    for (name, told, generation) in [("", "zoo", 2), ("alp", "alp", 1)] {
        let status = admin.status(v1::StatusRequest { index: name.into() }).await.unwrap();
        assert_eq!(
            (status.name.as_str(), status.generation, status.generations.len()),
            (told, generation, 2)
        );
        assert!(status.index.ends_with(told), "{}", status.index);
    }

    // A copy of a file is damaged and put in its place, as a bad disk would.
    let path = server.directory.path().join("alp/shards/g1-0/dense.dyad");
    let mut bytes = fs_err::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs_err::remove_file(&path).unwrap();
    fs_err::write(&path, bytes).unwrap();
    let intact = async |index: &str| {
        admin
            .verify(v1::VerifyRequest { index: index.into() })
            .await
            .unwrap()
            .intact
    };
    assert_eq!(
        (intact("alp").await, intact("zoo").await, intact("").await),
        (false, true, true)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_current_names_is_followed() {
    let server = several().await;
    let engine = Arc::clone(&server.engine);
    let follower = tokio::spawn(async move { engine.follow(Duration::from_millis(5)).await });
    let serves = async |alp: u64, zoo: u64| {
        let until = std::time::Instant::now() + Duration::from_secs(30);
        let generation = |name: &str| server.engine.index(name, &US).unwrap().snapshot().manifest().generation;
        while (generation("alp"), generation("zoo")) != (alp, zoo) {
            assert!(
                std::time::Instant::now() < until,
                "generations {alp} and {zoo} are not served"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let directory = server.directory.path();
    write(directory, "zoo", (1, 11), 2, "f00d");
    serves(1, 2).await;
    // One that cannot be served holds the others up no longer than a moment.
    write(directory, "alp", (2, 11), 2, "beef");
    write(directory, "zoo", (1, 12), 3, "f00d");
    serves(1, 3).await;
    write(directory, "alp", (2, 12), 3, "f00d");
    serves(3, 3).await;
    follower.abort();
}

/// The documents of these numbers, of both indexes.
fn only(index: &str) -> v1::SearchRequest {
    let keys = (103..106)
        .chain(203..206)
        .map(|number| format!("doc-{number}"))
        .collect();
    let filter = v1::Filter {
        condition: Some(Condition::Keys(v1::FilterKeys { keys })),
    };
    of(
        index,
        v1::SearchRequest {
            filter: Some(filter),
            ..request(Mode::Dense, "the old river", 60)
        },
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_one_index_knows_is_not_known_for_another() {
    let server = several().await;
    let ask = async |index: &str, hundred: usize| {
        let reply = server.served.client.search(only(index)).await.unwrap();
        let filter = reply.filter.unwrap();
        assert!(
            reply.hits.len() == 3 && are_of(&reply.hits, hundred) && filter.documents == 3,
            "{index}"
        );
        filter.cached
    };
    // Equal filters, equal numbers of generations: each index has its own entry, and the second does not take the
    // first's place.
    assert_eq!([ask("zoo", 1).await, ask("alp", 2).await], [false, false]);
    assert_eq!([ask("zoo", 1).await, ask("alp", 2).await], [true, true]);
    // Another generation of one forgets its own.
    write(server.directory.path(), "alp", (2, 20), 2, "f00d");
    server.engine.reload("alp").await.unwrap();
    assert_eq!([ask("zoo", 1).await, ask("alp", 2).await], [true, false]);
    server.engine.rollback("alp", 1).await.unwrap();
    assert_eq!(
        [ask("zoo", 1).await, ask("alp", 2).await, ask("alp", 2).await],
        [true, false, true]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_served_by_the_tower_of_its_model() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (encoder("f00d").await, encoder("beef").await);
    let old = IndexPath {
        is_default: true,
        ..write(directory.path(), "old", (1, 10), 1, "f00d")
    };
    let new = write(directory.path(), "new", (2, 10), 1, "beef");
    let caches = || EngineConfig {
        question_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::open_all(vec![old, new], towers(&[&one, &other]).await, caches()).unwrap();
    let engine = Arc::new(engine);
    let Served { client, url, .. } = &serve(Arc::clone(&engine)).await;
    let ask = async |index: &str, query: &str| client.search(of(index, request(Mode::Dense, query, 3))).await;
    assert_eq!(ask("old", "river").await.unwrap().fingerprint, "f00d");
    assert_eq!(ask("new", "river").await.unwrap().fingerprint, "beef");
    // A tower that fails takes no part in the other's index, and what is known of a question is known of one model.
    one.broken.store(true, Ordering::SeqCst);
    ask("new", "number 3").await.unwrap();
    assert!(
        ask("old", "number 3")
            .await
            .unwrap_err()
            .to_string()
            .contains("out of memory")
    );
    ask("old", "river").await.unwrap();
    let admin = AdminClient::connect(url, ClientConfig::default()).await.unwrap();
    let listed = admin.list_indexes(v1::ListIndexesRequest {}).await.unwrap().indexes;
    let degraded: Vec<_> = listed
        .iter()
        .map(|index| (index.name.as_str(), !index.degraded_reason.is_empty()))
        .collect();
    assert_eq!(degraded, [("new", false), ("old", true)]);
    let status = admin.status(v1::StatusRequest { index: "new".into() }).await.unwrap();
    assert_eq!(status.question_model.unwrap().fingerprint, "beef");
    // A generation of the other model is served by the other tower; one of a third is refused.
    write(directory.path(), "old", (1, 11), 2, "beef");
    engine.reload("old").await.unwrap();
    assert_eq!(ask("old", "number 4").await.unwrap().fingerprint, "beef");
    write(directory.path(), "old", (1, 12), 3, "cafe");
    let error = engine.reload("old").await.unwrap_err().to_string();
    assert!(
        error.contains("fingerprint cafe") && error.contains("`words` (fingerprint f00d, 24 values), `words` (fi"),
        "{error}"
    );
    assert_eq!(ask("old", "number 4").await.unwrap().generation, 2);
}

#[tokio::test]
async fn an_index_without_a_tower_is_refused_unless_none_is_a_choice() {
    let directory = tempfile::tempdir().unwrap();
    let service = encoder("f00d").await;
    let text = IndexPath {
        is_default: true,
        ..write(directory.path(), "text", (1, 10), 1, "f00d")
    };
    let vectors = write(directory.path(), "vectors", (2, 10), 1, "beef");
    let both = || vec![text.clone(), vectors.clone()];
    let open = |indexes, towers| Engine::open_all(indexes, towers, EngineConfig::default());
    let error = open(both(), towers(&[&service]).await).unwrap_err();
    assert!(
        matches!(&error, Error::OfIndex { name, .. } if name == "vectors"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .starts_with("index `vectors`: the question tower does not match the index"),
        "{error}"
    );
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::FailedPrecondition);
    // The only index is not named.
    let error = open(vec![vectors.clone()], towers(&[&service]).await).unwrap_err();
    assert!(
        error.to_string().starts_with("the question tower does not match"),
        "{error}"
    );
    let connected = async || {
        QuestionTower::connect(&service.url, Credentials::default())
            .await
            .unwrap()
    };
    let twice = QuestionTowers::new(vec![connected().await, connected().await], false)
        .unwrap_err()
        .to_string();
    assert!(
        twice.contains("two question towers are of the model `words` (fingerprint f00d)"),
        "{twice}"
    );

    let engine = Arc::new(open(both(), QuestionTowers::new(vec![connected().await], true).unwrap()).unwrap());
    let Served { client, .. } = &serve(Arc::clone(&engine)).await;
    client.search(request(Mode::Dense, "river", 1)).await.unwrap();
    let error = client
        .search(of("vectors", request(Mode::Dense, "river", 1)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no question tower of the index's model"),
        "{error}"
    );
    let by_text = client
        .search(of("vectors", request(Mode::Bm25, "river", 1)))
        .await
        .unwrap();
    assert!(are_of(&by_text.hits, 2));
    // What has a tower keeps one.
    write(directory.path(), "text", (1, 10), 2, "beef");
    let error = engine.reload("text").await.unwrap_err().to_string();
    assert!(
        error.contains("fingerprint beef") && error.contains("fingerprint f00d"),
        "{error}"
    );
}

#[tokio::test]
async fn indexes_that_cannot_be_opened_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let indexes = write_all(directory.path(), &["a", "b", "c"]);
    let open = |indexes| Engine::open_all(indexes, QuestionTowers::default(), EngineConfig::default());
    let same = indexes
        .iter()
        .map(|index| IndexPath {
            name: "a".into(),
            ..index.clone()
        })
        .collect();
    let error = open(same).unwrap_err().to_string();
    assert!(
        error.contains("two indexes are named `a`: ") && error.contains("--index NAME=DIR"),
        "{error}"
    );
    for name in ["b", "c"] {
        fs_err::remove_file(directory.path().join(name).join("CURRENT")).unwrap();
    }
    let error = open(indexes).unwrap_err();
    assert!(
        error.to_string().starts_with("index `b`: ") && error.to_string().contains("holds no index"),
        "{error}"
    );
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_sixty_indexes_is_found() {
    let (directory, encoder) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    let names: Vec<String> = (0..60).map(|number| format!("tenant-{number:02}")).collect();
    let write = |(hundred, name): (usize, &String)| write(directory.path(), name, (hundred, 6), 1, "f00d");
    let indexes: Vec<IndexPath> = (1..).zip(&names).map(write).collect();
    let engine = Arc::new(Engine::open_all(indexes, towers(&[&encoder]).await, EngineConfig::default()).unwrap());
    engine.warm_up().await;
    assert!(
        engine
            .indexes()
            .map(|index| index.name())
            .eq(names.iter().map(String::as_str))
    );
    let Served { client, .. } = &serve(Arc::clone(&engine)).await;
    for (hundred, name) in (1..).zip(&names) {
        let reply = client
            .search(of(name, request(Mode::Hybrid, "old river", 10)))
            .await
            .unwrap();
        let mine = keys(&reply.hits)
            .iter()
            .all(|key| key.strip_prefix("doc-").unwrap().parse::<usize>().unwrap() / 100 == hundred);
        assert!(
            mine && reply.hits.len() == 6 && reply.index == *name,
            "{name}: {reply:?}"
        );
    }
    let error = client
        .search(request(Mode::Bm25, "river", 1))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("`tenant-09`, and 50 others") && !error.contains("tenant-10"),
        "{error}"
    );
}

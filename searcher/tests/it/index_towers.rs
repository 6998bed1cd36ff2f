//! Which tower an index is served by, and indexes that have none or cannot be opened.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dyad_proto::client::{AdminClient, ClientConfig, Credentials};
use dyad_proto::v1::{self, Mode};
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};
use dyad_searcher::{Engine, Error};

use crate::encoder_service::encoder;
use crate::fixture::{Served, keys, request, serve};
use crate::several_indexes::{are_of, towers, with_index, write, write_all};

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_served_by_the_tower_of_its_model() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (encoder("f00d").await, encoder("beef").await);
    let old = IndexPath {
        is_default: true,
        ..write(directory.path(), "old", 1, 10, 1, "f00d")
    };
    let new = write(directory.path(), "new", 2, 10, 1, "beef");
    let caches = || EngineConfig {
        question_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::open_all(vec![old, new], towers(&[&one, &other]).await, caches()).unwrap();
    let engine = Arc::new(engine);
    let Served { client, url, .. } = &serve(Arc::clone(&engine)).await;
    let ask = async |index: &str, query: &str| client.search(with_index(index, request(Mode::Dense, query, 3))).await;
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
    write(directory.path(), "old", 1, 11, 2, "beef");
    engine.reload("old").await.unwrap();
    assert_eq!(ask("old", "number 4").await.unwrap().fingerprint, "beef");
    write(directory.path(), "old", 1, 12, 3, "cafe");
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
        ..write(directory.path(), "text", 1, 10, 1, "f00d")
    };
    let vectors = write(directory.path(), "vectors", 2, 10, 1, "beef");
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
        .search(with_index("vectors", request(Mode::Dense, "river", 1)))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("there is no question tower of the index's model"),
        "{error}"
    );
    let by_text = client
        .search(with_index("vectors", request(Mode::Bm25, "river", 1)))
        .await
        .unwrap();
    assert!(are_of(&by_text.hits, 2));
    // What has a tower keeps one.
    write(directory.path(), "text", 1, 10, 2, "beef");
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
    let write = |(hundred, name): (usize, &String)| write(directory.path(), name, hundred, 6, 1, "f00d");
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
            .search(with_index(name, request(Mode::Hybrid, "old river", 10)))
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

//! Several indexes in one searcher: each request is answered from the one that it names, and what is done to one leaves
//! the others alone.

use std::sync::Arc;
use std::time::Duration;

use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::Engine;
use dyad_searcher::question::QuestionTowers;
use dyad_searcher::run::EngineConfig;
use serde_json::json;
use tokio_stream::StreamExt as _;

use crate::fixture::{US, request};
use crate::http_client::over_engine;
use crate::several_indexes::{NAMES, are_of, several, with_index, write, write_all};

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_from_the_index_that_it_names() {
    let server = several().await;
    let client = &server.served.client;
    for (name, index, hundred) in [("", "zoo", 1), ("zoo", "zoo", 1), ("alp", "alp", 2)] {
        for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
            let reply = client
                .search(with_index(name, request(mode, "river number 3", 5)))
                .await
                .unwrap();
            assert!(
                are_of(&reply.hits, hundred) && reply.index == index,
                "{name} {mode:?}: {reply:?}"
            );
            assert_eq!(reply.coverage.unwrap().documents, 10);
        }
        let compared = client
            .search(with_index(name, request(Mode::Compare, "river number 3", 5)))
            .await
            .unwrap();
        assert!(are_of(&compared.comparison.unwrap().hybrid, hundred));
        let requests =
            (0..4).map(|number| with_index(name, request(Mode::Hybrid, &format!("river number {number}"), 2)));
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
        let search = Some(with_index(name, request(Mode::Bm25, "river number 7", 1)));
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
    let requests = names.map(|name| with_index(name, request(Mode::Hybrid, "river number 5", 3)));
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
        .map(|name| with_index(name, request(Mode::Bm25, "river", 1)))
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
    let sea = || with_index("sea", request(Mode::Bm25, "river", 1));
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
        .search(with_index("../zoo", request(Mode::Bm25, "river", 1)))
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
        write(server.directory.path(), name, hundred, 12, 2, "f00d");
    }
    assert_eq!(generations().await, all((1, 10), (1, 10)));
    let reply = admin.reload(v1::ReloadRequest { index: "alp".into() }).await.unwrap();
    assert_eq!((reply.previous_generation, reply.generation), (1, 2));
    assert_eq!(generations().await, all((2, 12), (1, 10)));
    for (name, generation) in [("alp", 2), ("zoo", 1)] {
        let reply = client
            .search(with_index(name, request(Mode::Dense, "river", 1)))
            .await
            .unwrap();
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
    write(directory, "zoo", 1, 11, 2, "f00d");
    serves(1, 2).await;
    // One that cannot be served holds the others up no longer than a moment.
    write(directory, "alp", 2, 11, 2, "beef");
    write(directory, "zoo", 1, 12, 3, "f00d");
    serves(1, 3).await;
    write(directory, "alp", 2, 12, 3, "f00d");
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
    with_index(
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
    write(server.directory.path(), "alp", 2, 20, 2, "f00d");
    server.engine.reload("alp").await.unwrap();
    assert_eq!([ask("zoo", 1).await, ask("alp", 2).await], [true, false]);
    server.engine.rollback("alp", 1).await.unwrap();
    assert_eq!(
        [ask("zoo", 1).await, ask("alp", 2).await, ask("alp", 2).await],
        [true, false, true]
    );
}

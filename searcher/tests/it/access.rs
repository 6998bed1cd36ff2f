//! API keys: what each role may call, and what exists for a key with a filter or a list of indexes, by every call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::access::Role;
use dyad_proto::client::ClientError;
use dyad_proto::service::Security;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::EngineConfig;
use tempfile::TempDir;
use tonic::Code;

use crate::encoder_service::{EncoderService, encoder};
use crate::fixture::{Served, documents, request, serve_with, write_index_of};
use crate::guarded::{code, equals, guarded};

pub(crate) const QUERY: &str = "the deep planet number 20";

/// A searcher over the tenant's documents alone.
async fn alone(folder: &Path, documents: &[(String, String)]) -> (Served, EncoderService) {
    write_index_of(documents, folder, 1, "f00d");
    let encoder = encoder("f00d").await;
    let engine = Arc::new(
        crate::fixture::open(folder, &encoder, EngineConfig::default())
            .await
            .unwrap(),
    );
    (serve_with(engine, Security::default()).await, encoder)
}

/// Documents with their scores, of each ranking.
fn rankings(reply: &v1::SearchResponse) -> Vec<Vec<(String, f32)>> {
    let lists = match &reply.comparison {
        Some(all) => vec![&all.dense, &all.bm25, &all.hybrid],
        None => vec![&reply.hits],
    };
    lists
        .iter()
        .map(|hits| hits.iter().map(|hit| (hit.key.clone(), hit.score)).collect())
        .collect()
}

#[tokio::test]
async fn for_a_tenant_the_index_is_that_of_its_own_documents() {
    let server = guarded().await;
    let key = server.key(Role::Read, &[], Some(equals("thing", "planet"))).await;
    let client = server.searcher(&key).await;
    let mine: Vec<_> = documents()
        .into_iter()
        .filter(|(_, text)| text.contains("planet"))
        .collect();
    let folder = TempDir::new().unwrap();
    let (own, _encoder) = alone(folder.path(), &mine).await;
    let fusions = [v1::Fusion::Unspecified, v1::Fusion::Rrf, v1::Fusion::MinMax];
    let modes = [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare];
    let all = modes.iter().flat_map(|mode| fusions.map(|fusion| (*mode, fusion)));
    for (mode, fusion) in all.filter(|(mode, fusion)| *fusion == fusions[0] || *mode > Mode::Bm25) {
        for query in [QUERY, "number", "the famous composer", "planet planet heavy"] {
            let asked = v1::SearchRequest {
                fusion: fusion.into(),
                ..request(mode, query, 60)
            };
            let reply = client.search(asked.clone()).await.unwrap();
            assert_eq!(
                rankings(&reply),
                rankings(&own.client.search(asked.clone()).await.unwrap()),
                "{asked:?}"
            );
            let coverage = reply.coverage.clone().unwrap();
            assert_eq!((coverage.documents, coverage.intact_documents), (10, 10));
            // Batches and streams are no way around it.
            let batch = v1::SearchBatchRequest {
                requests: vec![asked.clone(), asked.clone()],
            };
            for other in client.search_batch(batch).await.unwrap().responses {
                assert_eq!(rankings(&other), rankings(&reply));
            }
            let mut stream = client
                .search_stream(tokio_stream::iter([asked.clone()]), Duration::from_mins(1))
                .await
                .unwrap();
            let streamed = stream.message().await.unwrap().unwrap().response.unwrap();
            assert_eq!(rankings(&streamed), rankings(&reply));
        }
    }
}

#[tokio::test]
async fn groups_that_are_read_deeper_are_of_the_tenants_documents_too() {
    let server = guarded().await;
    let client = server
        .searcher(&server.key(Role::Read, &[], Some(equals("thing", "planet"))).await)
        .await;
    let mine: Vec<_> = documents()
        .into_iter()
        .filter(|(_, text)| text.contains("planet"))
        .collect();
    let folder = TempDir::new().unwrap();
    let (own, _encoder) = alone(folder.path(), &mine).await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        // All are one group, so that a second one is looked for among all of them.
        let group_by = Some(v1::GroupBy {
            field: "thing".into(),
            hits: 100,
        });
        let asked = v1::SearchRequest {
            group_by,
            ..request(mode, QUERY, 2)
        };
        let flat = |reply: &v1::SearchResponse| -> Vec<(String, f32)> {
            assert_eq!(reply.hits.len(), 1);
            let others = reply.hits.iter().flat_map(|hit| &hit.group.as_ref().unwrap().hits);
            reply
                .hits
                .iter()
                .chain(others)
                .map(|hit| (hit.key.clone(), hit.score))
                .collect()
        };
        let reply = flat(&client.search(asked.clone()).await.unwrap());
        assert_eq!(reply, flat(&own.client.search(asked).await.unwrap()), "{mode:?}");
        assert_eq!(reply.len(), 10);
    }
}

#[tokio::test]
async fn no_filter_of_a_request_widens_the_keys_own() {
    let server = guarded().await;
    let key = server.key(Role::Read, &[], Some(equals("thing", "planet"))).await;
    let client = server.searcher(&key).await;
    let not = |filter| v1::Filter {
        condition: Some(Condition::Not(Box::new(filter))),
    };
    let any = |filters| v1::Filter {
        condition: Some(Condition::Any(v1::FilterList { filters })),
    };
    let others = equals("thing", "river");
    let by_key = v1::Filter {
        condition: Some(Condition::Keys(v1::FilterKeys {
            keys: vec!["doc-00".into()],
        })),
    };
    for (filter, count) in [
        (others.clone(), 0),
        (by_key, 0),
        (not(equals("thing", "planet")), 0),
        (not(others.clone()), 10),
        (any(vec![others, equals("thing", "planet")]), 10),
        (equals("no.such.field", "x"), 0),
    ] {
        for (mode, exact) in [(Mode::Dense, false), (Mode::Dense, true), (Mode::Hybrid, false)] {
            let asked = v1::SearchRequest {
                filter: Some(filter.clone()),
                exact,
                ..request(mode, QUERY, 60)
            };
            let reply = client.search(asked).await.unwrap();
            assert_eq!(reply.hits.len(), count, "{filter:?}");
            assert!(
                reply
                    .hits
                    .iter()
                    .all(|hit| hit.document.as_ref().unwrap().text.contains("planet"))
            );
            // Which fields other documents have, and lack, is not said.
            assert_eq!(reply.notes, Vec::<String>::new());
        }
    }
    let by_group = v1::SearchRequest {
        group_by: Some(v1::GroupBy {
            field: "thing".into(),
            hits: 100,
        }),
        ..request(Mode::Hybrid, QUERY, 9)
    };
    let reply = client.search(by_group).await.unwrap();
    assert_eq!(
        (reply.hits.len(), reply.hits[0].group.as_ref().unwrap().hits.len()),
        (1, 9)
    );
}

/// The error of something that is not there, with its key left out.
fn message(error: &ClientError, key: &str) -> String {
    assert_eq!(code(error), Code::NotFound, "{error}");
    error.to_string().replace(key, "KEY")
}

#[tokio::test]
async fn anothers_document_is_one_that_does_not_exist_by_every_call() {
    let server = guarded().await;
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let client = server.searcher(&key).await;
    // doc-02 is a planet, doc-00 a river.
    let wanted = |keys: &[&str]| v1::GetDocumentsRequest {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..Default::default()
    };
    let reply = client
        .get_documents(wanted(&["doc-00", "doc-02", "none"]))
        .await
        .unwrap();
    assert_eq!(
        reply
            .documents
            .iter()
            .map(|document| document.key.as_str())
            .collect::<Vec<_>>(),
        ["doc-02"]
    );
    assert_eq!(reply.missing, ["doc-00", "none"]);
    let explain = |key: &str| v1::ExplainRequest {
        key: key.into(),
        search: Some(request(Mode::Hybrid, QUERY, 5)),
    };
    let others = message(&client.explain(explain("doc-00")).await.unwrap_err(), "doc-00");
    assert_eq!(
        others,
        message(&client.explain(explain("none")).await.unwrap_err(), "none")
    );
    let sample = v1::SampleDocumentsRequest {
        count: 60,
        ..Default::default()
    };
    let sampled = client.sample_documents(sample).await.unwrap();
    assert_eq!((sampled.documents.len(), sampled.of), (10, 10));
    assert!(
        sampled
            .documents
            .iter()
            .all(|document| document.text.contains("planet"))
    );
    // Places and statistics are those among its own documents.
    let own = client.explain(explain("doc-20")).await.unwrap();
    assert_eq!((own.bm25.unwrap().rank, own.dense_exact.unwrap().rank), (1, 1));
    assert!(
        own.bm25_explanation_json.contains("10"),
        "{}",
        own.bm25_explanation_json
    );
    assert!(
        !own.bm25_explanation_json.contains("60"),
        "{}",
        own.bm25_explanation_json
    );
    // Another index, and what tells of all documents.
    let other = v1::SearchRequest {
        index: "others".into(),
        ..request(Mode::Bm25, QUERY, 5)
    };
    let absent = v1::SearchRequest {
        index: "absent".into(),
        ..other.clone()
    };
    let error = message(&client.search(other).await.unwrap_err(), "`others`");
    assert_eq!(error, message(&client.search(absent).await.unwrap_err(), "`absent`"));
    assert!(
        error.contains("There are `all`") && !error.contains("others"),
        "{error}"
    );
    let admin = server.admin(&key).await;
    let listed = admin.list_indexes(v1::ListIndexesRequest {}).await.unwrap().indexes;
    assert_eq!(
        listed
            .iter()
            .map(|index| (index.name.as_str(), index.documents))
            .collect::<Vec<_>>(),
        [("all", 0)]
    );
    assert_eq!(
        code(&admin.status(v1::StatusRequest::default()).await.unwrap_err()),
        Code::PermissionDenied
    );
    // Nor is it told where the question tower was.
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let failed = client
        .search(request(Mode::Dense, "never asked before", 5))
        .await
        .unwrap_err();
    assert!(
        failed.to_string().contains("question tower: it returns no vectors"),
        "{failed}"
    );
}

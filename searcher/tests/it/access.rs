//! API keys: what each role may call, and what exists for a key with a filter or a list of indexes, by every call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{AdminClient, ClientConfig, ClientError, Credentials, SearcherClient};
use dyad_proto::service::{HttpConfig, Security, SecurityOptions};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_searcher::Engine;
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;

use crate::fixture::{EncoderService, Served, documents, encoder, request, serve_with, write_index, write_index_of};
use crate::http::{Http, over_secured};

const QUERY: &str = "the deep planet number 20";

pub(crate) fn equals(field: &str, text: &str) -> v1::Filter {
    let value = Some(v1::FilterValue {
        value: Some(Value::Text(text.into())),
    });
    v1::Filter {
        condition: Some(Condition::Equals(v1::FieldEquals {
            field: field.into(),
            value,
        })),
    }
}

/// Everything that a test needs of a server with keys.
pub(crate) struct Guarded {
    _folder: TempDir,
    audit: std::path::PathBuf,
    keys: std::path::PathBuf,
    served: Served,
    pub(crate) http: Http,
    encoder: EncoderService,
}

/// Serves `all` as the default index, and `others`.
pub(crate) async fn guarded() -> Guarded {
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["all", "others"] {
        fs_err::create_dir(at(name)).unwrap();
        write_index(&at(name), 1, "f00d");
        crate::surrounding::write_places(&at(name));
    }
    let (keys, audit) = (at("keys.json"), at("audit.jsonl"));
    KeyFile::change(&keys, |_| Ok(())).unwrap();
    let encoder = encoder("f00d").await;
    let tower = QuestionTower::connect(&encoder.url, Credentials::default())
        .await
        .unwrap();
    let paths = ["all", "others"].map(|name| IndexPath {
        is_default: name == "all",
        ..IndexPath::new(&at(name))
    });
    let towers = QuestionTowers::new(vec![tower], false).unwrap();
    let config = EngineConfig {
        filter_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let engine = Arc::new(Engine::open_all(paths.to_vec(), towers, config).unwrap());
    let options = SecurityOptions {
        keys: Some(keys.clone()),
        audit_log: Some(audit.clone()),
        ..SecurityOptions::default()
    };
    let security = Security::open(&options, &[]).unwrap();
    let served = serve_with(Arc::clone(&engine), security.clone()).await;
    let http = over_secured(engine, HttpConfig::default(), security).await;
    Guarded {
        _folder: folder,
        audit,
        keys,
        served,
        http,
        encoder,
    }
}

impl Guarded {
    /// A new key, as running servers have it.
    pub(crate) async fn key(&self, role: Role, indexes: &[&str], filter: Option<v1::Filter>) -> String {
        let indexes = indexes.iter().map(|name| (*name).to_owned()).collect();
        let new = NewKey {
            name: format!("{role}"),
            role,
            indexes,
            filter,
            concurrency: None,
        };
        let key = KeyFile::change(&self.keys, |file| file.create(new)).unwrap();
        // The server looks every second.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let admin = self.admin(&key).await;
        while matches!(
            admin.list_indexes(v1::ListIndexesRequest {}).await,
            Err(ClientError::Refused {
                code: Code::Unauthenticated,
                ..
            })
        ) {
            assert!(std::time::Instant::now() < deadline);
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        key
    }

    fn config(key: &str) -> ClientConfig {
        let credentials = Credentials::default().with_api_key(key).unwrap();
        ClientConfig {
            attempts: 1,
            credentials,
            ..ClientConfig::default()
        }
    }

    pub(crate) async fn searcher(&self, key: &str) -> SearcherClient {
        SearcherClient::connect(&self.served.url, Self::config(key))
            .await
            .unwrap()
    }

    async fn admin(&self, key: &str) -> AdminClient {
        AdminClient::connect(&self.served.url, Self::config(key)).await.unwrap()
    }
}

pub(crate) fn code(error: &ClientError) -> Code {
    match error {
        ClientError::Refused { code, .. } => *code,
        // No refusal has it.
        _ => Code::Ok,
    }
}

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
            let coverage = reply.coverage.unwrap();
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
    let message = |error: ClientError, key: &str| {
        assert!(
            matches!(
                &error,
                ClientError::Refused {
                    code: Code::NotFound,
                    ..
                }
            ),
            "{error}"
        );
        error.to_string().replace(key, "KEY")
    };
    let others = message(client.explain(explain("doc-00")).await.unwrap_err(), "doc-00");
    assert_eq!(
        others,
        message(client.explain(explain("none")).await.unwrap_err(), "none")
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
    let error = message(client.search(other).await.unwrap_err(), "`others`");
    assert_eq!(error, message(client.search(absent).await.unwrap_err(), "`absent`"));
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

#[tokio::test]
async fn a_key_for_some_indexes_has_its_own_default() {
    let server = guarded().await;
    let one = server.searcher(&server.key(Role::Read, &["others"], None).await).await;
    assert_eq!(one.search(request(Mode::Bm25, QUERY, 3)).await.unwrap().index, "others");
    let both = server
        .searcher(&server.key(Role::Read, &["all", "others"], None).await)
        .await;
    assert_eq!(both.search(request(Mode::Bm25, QUERY, 3)).await.unwrap().index, "all");
    // Neither of them is the default one.
    let none = server
        .searcher(&server.key(Role::Read, &["others", "third"], None).await)
        .await;
    let error = none.search(request(Mode::Bm25, QUERY, 3)).await.unwrap_err();
    assert!(error.to_string().contains("There are `others`") && code(&error) == Code::InvalidArgument);
    // An admin for one index changes that one.
    let admin = server.admin(&server.key(Role::Admin, &["others"], None).await).await;
    let reload = |index: &str| v1::ReloadRequest { index: index.into() };
    assert_eq!(admin.reload(reload("others")).await.unwrap().generation, 1);
    assert_eq!(code(&admin.reload(reload("all")).await.unwrap_err()), Code::NotFound);
}

#[tokio::test]
async fn a_read_key_reads_and_what_changes_something_is_recorded() {
    let server = guarded().await;
    let (read, admin) = (
        server.key(Role::Read, &[], None).await,
        server.key(Role::Admin, &[], None).await,
    );
    let reader = server.admin(&read).await;
    assert_eq!(reader.status(v1::StatusRequest::default()).await.unwrap().documents, 60);
    assert_eq!(
        code(&reader.reload(v1::ReloadRequest::default()).await.unwrap_err()),
        Code::PermissionDenied
    );
    let rollback = v1::RollbackRequest {
        generation: 1,
        ..Default::default()
    };
    assert_eq!(
        code(&reader.rollback(rollback.clone()).await.unwrap_err()),
        Code::PermissionDenied
    );
    assert_eq!(
        code(&reader.verify(v1::VerifyRequest::default()).await.unwrap_err()),
        Code::PermissionDenied
    );
    let administrator = server.admin(&admin).await;
    assert!(
        administrator
            .verify(v1::VerifyRequest { index: "others".into() })
            .await
            .unwrap()
            .intact
    );
    assert_eq!(
        code(
            &administrator
                .reload(v1::ReloadRequest { index: "none".into() })
                .await
                .unwrap_err()
        ),
        Code::NotFound
    );
    let text = fs_err::read_to_string(&server.audit).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            ["call", "status", "key_name"]
                .map(|field| line[field].as_str().unwrap())
                .into()
        })
        .collect();
    assert_eq!(
        told,
        [
            ("Admin.Reload", "PERMISSION_DENIED", "read"),
            ("Admin.Rollback", "PERMISSION_DENIED", "read"),
            ("Admin.Verify", "PERMISSION_DENIED", "read"),
            ("Admin.Verify", "OK", "admin"),
            ("Admin.Reload", "NOT_FOUND", "admin"),
        ]
    );
    assert_eq!(lines[3]["details"], json!({"index": "others"}));
    assert!(
        lines
            .iter()
            .all(|line| line["peer"].as_str().unwrap().starts_with("127.0.0.1:"))
    );
    for key in [&read, &admin] {
        let secret = key.rsplit('_').next().unwrap();
        assert!(!text.contains(secret) && !fs_err::read_to_string(&server.keys).unwrap().contains(secret));
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_key() {
    let server = guarded().await;
    let client = server.searcher(&server.key(Role::Read, &["others"], None).await).await;
    let (ask, asked) = tokio::sync::mpsc::channel(1);
    let asked = tokio_stream::wrappers::ReceiverStream::new(asked);
    ask.send(request(Mode::Bm25, QUERY, 3)).await.unwrap();
    let mut replies = client.search_stream(asked, Duration::from_mins(1)).await.unwrap();
    assert_eq!(
        replies.message().await.unwrap().unwrap().response.unwrap().index,
        "others"
    );
    let revoke = |file: &mut KeyFile| {
        let id = file.keys[0].id.clone();
        file.revoke(&server.keys, &id).map(drop)
    };
    KeyFile::change(&server.keys, revoke).unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let status = loop {
        assert!(std::time::Instant::now() < deadline);
        if ask.send(request(Mode::Bm25, QUERY, 3)).await.is_err() {
            continue;
        }
        match replies.message().await {
            Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            Err(status) => break status,
        }
    };
    assert!(
        status.code() == Code::Unauthenticated && status.message().contains("was revoked"),
        "{status}"
    );
}

#[tokio::test]
async fn keys_hold_over_http_too() {
    let server = guarded().await;
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let header = |key: &str| format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let post = async |path: &str, key: &str, body: serde_json::Value| {
        server.http.send("POST", path, &header(key), &body.to_string()).await
    };
    let search = json!({"query": QUERY, "mode": "MODE_HYBRID", "k": 60});
    let reply = post("/v1/search", &key, search.clone()).await;
    assert_eq!((reply.status, reply.json["hits"].as_array().unwrap().len()), (200, 10));
    assert!(reply.head.contains("x-request-id: "), "{}", reply.head);
    let batch = post("/v1/search/batch", &key, json!({"requests": [search]})).await;
    assert_eq!(batch.json["responses"][0]["hits"].as_array().unwrap().len(), 10);
    let documents = post("/v1/documents", &key, json!({"keys": ["doc-00", "doc-02"]})).await;
    assert_eq!(documents.json["missing"], json!(["doc-00"]));
    assert_eq!(
        post("/v1/explain", &key, json!({"key": "doc-00", "search": search}))
            .await
            .status,
        404
    );
    assert_eq!(
        post(
            "/v1/search",
            &key,
            json!({"query": "x", "mode": "MODE_BM25", "k": 1, "index": "others"})
        )
        .await
        .status,
        404
    );
    let indexes = server.http.send("GET", "/v1/indexes", &header(&key), "").await;
    assert_eq!(indexes.json["indexes"].as_array().unwrap().len(), 1);
    let wrong = format!("{key}0");
    for (method, path) in [
        ("POST", "/v1/search"),
        ("POST", "/v1/search/batch"),
        ("POST", "/v1/documents"),
        ("POST", "/v1/documents/sample"),
        ("GET", "/v1/status"),
        ("GET", "/metrics"),
        ("POST", "/v1/explain"),
        ("GET", "/v1/indexes"),
        ("GET", "/none"),
        ("PUT", "/v1/search"),
    ] {
        for headers in ["Content-Type: application/json\r\n".to_owned(), header(&wrong)] {
            let reply = server.http.send(method, path, &headers, "{}").await;
            assert_eq!(
                (reply.status, reply.json["error"]["status"].as_str()),
                (401, Some("UNAUTHENTICATED")),
                "{path}"
            );
            assert!(reply.head.contains("www-authenticate: bearer") && reply.head.contains("x-request-id: "));
        }
    }
    let key = header(&key);
    let sample = server
        .http
        .send("POST", "/v1/documents/sample", &key, r#"{"count": 60}"#)
        .await;
    assert_eq!(sample.json["documents"].as_array().unwrap().len(), 10);
    for path in ["/v1/status", "/metrics"] {
        assert_eq!(server.http.send("GET", path, &key, "").await.status, 403, "{path}");
    }
    for path in ["/v1/openapi.json", "/livez", "/readyz", "/", "/page/main.js"] {
        assert_eq!(server.http.text("GET", path).await.0, 200, "{path}");
    }
}

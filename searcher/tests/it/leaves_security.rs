//! Who may ask a leaf, and what callers with restrictions see through a root.

use std::sync::Arc;
use std::time::Duration;

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials, SearcherClient};
use dyad_proto::service::{Security, SecurityOptions};
use dyad_proto::v1::{self, Mode};
use dyad_searcher::Error;
use tempfile::TempDir;

use crate::encoder_service::encoder;
use crate::fixture::{documents, request, serve_with, write_index_of_shards};
use crate::guarded::equals;
use crate::leaves_fixture::{LeafPlace, root_that_shows, roots, secured_leaf};
use crate::pki::{Ca, Signed};

const ONLY: LeafPlace = LeafPlace {
    number: 0,
    of: 1,
    replicas: 1,
};
const WAIT: Duration = Duration::from_secs(20);
/// For roots that get nothing.
const SHORT: Duration = Duration::from_millis(1500);

fn key(role: Role, filter: Option<v1::Filter>) -> NewKey {
    NewKey {
        name: "key".into(),
        role,
        indexes: Vec::new(),
        filter,
        concurrency: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_answers_roots_with_an_admin_key_alone() {
    let folder = TempDir::new().unwrap();
    let index = folder.path().join("index");
    write_index_of_shards(&documents(), &index, 1, 3);
    let keys = folder.path().join("keys.json");
    let create = |role| KeyFile::change(&keys, |file| file.create(key(role, None))).unwrap();
    let (admin, read) = (create(Role::Admin), create(Role::Read));
    let options = SecurityOptions {
        keys: Some(keys.clone()),
        ..SecurityOptions::default()
    };
    let leaf = secured_leaf(&index, ONLY, Security::open(&options, &[]).unwrap());
    let encoder = encoder("f00d").await;
    let urls = [leaf.url.clone()];
    let shows = |key: &str| Credentials::default().with_api_key(key).unwrap();
    for refused in [Credentials::default(), shows(&read)] {
        let root = root_that_shows(&index, &encoder, &urls, 1, refused, SHORT).await;
        assert!(matches!(root, Err(Error::NoLeaves { .. })), "{root:?}");
    }
    root_that_shows(&index, &encoder, &urls, 1, shows(&admin), WAIT)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leaf_answers_roots_with_a_certificate_of_its_ca_alone() {
    let folder = TempDir::new().unwrap();
    let index = folder.path().join("index");
    write_index_of_shards(&documents(), &index, 1, 3);
    let (ca, other) = (Ca::new("ours"), Ca::new("other"));
    let ours = ca.file(&folder, "ca");
    let server = ca.sign(&folder, "leaf");
    let options = SecurityOptions {
        tls_cert: Some(server.cert),
        tls_key: Some(server.key),
        tls_client_ca: Some(ours.clone()),
        ..SecurityOptions::default()
    };
    let leaf = secured_leaf(&index, ONLY, Security::open(&options, &[]).unwrap());
    let encoder = encoder("f00d").await;
    // A name, of which one address is the leaf's: the certificate is of the name.
    let urls = [leaf.url.replace("127.0.0.1", "localhost")];
    let shows = |signed: Option<Signed>| {
        let options = CredentialOptions {
            ca: Some(ours.clone()),
            client_cert: signed.as_ref().map(|signed| signed.cert.clone()),
            client_key: signed.map(|signed| signed.key),
            ..CredentialOptions::default()
        };
        Credentials::open(&options).unwrap()
    };
    for refused in [None, Some(other.sign(&folder, "stranger"))] {
        let root = root_that_shows(&index, &encoder, &urls, 1, shows(refused), SHORT).await;
        assert!(matches!(root, Err(Error::NoLeaves { .. })), "{root:?}");
    }
    let ours = shows(Some(ca.sign(&folder, "root")));
    root_that_shows(&index, &encoder, &urls, 1, ours, WAIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_with_a_filter_gets_through_a_root_what_one_process_gives_it() {
    let folder = TempDir::new().unwrap();
    let index = folder.path().join("index");
    write_index_of_shards(&documents(), &index, 1, 5);
    let all = roots(&index, 3, 2).await;
    let keys = folder.path().join("keys.json");
    let birds = key(Role::Read, Some(equals("thing", "bird")));
    let secret = KeyFile::change(&keys, |file| file.create(birds)).unwrap();
    let options = SecurityOptions {
        keys: Some(keys),
        ..SecurityOptions::default()
    };
    let mut clients = Vec::new();
    let mut served = Vec::new();
    for engine in [&all.root, &all.whole] {
        let server = serve_with(Arc::clone(engine), Security::open(&options, &[]).unwrap()).await;
        let config = ClientConfig {
            credentials: Credentials::default().with_api_key(&secret).unwrap(),
            ..ClientConfig::default()
        };
        clients.push(SearcherClient::connect(&server.url, config).await.unwrap());
        served.push(server);
    }
    let comparable = |mut reply: v1::SearchResponse| {
        reply.timings = None;
        reply.filter.iter_mut().for_each(|filter| filter.cached = false);
        reply
    };
    for query in ["the old bird number 5", "river", "bird"] {
        for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
            let asked = v1::SearchRequest {
                snippet_bytes: 40,
                ..request(mode, query, 20)
            };
            let got = comparable(clients[0].search(asked.clone()).await.unwrap());
            assert_eq!(
                got,
                comparable(clients[1].search(asked).await.unwrap()),
                "{mode:?} {query}"
            );
            assert!(
                got.hits
                    .iter()
                    .all(|hit| hit.document.as_ref().unwrap().text.contains("bird"))
            );
        }
    }
    let count = v1::CountDocumentsRequest::default();
    let counted = clients[0].count_documents(count.clone()).await.unwrap();
    assert_eq!(counted, clients[1].count_documents(count).await.unwrap());
    let wanted = v1::GetDocumentsRequest {
        keys: documents().into_iter().map(|(key, _)| key).collect(),
        ..v1::GetDocumentsRequest::default()
    };
    let got = clients[0].get_documents(wanted.clone()).await.unwrap();
    assert_eq!(got, clients[1].get_documents(wanted).await.unwrap());
    assert_eq!(got.documents.len() as u64, counted.documents);
    let mut explain = v1::ExplainRequest {
        key: "doc-05".into(),
        search: Some(request(Mode::Hybrid, "the old bird number 5", 5)),
    };
    let got = clients[0].explain(explain.clone()).await.unwrap();
    assert_eq!(got, clients[1].explain(explain.clone()).await.unwrap());
    // A document of others does not exist.
    explain.key = "doc-00".into();
    for client in &clients {
        let error = client.explain(explain.clone()).await.unwrap_err().to_string();
        assert!(error.contains("no document with the key `doc-00`"), "{error}");
    }
}

//! Writers whose API keys have filters: they change what is theirs, and are told of nothing else.

use dyad_corpus::{Document, Metadata};
use dyad_index::lexical::{DocumentFilter, FieldValue};
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeConditions, ChangeStart, DeleteConfig, Operation, delete_documents, delete_matching, upsert_after,
};
use dyad_indexer::control::JobControl;
use dyad_indexer::source::Corpus;
use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{ClientConfig, ClientError, Credentials, IndexClient};
use dyad_proto::v1::{self, filter::Condition, filter_value::Value};
use tonic::Code;

use crate::fixture::{Fixture, document};
use crate::hash_source::HashSource;
use crate::pairs::when_reached;
use crate::serve::{Serving, message, serve_with};

/// The documents whose field `tenant` is this one.
fn of_tenant(tenant: &str) -> v1::Filter {
    let value = Some(v1::FilterValue {
        value: Some(Value::Text(tenant.to_owned())),
    });
    v1::Filter {
        condition: Some(Condition::Equals(v1::FieldEquals {
            field: "tenant".to_owned(),
            value,
        })),
    }
}

/// A document of a tenant.
fn owned(number: usize, tenant: &str, text: &str) -> v1::Document {
    v1::Document {
        text: text.to_owned(),
        metadata_json: format!(r#"{{"tenant":"{tenant}"}}"#),
        ..message(number)
    }
}

fn refused(made: Result<v1::ChangeResponse, ClientError>, wanted: Code) -> String {
    match made.unwrap_err() {
        ClientError::Refused { code, message, .. } if code == wanted => message,
        other => unreachable!("{other}"),
    }
}

/// A server with keys.
struct Tenants {
    fixture: Fixture,
    serving: Serving,
}

impl Tenants {
    fn serve(options: &[&str]) -> (Self, [IndexClient; 3]) {
        let fixture = Fixture::new(20);
        fixture.build().unwrap();
        let file = fixture.path("keys.json");
        let create = |name: &str, filter: Option<v1::Filter>| {
            let new = NewKey {
                name: name.to_owned(),
                role: Role::Write,
                indexes: Vec::new(),
                filter,
                concurrency: None,
            };
            KeyFile::change(&file, |keys| keys.create(new)).unwrap()
        };
        let keys = [
            create("a", Some(of_tenant("a"))),
            create("b", Some(of_tenant("b"))),
            create("all", None),
        ];
        let mut all = vec!["--merge", "never", "--keep", "all", "--keys", file.to_str().unwrap()];
        all.extend(options);
        let serving = serve_with(fixture.index().to_str().unwrap(), &all);
        let clients = keys.map(|key| {
            let credentials = Credentials::default().with_api_key(&key).unwrap();
            let config = ClientConfig {
                credentials,
                ..ClientConfig::default()
            };
            let connected = serving.runtime.block_on(IndexClient::connect(&serving.url, config));
            connected.unwrap()
        });
        (Self { fixture, serving }, clients)
    }

    fn upsert(&self, client: &IndexClient, documents: &[v1::Document]) -> Result<v1::ChangeResponse, ClientError> {
        self.serving.runtime.block_on(client.upsert(documents))
    }

    fn delete(&self, client: &IndexClient, keys: &[&str]) -> v1::ChangeResponse {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        self.serving.runtime.block_on(client.delete(&keys)).unwrap()
    }

    fn text_of(&self, key: &str) -> Option<String> {
        let snapshot = Snapshot::open(&self.fixture.index()).unwrap();
        let (shard, node) = snapshot.find(key).unwrap()?;
        Some(snapshot.document(shard, node).unwrap().text)
    }
}

#[test]
fn a_key_with_a_filter_writes_only_what_exists_for_it() {
    let (tenants, [a, b, all]) = Tenants::serve(&[]);
    let reply = tenants.upsert(&a, &[owned(30, "a", "the first")]).unwrap();
    assert_eq!(
        (reply.indexed, reply.documents),
        (1, 0),
        "the number of all is not told"
    );
    let told = refused(
        tenants.upsert(&b, &[owned(31, "b", "mine"), owned(30, "b", "taken over")]),
        Code::PermissionDenied,
    );
    assert!(told.contains("doc-0030") && !told.contains("the first"), "{told}");
    assert_eq!(tenants.text_of("doc-0031"), None, "nothing of the call is changed");
    let told = refused(
        tenants.upsert(&b, &[owned(31, "b", "mine"), owned(32, "a", "for another")]),
        Code::PermissionDenied,
    );
    assert!(told.contains("document 1") && told.contains("filter"), "{told}");
    // What looks like a passage of another's document would keep that from being replaced.
    let passage = v1::Document {
        key: "doc-0030#0".to_owned(),
        ..owned(31, "b", "mine")
    };
    refused(tenants.upsert(&b, &[passage]), Code::PermissionDenied);
    // A document of nobody, with a text of its own and with new metadata alone.
    for text in ["another", &message(3).text] {
        refused(tenants.upsert(&a, &[owned(3, "a", text)]), Code::PermissionDenied);
    }
    let gone = tenants.delete(&b, &["doc-0030", "doc-0003", "absent"]);
    assert_eq!((gone.read, gone.rejected, gone.indexed, gone.generation), (3, 3, 0, 0));
    let reply = tenants.upsert(&a, &[owned(30, "a", "the second")]).unwrap();
    assert_eq!(
        (reply.indexed, tenants.text_of("doc-0030").as_deref()),
        (1, Some("the second"))
    );
    tenants.upsert(&b, &[owned(33, "b", "b")]).unwrap();
    // A filter of all documents is one of all that exist for the key.
    let everything = v1::Filter {
        condition: Some(Condition::Exists(v1::FieldExists {
            field: "key".to_owned(),
        })),
    };
    let runtime = &tenants.serving.runtime;
    let gone = runtime.block_on(b.delete_matching(&everything)).unwrap();
    assert_eq!((gone.read, gone.indexed, gone.documents), (1, 1, 0));
    assert_eq!(tenants.delete(&a, &["doc-0030"]).indexed, 1);
    let gone = runtime.block_on(all.delete_matching(&everything)).unwrap();
    assert_eq!((gone.indexed, gone.documents), (20, 0));
    let none = runtime.block_on(all.delete_matching(&v1::Filter { condition: None }));
    assert!(refused(none, Code::InvalidArgument).contains("filter"));
}

#[test]
fn of_calls_that_are_gathered_each_is_held_to_its_own_key() {
    let (tenants, [a, b, _]) = Tenants::serve(&["--gather-ms", "300"]);
    let upsert = |client: &IndexClient, documents: Vec<v1::Document>| {
        let client = client.clone();
        tenants
            .serving
            .runtime
            .spawn(async move { client.upsert(&documents).await })
    };
    let calls = [
        upsert(&a, vec![owned(40, "a", "of a")]),
        upsert(&b, vec![owned(41, "b", "of b")]),
        upsert(&b, vec![owned(3, "b", "a document of nobody")]),
        upsert(&a, vec![owned(42, "a", "of a")]),
        upsert(&b, vec![owned(42, "b", "of b")]),
    ];
    let [first, second, third, fourth, fifth] = calls.map(|call| tenants.serving.runtime.block_on(call).unwrap());
    assert_eq!((first.unwrap().indexed, second.unwrap().indexed), (1, 1));
    refused(third, Code::PermissionDenied);
    assert!(
        fourth.is_ok() != fifth.is_ok(),
        "one key is of one of them: {fourth:?}, {fifth:?}"
    );
    let owner = if fourth.is_ok() { "of a" } else { "of b" };
    refused(if fourth.is_ok() { fifth } else { fourth }, Code::PermissionDenied);
    assert_eq!(tenants.text_of("doc-0042").as_deref(), Some(owner));
}

/// What a tenant is held to is looked at in the generation from which its change is derived in the end.
#[test]
fn another_document_that_comes_meanwhile_is_not_replaced() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let (index, dir) = (fixture.index(), fixture.path("."));
    let with = |tenant: &str, text: &str| Document {
        text: text.to_owned(),
        metadata: Metadata::parse(&format!(r#"{{"tenant":"{tenant}"}}"#)).unwrap(),
        ..document(30)
    };
    let others = with("b", "of another");
    let added = {
        let (dir, others) = (dir.clone(), others.clone());
        move || {
            drop(
                Fixture::at(&dir)
                    .upsert(Operation::Upsert, std::slice::from_ref(&others))
                    .unwrap(),
            );
        }
    };
    let filter = DocumentFilter::OneOf {
        field: "tenant".to_owned(),
        values: vec![FieldValue::Text("a".to_owned())],
    };
    let restricted = || {
        let mut conditions = ChangeConditions::default();
        conditions.restrict("doc-0030", &filter);
        conditions
    };
    fixture.write_corpus(&[with("a", "of the tenant")]);
    fs_err::rename(fixture.path("corpus.jsonl"), fixture.path("own.jsonl")).unwrap();
    when_reached("publish-begin", added.clone());
    let start = ChangeStart {
        conditions: restricted(),
        ..ChangeStart::default()
    };
    let corpus = Corpus::File {
        path: fixture.path("own.jsonl"),
        read: dyad_corpus::ReadOptions::default(),
    };
    let mut batch = corpus.open(true).unwrap();
    let config = fixture.upsert_config(Operation::Upsert);
    let made = upsert_after(
        &config,
        &start,
        batch.as_mut(),
        &mut HashSource::default(),
        JobControl::silent(),
    );
    assert!(
        matches!(made, Err(Error::DocumentOfAnother { ref key }) if key == "doc-0030"),
        "{made:?}"
    );
    assert_eq!(manifest::current(&index).unwrap().generation, 2, "that of the other");
    // A deletion finds the tenant's own document first, and then none.
    let start = ChangeStart {
        conditions: restricted(),
        ..ChangeStart::default()
    };
    let config = DeleteConfig {
        index: &index,
        start: &start,
        passages: false,
        named_missing: 1,
        dry_run: false,
    };
    fixture
        .upsert(Operation::Upsert, &[with("a", "of the tenant")])
        .unwrap();
    when_reached("publish-begin", added.clone());
    let made = delete_documents(&config, &["doc-0030".to_owned()], JobControl::silent()).unwrap();
    assert_eq!((made.change.rejected, made.missing.total, made.manifest), (1, 1, None));
    // So does one by a filter.
    fixture
        .upsert(Operation::Upsert, &[with("a", "of the tenant")])
        .unwrap();
    when_reached("publish-begin", added);
    let made = delete_matching(&config, &filter, JobControl::silent()).unwrap();
    assert_eq!((made.change.read, made.documents_after, made.manifest), (0, 21, None));
}

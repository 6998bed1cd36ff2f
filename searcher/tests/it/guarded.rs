//! A searcher with keys, over an index of two tenants.

use std::sync::Arc;

use dyad_proto::access::{KeyFile, NewKey, Role};
use dyad_proto::client::{AdminClient, ClientConfig, ClientError, Credentials, SearcherClient};
use dyad_proto::service::{HttpConfig, Security, SecurityOptions};
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_searcher::Engine;
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};
use tempfile::TempDir;
use tonic::Code;

use crate::encoder_service::{EncoderService, encoder};
use crate::fixture::{Served, serve_with, write_index};
use crate::http_client::{Http, over_secured};

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
    pub(crate) _folder: TempDir,
    pub(crate) audit: std::path::PathBuf,
    pub(crate) keys: std::path::PathBuf,
    pub(crate) served: Served,
    pub(crate) http: Http,
    pub(crate) encoder: EncoderService,
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

    pub(crate) fn config(key: &str) -> ClientConfig {
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

    pub(crate) async fn admin(&self, key: &str) -> AdminClient {
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

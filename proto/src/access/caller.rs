//! The caller of a request, with its restrictions.

use std::net::SocketAddr;
use std::sync::Arc;

use tonic::{Code, Request, Status};

use super::audit::Audit;
use super::key::AcceptedKey;
use crate::status::status_name;
use crate::v1;
use crate::v1::filter::Condition;

/// The caller of a request: every server puts it into the request's extensions. The default one is the server itself,
/// which may do everything.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    pub(super) key: Option<Arc<AcceptedKey>>,
    pub(super) audit: Option<Arc<Audit>>,
    /// Address of the other end of its connection.
    pub peer: Option<SocketAddr>,
    /// The request's id, for logs.
    pub request_id: Arc<str>,
}

impl Caller {
    /// Of a request from this address, with this id.
    pub fn new(peer: Option<SocketAddr>, request_id: Arc<str>) -> Self {
        Self {
            peer,
            request_id,
            ..Self::default()
        }
    }

    /// The caller that the server has put into the request. An error, and not everything allowed, where it has put
    /// none.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let found = request.extensions().get().cloned();
        found.ok_or_else(|| Status::internal("the request's caller was not checked"))
    }

    /// Whether the server itself asks.
    pub fn is_server(&self) -> bool {
        self.request_id.is_empty()
    }

    /// The id of its API key; empty where it has shown none.
    pub fn key_id(&self) -> &str {
        self.key.as_ref().map_or("", |key| key.id.as_str())
    }

    /// Whether it has shown an API key.
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Refuses what comes later in a call, where the caller's key was revoked or changed since the call began.
    pub fn check_still(&self) -> Result<(), Status> {
        match &self.key {
            Some(key) if key.has_ended() => Err(Status::unauthenticated(format!(
                "the API key `{}` was revoked or changed. Call again",
                key.id
            ))),
            _ => Ok(()),
        }
    }

    /// Whether it may name this index.
    pub fn allows_index(&self, name: &str) -> bool {
        self.indexes()
            .is_none_or(|indexes| indexes.iter().any(|index| index == name))
    }

    /// The indexes that it may name; all where absent.
    pub fn indexes(&self) -> Option<&[String]> {
        self.key
            .as_ref()
            .map(|key| key.indexes.as_slice())
            .filter(|indexes| !indexes.is_empty())
    }

    /// Which documents exist for it; all where absent.
    pub fn filter(&self) -> Option<&v1::Filter> {
        self.key.as_ref()?.filter.as_ref()
    }

    /// A request's filter together with the caller's own.
    pub fn restrict(&self, filter: Option<v1::Filter>) -> Option<v1::Filter> {
        let Some(own) = self.filter().cloned() else {
            return filter;
        };
        let Some(filter) = filter else { return Some(own) };
        let both = v1::FilterList {
            filters: vec![own, filter],
        };
        Some(v1::Filter {
            condition: Some(Condition::All(both)),
        })
    }

    /// Refuses a call that tells of all documents to callers for whom some of them do not exist.
    pub fn check_all_documents(&self, call: &str) -> Result<(), Status> {
        if self.filter().is_none() {
            return Ok(());
        }
        let message = format!("`{call}` tells of all documents of an index, and this API key has a filter");
        Err(Status::permission_denied(message))
    }

    /// Refuses a call that tells of all indexes and documents to callers for whom some of them do not exist.
    pub fn check_everything(&self, call: &str) -> Result<(), Status> {
        if self.filter().is_none() && self.indexes().is_none() {
            return Ok(());
        }
        let message = format!("`{call}` tells of all indexes, and this API key is for some of them");
        Err(Status::permission_denied(message))
    }

    /// Records a call that changes something, in the log and in the server's file, if it has one.
    pub fn record(&self, call: &str, details: &serde_json::Value, outcome: Result<(), &Status>) {
        let (id, name) = self
            .key
            .as_ref()
            .map_or(("", ""), |key| (key.id.as_str(), key.name.as_str()));
        let peer = self.peer.map(|peer| peer.to_string()).unwrap_or_default();
        let (status, message) = match outcome {
            Ok(()) => (status_name(Code::Ok), ""),
            Err(status) => (status_name(status.code()), status.message()),
        };
        let request_id = &*self.request_id;
        tracing::info!(
            target: "audit",
            call,
            key = id,
            key_name = name,
            peer,
            request_id,
            %details,
            status,
            message
        );
        if let Some(audit) = &self.audit {
            audit.write(&serde_json::json!({
                "call": call, "key": id, "key_name": name, "peer": peer, "request_id": request_id,
                "details": details, "status": status, "message": message,
            }));
        }
    }
}

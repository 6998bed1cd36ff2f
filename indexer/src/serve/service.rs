//! Streams of requests in, one change out.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_corpus::Document;
use dyad_proto::access::Caller;
use dyad_proto::limits::MAX_CHANGE_BYTES;
use dyad_proto::pushback::RETRY_PUSHBACK;
use dyad_proto::v1::index_server::Index;
use dyad_proto::{v1, validate};
use serde_json::{Map, Value, json};
use tonic::{Request, Response, Status, Streaming};

use super::status::status;
use super::worker::{Changes, Wanted};
use crate::change::Outcome;

/// The service.
#[derive(Debug, Clone)]
pub struct IndexService {
    changes: Changes,
    /// The name of the index, as API keys have it.
    name: Arc<str>,
    /// Set before a drain begins, which ends streams that their clients have not ended.
    stopping: Arc<AtomicBool>,
}

impl IndexService {
    /// A service that makes these changes of the index in a directory. `stopping` is set before the server ends the streams of its clients: what has arrived by
    /// then may be a part of a change.
    pub fn new(changes: Changes, index: &Path, stopping: Arc<AtomicBool>) -> Self {
        Self { changes, name: validate::folder_name(index).into(), stopping }
    }

    /// Makes a change, and records it.
    async fn make_for(
        &self,
        caller: &Caller,
        call: &str,
        wanted: Result<Wanted, Status>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let made = match wanted {
            Ok(wanted) => self.make(wanted).await,
            Err(status) => Err(status),
        };
        let mut details = json!({"index": &*self.name});
        if let (Ok(made), Some(details)) = (&made, details.as_object_mut()) {
            let v1::ChangeResponse { generation, read, indexed, .. } = made.get_ref();
            details.extend(
                [("generation", *generation), ("read", *read), ("indexed", *indexed)]
                    .map(|(name, count)| (name.to_owned(), count.into())),
            );
        }
        caller.record(call, &details, made.as_ref().map(drop));
        made
    }

    /// The caller of a request, if it may change this index.
    fn caller<T>(&self, request: &Request<T>) -> Result<Caller, Status> {
        let caller = Caller::of(request)?;
        if caller.allows_index(&self.name) {
            return Ok(caller);
        }
        Err(Status::permission_denied(format!("this API key may not change the index `{}`", self.name)))
    }

    async fn make(&self, wanted: Wanted) -> Result<Response<v1::ChangeResponse>, Status> {
        if self.stopping.load(Ordering::SeqCst) {
            let message = "this server is about to end; nothing was changed. Send the call again, to the next one";
            return Err(Status::unavailable(message));
        }
        let made = self.changes.make(wanted).await;
        let made =
            made.ok_or_else(|| Status::resource_exhausted("too many changes wait for their turn. Try again later"))?;
        let Outcome { manifest, change, documents_after, .. } = made.map_err(|error| status(&error))?;
        Ok(Response::new(v1::ChangeResponse {
            generation: manifest.map_or(0, |manifest| manifest.generation),
            documents: documents_after,
            read: change.read,
            indexed: change.indexed,
            unchanged: change.unchanged,
            superseded: change.superseded,
            rejected: change.rejected,
            reused: change.reused,
        }))
    }
}

/// Counts the bytes of one call.
#[derive(Default)]
struct Taken(usize);

impl Taken {
    fn add(&mut self, bytes: usize) -> Result<(), Status> {
        self.0 += bytes;
        if self.0 <= MAX_CHANGE_BYTES {
            return Ok(());
        }
        let limit = MAX_CHANGE_BYTES >> 20;
        let message =
            format!("expected at most {limit} MiB in one call. Send fewer, or use `dyad-indexer upsert` or `delete`");
        let mut status = Status::resource_exhausted(message);
        // The same call never fits.
        status.metadata_mut().insert(RETRY_PUSHBACK, (-1).into());
        Err(status)
    }
}

fn document(number: u64, document: v1::Document) -> Result<Document, Status> {
    let v1::Document { key, title, text, metadata_json } = document;
    let metadata = if metadata_json.is_empty() {
        None
    } else {
        let parsed: Result<Map<String, Value>, _> = serde_json::from_str(&metadata_json);
        let refused = |error| {
            Status::invalid_argument(format!("document {number}: `metadata_json`: expected one JSON object: {error}"))
        };
        Some(parsed.map_err(refused)?).filter(|metadata| !metadata.is_empty())
    };
    Ok(Document { key, title, text, metadata })
}

#[tonic::async_trait]
impl Index for IndexService {
    async fn upsert(
        &self,
        request: Request<Streaming<v1::UpsertRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (caller, mut requests) = (self.caller(&request)?, request.into_inner());
        let wanted = async {
            let (mut documents, mut taken) = (Vec::new(), Taken::default());
            while let Some(request) = requests.message().await? {
                caller.check_still()?;
                validate::upsert_request(&request)?;
                for one in request.documents {
                    taken.add(one.key.len() + one.title.len() + one.text.len() + one.metadata_json.len())?;
                    documents.push(document(documents.len() as u64, one)?);
                }
            }
            Ok(Wanted::Upsert(documents))
        };
        self.make_for(&caller, "Index.Upsert", wanted.await).await
    }

    async fn delete(
        &self,
        request: Request<Streaming<v1::DeleteRequest>>,
    ) -> Result<Response<v1::ChangeResponse>, Status> {
        let (caller, mut requests) = (self.caller(&request)?, request.into_inner());
        let wanted = async {
            let (mut keys, mut taken) = (Vec::new(), Taken::default());
            while let Some(request) = requests.message().await? {
                caller.check_still()?;
                validate::delete_request(&request)?;
                for key in request.keys {
                    taken.add(key.len())?;
                    keys.push(key);
                }
            }
            Ok(Wanted::Delete(keys))
        };
        self.make_for(&caller, "Index.Delete", wanted.await).await
    }
}

//! `Admin`.

use std::sync::Arc;

use dyad_index::Certificate;
use dyad_index::manifest::{FileEntry, ShardEntry};
use dyad_index::shard::DENSE_FILE;
use dyad_proto::access::Caller;
use dyad_proto::service::deadline::{LONGEST, timeout, within_deadline};
use dyad_proto::v1::admin_server::Admin;
use dyad_proto::validate::Violations;
use dyad_proto::{v1, validate};
use serde_json::{Value, json};
use tonic::{Request, Response, Status};

use super::convert;
use crate::memory::{IndexMemory, Resident};
use crate::run::Engine;

/// The service.
#[derive(Debug, Clone)]
pub struct AdminService {
    engine: Arc<Engine>,
}

impl AdminService {
    /// A service around an engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }

    /// The name of the index that a request names, if the request is in order and the caller may name it.
    fn name(&self, checked: Result<(), Violations>, index: &str, caller: &Caller) -> Result<&str, Status> {
        checked?;
        Ok(self.engine.index(index, caller)?.name())
    }
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn list_indexes(
        &self,
        request: Request<v1::ListIndexesRequest>,
    ) -> Result<Response<v1::ListIndexesResponse>, Status> {
        Ok(Response::new(convert::indexes(&self.engine, &Caller::of(&request)?)))
    }

    async fn status(&self, request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        let caller = Caller::of(&request)?;
        caller.check_all_documents("Admin.Status")?;
        let request = request.into_inner();
        validate::fields(&request)?;
        let index = self.engine.index(&request.index, &caller)?;
        // The status of what is served is reported also where the directory can no longer be read.
        let (generations, previous_generation, index_error) = match self.engine.generations(index).await {
            Ok((present, previous)) => (present, previous.unwrap_or_default(), String::new()),
            Err(error) => (Vec::new(), 0, error.to_string()),
        };
        let served = index.generation();
        let snapshot = served.snapshot();
        let tower = self
            .engine
            .towers()
            .find(&snapshot.manifest().model)
            .map(|one| &one.tower);
        let question_tower_error = match tower {
            Some(tower) => tower
                .check()
                .await
                .map_or_else(|error| error.to_string(), |()| String::new()),
            None => String::new(),
        };
        let reranker = self.engine.reranker();
        let reranker_error = match reranker {
            Some(reranker) => reranker
                .check()
                .await
                .map_or_else(|error| error.to_string(), |()| String::new()),
            None => String::new(),
        };
        let record = snapshot.manifest();
        let holders = self
            .engine
            .leaves()
            .map(|leaves| leaves.holders(served.name(), record.shards.len()));
        // A root has none of the shards, and each is that of a leaf; a leaf has some.
        let numbers: Vec<usize> = match &holders {
            Some(_) => (0..record.shards.len()).collect(),
            None => snapshot.numbers().to_vec(),
        };
        let shards = numbers
            .iter()
            .zip(served.certificates())
            .filter_map(|(number, measured)| {
                let shard = record.shards.get(*number)?;
                let holders = holders.as_ref().and_then(|holders| holders.get(*number));
                Some(shard_status(shard, measured, holders.copied().unwrap_or_default()))
            });
        let (limit, need) = self.engine.memory();
        let (resident, of_index) = (Resident::now(), IndexMemory::from_snapshot(snapshot));
        let memory = v1::MemoryStatus {
            index_hot: of_index.hot,
            index_cold: of_index.cold,
            ..v1::MemoryStatus::default()
        };
        // What tells of the whole server is not for keys of some indexes.
        let memory = if caller.indexes().is_some() {
            memory
        } else {
            v1::MemoryStatus {
                limit: limit.map(|limit| limit.bytes).unwrap_or_default(),
                limit_source: limit.map(|limit| limit.source.clone()).unwrap_or_default(),
                needed: need.total(),
                anonymous: resident.anonymous,
                file: resident.file,
                ..memory
            }
        };
        Ok(Response::new(v1::StatusResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            revision: dyad_command::revision().to_owned(),
            index: snapshot.index().display().to_string(),
            generation: record.generation,
            created_unix_s: record.created_unix_s,
            index_model: Some(convert::model(&record.model)),
            question_model: tower.map(|tower| convert::model(tower.model())),
            shards: shards.collect(),
            documents: record.documents(),
            generations,
            previous_generation,
            index_error,
            question_tower_error,
            name: index.name().to_owned(),
            memory: Some(memory),
            reranker: reranker.map(|reranker| reranker.model().clone()),
            reranker_error,
            leaves: self
                .engine
                .leaves()
                .map_or_else(Vec::new, |leaves| leaves.status(served.name())),
            rerank_gain: self.engine.reranking(snapshot).map(convert::rerank_gain),
        }))
    }

    async fn reload(&self, request: Request<v1::ReloadRequest>) -> Result<Response<v1::ReloadResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let details = json!({"index": &request.index});
        let made = async {
            let name = self.name(validate::fields(&request), &request.index, &caller)?;
            let (previous_generation, generation) = self.engine.reload(name).await?;
            Ok(v1::ReloadResponse {
                previous_generation,
                generation,
            })
        };
        recorded(&caller, "Admin.Reload", &details, made.await)
    }

    async fn rollback(&self, request: Request<v1::RollbackRequest>) -> Result<Response<v1::RollbackResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let details = json!({"index": &request.index, "generation": request.generation});
        let made = async {
            let name = self.name(validate::rollback_request(&request), &request.index, &caller)?;
            let (previous_generation, generation) = self.engine.rollback(name, request.generation).await?;
            Ok(v1::RollbackResponse {
                previous_generation,
                generation,
            })
        };
        recorded(&caller, "Admin.Rollback", &details, made.await)
    }

    async fn verify(&self, request: Request<v1::VerifyRequest>) -> Result<Response<v1::VerifyResponse>, Status> {
        let (caller, time) = (
            Caller::of(&request)?,
            timeout(request.metadata()).map_or(LONGEST, within_deadline),
        );
        let request = request.into_inner();
        let details = json!({"index": &request.index});
        let made = async {
            let name = self.name(validate::fields(&request), &request.index, &caller)?;
            let (problems, bytes_read) = self.engine.verify(name, time).await?;
            Ok(v1::VerifyResponse {
                intact: problems.is_empty(),
                problems,
                bytes_read,
            })
        };
        recorded(&caller, "Admin.Verify", &details, made.await)
    }
}

/// What is known of a shard, which that many leaves hold.
fn shard_status(shard: &ShardEntry, measured: &Certificate, leaves: u32) -> v1::ShardStatus {
    let (dense, text): (Vec<_>, Vec<_>) = shard.files.iter().partition(|file| file.path == DENSE_FILE);
    let bytes = |files: Vec<&FileEntry>| files.iter().map(|file| file.bytes).sum();
    v1::ShardStatus {
        id: shard.id.clone(),
        documents: shard.live(),
        dense_bytes: bytes(dense),
        text_bytes: bytes(text),
        deleted: shard.documents.saturating_sub(shard.live()),
        certificate: Some(convert::certificate(measured)),
        leaves,
    }
}

/// The reply of a call that is recorded, with its outcome.
fn recorded<T>(caller: &Caller, call: &str, details: &Value, made: Result<T, Status>) -> Result<Response<T>, Status> {
    caller.record(call, details, made.as_ref().map(drop));
    made.map(Response::new)
}

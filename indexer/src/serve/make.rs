//! One change, made: by the code of the commands.

use std::path::PathBuf;
use std::time::Duration;

use dyad_corpus::PassageContext;
use dyad_files::space::free_space;
use dyad_index::{Snapshot, manifest};
use dyad_proto::v1;
use tonic::Status;

use super::gathered::WantedChange;
use super::given::given_rows;
use super::sent::SentDocuments;
use super::status::{refused_vector, status};
use super::upkeep::UpkeepConfig;
use crate::change::{
    ChangeConditions, ChangeOutcome, ChangeStart, DeleteConfig, Operation, Passages, UpsertConfig, delete_documents,
    delete_matching, upsert_after,
};
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::CertificateSample;
use crate::source::{RemoteConfig, RemoteSource, VectorSource};

/// How long a call waits for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatherWindow {
    /// Always as long.
    Always(Duration),
    /// For some milliseconds, and not at all where calls come one after another: a client that makes one call after
    /// another would wait for nobody.
    WhereCallsComeTogether,
}

impl GatherWindow {
    /// The time that a call waits, where calls have come together lately or not.
    pub(super) fn time(self, come_together: bool) -> Duration {
        match (self, come_together) {
            (Self::Always(time), _) => time,
            (Self::WhereCallsComeTogether, true) => Duration::from_millis(5),
            (Self::WhereCallsComeTogether, false) => Duration::ZERO,
        }
    }
}

/// The index, and who embeds what is added.
#[derive(Debug, Clone)]
pub struct ChangeWorkerConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// URL of the encoder service; none where all documents come with their vectors.
    pub encoder: Option<String>,
    /// How to use it.
    pub remote: RemoteConfig,
    /// Threads of the graph's build.
    pub threads: usize,
    /// How long a call waits for others that can be made together with it.
    pub gather: GatherWindow,
    /// How the index is kept small.
    pub upkeep: UpkeepConfig,
}

/// Refuses a change where documents are not as they are expected, and an upsert that would replace what is not its
/// callers'.
pub(super) fn check(conditions: &ChangeConditions<'_>, change: &WantedChange, current: &Snapshot) -> Result<(), Error> {
    conditions.check_expected(current)?;
    match change {
        WantedChange::Upsert(_) | WantedChange::UpsertVectors { .. } => conditions.check_replaced(current),
        WantedChange::Delete(_) | WantedChange::DeleteMatching(_) => Ok(()),
    }
}

/// Makes a change.
pub(super) fn make(
    config: &ChangeWorkerConfig,
    start: &ChangeStart<'_>,
    change: WantedChange,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Status> {
    let of_error = |error: Error| status(&error);
    let deletion = DeleteConfig {
        index: &config.index,
        start,
        passages: false,
        named_missing: usize::MAX,
        dry_run: false,
    };
    match change {
        WantedChange::Delete(keys) => delete_documents(&deletion, &keys, control).map_err(of_error),
        WantedChange::DeleteMatching(filter) => delete_matching(&deletion, &filter, control).map_err(of_error),
        WantedChange::Upsert(documents) => {
            let Some(url) = &config.encoder else {
                let advice = "send `vectors` and `fingerprint`, or start the server with `--encoder URL`";
                return Err(Status::failed_precondition(format!(
                    "this server has no encoder service: {advice}"
                )));
            };
            let mut source = encoder_of(config, url, control).map_err(of_error)?;
            upsert(config, start, documents, &mut source, control).map_err(of_error)
        }
        WantedChange::UpsertVectors {
            origin,
            documents,
            vectors,
        } => {
            let current = manifest::current(&config.index).map_err(|error| status(&error.into()))?;
            let mut source = given_rows(&origin, vectors, &current)?;
            upsert(config, start, documents, &mut source, control).map_err(|error| refused_vector(&error))
        }
    }
}

/// The encoder service, which embeds documents in the context that the vectors of the index have.
fn encoder_of(config: &ChangeWorkerConfig, url: &str, control: JobControl<'_>) -> Result<RemoteSource, Error> {
    let current = manifest::current(&config.index)?;
    let context = PassageContext::of_stored(current.context.as_deref()).map_err(std::io::Error::other)?;
    let remote = RemoteConfig {
        context,
        ..config.remote.clone()
    };
    RemoteSource::connect(url, remote, control.cancel)
}

fn upsert(
    config: &ChangeWorkerConfig,
    start: &ChangeStart<'_>,
    documents: Vec<v1::Document>,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let upserted = UpsertConfig {
        passages: Passages::None,
        index: config.index.clone(),
        operation: Operation::Upsert,
        sample: CertificateSample::Small,
        threads: config.threads,
        queries: None,
        dry_run: false,
        free_space,
    };
    upsert_after(&upserted, start, &mut SentDocuments::new(documents), source, control)
}

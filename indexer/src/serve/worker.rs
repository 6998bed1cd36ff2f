//! The thread that makes the changes, one after another: what a change costs is CPU time, and two at once would only
//! prepare their publications twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_files::space::free_space;
use dyad_index::Snapshot;
use dyad_index::manifest::{self, Manifest};
use dyad_proto::service::HeldBytes;
use dyad_proto::v1;
use tokio::sync::oneshot;

use super::sent::SentDocuments;
use crate::change::{
    ChangeOutcome, DeleteConfig, Operation, Passages, UpsertConfig, delete_documents, select_mergeable, upsert_after,
};
use crate::control::{JobControl, Silent};
use crate::error::Error;
use crate::publish::check_model;
use crate::source::{RemoteConfig, RemoteSource, VectorSource as _};

/// Changes that may wait for their turn.
const WAITING: usize = 16;

/// Shards to merge from which it is worth a warning.
const MANY_SHARDS: usize = 32;
/// How long a generation is kept open for a change that may follow.
const KEPT_OPEN: Duration = Duration::from_millis(250);

/// The index, and who embeds what is added.
#[derive(Debug, Clone)]
pub struct ChangeWorkerConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// URL of the encoder service.
    pub encoder: String,
    /// How to use it.
    pub remote: RemoteConfig,
    /// Threads of the graph's build.
    pub threads: usize,
}

/// A change that a client asks for, and the memory that it holds until it is made.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) change: WantedChange,
    pub(super) held: HeldBytes,
}

/// What is to be changed.
#[derive(Debug)]
pub(super) enum WantedChange {
    /// Documents to add or replace, whose metadata are valid.
    Upsert(Vec<v1::Document>),
    /// Keys of documents to delete.
    Delete(Vec<String>),
}

struct ChangeJob {
    wanted: Wanted,
    cancel: JobCancellation,
    reply: oneshot::Sender<Result<ChangeOutcome, Error>>,
}

/// Makes changes on a thread of its own. Clones share it; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct ChangeWorker {
    jobs: SyncSender<ChangeJob>,
}

/// Cancels a change whose client has gone.
struct CancelChangeOnDrop(JobCancellation);

impl Drop for CancelChangeOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl ChangeWorker {
    /// Checks that the index can be opened and that the encoder service has its model, and starts the thread. Blocks.
    pub fn start(config: ChangeWorkerConfig) -> Result<Self, Error> {
        drop(Snapshot::open(&config.index)?);
        let source = RemoteSource::connect(&config.encoder, config.remote.clone(), &JobCancellation::new())?;
        check_model(&config.index, source.model())?;
        drop(source);
        let (jobs, received) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("dyad-changes".to_owned())
            .spawn(move || run(&config, &received))?;
        Ok(Self { jobs })
    }

    /// Makes a change; none where too many wait, or the thread has ended. The change is cancelled when the future is
    /// dropped.
    pub(super) async fn make(&self, wanted: Wanted) -> Option<Result<ChangeOutcome, Error>> {
        let (cancel, (reply, made)) = (JobCancellation::new(), oneshot::channel());
        let guard = CancelChangeOnDrop(cancel.clone());
        match self.jobs.try_send(ChangeJob { wanted, cancel, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return None,
        }
        let made = made.await.ok();
        drop(guard);
        made
    }
}

fn run(config: &ChangeWorkerConfig, jobs: &Receiver<ChangeJob>) {
    // Opening all shards would be most of the work of a small change. It is not kept for long: `gc` and `purge` leave
    // an open generation.
    let (mut known, mut debt) = (None, MergeDebt::default());
    loop {
        let job = match &known {
            Some(_) => jobs.recv_timeout(KEPT_OPEN),
            None => jobs.recv().map_err(RecvTimeoutError::from),
        };
        let ChangeJob {
            wanted: Wanted { change, held },
            cancel,
            reply,
        } = match job {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => {
                known = None;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let control = JobControl {
            progress: &Silent,
            cancel: &cancel,
        };
        let make = || make(config, known.as_ref(), change, control);
        let made = if cancel.is_cancelled() {
            Err(Error::Cancelled)
        } else {
            caught(make)
        };
        drop(held);
        match &made {
            Ok(ChangeOutcome {
                manifest: Some(manifest),
                change,
                ..
            }) => {
                tracing::info!(generation = manifest.generation, ?change, "published");
                debt.tell(manifest);
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a change was not made"),
        }
        // The client may have gone.
        let _ = reply.send(made);
        // The next change begins with this generation; one that cannot be opened is told by the next change.
        known = Snapshot::open_after(&config.index, known.as_ref()).ok();
    }
}

/// Warns of shards that should be merged: each makes every search and every change longer.
#[derive(Default)]
struct MergeDebt {
    /// Shards of which it was warned last.
    told: usize,
}

impl MergeDebt {
    /// Whether this many shards are worth a warning: many, and twice as many as in the last one.
    fn is_news(&mut self, shards: usize) -> bool {
        // Less was merged meanwhile: the next warning comes as early as the first one.
        if shards < self.told / 2 {
            self.told = 0;
        }
        let is_news = shards >= MANY_SHARDS.max(2 * self.told);
        if is_news {
            self.told = shards;
        }
        is_news
    }

    fn tell(&mut self, manifest: &Manifest) {
        let shards: usize = select_mergeable(&manifest.shards, u64::MAX, false)
            .iter()
            .map(Vec::len)
            .sum();
        if self.is_news(shards) {
            let generation = manifest.generation;
            tracing::warn!(
                generation,
                shards,
                "many small shards make searches and changes longer: run `dyad-indexer merge`, then `dyad-indexer gc`"
            );
        }
    }
}

/// A panic must not end the thread: every later change would be refused.
fn caught<T>(change: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(change)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        tracing::error!(message, "a change panicked");
        Err(Error::Panicked)
    })
}

fn make(
    config: &ChangeWorkerConfig,
    known: Option<&Snapshot>,
    change: WantedChange,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    match change {
        WantedChange::Delete(keys) => {
            let deleted = DeleteConfig {
                index: &config.index,
                known,
                passages: false,
                dry_run: false,
            };
            delete_documents(&deleted, &keys, control)
        }
        WantedChange::Upsert(documents) => {
            let context = PassageContext::of_stored(manifest::current(&config.index)?.context.as_deref());
            let context = context.map_err(std::io::Error::other)?;
            let remote = RemoteConfig {
                context,
                ..config.remote.clone()
            };
            let mut source = RemoteSource::connect(&config.encoder, remote, control.cancel)?;
            let upserted = UpsertConfig {
                passages: Passages::None,
                index: config.index.clone(),
                operation: Operation::Upsert,
                threads: config.threads,
                queries: None,
                dry_run: false,
                free_space,
            };
            upsert_after(
                &upserted,
                known,
                &mut SentDocuments::new(documents),
                &mut source,
                control,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_to_merge_are_told_once_they_have_doubled() {
        let mut debt = MergeDebt::default();
        let told: Vec<usize> = (0..300).chain(20..40).filter(|shards| debt.is_news(*shards)).collect();
        assert_eq!(told, [32, 64, 128, 256, 32]);
    }

    #[test]
    fn a_change_that_panics_is_an_error() {
        assert!(matches!(
            caught(|| Ok::<_, Error>(vec![0; 3].swap_remove(3))),
            Err(Error::Panicked)
        ));
        assert!(matches!(caught(|| Ok(3)), Ok(3)));
        assert!(matches!(
            caught(|| Err::<(), _>(Error::Contended)),
            Err(Error::Contended)
        ));
    }
}

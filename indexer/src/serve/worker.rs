//! The thread that makes the changes, one after another: what a change costs is CPU time, and two at once would only prepare their
//! publications twice.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use dyad_command::Cancellation;
use dyad_corpus::{Document, Located};
use dyad_files::space::free_space;
use dyad_index::Snapshot;
use tokio::sync::oneshot;

use crate::change::{Operation, Outcome, Passages, UpsertConfig, delete, upsert};
use crate::control::{JobControl, Silent};
use crate::error::Error;
use crate::publish::check_model;
use crate::source::{Given, RemoteConfig, RemoteSource, VectorSource as _};

/// Changes that may wait for their turn.
const WAITING: usize = 16;

/// The index, and who embeds what is added.
#[derive(Debug, Clone)]
pub struct ChangesConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// URL of the encoder service.
    pub encoder: String,
    /// How to use it.
    pub remote: RemoteConfig,
    /// Threads of the graph's build.
    pub threads: usize,
}

/// A change that a client asks for.
#[derive(Debug)]
pub(super) enum Wanted {
    /// Documents to add or replace.
    Upsert(Vec<Document>),
    /// Keys of documents to delete.
    Delete(Vec<String>),
}

struct Job {
    wanted: Wanted,
    cancel: Cancellation,
    reply: oneshot::Sender<Result<Outcome, Error>>,
}

/// Makes changes on a thread of its own. Clones share it; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct Changes {
    jobs: SyncSender<Job>,
}

/// Cancels a change whose client has gone.
struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl Changes {
    /// Checks that the index can be opened and that the encoder service has its model, and starts the thread. Blocks.
    pub fn start(config: ChangesConfig) -> Result<Self, Error> {
        drop(Snapshot::open(&config.index)?);
        let source = RemoteSource::connect(&config.encoder, config.remote.clone(), &Cancellation::new())?;
        check_model(&config.index, source.model())?;
        drop(source);
        let (jobs, received) = sync_channel(WAITING);
        std::thread::Builder::new().name("dyad-changes".to_owned()).spawn(move || run(&config, &received))?;
        Ok(Self { jobs })
    }

    /// Makes a change; none where too many wait, or the thread has ended. The change is cancelled when the future is dropped.
    pub(super) async fn make(&self, wanted: Wanted) -> Option<Result<Outcome, Error>> {
        let (cancel, (reply, made)) = (Cancellation::new(), oneshot::channel());
        let guard = CancelOnDrop(cancel.clone());
        match self.jobs.try_send(Job { wanted, cancel, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return None,
        }
        let made = made.await.ok();
        drop(guard);
        made
    }
}

fn run(config: &ChangesConfig, jobs: &Receiver<Job>) {
    while let Ok(Job { wanted, cancel, reply }) = jobs.recv() {
        let control = JobControl { progress: &Silent, cancel: &cancel };
        let made = if cancel.is_cancelled() { Err(Error::Cancelled) } else { caught(|| make(config, wanted, control)) };
        match &made {
            Ok(Outcome { manifest: Some(manifest), change, .. }) => {
                tracing::info!(generation = manifest.generation, ?change, "published");
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a change was not made"),
        }
        // The client may have gone.
        let _ = reply.send(made);
    }
}

/// A panic must not end the thread: every later change would be refused.
fn caught<T>(change: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(change)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        tracing::error!(message, "a change panicked");
        Err(Error::Panicked)
    })
}

fn make(config: &ChangesConfig, wanted: Wanted, control: JobControl<'_>) -> Result<Outcome, Error> {
    match wanted {
        Wanted::Delete(keys) => delete(&config.index, &keys, false, control),
        Wanted::Upsert(documents) => {
            let mut source = RemoteSource::connect(&config.encoder, config.remote.clone(), control.cancel)?;
            let upserted = UpsertConfig {
                passages: Passages::None,
                index: config.index.clone(),
                operation: Operation::Upsert,
                threads: config.threads,
                queries: None,
                dry_run: false,
                free_space,
            };
            upsert(
                &upserted,
                &mut Given((1..).zip(documents).map(|(line, value)| Located { value, line })),
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
    fn a_change_that_panics_is_an_error() {
        assert!(matches!(caught(|| Ok::<_, Error>(vec![0; 3].swap_remove(3))), Err(Error::Panicked)));
        assert!(matches!(caught(|| Ok(3)), Ok(3)));
        assert!(matches!(caught(|| Err::<(), _>(Error::Contended)), Err(Error::Contended)));
    }
}

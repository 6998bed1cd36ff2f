//! Job control: the trait that stages report their progress to, and the cancellation that they check.

use std::sync::LazyLock;

use dyad_command::JobCancellation;

use crate::error::Error;

/// The unit of a stage's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Documents, or their vectors.
    Documents,
    /// Nodes of a graph, on all of its layers.
    Nodes,
    /// Bytes of the corpus on disk.
    Bytes,
    /// Searches of a certificate.
    Searches,
}

/// Receives the progress of a job's stages, which follow one another. Called from any thread.
pub trait JobProgress: Sync {
    /// A stage begins; `total` steps are expected where that is known.
    fn begin(&self, stage: &str, unit: Unit, total: Option<u64>);
    /// `steps` more steps of the stage are done.
    fn advance(&self, steps: u64);
    /// The stage is over, or will not be finished.
    fn finish(&self);
    /// A message for the user that is not an error.
    fn note(&self, text: &str);
    /// A warning: something that the user may not have intended.
    fn warn(&self, text: &str) {
        self.note(text);
    }
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl JobProgress for Silent {
    fn begin(&self, _stage: &str, _unit: Unit, _total: Option<u64>) {}
    fn advance(&self, _steps: u64) {}
    fn finish(&self) {}
    fn note(&self, _text: &str) {}
}

/// Progress and cancellation of a job.
#[derive(Clone, Copy)]
pub struct JobControl<'a> {
    /// Receives the progress.
    pub progress: &'a dyn JobProgress,
    /// Once cancelled, the job ends with [`Error::Cancelled`].
    pub cancel: &'a JobCancellation,
}

impl JobControl<'static> {
    /// Reports nothing and is never cancelled.
    pub fn silent() -> Self {
        static NEVER: LazyLock<JobCancellation> = LazyLock::new(JobCancellation::new);
        Self {
            progress: &Silent,
            cancel: &NEVER,
        }
    }
}

impl JobControl<'_> {
    /// [`Error::Cancelled`] once the job is cancelled.
    pub fn check(&self) -> Result<(), Error> {
        if self.cancel.is_cancelled() {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }
}

impl std::fmt::Debug for JobControl<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JobControl")
            .field("cancel", self.cancel)
            .finish_non_exhaustive()
    }
}

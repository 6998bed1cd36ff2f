//! Long work on a thread of its own: Python's threads go on meanwhile, Ctrl-C ends it, and its progress is told.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_indexer::control::{JobControl, JobProgress, Unit};
use dyad_indexer::error::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::problem::{error_text, of_job};

/// Between two looks whether Ctrl-C was pressed, and two calls of the callback.
const LOOK: Duration = Duration::from_millis(100);

/// How far a stage has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct StageProgress {
    stage: String,
    done: u64,
    /// 0 where that is not known.
    total: u64,
}

/// Keeps the progress for the thread that tells it.
#[derive(Debug, Default)]
struct KeptProgress(Mutex<StageProgress>);

impl KeptProgress {
    fn change(&self, change: impl FnOnce(&mut StageProgress)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn now(&self) -> StageProgress {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl JobProgress for KeptProgress {
    fn begin(&self, stage: &str, _unit: Unit, total: Option<u64>) {
        self.change(|progress| {
            *progress = StageProgress {
                stage: stage.to_owned(),
                done: 0,
                total: total.unwrap_or_default(),
            };
        });
    }

    fn advance(&self, steps: u64) {
        self.change(|progress| progress.done += steps);
    }

    fn finish(&self) {}

    fn note(&self, _text: &str) {}
}

/// Does the work, and calls `progress` with its stage, what is done of it, and all that there is to do, or 0.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    work: impl FnOnce(JobControl<'_>) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let (cancel, kept) = (JobCancellation::new(), KeptProgress::default());
    let (ended, end) = sync_channel::<()>(1);
    std::thread::scope(|scope| {
        let control = JobControl {
            progress: &kept,
            cancel: &cancel,
        };
        let worker = scope.spawn(move || {
            let done = work(control);
            // Nobody waits any more where the work was ended.
            let _ = ended.send(());
            done
        });
        let mut told = StageProgress::default();
        let mut interrupted = None;
        let end = Mutex::new(end);
        let wait = || end.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LOOK);
        while py.detach(wait) == Err(RecvTimeoutError::Timeout) {
            let now = kept.now();
            let tell = || match progress.filter(|_| now != told) {
                Some(progress) => progress.call1((&now.stage, now.done, now.total)).map(drop),
                None => Ok(()),
            };
            if let Err(error) = py.check_signals().and_then(|()| tell()) {
                cancel.cancel();
                interrupted = Some(error);
                break;
            }
            told = now;
        }
        let done = py.detach(|| worker.join());
        match (interrupted, done) {
            (Some(error), _) => Err(error),
            (None, Ok(done)) => done.map_err(of_job),
            (None, Err(_)) => Err(PyRuntimeError::new_err(error_text())),
        }
    })
}

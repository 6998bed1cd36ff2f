//! SIGINT and SIGTERM: the first asks for a clean end, the second ends the process at once.

use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use dyad_files::Cancel;
use tokio::signal::unix::{SignalKind, signal};

use crate::exit::INTERRUPTED;

/// The cancellation flag of a job. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct JobCancellation(Arc<AtomicBool>);

impl JobCancellation {
    /// Not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the job.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether the job is cancelled. Costs one atomic load.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Cancel for JobCancellation {
    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }
}

/// The cancellation of this process's job: the first SIGINT or SIGTERM from this call on cancels it, the second one
/// ends the process. Later calls return the same one.
pub fn cancel_on_signal() -> io::Result<JobCancellation> {
    static WATCHED: OnceLock<JobCancellation> = OnceLock::new();
    if let Some(watched) = WATCHED.get() {
        return Ok(watched.clone());
    }
    let cancellation = JobCancellation::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        // Registered before the job begins, so that no signal is missed.
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let first = cancellation.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            for is_first in [true, false] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if is_first {
                    first.cancel();
                    tracing::warn!("stopping and cleaning up; a second signal ends the process at once");
                }
            }
        });
        end();
    })?;
    Ok(WATCHED.get_or_init(|| cancellation).clone())
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the second signal must end the process, whatever the job is waiting for; the next job cleans up after it"
)]
fn end() {
    std::process::exit(i32::from(INTERRUPTED));
}

/// Listens for the signals that end a server from this call on; the future completes at the first one. Call it inside a
/// tokio runtime.
pub fn shutdown_signal() -> impl Future<Output = ()> + Send + 'static {
    let listening = signal(SignalKind::interrupt()).and_then(|first| Ok((first, signal(SignalKind::terminate())?)));
    async move {
        let Ok((mut interrupt, mut terminate)) = listening else {
            // Without handlers the system's default action still ends the process.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => tracing::info!("interrupted, draining"),
            _ = terminate.recv() => tracing::info!("terminating, draining"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_it() {
        let cancellation = JobCancellation::new();
        let clone = cancellation.clone();
        assert!(!clone.is_cancelled());
        cancellation.cancel();
        assert!(clone.is_cancelled());
    }
}

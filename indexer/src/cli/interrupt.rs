//! Ctrl-C and SIGTERM: the first asks the job to stop and clean up, the second ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use super::INTERRUPTED;

static CANCEL: AtomicBool = AtomicBool::new(false);

/// Watches from a thread of its own; the flag turns true at the first signal.
pub(super) fn watch() -> anyhow::Result<&'static AtomicBool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        // Registered before the job begins, so that no signal is missed.
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            for first in [true, false] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if first {
                    CANCEL.store(true, Ordering::Relaxed);
                    tracing::warn!("stopping and cleaning up; once more ends at once");
                }
            }
        });
        end();
    })?;
    Ok(&CANCEL)
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the second signal must end the process whatever the job does; the next build cleans up"
)]
fn end() {
    std::process::exit(i32::from(INTERRUPTED));
}

//! Ctrl-C and SIGTERM: the first asks the run to end its workers and stop, the second ends the process at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

/// Exit code of an interrupted run: 128 + SIGINT, as shells have it.
pub(super) const INTERRUPTED: u8 = 130;

static CANCEL: AtomicBool = AtomicBool::new(false);
static WATCHED: OnceLock<()> = OnceLock::new();

/// Watches from a thread of its own; the flag turns true at the first signal. A second call finds the first one's watch.
pub(super) fn watch() -> anyhow::Result<&'static AtomicBool> {
    if WATCHED.set(()).is_err() {
        return Ok(&CANCEL);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        // Registered before the run begins, so that no signal is missed.
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
                    tracing::warn!("stopping; once more ends at once");
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
    reason = "the second signal must end the process whatever the run does; workers end with their input"
)]
fn end() {
    std::process::exit(i32::from(INTERRUPTED));
}

//! How long jobs are interrupted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::INTERRUPTED;

/// A flag that the first SIGINT or SIGTERM sets, so that a job ends between two batches with what it has; a second one
/// ends the process at once. Whole files are kept either way.
pub(super) fn watch_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&interrupted);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let first = {
        let _inside = runtime.enter();
        dyad_proto::service::signal()
    };
    std::thread::Builder::new()
        .name("dyad-signals".into())
        .spawn(move || {
            runtime.block_on(async {
                first.await;
                let second = dyad_proto::service::signal();
                flag.store(true, Ordering::Relaxed);
                second.await;
            });
            end();
        })
        .context("cannot start the thread that watches for signals")?;
    Ok(interrupted)
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "the second signal must end the process whatever the job waits for; whole files are kept"
)]
fn end() {
    std::process::exit(i32::from(INTERRUPTED));
}

//! Signals that end a server.

use tokio::signal::unix::{SignalKind, signal as listen};

/// Completes at the first SIGINT or SIGTERM.
pub async fn signal() {
    let (Ok(mut interrupt), Ok(mut terminate)) = (listen(SignalKind::interrupt()), listen(SignalKind::terminate()))
    else {
        // Without handlers the system's default action still ends the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => tracing::info!("interrupted, draining"),
        _ = terminate.recv() => tracing::info!("terminating, draining"),
    }
}

//! Signals that end a server.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal as listen};

/// Listens for SIGINT and SIGTERM from this call on; the future completes at the first one. Call it inside a tokio runtime.
pub fn signal() -> impl Future<Output = ()> + Send + 'static {
    let listening = listen(SignalKind::interrupt()).and_then(|first| Ok((first, listen(SignalKind::terminate())?)));
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

//! Follows the configuration while a server runs: reads it again when the file has changed, and at SIGHUP.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use clap::FromArgMatches;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::command::{LOG, chosen};
use super::layers::{Configuration, Effective};
use crate::logs;

/// How often the file is read.
const PAUSE: Duration = Duration::from_secs(1);

/// Follows a configuration from this value's creation on.
#[derive(Debug)]
pub struct Follower {
    configuration: Arc<Configuration>,
    /// Of the file, when it was last read.
    text: Option<Result<String, String>>,
    /// When the layers were last put together.
    latest: Vec<Effective>,
    /// What the server runs with.
    running: Vec<Effective>,
    /// Another file, such as a pipe, can be read once only.
    is_regular: bool,
    hangup: Option<Signal>,
}

/// A configuration that was read again.
#[derive(Debug)]
pub(super) struct Reread<S> {
    pub(super) arguments: S,
    /// Keys whose values are others than at the last time.
    pub(super) changed: Vec<String>,
    /// Keys of which the server has other values, until it is started again.
    pub(super) restart: Vec<String>,
}

impl Follower {
    pub(super) fn new(configuration: Configuration, text: Option<Result<String, String>>, now: Vec<Effective>) -> Self {
        let is_regular = configuration.file().is_some_and(|path| path.is_file());
        let configuration = Arc::new(configuration);
        Self {
            configuration,
            text,
            latest: now.clone(),
            running: now,
            is_regular,
            hangup: None,
        }
    }

    /// From here on SIGHUP reads the configuration again; before, it ends the process. Call it inside a tokio runtime.
    #[must_use]
    pub fn listen(self) -> Self {
        Self {
            hangup: signal(SignalKind::hangup()).ok(),
            ..self
        }
    }

    /// Follows in a task of its own, as long as the runtime lives. Call it inside a tokio runtime.
    ///
    /// Reads the configuration again whenever the file has changed, and at SIGHUP, and has the keys of `live` applied;
    /// the log filter always is. Others are logged: they need a restart. So is a configuration that cannot be used, and
    /// nothing changes.
    pub fn spawn<S: FromArgMatches + 'static>(
        self,
        live: &'static [&'static str],
        apply: impl Fn(&S) + Send + 'static,
    ) {
        let listening = if self.hangup.is_some() { self } else { self.listen() };
        tokio::spawn(listening.follow(live, apply));
    }

    async fn follow<S: FromArgMatches>(mut self, live: &'static [&'static str], apply: impl Fn(&S) + Send) {
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(PAUSE) => false,
                () = received(&mut self.hangup) => true,
            };
            let mut text = self.text.clone();
            if self.is_regular {
                let configuration = Arc::clone(&self.configuration);
                let Ok(read) = tokio::task::spawn_blocking(move || configuration.text()).await else {
                    continue;
                };
                text = read;
            }
            if !asked && text == self.text {
                continue;
            }
            match self.read_again::<S>(text, live) {
                Err(error) => tracing::error!(%error, "the configuration cannot be used, the one before stays"),
                Ok(Reread { changed, .. }) if changed.is_empty() => {
                    if asked {
                        tracing::info!("configuration: nothing has changed");
                    }
                }
                Ok(Reread {
                    arguments,
                    changed,
                    restart,
                }) => {
                    self.set_log_filter();
                    apply(&arguments);
                    tracing::info!(changed = changed.join(", "), "configuration read again");
                    if !restart.is_empty() {
                        tracing::warn!(keys = restart.join(", "), "these have changed and need a restart");
                    }
                }
            }
        }
    }

    /// Puts the layers together with this text of the file.
    pub(super) fn read_again<S: FromArgMatches>(
        &mut self,
        text: Option<Result<String, String>>,
        live: &[&str],
    ) -> Result<Reread<S>, String> {
        self.text = text;
        let merged = self
            .configuration
            .merge(self.text.as_ref())
            .map_err(|refusal| refusal.to_string())?;
        let Some((_, matches)) = chosen(&merged.matches) else {
            return Err("it is of another command".to_owned());
        };
        let arguments = S::from_arg_matches(matches).map_err(|error| error.to_string())?;
        for (running, now) in self.running.iter_mut().zip(&merged.values) {
            if live.contains(&&*now.key) || now.key == LOG {
                running.clone_from(now);
            }
        }
        let changed = different(&self.latest, &merged.values);
        let restart = different(&self.running, &merged.values);
        self.latest = merged.values;
        Ok(Reread {
            arguments,
            changed,
            restart,
        })
    }

    fn set_log_filter(&self) {
        if let Err(error) = logs::set_filter(&log_filter(&self.latest)) {
            tracing::error!(error, "the log filter stays as it was");
        }
    }
}

/// The log filter of a configuration.
pub(super) fn log_filter(values: &[Effective]) -> String {
    let texts = values
        .iter()
        .find(|value| value.key == LOG)
        .and_then(|value| value.values.as_ref());
    texts
        .and_then(|texts| texts.first()?.to_str())
        .unwrap_or(logs::default_filter())
        .to_owned()
}

async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        pending::<()>().await;
    }
}

/// Keys of which two lists of all settings have different values.
fn different(before: &[Effective], after: &[Effective]) -> Vec<String> {
    let pairs = before
        .iter()
        .zip(after)
        .filter(|(before, after)| before.values != after.values);
    pairs.map(|(before, _)| before.key.clone()).collect()
}

//! Progress of a build: a bar with rate and time left on a terminal, a log line now and then elsewhere.

use std::io::{IsTerminal as _, stderr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dyad_indexer::job::{Progress, Unit};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two log lines where there is no terminal.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Draws or logs the stage that is under way.
pub(super) struct Bar {
    terminal: bool,
    stage: Mutex<Option<Stage>>,
}

struct Stage {
    name: String,
    unit: Unit,
    bar: ProgressBar,
    logged: Instant,
}

impl Bar {
    pub(super) fn new() -> Self {
        Self { terminal: stderr().is_terminal(), stage: Mutex::new(None) }
    }

    fn with(&self, act: impl FnOnce(&mut Stage)) {
        // A poisoned lock holds a stage all the same.
        if let Some(stage) = self.stage.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            act(stage);
        }
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &str, unit: Unit, total: Option<u64>) {
        let target = if self.terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        let template = match (total, unit) {
            (Some(_), Unit::Documents) => {
                "{prefix:<16} {bar:30} {human_pos}/{human_len} documents, {per_sec}, {eta} left"
            }
            (Some(_), Unit::Bytes) => "{prefix:<16} {bar:30} {bytes}/{total_bytes}, {bytes_per_sec}, {eta} left",
            (Some(_), Unit::Searches) => {
                "{prefix:<16} {bar:30} {human_pos}/{human_len} searches, {per_sec}, {eta} left"
            }
            (Some(_), Unit::Nodes) => "{prefix:<16} {bar:30} {human_pos}/{human_len} nodes, {per_sec}, {eta} left",
            (None, Unit::Documents | Unit::Nodes | Unit::Searches) => "{prefix:<16} {spinner} {elapsed}",
            (None, Unit::Bytes) => "{prefix:<16} {spinner} {bytes}, {bytes_per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(stage.to_owned());
        if self.terminal {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let stage = Stage { name: stage.to_owned(), unit, bar, logged: Instant::now() };
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage);
    }

    fn advance(&self, steps: u64) {
        let terminal = self.terminal;
        self.with(|stage| {
            stage.bar.inc(steps);
            if !terminal && stage.logged.elapsed() >= LOG_EVERY {
                stage.logged = Instant::now();
                tracing::info!("{}", stage.line());
            }
        });
    }

    fn finish(&self) {
        let ended = self.stage.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(stage) = ended {
            stage.bar.finish_and_clear();
            tracing::info!("{}: {:.1} s", stage.name, stage.bar.elapsed().as_secs_f64());
        }
    }

    fn note(&self, text: &str) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = stage.as_ref() {
            // The bar steps aside for the line.
            stage.bar.suspend(|| tracing::info!("{text}"));
        } else {
            tracing::info!("{text}");
        }
    }

    fn warn(&self, text: &str) {
        let stage = self.stage.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stage) = stage.as_ref() {
            stage.bar.suspend(|| tracing::warn!("{text}"));
        } else {
            tracing::warn!("{text}");
        }
    }
}

impl Stage {
    fn line(&self) -> String {
        let (done, rate) = (self.bar.position(), self.bar.per_sec());
        let unit = match self.unit {
            Unit::Documents => "documents",
            Unit::Nodes => "nodes",
            Unit::Bytes => "bytes",
            Unit::Searches => "searches",
        };
        match self.bar.length() {
            Some(total) => format!(
                "{}: {done} of {total} {unit}, {rate:.0} per second, {} s left",
                self.name,
                self.bar.eta().as_secs()
            ),
            None => format!("{}: {done} {unit}, {rate:.0} per second", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_has_rate_and_time_left() {
        let bar = ProgressBar::with_draw_target(Some(100), ProgressDrawTarget::hidden());
        let stage = Stage { name: "graph 1/2".to_owned(), unit: Unit::Documents, bar, logged: Instant::now() };
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(20));
            stage.bar.inc(5);
        }
        let line = stage.line();
        assert!(line.starts_with("graph 1/2: 25 of 100 documents, ") && line.ends_with(" s left"), "{line}");
        let rate = line.split(' ').nth(6).and_then(|rate| rate.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{line}");
    }
}

//! Progress of a build: a bar with rate and time left on a terminal, a log line every ten seconds elsewhere.

use std::sync::{Mutex, PoisonError};

use dyad_command::ProgressBar;
use dyad_indexer::control::{JobProgress, Unit};

/// Seconds from which on the time of a stage is told.
const TOLD_S: f64 = 1.0;

/// Draws or logs the current stage.
#[derive(Default)]
pub(super) struct ProgressReporter(Mutex<Option<ProgressStage>>);

struct ProgressStage {
    name: String,
    unit: Unit,
    bar: ProgressBar,
}

impl ProgressReporter {
    fn with<T>(&self, act: impl FnOnce(&mut Option<ProgressStage>) -> T) -> T {
        // The stage is valid even if the lock is poisoned.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes a line while the bar is hidden.
    fn say(&self, write: impl FnOnce()) {
        self.with(|stage| match stage {
            Some(stage) => stage.bar.suspend(write),
            None => write(),
        });
    }
}

impl JobProgress for ProgressReporter {
    fn begin(&self, stage: &str, unit: Unit, total: Option<u64>) {
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
        let begun = ProgressStage {
            name: stage.to_owned(),
            unit,
            bar: ProgressBar::new(stage, total, template),
        };
        self.with(|stage| *stage = Some(begun));
    }

    fn advance(&self, steps: u64) {
        self.with(|stage| {
            if let Some(stage) = stage {
                stage.bar.advance(steps);
                stage.bar.log(|_| stage.line());
            }
        });
    }

    fn finish(&self) {
        if let Some(ProgressStage { name, bar, .. }) = self.with(Option::take) {
            let seconds = bar.elapsed().as_secs_f64();
            drop(bar);
            // Changes of a few documents have many stages, which say nothing.
            if seconds >= TOLD_S {
                tracing::info!("{name}: {seconds:.1} s");
            } else {
                tracing::debug!("{name}: {seconds:.3} s");
            }
        }
    }

    fn note(&self, text: &str) {
        self.say(|| tracing::info!("{text}"));
    }

    fn warn(&self, text: &str) {
        self.say(|| tracing::warn!("{text}"));
    }
}

impl ProgressStage {
    fn line(&self) -> String {
        let (done, rate) = (self.bar.position(), self.bar.per_second());
        let unit = match self.unit {
            Unit::Documents => "documents",
            Unit::Nodes => "nodes",
            Unit::Bytes => "bytes",
            Unit::Searches => "searches",
        };
        match self.bar.total() {
            Some(total) => format!(
                "{}: {done} of {total} {unit}, {rate:.0} per second, {} s left",
                self.name,
                self.bar.left().as_secs()
            ),
            None => format!("{}: {done} {unit}, {rate:.0} per second", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_log_line_has_rate_and_time_left() {
        let name = "graph 1/2";
        let stage = ProgressStage {
            name: name.to_owned(),
            unit: Unit::Documents,
            bar: ProgressBar::new(name, Some(100), "{pos}"),
        };
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(20));
            stage.bar.advance(5);
        }
        let line = stage.line();
        assert!(
            line.starts_with("graph 1/2: 25 of 100 documents, ") && line.ends_with(" s left"),
            "{line}"
        );
        let rate = line.split(' ').nth(6).and_then(|rate| rate.parse::<f64>().ok());
        assert!(rate.is_some_and(|rate| rate > 0.0), "{line}");
    }
}

//! Loss, rate, examples per second, time left: a bar where standard error is a terminal, else a line every ten seconds.

use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressStyle};

/// Between two lines of a log.
const LOG_EVERY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Bar {
    shown: ProgressBar,
    stage: String,
    steps: u64,
    first: u64,
    started: Instant,
    logged: Instant,
}

impl Bar {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { shown: ProgressBar::hidden(), stage: String::new(), steps: 0, first: 0, started: now, logged: now }
    }

    pub(super) fn begin(&mut self, stage: &str, taken: u64, steps: u64) {
        self.shown.finish_and_clear();
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len}  {msg}");
        self.shown = ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        self.shown.set_prefix(stage.to_owned());
        self.shown.set_position(taken);
        let now = Instant::now();
        (self.steps, self.first, self.started, self.logged) = (steps, taken, now, now);
        stage.clone_into(&mut self.stage);
    }

    /// `step` of the stage was taken.
    pub(super) fn step(&mut self, step: u64, loss: f64, rate: f64, speed: f64) {
        let left = left(self.started.elapsed(), step.saturating_sub(self.first), self.steps.saturating_sub(step));
        let message = message(loss, rate, speed, left);
        if self.shown.is_hidden() {
            if self.logged.elapsed() >= LOG_EVERY {
                self.logged = Instant::now();
                tracing::info!("{} step {step} of {}: {message}", self.stage, self.steps);
            }
        } else {
            self.shown.set_position(step);
            self.shown.set_message(message);
        }
    }

    /// A line of its own.
    pub(super) fn say(&mut self, line: &str) {
        // A log's line would break into the bar.
        if self.shown.is_hidden() { tracing::info!("{line}") } else { self.shown.println(line) }
    }
}

/// However a run ends, what is said next stands on a line of its own.
impl Drop for Bar {
    fn drop(&mut self) {
        self.shown.finish_and_clear();
    }
}

/// What stands beside the bar, and in the log.
fn message(loss: f64, rate: f64, speed: f64, left: Duration) -> String {
    format!("loss {loss:.4}, rate {rate:.2e}, {speed:.0} examples/s, {} left", HumanDuration(left))
}

/// Time for `left` steps at the pace of `done` ones.
fn left(elapsed: Duration, done: u64, left: u64) -> Duration {
    let seconds = elapsed.as_secs_f64() / done.max(1) as f64 * left as f64;
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_loss_rate_speed_and_time_left() {
        let line = message(1.234_56, 1.9e-5, 40.7, Duration::from_mins(9));
        assert_eq!(line, "loss 1.2346, rate 1.90e-5, 41 examples/s, 9 minutes left");
    }

    #[test]
    fn time_left_is_at_the_pace_of_this_run() {
        assert_eq!(left(Duration::from_secs(10), 5, 20), Duration::from_secs(40));
        assert_eq!(left(Duration::from_secs(10), 0, 0), Duration::ZERO);
        assert_eq!(left(Duration::MAX, 1, u64::MAX), Duration::MAX);
    }
}

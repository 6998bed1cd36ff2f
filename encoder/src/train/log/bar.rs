//! Loss, rate, examples per second, time left: a bar where standard error is a terminal, else a line every ten seconds.

use std::time::{Duration, Instant};

use dyad_command::{ProgressBar, time_left};
use indicatif::HumanDuration;

#[derive(Debug, Default)]
pub(super) struct Bar(Option<StageBar>);

/// The bar of a stage.
#[derive(Debug)]
struct StageBar {
    bar: ProgressBar,
    name: String,
    steps: u64,
    first: u64,
    started: Instant,
}

impl Bar {
    pub(super) fn begin(&mut self, stage: &str, taken: u64, steps: u64) {
        // The bar of the stage before goes first.
        self.0 = None;
        let bar = ProgressBar::new(stage, Some(steps), "{prefix} {wide_bar} {pos}/{len}  {msg}");
        bar.set(taken, String::new());
        self.0 = Some(StageBar {
            bar,
            name: stage.to_owned(),
            steps,
            first: taken,
            started: Instant::now(),
        });
    }

    /// `step` of the stage was taken.
    pub(super) fn step(&mut self, step: u64, loss: f64, rate: f64, speed: f64) {
        let Some(StageBar {
            bar,
            name,
            steps,
            first,
            started,
        }) = &self.0
        else {
            return;
        };
        let left = time_left(
            started.elapsed(),
            step.saturating_sub(*first),
            steps.saturating_sub(step),
        );
        let message = message(loss, rate, speed, left.unwrap_or_default());
        bar.log(|_| format!("{name} step {step} of {steps}: {message}"));
        bar.set(step, message);
    }

    /// A line of its own.
    pub(super) fn say(&mut self, line: &str) {
        if let Some(stage) = &self.0 {
            stage.bar.println(line);
        } else {
            tracing::info!("{line}");
        }
    }
}

/// The text next to the bar, and in the log.
fn message(loss: f64, rate: f64, speed: f64, left: Duration) -> String {
    format!(
        "loss {loss:.4}, rate {rate:.2e}, {speed:.0} examples/s, {} left",
        HumanDuration(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_loss_rate_speed_and_time_left() {
        let line = message(1.234_56, 1.9e-5, 40.7, Duration::from_mins(9));
        assert_eq!(line, "loss 1.2346, rate 1.90e-5, 41 examples/s, 9 minutes left");
    }
}

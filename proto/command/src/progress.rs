//! Progress of a job: a bar where standard error is a terminal, elsewhere a log line every ten seconds.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::ProgressStyle;

/// Interval of log lines.
const LOG_EVERY: Duration = Duration::from_secs(10);
/// Interval at which a bar without progress is redrawn.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar, or log lines where there is no terminal. The bar is cleared when dropped, so that the next output
/// starts on a new line.
#[derive(Debug)]
pub struct ProgressBar {
    // Hidden by indicatif itself where standard error is no terminal.
    bar: indicatif::ProgressBar,
    logged: Mutex<Instant>,
}

impl ProgressBar {
    /// A bar of `total` steps, or of an unknown number; `template` is indicatif's, where `{prefix}` is the `name`.
    pub fn new(name: &str, total: Option<u64>, template: &str) -> Self {
        let bar = total.map_or_else(indicatif::ProgressBar::no_length, indicatif::ProgressBar::new);
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        bar.set_prefix(name.to_owned());
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self {
            bar,
            logged: Mutex::new(Instant::now()),
        }
    }

    /// More steps are done.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }

    /// Sets the number of steps done, and the message next to the bar (`{msg}`).
    pub fn set(&self, position: u64, message: String) {
        self.bar.set_position(position);
        self.bar.set_message(message);
    }

    /// Where there is no bar: a log line, if the last one is long enough ago.
    pub fn log(&self, line: impl FnOnce(&Self) -> String) {
        if !self.bar.is_hidden() {
            return;
        }
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.elapsed() >= LOG_EVERY {
            *logged = Instant::now();
            let line = line(self);
            tracing::info!("{line}");
        }
    }

    /// Prints a line above the bar, or to the log.
    pub fn println(&self, line: &str) {
        if self.bar.is_hidden() {
            tracing::info!("{line}");
        } else {
            self.bar.println(line);
        }
    }

    /// Runs `write` while the bar is hidden.
    pub fn suspend(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Steps done.
    pub fn position(&self) -> u64 {
        self.bar.position()
    }

    /// Steps in all.
    pub fn total(&self) -> Option<u64> {
        self.bar.length()
    }

    /// Recent steps per second.
    pub fn per_second(&self) -> f64 {
        self.bar.per_sec()
    }

    /// Time left at that rate.
    pub fn left(&self) -> Duration {
        self.bar.eta()
    }

    /// Time since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.bar.elapsed()
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Time for `left` steps at the pace of `done` ones; none before the first, or where it overflows.
pub fn time_left(elapsed: Duration, done: u64, left: u64) -> Option<Duration> {
    let seconds = elapsed.as_secs_f64() / done as f64 * left as f64;
    if done == 0 {
        None
    } else {
        Duration::try_from_secs_f64(seconds).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_at_the_pace_so_far() {
        assert_eq!(time_left(Duration::from_secs(10), 5, 20), Some(Duration::from_secs(40)));
        assert_eq!(time_left(Duration::from_secs(10), 0, 20), None);
        assert_eq!(time_left(Duration::MAX, 1, u64::MAX), None);
    }

    #[test]
    fn a_line_is_logged_every_ten_seconds_and_no_sooner() {
        let bar = ProgressBar::new("documents", Some(100), "{pos}");
        let mut lines = 0;
        bar.advance(3);
        bar.log(|_| unreachable!("too early"));
        for since in [LOG_EVERY, Duration::from_secs(1)] {
            *bar.logged.lock().unwrap() = Instant::now().checked_sub(since).unwrap();
            bar.log(|bar| {
                lines += 1;
                assert_eq!((bar.position(), bar.total()), (3, Some(100)));
                String::new()
            });
        }
        assert!(lines == 1 || !bar.bar.is_hidden());
    }
}

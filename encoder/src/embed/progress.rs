//! How far a job is: a bar for people, a line every ten seconds for logs.

use std::time::{Duration, Instant};

use dyad_command::{ProgressBar, time_left};
use indicatif::{HumanCount, HumanDuration};

/// Progress of one run, measured in bytes of the corpus on disk: how many documents it has is not known beforehand.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    total_bytes: Option<u64>,
    first_byte: u64,
    window: ProgressWindow,
    /// Totals of finished windows.
    documents: u64,
    tokens: u64,
}

/// The current window.
#[derive(Debug, Clone, Copy)]
struct ProgressWindow {
    /// The first byte of the part, and the byte after its last.
    begin: u64,
    end: u64,
    documents: usize,
    /// To be embedded, and embedded.
    tokens: usize,
    done: usize,
}

impl ProgressWindow {
    /// From 0 to 1.
    fn share(&self) -> f64 {
        if self.tokens == 0 {
            0.0
        } else {
            (self.done as f64 / self.tokens as f64).min(1.0)
        }
    }
}

impl Progress {
    /// Starts the clock after `first_byte` bytes and `documents` documents that an earlier run has done.
    pub(crate) fn new(total_bytes: Option<u64>, first_byte: u64, documents: u64) -> Self {
        let template = if total_bytes.is_some() {
            "{wide_bar} {percent:>3}%  {msg}"
        } else {
            "{spinner} {msg}"
        };
        let bar = ProgressBar::new("embed", total_bytes, template);
        let window = ProgressWindow {
            begin: first_byte,
            end: first_byte,
            documents: 0,
            tokens: 0,
            done: 0,
        };
        Self {
            bar,
            started: Instant::now(),
            total_bytes,
            first_byte,
            window,
            documents,
            tokens: 0,
        }
    }

    /// A window of `documents` begins that ends at `bytes` of the corpus; `tokens` of it are to be embedded.
    pub(crate) fn begin(&mut self, bytes: u64, documents: usize, tokens: usize) {
        self.window = ProgressWindow {
            begin: self.window.end,
            end: bytes,
            documents,
            tokens,
            done: 0,
        };
    }

    /// A batch of the window is done.
    pub(crate) fn batch(&mut self, tokens: usize) {
        self.tokens += tokens as u64;
        self.window.done += tokens;
        self.bar.set(self.position(), self.message());
        self.bar.log(|_| self.message());
    }

    /// The documents of a window are stored.
    pub(crate) fn stored(&mut self) {
        self.documents += self.window.documents as u64;
        self.window = ProgressWindow {
            begin: self.window.end,
            documents: 0,
            tokens: 0,
            done: 0,
            ..self.window
        };
    }

    /// Tokens embedded so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Time of this run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn position(&self) -> u64 {
        let ProgressWindow { begin, end, .. } = self.window;
        begin + (end.saturating_sub(begin) as f64 * self.window.share()) as u64
    }

    fn message(&self) -> String {
        let elapsed = self.started.elapsed();
        let speed = HumanCount((self.tokens as f64 / elapsed.as_secs_f64().max(1e-3)) as u64);
        // Those of the window are stored together at its end: until then a share of them counts.
        let documents = HumanCount(self.documents + (self.window.documents as f64 * self.window.share()) as u64);
        match self.left(elapsed) {
            Some(left) => format!("{documents} documents, {speed} tokens/s, {} left", HumanDuration(left)),
            None => format!("{documents} documents, {speed} tokens/s"),
        }
    }

    /// Time left at the pace so far.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let (done, total) = (self.position().saturating_sub(self.first_byte), self.total_bytes?);
        time_left(elapsed, done, total.saturating_sub(self.position()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_follows_the_tokens_of_a_window() {
        let mut progress = Progress::new(Some(1000), 200, 50);
        assert_eq!(progress.position(), 200);
        progress.begin(600, 8, 40);
        progress.batch(10);
        assert_eq!(progress.position(), 300);
        assert!(
            progress.message().starts_with("52 documents, "),
            "a quarter of the window: {}",
            progress.message()
        );
        progress.batch(30);
        assert_eq!(progress.position(), 600);
        progress.stored();
        assert_eq!(progress.position(), 600);
        assert!(
            progress.message().starts_with("58 documents, "),
            "{}",
            progress.message()
        );
        progress.begin(1000, 8, 10);
        progress.batch(20);
        assert_eq!((progress.position(), progress.tokens()), (1000, 60));
    }

    #[test]
    fn the_time_left_counts_what_this_run_has_done() {
        let mut progress = Progress::new(Some(1000), 500, 0);
        assert_eq!(progress.left(Duration::from_secs(1)), None);
        progress.begin(600, 8, 10);
        progress.batch(10);
        assert_eq!(progress.left(Duration::from_secs(2)), Some(Duration::from_secs(8)));
        assert!(Progress::new(None, 0, 0).left(Duration::from_secs(1)).is_none());
    }
}

//! How far a job is: a bar for people, a line every ten seconds for logs.

use std::time::{Duration, Instant};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressStyle};

/// Between two lines of a log.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Progress of one run, measured in bytes of the corpus on disk: how many documents it has is not known beforehand.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    logged: Instant,
    total_bytes: Option<u64>,
    first_byte: u64,
    window: Window,
    /// Of whole windows.
    documents: u64,
    tokens: u64,
}

/// The window under way.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Where it begins and ends, in bytes.
    begin: u64,
    end: u64,
    documents: usize,
    /// To be embedded, and embedded.
    tokens: usize,
    done: usize,
}

impl Window {
    /// From 0 to 1.
    fn share(&self) -> f64 {
        if self.tokens == 0 { 0.0 } else { (self.done as f64 / self.tokens as f64).min(1.0) }
    }
}

impl Progress {
    /// Starts the clock after `first_byte` bytes and `documents` documents that an earlier run has done.
    pub(crate) fn new(total_bytes: Option<u64>, first_byte: u64, documents: u64) -> Self {
        // Hidden by indicatif itself where standard error is no terminal.
        let bar = match total_bytes {
            Some(total) => ProgressBar::new(total).with_style(style("{wide_bar} {percent:>3}%  {msg}")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {msg}")),
        };
        let now = Instant::now();
        let window = Window { begin: first_byte, end: first_byte, documents: 0, tokens: 0, done: 0 };
        Self { bar, started: now, logged: now, total_bytes, first_byte, window, documents, tokens: 0 }
    }

    /// A window of `documents` begins that ends at `bytes` of the corpus; `tokens` of it are to be embedded.
    pub(crate) fn begin(&mut self, bytes: u64, documents: usize, tokens: usize) {
        self.window = Window { begin: self.window.end, end: bytes, documents, tokens, done: 0 };
    }

    /// A batch of the window is done.
    pub(crate) fn batch(&mut self, tokens: usize) {
        self.tokens += tokens as u64;
        self.window.done += tokens;
        self.bar.set_position(self.position());
        self.bar.set_message(self.message());
        if self.bar.is_hidden() && self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            tracing::info!("{}", self.message());
        }
    }

    /// The documents of a window are stored.
    pub(crate) fn stored(&mut self) {
        self.documents += self.window.documents as u64;
        self.window = Window { begin: self.window.end, documents: 0, tokens: 0, done: 0, ..self.window };
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
        let Window { begin, end, .. } = self.window;
        begin + (end.saturating_sub(begin) as f64 * self.window.share()) as u64
    }

    fn message(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
        let speed = HumanCount((self.tokens as f64 / seconds) as u64);
        // Those of the window are stored together at its end: until then a share of them counts.
        let documents = HumanCount(self.documents + (self.window.documents as f64 * self.window.share()) as u64);
        match self.left(seconds) {
            Some(left) => format!("{documents} documents, {speed} tokens/s, {} left", HumanDuration(left)),
            None => format!("{documents} documents, {speed} tokens/s"),
        }
    }

    /// Time left at the pace so far.
    fn left(&self, seconds: f64) -> Option<Duration> {
        let (done, total) = (self.position().saturating_sub(self.first_byte), self.total_bytes?);
        let left = total.saturating_sub(self.position());
        if done == 0 { None } else { Duration::try_from_secs_f64(seconds * left as f64 / done as f64).ok() }
    }
}

/// However the job ends, what it says next stands on a line of its own.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
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
        assert!(progress.message().starts_with("52 documents, "), "a quarter of the window: {}", progress.message());
        progress.batch(30);
        assert_eq!(progress.position(), 600);
        progress.stored();
        assert_eq!(progress.position(), 600);
        assert!(progress.message().starts_with("58 documents, "), "{}", progress.message());
        progress.begin(1000, 8, 10);
        progress.batch(20);
        assert_eq!((progress.position(), progress.tokens()), (1000, 60));
    }

    #[test]
    fn the_time_left_counts_what_this_run_has_done() {
        let mut progress = Progress::new(Some(1000), 500, 0);
        assert_eq!(progress.left(1.0), None);
        progress.begin(600, 8, 10);
        progress.batch(10);
        assert_eq!(progress.left(2.0), Some(Duration::from_secs(8)));
        assert!(Progress::new(None, 0, 0).left(1.0).is_none());
    }
}

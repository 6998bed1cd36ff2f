//! Files that are read again when they change: looked at once a second by a thread of their own, by what the system says of them, so that
//! renames and links that are turned (as Kubernetes does) count too.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Time between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Files, and what to do when any of them has changed.
pub(super) struct Followed {
    files: Vec<PathBuf>,
    seen: Vec<Stamp>,
    changed: Box<dyn FnMut() + Send>,
}

/// Device, inode, size, time of the last change; none where the file cannot be found.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

impl Followed {
    /// From what the files are now: create it before they are read for the first time.
    pub(super) fn new(files: Vec<PathBuf>, changed: impl FnMut() + Send + 'static) -> Self {
        let seen = stamps(&files);
        Self { files, seen, changed: Box::new(changed) }
    }

    fn look(&mut self) {
        let now = stamps(&self.files);
        if now != self.seen {
            // Before the files are read: a change while they are is seen at the next look.
            self.seen = now;
            (self.changed)();
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let found = fs_err::metadata(path).ok()?;
        Some((found.dev(), found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
    };
    files.iter().map(stamp).collect()
}

/// The thread; it ends soon after this is dropped.
#[derive(Debug)]
pub(super) struct Follow {
    _stop: Sender<()>,
}

impl Follow {
    pub(super) fn start(all: Vec<Followed>) -> io::Result<Self> {
        let (stop, stopped) = channel();
        std::thread::Builder::new().name("dyad-follow".to_owned()).spawn(move || run(all, &stopped))?;
        Ok(Self { _stop: stop })
    }
}

fn run(mut all: Vec<Followed>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
        for one in &mut all {
            one.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_file_that_is_replaced_removed_or_linked_elsewhere_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs_err::write(path("a"), "1").unwrap();
        fs_err::write(path("b"), "1").unwrap();
        std::os::unix::fs::symlink(path("a"), path("link")).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&count);
        let mut followed = Followed::new(vec![path("link"), path("new")], move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let mut changes = |change: &dyn Fn()| {
            change();
            let before = count.load(Ordering::Relaxed);
            followed.look();
            followed.look();
            count.load(Ordering::Relaxed) - before
        };
        assert_eq!(changes(&|| {}), 0);
        assert_eq!(changes(&|| fs_err::write(path("a"), "22").unwrap()), 1);
        assert_eq!(changes(&|| fs_err::write(path("new"), "").unwrap()), 1);
        let turn = || {
            fs_err::remove_file(path("link")).unwrap();
            std::os::unix::fs::symlink(path("b"), path("link")).unwrap();
        };
        assert_eq!(changes(&turn), 1);
        assert_eq!(changes(&|| fs_err::remove_file(path("b")).unwrap()), 1);
    }
}

//! Files that are read again when they change: looked at once a second by a thread of their own, by what the system
//! says of them, so that renames and links that are turned (as Kubernetes does) count too.

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
    /// Whether they could not be taken over as they are: tried again at every look.
    has_failed: bool,
    changed: Box<dyn FnMut(Look) -> bool + Send>,
}

/// Why files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// They have changed.
    Changed,
    /// They have not, and could not be taken over before.
    Retry,
}

/// Device, inode, size, and times of the last change of contents and of owner or mode; none where the file cannot be
/// found.
type Stamp = Option<(u64, u64, u64, [i64; 4])>;

impl Followed {
    /// From what the files are now: create it before they are read for the last time at the start. `changed` returns
    /// whether it has taken them over.
    pub(super) fn new(files: Vec<PathBuf>, changed: impl FnMut(Look) -> bool + Send + 'static) -> Self {
        let seen = stamps(&files);
        Self {
            files,
            seen,
            has_failed: false,
            changed: Box::new(changed),
        }
    }

    fn look(&mut self) {
        // Before the files are read: a change while they are is seen at the next look.
        let now = stamps(&self.files);
        let look = if now == self.seen { Look::Retry } else { Look::Changed };
        if look == Look::Changed || self.has_failed {
            self.seen = now;
            self.has_failed = !(self.changed)(look);
        }
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let found = fs_err::metadata(path).ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some((found.dev(), found.ino(), found.size(), times))
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
        std::thread::Builder::new()
            .name("dyad-follow".to_owned())
            .spawn(move || run(all, &stopped))?;
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
        let mut followed = Followed::new(vec![path("link"), path("new")], move |look| {
            assert_eq!(look, Look::Changed);
            counter.fetch_add(1, Ordering::Relaxed);
            true
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
    #[test]
    fn what_could_not_be_taken_over_is_tried_again_until_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs_err::write(&path, "1").unwrap();
        let looks = Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = Arc::clone(&looks);
        let mut followed = Followed::new(vec![path.clone()], move |look| {
            let mut seen = seen.lock().unwrap();
            seen.push(look);
            seen.len() > 2
        });
        followed.look();
        fs_err::write(&path, "22").unwrap();
        for _ in 0..5 {
            followed.look();
        }
        assert_eq!(*looks.lock().unwrap(), [Look::Changed, Look::Retry, Look::Retry]);
        // Who may read a file is a change too.
        let mut mode = fs_err::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o400);
        fs_err::set_permissions(&path, mode).unwrap();
        followed.look();
        assert_eq!(looks.lock().unwrap().last(), Some(&Look::Changed));
        assert_eq!(looks.lock().unwrap().len(), 4);
    }
}

//! The log of calls that change something: one JSON object per line, appended to a file of its owner's.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fs_err::os::unix::fs::OpenOptionsExt as _;
use serde_json::Value;

/// A file that cannot be appended to.
#[derive(Debug, thiserror::Error)]
#[error("--audit-log: {0}. Name a file in a directory that exists and that this process may write to")]
pub struct AuditError(#[from] std::io::Error);

/// The file.
#[derive(Debug)]
pub struct Audit {
    path: PathBuf,
    file: Mutex<fs_err::File>,
    /// Whether the last line could not be written, so that this is logged once.
    has_failed: AtomicBool,
    lost: AtomicU64,
}

impl Audit {
    /// Appends to a file, which is made if it is not there.
    pub fn open(path: &Path) -> Result<Self, AuditError> {
        let (path, file) = (path.to_owned(), Mutex::new(append_to(path)?));
        Ok(Self {
            path,
            file,
            has_failed: AtomicBool::new(false),
            lost: AtomicU64::new(0),
        })
    }

    /// Opens the file again, after another program has renamed it.
    pub fn reopen(&self) -> Result<(), AuditError> {
        let file = append_to(&self.path)?;
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
        Ok(())
    }

    /// Lines so far that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Appends a line, with the time. A failure is logged: the call has been made by then.
    pub(super) fn write(&self, line: &Value) {
        let unix_ms = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |time| time.as_millis() as u64);
        let mut all = serde_json::json!({"unix_ms": unix_ms});
        if let (Value::Object(all), Value::Object(line)) = (&mut all, line) {
            all.extend(line.clone());
        }
        // In one write, so that lines of several processes do not mix.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // After a line that may have been cut short.
        let begin = if self.has_failed.load(Ordering::Relaxed) {
            "\n"
        } else {
            ""
        };
        let written = file.write_all(format!("{begin}{all}\n").as_bytes());
        drop(file);
        let failed = written.is_err();
        if failed {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        if failed != self.has_failed.swap(failed, Ordering::Relaxed) {
            if let Err(error) = written {
                tracing::error!(%error, "the audit log has gaps from here on");
            } else {
                tracing::warn!("the audit log is written again");
            }
        }
    }
}

fn append_to(path: &Path) -> std::io::Result<fs_err::File> {
    fs_err::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Caller;

    #[test]
    fn a_line_has_who_what_and_the_outcome() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let audit = std::sync::Arc::new(Audit::open(&path).unwrap());
        let peer = "127.0.0.1:9".parse().unwrap();
        let caller = Caller {
            audit: Some(audit.clone()),
            ..Caller::new(Some(peer), "r1".into())
        };
        caller.record("Admin.Reload", &serde_json::json!({"index": "w\n"}), Ok(()));
        fs_err::rename(&path, folder.path().join("old")).unwrap();
        audit.reopen().unwrap();
        caller.record("Admin.Verify", &Value::Null, Err(&tonic::Status::not_found("none")));
        let read = |name: &str| -> Value {
            let text = fs_err::read_to_string(folder.path().join(name)).unwrap();
            assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
            serde_json::from_str(&text).unwrap()
        };
        let (first, second) = (read("old"), read("audit.jsonl"));
        assert_eq!(
            (first["call"].as_str(), first["details"]["index"].as_str()),
            (Some("Admin.Reload"), Some("w\n"))
        );
        assert_eq!(
            (first["status"].as_str(), first["peer"].as_str()),
            (Some("OK"), Some("127.0.0.1:9"))
        );
        assert_eq!(
            (second["status"].as_str(), second["message"].as_str()),
            (Some("NOT_FOUND"), Some("none"))
        );
        assert!(second["unix_ms"].as_u64() >= first["unix_ms"].as_u64());
    }
}

//! Workers in Python whose answers are known.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Writes a worker's script into a folder, ready to be run; `None`, and said so, where there is no Python to run it.
pub(crate) fn worker(folder: &Path, name: &str, source: &str) -> Option<PathBuf> {
    let python = std::process::Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        let _ = writeln!(std::io::stderr(), "skipped: no python3 to run the fake worker");
        return None;
    }
    let script = folder.join(name);
    fs_err::write(&script, source).unwrap();
    fs_err::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    Some(script)
}

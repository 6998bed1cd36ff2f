//! One JSON object per line.

use std::io::{self, Write};
use std::path::Path;

use dyad_files::write_atomic;
use fs_err::{File, OpenOptions};
use serde_json::Value;

/// Name of the file in a run's directory.
pub(in super::super) const METRICS_FILE: &str = "metrics.jsonl";

#[derive(Debug)]
pub(super) struct Lines(File);

impl Lines {
    /// Opens a file to add to, without its lines of steps after `step`: those are about to be taken again. None is kept
    /// without one.
    pub(super) fn open(path: &Path, step: Option<u64>) -> io::Result<Self> {
        let text = if path.exists() {
            fs_err::read_to_string(path)?
        } else {
            String::new()
        };
        let of_step = |line: &str| serde_json::from_str::<Value>(line).ok()?.get("step")?.as_u64();
        // A last line that was cut short has no step.
        let kept: Vec<&str> = text
            .lines()
            .filter(|line| of_step(line).is_some_and(|of| Some(of) <= step))
            .collect();
        let kept: String = kept.iter().flat_map(|line| [line, "\n"]).collect();
        if kept != text {
            write_atomic(path, kept.as_bytes())?;
        }
        Ok(Self(OpenOptions::new().create(true).append(true).open(path)?))
    }

    pub(super) fn write(&mut self, value: &Value) -> io::Result<()> {
        // One call, so that a line is whole or missing.
        self.0.write_all(format!("{value}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_of_steps_that_are_taken_again_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS_FILE);
        let mut lines = Lines::open(&path, None).unwrap();
        for step in 1..=5 {
            lines.write(&json!({"step": step, "loss": 1.5})).unwrap();
        }
        drop(lines);
        let mut text = fs_err::read_to_string(&path).unwrap();
        text.push_str("{\"step\": 3, \"lo");
        fs_err::write(&path, text).unwrap();
        let mut lines = Lines::open(&path, Some(3)).unwrap();
        lines.write(&json!({"step": 4})).unwrap();
        let text = fs_err::read_to_string(&path).unwrap();
        let of_line = |line: &str| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64().unwrap();
        assert_eq!(text.lines().map(of_line).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

//! A checkpoint as a directory of files.

use std::path::Path;

use serde_json::Value;

use super::read::{Checkpoint, Content};
use crate::error::Error;

impl Checkpoint {
    /// Writes every file but `dyad.json` below `root`, one tensor in memory at a time.
    pub(crate) fn write(&self, root: &Path) -> Result<(), Error> {
        for (path, content) in &self.files {
            let target = root.join(path);
            if let Some(folder) = target.parent() {
                fs_err::create_dir_all(folder)?;
            }
            match content {
                // Bytes only: a model in a cache may be read-only, and the new one should not be.
                Content::Copy(source) => {
                    std::io::copy(&mut fs_err::File::open(source)?, &mut fs_err::File::create(target)?)?;
                }
                Content::Json(value) => write_json(&target, value)?,
                Content::Weights(file) => file.write(&target)?,
            }
        }
        for placed in &self.layout.modules {
            fs_err::create_dir_all(root.join(&placed.id))?;
        }
        Ok(())
    }
}

/// Writes a JSON file for people too.
fn write_json(path: &Path, value: &Value) -> Result<(), Error> {
    Ok(fs_err::write(path, format!("{value:#}\n"))?)
}

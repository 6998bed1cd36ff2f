//! A folder for what a run writes and nobody keeps.

use std::path::Path;

use super::error::Result;

/// Begins the name of a run's scratch folder; its process id follows.
pub(crate) const SCRATCH: &str = "scratch-";

/// Does something with a folder of this process under `cache`, which is removed afterwards, whether that succeeded or not.
pub fn in_scratch<T>(cache: &Path, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    let scratch = cache.join(format!("{SCRATCH}{}", std::process::id()));
    fs_err::create_dir_all(&scratch)?;
    let scratch = fs_err::canonicalize(scratch)?;
    let done = work(&scratch);
    fs_err::remove_dir_all(&scratch)?;
    done
}

//! The highest number of a generation that is not here: `.newest-generation`, one decimal number. After a roll-back,
//! generations above the current one may be removed, or may be left in the store from which the index was pulled, and
//! their numbers are not given to others: a copy of the index elsewhere may still have them.

use std::path::Path;

use dyad_files::write_atomic;

use crate::error::{Error, Result};
use crate::storage::WriteLock;

/// The file's name.
pub const NEWEST: &str = ".newest-generation";

/// What to do about a file that holds no number.
const DAMAGED: &str = "Write the highest number there that a generation of this index ever had, or remove the file: then \
                       numbers of removed generations may come again";

/// The number that the file holds; 0 where there is none.
pub(super) fn newest_removed(index: &Path) -> Result<u64> {
    let path = index.join(NEWEST);
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    text.trim_end().parse().map_err(|_| Error::Format {
        path,
        part: "content".to_owned(),
        expected: "the number of a generation".to_owned(),
        got: format!("`{}`", text.trim_end().escape_debug()),
        hint: DAMAGED,
    })
}

/// Notes that a number was given to a generation that is not here: one that is about to be removed, or that only a
/// store has. The lock proves that no other process does.
pub fn note_number(index: &Path, generation: u64, _lock: &WriteLock) -> Result<()> {
    if generation > newest_removed(index)? {
        write_atomic(&index.join(NEWEST), format!("{generation}\n").as_bytes())?;
    }
    Ok(())
}

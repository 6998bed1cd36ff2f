//! The predecessor of a generation.

use std::path::Path;

use super::intent::generations;
use super::store::load;
use crate::error::{Error, Result};

/// The generation that a roll-back from `generation` goes to where no other is named: the one that was current when it
/// was published. Where that is not known, or is gone, the newest published one with a smaller number.
pub fn predecessor(index: &Path, generation: u64) -> Result<u64> {
    let published = generations(index)?;
    let before = |candidate: &u64| *candidate < generation && published.contains(candidate);
    let parent = load(index, generation)
        .ok()
        .and_then(|manifest| manifest.parent)
        .filter(before);
    let newest = || published.iter().rev().copied().find(before);
    parent.or_else(newest).ok_or_else(|| Error::Oldest {
        path: index.to_owned(),
        generation,
    })
}

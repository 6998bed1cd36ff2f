//! The files in a folder that are a document each, and in the folders in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::format::{CorpusFormat, ending, format_in_folder, titles_of_documents};
use crate::error::Error;

/// Most endings that are told.
const TOLD_ENDINGS: usize = 8;

/// What else is in a folder, which is not read.
#[derive(Debug, Default)]
pub(super) struct OtherFiles {
    /// Files by the endings of their names.
    by_ending: BTreeMap<String, u64>,
    /// Symbolic links to folders, and to what is not there.
    links: u64,
}

impl OtherFiles {
    /// Such as `3 .png, 1 without an ending`, the most frequent first; nothing where there are none.
    pub(super) fn listed(&self) -> Option<String> {
        let mut endings: Vec<(&String, u64)> = self.by_ending.iter().map(|(name, count)| (name, *count)).collect();
        endings.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let named = |(ending, count): &(&String, u64)| match ending.as_str() {
            "" => format!("{count} without an ending"),
            ending => format!("{count} .{}", ending.escape_debug()),
        };
        let mut told: Vec<String> = endings.iter().take(TOLD_ENDINGS).map(named).collect();
        let more: u64 = endings.iter().skip(TOLD_ENDINGS).map(|(_, count)| count).sum();
        if more > 0 {
            told.push(format!("{more} others"));
        }
        if self.links > 0 {
            told.push(format!("{} symbolic links to folders or to nothing", self.links));
        }
        (!told.is_empty()).then(|| told.join(", "))
    }

    /// A warning that they are left out.
    pub(super) fn warning(&self) -> Option<String> {
        Some(format!(
            "files that are no {} are left out: {}",
            titles_of_documents("or"),
            self.listed()?
        ))
    }
}

/// Finds the files in a folder whose names say that they are a document each, in the order of their paths. Hidden files
/// and folders are left out, and symbolic links to folders are not followed, so that none is met twice.
pub(super) fn text_files(root: &Path, others: &mut OtherFiles) -> Result<Vec<(PathBuf, CorpusFormat)>, Error> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = entry.path();
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() && !path.is_file() {
                others.links += 1;
            } else {
                match format_in_folder(&path).filter(|_| path.is_file()) {
                    Some(format) => found.push((path, format)),
                    None => *others.by_ending.entry(ending(&path).unwrap_or_default()).or_default() += 1,
                }
            }
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_endings_are_told_in_short() {
        let mut others = OtherFiles::default();
        assert_eq!(others.warning(), None);
        for number in 0..20 {
            others.by_ending.insert(format!("e{number:02}"), 1);
        }
        others.by_ending.insert(String::new(), 3);
        others.links = 2;
        assert_eq!(
            others.listed().unwrap(),
            "3 without an ending, 1 .e00, 1 .e01, 1 .e02, 1 .e03, 1 .e04, 1 .e05, 1 .e06, 13 others, 2 symbolic links to folders or to nothing"
        );
    }
}

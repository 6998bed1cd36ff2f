//! Names of manifests, and `CURRENT`: the name and checksum of the current one.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// The pointer's file.
pub const POINTER: &str = "CURRENT";

/// File name of a generation's manifest.
pub fn manifest_name(generation: u64) -> String {
    format!("manifest-{generation:06}.json")
}

/// Only of a name that [`manifest_name`] gives: others, as `manifest-+5.json`, are no manifests.
pub(super) fn generation_of(name: &str) -> Option<u64> {
    let generation = name.strip_prefix("manifest-")?.strip_suffix(".json")?.parse().ok()?;
    (manifest_name(generation) == name).then_some(generation)
}

/// A pointer or a manifest that cannot be used.
pub(super) fn damaged(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    let hint = "Put an intact copy there (written under another name, then `mv`), make another generation current with \
                `dyad-indexer rollback --index DIR --to GENERATION`, or build again";
    Error::Format {
        path,
        part: part.to_owned(),
        expected,
        got,
        hint,
    }
}

/// The pointer's content: file name and checksum.
pub(super) fn read_pointer(index: &Path) -> Result<Option<(String, u32)>> {
    let path = index.join(POINTER);
    let text = match fs_err::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (generation, checksum) = parse_pointer(&path, &text)?;
    Ok(Some((manifest_name(generation), checksum)))
}

/// The generation and the checksum of its manifest in the text of a `CURRENT`; `path` is for errors.
pub fn parse_pointer(path: &Path, text: &str) -> Result<(u64, u32)> {
    let parsed = text.trim_end().split_once(' ');
    let parsed =
        parsed.and_then(|(name, checksum)| Some((generation_of(name)?, u32::from_str_radix(checksum, 16).ok()?)));
    parsed.ok_or_else(|| {
        let (expected, got) = (
            "`manifest-NNNNNN.json CHECKSUM`",
            format!("`{}`", text.trim_end().escape_debug()),
        );
        damaged(path.to_owned(), "content", expected.to_owned(), got)
    })
}

/// The text of a `CURRENT` that names a manifest of these bytes.
pub fn pointer_to(generation: u64, manifest: &[u8]) -> String {
    format!("{} {:08x}\n", manifest_name(generation), crc32c::crc32c(manifest))
}

/// Number of the generation that `CURRENT` names; none where there is no index yet.
pub fn current_generation(index: &Path) -> Result<Option<u64>> {
    Ok(read_pointer(index)?.and_then(|(name, _)| generation_of(&name)))
}

/// The names in a directory.
pub(super) fn names(index: &Path) -> Result<Vec<String>> {
    let name = |entry: std::io::Result<fs_err::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
    fs_err::read_dir(index)?.map(name).collect()
}

/// Numbers that names hold, ascending.
pub(super) fn numbers(names: &[String], number: impl Fn(&str) -> Option<u64>) -> Vec<u64> {
    let mut found: Vec<u64> = names.iter().filter_map(|name| number(name)).collect();
    found.sort_unstable();
    found
}

//! The names of shards, and of what is changed of them: by generation, number and content.

use dyad_index::manifest::FileEntry;
use xxhash_rust::xxh3::Xxh3;

/// Name of a shard's deletions, changed metadata or calibration, by the generation that it is made for.
pub(crate) fn change_name(generation: u64, shard: &str) -> String {
    format!("{generation:06}-{shard}")
}

/// Whether a name under `deletions/`, `metadata/` or `calibrations/` has the form that this file gives, complete or
/// not.
pub(crate) fn is_change_name(name: &str) -> bool {
    let Some((generation, rest)) = name.split_once('-') else {
        return false;
    };
    let id = rest.split_once(".dyad").map_or(rest, |(id, _)| id);
    generation.len() >= 6 && generation.bytes().all(|byte| byte.is_ascii_digit()) && is_shard_id(id)
}

/// Name of a shard, by the generation that it is made for, its number and its content.
pub(crate) fn shard_id(generation: u64, number: usize, files: &[FileEntry]) -> String {
    format!("{generation:06}-{number:04}-{:016x}", content_hash(files))
}

/// Whether a name under `shards/` has the form that this file gives.
pub(crate) fn is_shard_id(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [generation, number, hash] = parts[..] else {
        return false;
    };
    let digits = |part: &str, least: usize| part.len() >= least && part.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits(generation, 6) && digits(number, 4) && hash.len() == 16 && hash.bytes().all(hex)
}

/// Digest of files by their names, lengths and checksums.
pub(crate) fn content_hash(files: &[FileEntry]) -> u64 {
    let mut hash = Xxh3::new();
    for file in files {
        hash.update(file.path.as_bytes());
        hash.update(&file.bytes.to_le_bytes());
        hash.update(&file.crc32c.to_le_bytes());
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shards_are_told_from_others() {
        for generation in [1, 1_234_567] {
            let id = shard_id(generation, 12, &[]);
            assert!(is_shard_id(&id), "{id}");
        }
        for other in [
            "",
            "a",
            "000001-0000",
            "000001-0000-xyz",
            "000001-0000-0123456789ABCDEF",
            "00001-0000-0123456789abcdef",
        ] {
            assert!(!is_shard_id(other), "{other}");
        }
    }
}

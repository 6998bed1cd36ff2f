//! Publishes a generation: moves complete shards into place, then the pointer. A crash at any point leaves the previous
//! generation intact.
//!
//! Only this part of a build holds the index's lock, for milliseconds. Where another build has published in the meantime,
//! the one that ends last is current: a build indexes a whole corpus and uses nothing of the previous generation, which stays
//! on disk for a rollback.
//!
//! Shards are named by generation, number and content: no name is used twice, so nothing that an existing generation
//! names is ever touched.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use dyad_files::sync_dir;
use dyad_index::manifest::{self, FileEntry, MANIFEST_VERSION, Manifest, SHARDS_DIR, ShardEntry};
use dyad_index::storage::WriteLock;
use dyad_index::{Certificate, ModelRecord};
use xxhash_rust::xxh3::Xxh3;

use crate::TOOL;
use crate::error::Error;

/// A complete shard that no manifest names yet.
#[derive(Debug)]
pub(crate) struct CompleteShard {
    /// Its path.
    pub(crate) dir: PathBuf,
    /// Documents in it.
    pub(crate) documents: u64,
    /// Every file, by path.
    pub(crate) files: Vec<FileEntry>,
    /// Its certificate.
    pub(crate) certificate: Certificate,
}

/// Refuses another model than that of the current generation. Where there is no generation, or
/// none that can be read, any model will do.
pub(crate) fn check_model(index: &Path, model: &ModelRecord) -> Result<(), Error> {
    match manifest::current(index) {
        Ok(current) if !current.model.same_space(model) => Err(Error::OtherModel {
            index: index.to_owned(),
            generation: current.generation,
            expected: Box::new(current.model),
            got: Box::new(model.clone()),
        }),
        _ => Ok(()),
    }
}

/// Moves `built` under `shards/` and publishes them as the next generation; the model must be that of the current
/// generation, or `new_model` true.
///
/// If it fails before `CURRENT` is moved, it undoes its changes.
pub(crate) fn publish(
    index: &Path,
    model: &ModelRecord,
    new_model: bool,
    built: &[CompleteShard],
) -> Result<Manifest, Error> {
    let lock = WriteLock::acquire(index)?;
    if !new_model {
        check_model(index, model)?;
    }
    manifest::settle(index, &lock)?;
    let generation = manifest::next_generation(index, &lock)?;
    let mut moved = Vec::with_capacity(built.len());
    let published = move_and_point(index, &lock, model, built, generation, &mut moved);
    if published.is_err() && manifest::current_generation(index).ok().flatten() != Some(generation) {
        take_back(index, generation, &moved, &lock);
    }
    published
}

fn move_and_point(
    index: &Path,
    lock: &WriteLock,
    model: &ModelRecord,
    built: &[CompleteShard],
    generation: u64,
    moved: &mut Vec<PathBuf>,
) -> Result<Manifest, Error> {
    let shards_dir = index.join(SHARDS_DIR);
    fs_err::create_dir_all(&shards_dir)?;
    let mut shards = Vec::with_capacity(built.len());
    for (number, shard) in built.iter().enumerate() {
        let id = shard_id(generation, number, &shard.files);
        let path = shards_dir.join(&id);
        fs_err::rename(&shard.dir, &path)?;
        moved.push(path);
        shards.push(ShardEntry { id, documents: shard.documents, files: shard.files.clone() });
    }
    sync_dir(&shards_dir)?;
    sync_dir(index)?;
    let manifest = Manifest {
        format_version: MANIFEST_VERSION,
        generation,
        // A pointer that cannot be read is replaced: this build repairs it.
        parent: manifest::current_generation(index).ok().flatten(),
        created_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        tool: TOOL.to_owned(),
        model: model.clone(),
        shards,
    };
    manifest::publish(index, &manifest, lock)?;
    Ok(manifest)
}

/// The manifest goes first: a manifest without its shards would be worse than shards without a manifest.
fn take_back(index: &Path, generation: u64, moved: &[PathBuf], lock: &WriteLock) {
    let manifest = index.join(format!("manifest-{generation:06}.json"));
    let removed = if manifest.exists() { fs_err::remove_file(manifest) } else { Ok(()) };
    let removed = removed.map_err(dyad_index::Error::from).and_then(|()| manifest::settle(index, lock));
    let removed = removed.and_then(|()| moved.iter().try_for_each(|shard| Ok(fs_err::remove_dir_all(shard)?)));
    if let Err(error) = removed {
        tracing::warn!("{error}; the next build will remove it");
    }
}

fn shard_id(generation: u64, number: usize, files: &[FileEntry]) -> String {
    format!("{generation:06}-{number:04}-{:016x}", content_hash(files))
}

/// Whether a name under `shards/` has the form that this file gives.
pub(crate) fn is_shard_id(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [generation, number, hash] = parts[..] else { return false };
    let digits = |part: &str, least: usize| part.len() >= least && part.bytes().all(|byte| byte.is_ascii_digit());
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits(generation, 6) && digits(number, 4) && hash.len() == 16 && hash.bytes().all(hex)
}

fn content_hash(files: &[FileEntry]) -> u64 {
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
    use dyad_index::Metric;

    use super::*;

    fn model() -> ModelRecord {
        ModelRecord { name: "m".into(), fingerprint: "f".into(), dim: 2, metric: Metric::Cosine, max_tokens: 8 }
    }

    fn built(index: &Path, name: &str) -> CompleteShard {
        let dir = index.join(name);
        fs_err::create_dir_all(&dir).unwrap();
        fs_err::write(dir.join("dense.dyad"), name).unwrap();
        let files = vec![FileEntry { path: "dense.dyad".into(), bytes: name.len() as u64, crc32c: 1 }];
        CompleteShard { dir, documents: 1, files, certificate: Certificate::default() }
    }

    #[test]
    fn generations_follow_the_newest_even_after_a_roll_back() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        for expected in 1..=2u64 {
            let manifest = publish(index, &model(), false, &[built(index, "x")]).unwrap();
            assert_eq!((manifest.generation, manifest.parent), (expected, expected.checked_sub(1).filter(|p| *p > 0)));
        }
        manifest::point_to(index, 1, &WriteLock::acquire(index).unwrap()).unwrap();
        let third = publish(index, &model(), false, &[built(index, "x")]).unwrap();
        assert_eq!((third.generation, third.parent), (3, Some(1)));
        assert_eq!(manifest::predecessor(index, 3).unwrap(), 1);
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 3);
        assert_eq!(manifest::current_generation(index).unwrap(), Some(3));
    }

    #[test]
    fn builds_that_end_together_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        let publish_one = |name: String| publish(index, &model(), false, &[built(index, &name)]).unwrap().generation;
        let mut numbers: Vec<u64> = std::thread::scope(|scope| {
            let builds: Vec<_> = (0..6).map(|at| scope.spawn(move || publish_one(format!("x{at}")))).collect();
            builds.into_iter().map(|build| build.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
        assert_eq!(manifest::current_generation(index).unwrap(), Some(6));
        let mut shards: Vec<String> = manifest::generations(index)
            .unwrap()
            .into_iter()
            .flat_map(|generation| manifest::load(index, generation).unwrap().shards)
            .map(|shard| shard.id)
            .collect();
        shards.sort_unstable();
        shards.dedup();
        assert_eq!(shards.len(), 6);
        assert!(shards.iter().all(|id| index.join(SHARDS_DIR).join(id).join("dense.dyad").exists()));
    }

    #[test]
    fn another_model_is_published_only_where_it_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        publish(index, &model(), false, &[built(index, "x")]).unwrap();
        let renamed = ModelRecord { name: "another folder".into(), ..model() };
        publish(index, &renamed, false, &[built(index, "x")]).unwrap();
        let other = ModelRecord { fingerprint: "beef".into(), ..model() };
        let refused = publish(index, &other, false, &[built(index, "x")]).unwrap_err().to_string();
        assert!(["generation 2", "fingerprint f", "beef", "--new-model"].iter().all(|part| refused.contains(part)));
        assert_eq!(manifest::current(index).unwrap().generation, 2);
        assert_eq!(publish(index, &other, true, &[built(index, "y")]).unwrap().generation, 3);
    }

    #[test]
    fn names_of_shards_are_told_from_others() {
        for generation in [1, 1_234_567] {
            let id = shard_id(generation, 12, &[]);
            assert!(is_shard_id(&id), "{id}");
        }
        for other in
            ["", "a", "000001-0000", "000001-0000-xyz", "000001-0000-0123456789ABCDEF", "00001-0000-0123456789abcdef"]
        {
            assert!(!is_shard_id(other), "{other}");
        }
    }

    #[test]
    fn a_failure_takes_back_what_was_moved() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        publish(index, &model(), false, &[built(index, "x")]).unwrap();
        let good = built(index, "y");
        let mut missing = built(index, "z");
        missing.dir = index.join("nowhere");
        assert!(publish(index, &model(), false, &[good, missing]).is_err());
        assert_eq!(manifest::current(index).unwrap().generation, 1);
        assert_eq!(manifest::generations(index).unwrap(), [1]);
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 1);
        // The last step fails: there is a directory with the name of the next pointer.
        fs_err::create_dir(index.join(format!("CURRENT.tmp-{}", std::process::id()))).unwrap();
        assert!(publish(index, &model(), false, &[built(index, "w")]).is_err());
        assert_eq!(manifest::generations(index).unwrap(), [1]);
        assert!(!index.join("manifest-000002.json").exists() && !index.join(".publishing-000002").exists());
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 1);
    }
}

//! Publishes a generation: moves complete shards into place, then the pointer. A crash at any point leaves the previous
//! generation intact.
//!
//! Only this part of a job holds the index's lock, for milliseconds. Where another job has published in the meantime, a
//! build becomes current all the same: it indexes a whole corpus and uses nothing of the previous generation, which
//! stays on disk for a rollback. A change of the previous generation is prepared again, from the one that is current
//! then (`change/`).
//!
//! Shards are named by generation, number and content, and deletions by generation and shard: no name is used twice, so
//! nothing that an existing generation names is ever touched.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crc32c::crc32c;
use dyad_index::ModelRecord;
use dyad_index::manifest::{
    self, CALIBRATIONS_DIR, CalibrationEntry, DELETIONS_DIR, DeletedEntry, FileEntry, METADATA_DIR, Manifest,
    MetadataEntry, SHARDS_DIR, ShardEntry,
};
use dyad_index::storage::WriteLock;
use fail::fail_point;

use crate::TOOL;
use crate::draft::{CompleteCalibration, CompleteUpdates, Draft, DraftShard, ShardFiles};
use crate::error::Error;
use crate::shard_names::{change_name, shard_id};

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

/// Moves new files into place and publishes the next generation; none where another generation than the draft's parent
/// is current, and nothing was changed. The model must be that of the current generation, or `new_model` true.
///
/// If it fails before `CURRENT` is moved, it undoes its changes.
pub(crate) fn publish(index: &Path, draft: Draft, new_model: bool) -> Result<Option<Manifest>, Error> {
    fail_point!("publish-begin");
    let lock = WriteLock::acquire(index)?;
    publish_locked(index, draft, new_model, &lock)
}

/// The same for a caller that holds the index's lock.
pub(crate) fn publish_locked(
    index: &Path,
    draft: Draft,
    new_model: bool,
    lock: &WriteLock,
) -> Result<Option<Manifest>, Error> {
    // A pointer that cannot be read is replaced: a build repairs it.
    let current = manifest::current_generation(index);
    if draft.parent.is_some() && current? != draft.parent {
        return Ok(None);
    }
    if !new_model {
        check_model(index, &draft.model)?;
    }
    draft.check_recall()?;
    if draft.parent.is_some() {
        draft.check_kind(&manifest::current(index)?)?;
    }
    let generation = manifest::next_generation(index, lock)?;
    let mut moved = Vec::with_capacity(draft.shards.len());
    let published = move_and_point(index, lock, draft, generation, &mut moved);
    if published.is_err() && manifest::current_generation(index).ok().flatten() != Some(generation) {
        take_back(index, generation, &moved, lock);
    }
    published.map(Some)
}

fn move_and_point(
    index: &Path,
    lock: &WriteLock,
    draft: Draft,
    generation: u64,
    moved: &mut Vec<Moved>,
) -> Result<Manifest, Error> {
    let (shards_dir, deletions_dir) = (index.join(SHARDS_DIR), index.join(DELETIONS_DIR));
    let (metadata_dir, calibrations_dir) = (index.join(METADATA_DIR), index.join(CALIBRATIONS_DIR));
    fs_err::create_dir_all(&shards_dir)?;
    let mut shards = Vec::with_capacity(draft.shards.len());
    // What has to be durable before the manifest is.
    let mut written = Vec::new();
    for DraftShard {
        files,
        deletions,
        updates,
        calibration,
    } in draft.shards
    {
        let mut entry = match files {
            ShardFiles::Kept(entry) => *entry,
            ShardFiles::Built(shard) => {
                let id = shard_id(generation, moved.len(), &shard.files);
                move_into(&shard.dir, &shards_dir, &id, moved)?;
                ShardEntry {
                    id,
                    documents: shard.documents,
                    files: shard.files.clone(),
                    deleted: None,
                    metadata: None,
                    calibration: None,
                }
            }
        };
        if let Some(deletions) = deletions {
            fs_err::create_dir_all(&deletions_dir)?;
            let name = format!("{}.dyad", change_name(generation, &entry.id));
            let (path, bytes) = (deletions_dir.join(&name), deletions.to_bytes()?);
            moved.push(Moved {
                from: None,
                to: path.clone(),
            });
            fs_err::write(&path, &bytes)?;
            written.push(path);
            let file = FileEntry {
                path: name,
                bytes: bytes.len() as u64,
                crc32c: crc32c(&bytes),
            };
            entry.deleted = Some(DeletedEntry {
                documents: deletions.len() as u64,
                file,
            });
        }
        if let Some(CompleteUpdates { dir, documents, files }) = updates {
            let id = change_name(generation, &entry.id);
            fs_err::create_dir_all(&metadata_dir)?;
            move_into(&dir, &metadata_dir, &id, moved)?;
            entry.metadata = Some(MetadataEntry { id, documents, files });
        }
        if let Some(CompleteCalibration { dir, questions, files }) = calibration {
            let id = change_name(generation, &entry.id);
            fs_err::create_dir_all(&calibrations_dir)?;
            move_into(&dir, &calibrations_dir, &id, moved)?;
            entry.calibration = Some(CalibrationEntry { id, questions, files });
        }
        shards.push(entry);
    }
    // The index's own directory is made durable with the mark of this publish.
    let folders = [shards_dir, deletions_dir, metadata_dir, calibrations_dir];
    let is_changed = |folder: &PathBuf| moved.iter().any(|one| one.to.starts_with(folder));
    written.extend(folders.into_iter().filter(is_changed));
    fail_point!("manifest-begin");
    let current = manifest::current(index)
        .ok()
        .filter(|current| current.model.same_space(&draft.model));
    let logit_scale = draft
        .logit_scale
        .or_else(|| current.and_then(|current| current.logit_scale));
    let manifest = Manifest {
        format_version: Manifest::version(&draft.model, draft.context.as_deref()),
        generation,
        parent: manifest::current_generation(index).ok().flatten(),
        created_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        tool: TOOL.to_owned(),
        model: draft.model,
        context: draft.context,
        logit_scale,
        min_recall: draft.min_recall,
        language: draft.language,
        change: Some(draft.change),
        shards,
    };
    manifest::publish(index, &manifest, &written, lock)?;
    fail_point!("published");
    Ok(manifest)
}

/// What a publish has put into its place.
struct Moved {
    /// Where it was, of a directory.
    from: Option<PathBuf>,
    to: PathBuf,
}

fn move_into(from: &Path, dir: &Path, name: &str, moved: &mut Vec<Moved>) -> Result<(), Error> {
    fail_point!("directory-move");
    let to = dir.join(name);
    fs_err::rename(from, &to)?;
    moved.push(Moved {
        from: Some(from.to_owned()),
        to,
    });
    Ok(())
}

/// The manifest goes first: a manifest without its shards would be worse than shards without a manifest. Directories go
/// back to where they were, for a repetition of the job.
fn take_back(index: &Path, generation: u64, moved: &[Moved], lock: &WriteLock) {
    let manifest = index.join(format!("manifest-{generation:06}.json"));
    let removed = if manifest.exists() {
        fs_err::remove_file(manifest)
    } else {
        Ok(())
    };
    let removed = removed
        .map_err(dyad_index::Error::from)
        .and_then(|()| manifest::settle(index, lock).map(drop));
    let back = |Moved { from, to }: &Moved| match from {
        Some(from) => fs_err::rename(to, from).or_else(|_| remove(to)),
        None => remove(to),
    };
    let removed = removed.and_then(|()| moved.iter().try_for_each(|one| Ok(back(one)?)));
    if let Err(error) = removed {
        tracing::warn!("{error}; the next build will remove it");
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return fs_err::remove_dir_all(path);
    }
    // A deletions file that was not written yet.
    if path.exists() {
        fs_err::remove_file(path)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use dyad_index::TextLanguage;
    use dyad_index::manifest::Change;
    use dyad_index::{Certificate, Metric};

    use super::*;
    use crate::draft::CompleteShard;

    fn model() -> ModelRecord {
        ModelRecord {
            name: "m".into(),
            fingerprint: "f".into(),
            dim: 2,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens: 8,
        }
    }

    fn publish(index: &Path, model: &ModelRecord, new: bool, built: Vec<CompleteShard>) -> Result<Manifest, Error> {
        let shards = built
            .into_iter()
            .map(|shard| DraftShard::built(&Arc::new(shard)))
            .collect();
        let change = Change {
            operation: "build".to_owned(),
            ..Change::default()
        };
        let draft = Draft {
            parent: None,
            model: model.clone(),
            context: None,
            logit_scale: None,
            min_recall: None,
            language: TextLanguage::English,
            change,
            shards,
        };
        super::publish(index, draft, new).map(|manifest| manifest.expect("no parent is asked for"))
    }

    fn built(index: &Path, name: &str) -> CompleteShard {
        let dir = index.join(name);
        fs_err::create_dir_all(&dir).unwrap();
        fs_err::write(dir.join("dense.dyad"), name).unwrap();
        let files = vec![FileEntry {
            path: "dense.dyad".into(),
            bytes: name.len() as u64,
            crc32c: 1,
        }];
        CompleteShard {
            dir,
            documents: 1,
            files,
            certificate: Certificate::default(),
        }
    }

    #[test]
    fn generations_follow_the_newest_even_after_a_roll_back() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        for expected in 1..=2u64 {
            let manifest = publish(index, &model(), false, vec![built(index, "x")]).unwrap();
            assert_eq!(
                (manifest.generation, manifest.parent),
                (expected, expected.checked_sub(1).filter(|p| *p > 0))
            );
        }
        manifest::point_to(index, 1, &WriteLock::acquire(index).unwrap()).unwrap();
        let third = publish(index, &model(), false, vec![built(index, "x")]).unwrap();
        assert_eq!((third.generation, third.parent), (3, Some(1)));
        assert_eq!(manifest::predecessor(index, 3).unwrap(), 1);
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 3);
        assert_eq!(manifest::current_generation(index).unwrap(), Some(3));
    }

    #[test]
    fn builds_that_end_together_take_turns() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        let publish_one = |name: String| {
            publish(index, &model(), false, vec![built(index, &name)])
                .unwrap()
                .generation
        };
        let mut numbers: Vec<u64> = std::thread::scope(|scope| {
            let builds: Vec<_> = (0..6)
                .map(|at| scope.spawn(move || publish_one(format!("x{at}"))))
                .collect();
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
        assert!(
            shards
                .iter()
                .all(|id| index.join(SHARDS_DIR).join(id).join("dense.dyad").exists())
        );
    }

    #[test]
    fn another_model_is_published_only_where_it_is_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        publish(index, &model(), false, vec![built(index, "x")]).unwrap();
        let renamed = ModelRecord {
            name: "another folder".into(),
            ..model()
        };
        publish(index, &renamed, false, vec![built(index, "x")]).unwrap();
        let other = ModelRecord {
            fingerprint: "beef".into(),
            ..model()
        };
        let refused = publish(index, &other, false, vec![built(index, "x")])
            .unwrap_err()
            .to_string();
        assert!(
            ["generation 2", "fingerprint f", "beef", "--new-model"]
                .iter()
                .all(|part| refused.contains(part))
        );
        assert_eq!(manifest::current(index).unwrap().generation, 2);
        assert_eq!(
            publish(index, &other, true, vec![built(index, "y")])
                .unwrap()
                .generation,
            3
        );
    }

    #[test]
    fn a_failure_takes_back_what_was_moved() {
        let dir = tempfile::tempdir().unwrap();
        let index = dir.path();
        publish(index, &model(), false, vec![built(index, "x")]).unwrap();
        let good = built(index, "y");
        let mut missing = built(index, "z");
        missing.dir = index.join("nowhere");
        assert!(publish(index, &model(), false, vec![good, missing]).is_err());
        assert_eq!(manifest::current(index).unwrap().generation, 1);
        assert_eq!(manifest::generations(index).unwrap(), [1]);
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 1);
        // The last step fails: there is a directory with the name of the next pointer.
        fs_err::create_dir(index.join(format!("CURRENT.tmp-{}", std::process::id()))).unwrap();
        assert!(publish(index, &model(), false, vec![built(index, "w")]).is_err());
        assert_eq!(manifest::generations(index).unwrap(), [1]);
        assert!(!index.join("manifest-000002.json").exists() && !index.join(".publishing-000002").exists());
        assert_eq!(fs_err::read_dir(index.join(SHARDS_DIR)).unwrap().count(), 1);
    }
}

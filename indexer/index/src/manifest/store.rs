//! Loads and publishes manifests, and moves the `CURRENT` pointer.

use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use dyad_files::{AtomicFile, sync_dir};

use super::intent::{self, generations};
use super::newest::{newest_removed, note_number};
use super::pointer::{POINTER, current_generation, damaged, manifest_name, pointer_to, read_pointer};
use super::reader_lock::remove_unread;
use super::record::{MANIFEST_VERSION, Manifest, ShardPart};
use crate::error::{Error, Result};
use crate::storage::WriteLock;

/// Largest [`Manifest::logit_scale`] that is read: at it, a cosine of 0.01 would be ten nats.
pub const MAX_LOGIT_SCALE: f64 = 1000.0;

/// A manifest by its bytes; `path` is for errors.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<Manifest> {
    #[derive(serde::Deserialize)]
    struct ManifestVersion {
        format_version: u32,
    }
    let broken =
        |error: serde_json::Error| damaged(path.to_owned(), "content", "a manifest".to_owned(), error.to_string());
    let version: ManifestVersion = serde_json::from_slice(bytes).map_err(broken)?;
    if version.format_version > MANIFEST_VERSION {
        return Err(Error::Newer {
            path: path.to_owned(),
            got: version.format_version,
            supported: MANIFEST_VERSION,
        });
    }
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(broken)?;
    if let Some(scale) = manifest
        .logit_scale
        .filter(|scale| !(*scale > 0.0 && *scale <= MAX_LOGIT_SCALE))
    {
        let expected = format!("a number above 0, at most {MAX_LOGIT_SCALE}");
        return Err(damaged(path.to_owned(), "logit_scale", expected, scale.to_string()));
    }
    // Names become paths, which must not lead out of the index.
    for shard in &manifest.shards {
        let bad = shard.parts().flat_map(ShardPart::names).find(|name| !is_plain(name));
        if let Some(name) = bad {
            return Err(damaged(
                path.to_owned(),
                "shards",
                "names inside the index".to_owned(),
                format!("`{}`", name.escape_debug()),
            ));
        }
    }
    Ok(manifest)
}

/// A generation by number. One that was never published is refused.
pub fn load(index: &Path, generation: u64) -> Result<Manifest> {
    if generations(index)?.binary_search(&generation).is_err() {
        return Err(absent(index, generation)?);
    }
    read(index, generation)
}

fn absent(index: &Path, generation: u64) -> Result<Error> {
    let present = generations(index)?
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    Ok(Error::NoGeneration {
        path: index.to_owned(),
        generation,
        present,
    })
}

fn read(index: &Path, generation: u64) -> Result<Manifest> {
    let path = index.join(manifest_name(generation));
    match fs_err::read(&path) {
        Ok(bytes) => parse(&path, &bytes),
        // Another job has removed it since it was listed.
        Err(error) if error.kind() == ErrorKind::NotFound => Err(absent(index, generation)?),
        Err(error) => Err(error.into()),
    }
}

/// The generation that `CURRENT` names; its checksum is verified.
pub fn current(index: &Path) -> Result<Manifest> {
    let none = || Error::NoIndex { path: index.to_owned() };
    let (mut name, mut checksum) = read_pointer(index)?.ok_or_else(none)?;
    let bytes = loop {
        match fs_err::read(index.join(&name)) {
            Ok(bytes) => break bytes,
            Err(error) => {
                let next = read_pointer(index)?.ok_or_else(none)?;
                // The pointer has moved, and the generation that it named was removed.
                if error.kind() != ErrorKind::NotFound || next.0 == name {
                    return Err(error.into());
                }
                (name, checksum) = next;
            }
        }
    };
    let path = index.join(name);
    let got = crc32c::crc32c(&bytes);
    if got != checksum {
        return Err(damaged(
            path,
            "checksum in `CURRENT`",
            format!("{checksum:08x}"),
            format!("{got:08x}"),
        ));
    }
    parse(&path, &bytes)
}

/// The number of the generation that is published next: above all that are there, also those above `CURRENT`, which a
/// roll-back leaves, and above those that were removed. The lock proves that no other process uses it. What killed
/// publishes have left is removed first, as [`settle`](super::settle) does.
pub fn next_generation(index: &Path, lock: &WriteLock) -> Result<u64> {
    let newest = intent::settle(index, lock)?.last().copied();
    // A pointer that cannot be read is replaced by the next publish, which repairs it.
    let newest = newest
        .max(current_generation(index).ok().flatten())
        .unwrap_or(0)
        .max(newest_removed(index)?);
    newest.checked_add(1).ok_or_else(|| {
        let (expected, got) = (
            "a generation that another one can follow".to_owned(),
            newest.to_string(),
        );
        let hint = "No build has made so many generations: remove the file";
        Error::Format {
            path: index.join(manifest_name(newest)),
            part: "name".to_owned(),
            expected,
            got,
            hint,
        }
    })
}

/// Writes a manifest of the number that [`next_generation`] has returned, and points `CURRENT` at it. The lock proves
/// that no other process does. A process that ends in between leaves a manifest that is no generation: [`generations`]
/// and [`load`] ignore it, and [`settle`](super::settle) removes it. `written` are files and directories of the
/// generation that may not be durable yet: they are before the manifest has its name.
pub fn publish(index: &Path, manifest: &Manifest, written: &[PathBuf], _lock: &WriteLock) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(manifest).map_err(std::io::Error::from)?;
    intent::begin(index, manifest.generation)?;
    put_manifest(index, manifest.generation, &bytes, written)?;
    point(index, manifest.generation)?;
    settled(index, manifest.generation, intent::end(index, manifest.generation))
}

/// What is said of a step after which `CURRENT` may name a generation: where it does, it was published all the same.
fn settled(index: &Path, generation: u64, ended: Result<()>) -> Result<()> {
    ended.map_err(|cause| match current_generation(index) {
        Ok(Some(current)) if current == generation => Error::Unsettled {
            path: index.to_owned(),
            generation,
            cause: Box::new(cause),
        },
        _ => cause,
    })
}

/// Writes the manifest of a generation that is marked, once its mark and what else was written are durable. Its name is
/// durable before `CURRENT` is moved.
fn put_manifest(index: &Path, generation: u64, bytes: &[u8], written: &[PathBuf]) -> Result<()> {
    let mut file = AtomicFile::create(&index.join(manifest_name(generation)))?;
    file.write_all(bytes)?;
    let before: Vec<&Path> = written.iter().map(PathBuf::as_path).chain([index]).collect();
    Ok(file.rename_after(&before)?)
}

/// Points `CURRENT` at a generation that is on disk and was published.
pub fn point_to(index: &Path, generation: u64, lock: &WriteLock) -> Result<()> {
    // The mark of a publish that was killed at its very end goes before `CURRENT` moves away from it.
    intent::settle(index, lock)?;
    load(index, generation)?;
    point(index, generation)
}

/// Removes a generation that is not current, unless a process of this machine reads it; says whether it was removed.
/// Its files stay. The lock proves that `CURRENT` does not move.
pub fn remove(index: &Path, generation: u64, lock: &WriteLock) -> Result<bool> {
    let current = current_generation(index)?;
    if current == Some(generation) {
        return Ok(false);
    }
    if current.is_none_or(|current| generation > current) {
        note_number(index, generation, lock)?;
    }
    let removed = remove_unread(index, generation)?;
    sync_dir(index)?;
    Ok(removed)
}

fn point(index: &Path, generation: u64) -> Result<()> {
    read(index, generation)?;
    let manifest = fs_err::read(index.join(manifest_name(generation)))?;
    let mut file = AtomicFile::create(&index.join(POINTER))?;
    file.write_all(pointer_to(generation, &manifest).as_bytes())?;
    file.rename_after(&[index])?;
    settled(index, generation, sync_dir(index).map_err(Error::from))
}

/// Publishes a generation that was published elsewhere under the same number, by the bytes of its manifest, whose files
/// are in place. Another manifest of that number is refused.
pub fn adopt(index: &Path, bytes: &[u8], lock: &WriteLock) -> Result<Manifest> {
    let manifest = parse(&index.join("manifest"), bytes)?;
    let path = index.join(manifest_name(manifest.generation));
    intent::settle(index, lock)?;
    if path.exists() {
        if fs_err::read(&path)? != bytes {
            let (expected, got) = ("the same manifest", "another one of this number");
            return Err(damaged(path, "content", expected.to_owned(), got.to_owned()));
        }
    } else {
        intent::begin(index, manifest.generation)?;
        put_manifest(index, manifest.generation, bytes, &[])?;
    }
    point(index, manifest.generation)?;
    settled(index, manifest.generation, intent::end(index, manifest.generation))?;
    Ok(manifest)
}

/// Whether a name stays below where it is joined to.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    !name.is_empty() && parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

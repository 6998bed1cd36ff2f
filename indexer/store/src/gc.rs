//! Removes from a store what nothing needs: generations that were replaced long ago, and what killed pushes and jobs have left.
//!
//! Manifests go first: one without its files would be worse than files without a manifest.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use dyad_index::manifest::{self, DELETIONS_DIR, METADATA_DIR, SHARDS_DIR};

use crate::error::{Error, Result};
use crate::files::files_of;
use crate::objects::Object;
use crate::remote::Remote;

/// What was removed, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// Generations whose manifests were removed, ascending.
    pub removed: Vec<u64>,
    /// Generations that are left.
    pub kept: Vec<u64>,
    /// Files that were removed.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Removes all generations but the current one, the newest `keep` of those before it, and those whose manifests were put within `older_than`; a manifest above
/// the current one, which a push has left that was killed or a rollback, goes by its age alone. Then files that no manifest names, put before
/// `older_than`: it has to be longer than any push or job takes. Nothing is removed where another generation becomes current meanwhile.
pub async fn gc(remote: &Remote, keep: usize, older_than: Duration, dry_run: bool) -> Result<Collected> {
    let _alone = remote.alone()?;
    let current = remote.current().await?;
    let now = SystemTime::now();
    let is_old = |object: &Object| now.duration_since(object.modified).is_ok_and(|age| age >= older_than);
    let objects = remote.list("").await?;
    let number = |object: &Object| {
        let number: u64 = object.name.strip_prefix("manifest-")?.strip_suffix(".json")?.parse().ok()?;
        (manifest::manifest_name(number) == object.name).then_some(number)
    };
    let present: Vec<(u64, &Object)> = objects.iter().filter_map(|object| Some((number(object)?, object))).collect();
    let current_number = current.as_ref().map_or(0, |current| current.manifest.generation);
    let before = present.iter().filter(|(number, _)| *number < current_number).count();
    let oldest_kept = before.saturating_sub(keep.saturating_sub(1));
    let (mut collected, mut named, mut unneeded) = (Collected::default(), BTreeSet::new(), Vec::new());
    for (at, (generation, object)) in present.iter().enumerate() {
        let is_replaced = if *generation < current_number { at < oldest_kept } else { *generation > current_number };
        if is_replaced && is_old(object) {
            collected.removed.push(*generation);
            unneeded.push(object.name.clone());
            continue;
        }
        collected.kept.push(*generation);
        let bytes = remote.read(&object.name).await?.unwrap_or_default();
        let manifest = manifest::parse(&std::path::Path::new(remote.url()).join(&object.name), &bytes)?;
        named.extend(files_of(&manifest).into_iter().map(|file| file.entry.path));
    }
    let is_ours =
        |name: &str| [SHARDS_DIR, DELETIONS_DIR, METADATA_DIR].iter().any(|dir| name.split('/').next() == Some(dir));
    let unnamed =
        objects.iter().filter(|object| is_ours(&object.name) && !named.contains(&object.name) && is_old(object));
    let mut files = Vec::new();
    for object in unnamed {
        collected.files += 1;
        collected.bytes += object.bytes;
        files.push(object.name.clone());
    }
    if !dry_run {
        let now = remote.current().await?;
        if now.as_ref().map(|now| &now.pointer) != current.as_ref().map(|then| &then.pointer) {
            let generation = now.map_or(0, |now| now.manifest.generation);
            return Err(Error::Raced { url: remote.url().to_owned(), generation });
        }
        remote.remove(&unneeded).await?;
        remote.remove(&files).await?;
    }
    Ok(collected)
}

//! A generation published whose files are in the store already: the manifest where there is none of its number, then
//! `CURRENT` by a conditional put.

use std::collections::BTreeMap;

use dyad_index::manifest::{self, Manifest};

use crate::error::{Error, Result};
use crate::files::files_of;
use crate::remote::{Current, RemoteStore};

/// What a commit found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The generation is current now, by this commit.
    Now,
    /// It was published before: it is current, or later ones have followed.
    Before,
}

/// Publishes a manifest (`bytes`) over the generation that it was planned on: `base` is that one's `CURRENT`, none
/// where there was no index. All files have to be there. Whatever ends it, readers of the store find the generation
/// before, or this one; of two commits at once, one wins.
pub async fn commit(remote: &RemoteStore, base: Option<&str>, bytes: &[u8]) -> Result<Committed> {
    let manifest = manifest::parse(std::path::Path::new(remote.url()), bytes)?;
    let (generation, pointer) = (manifest.generation, manifest::pointer_to(manifest.generation, bytes));
    let _alone = remote.alone()?;
    let there = remote.current().await?;
    if let Some(there) = &there
        && (there.pointer == pointer || follows(remote, there, generation, bytes).await?)
    {
        return Ok(Committed::Before);
    }
    refuse_others(remote, base, there.as_ref())?;
    check_files(remote, &manifest).await?;
    let name = manifest::manifest_name(generation);
    remote.reserve(there.as_ref(), &name, generation, bytes).await?;
    if remote.point(there.as_ref(), &pointer).await? {
        remote.published(generation).await?;
        return Ok(Committed::Now);
    }
    // A request that was answered too late and sent again has done it, or another commit of this very generation.
    let now = remote.current().await?;
    match &now {
        Some(now) if now.pointer == pointer => Ok(Committed::Before),
        Some(now) if follows(remote, now, generation, bytes).await? => Ok(Committed::Before),
        now => {
            refuse_others(remote, base, now.as_ref())?;
            Err(Error::Raced {
                url: remote.url().to_owned(),
                generation: now.as_ref().map_or(0, generation_of),
            })
        }
    }
}

/// Whether a manifest (`bytes`) has been published: its generation is current, or later ones have followed.
pub async fn is_published(remote: &RemoteStore, bytes: &[u8]) -> Result<bool> {
    let generation = manifest::parse(std::path::Path::new(remote.url()), bytes)?.generation;
    let Some(there) = remote.current().await? else {
        return Ok(false);
    };
    Ok(there.pointer == manifest::pointer_to(generation, bytes) || follows(remote, &there, generation, bytes).await?)
}

fn generation_of(current: &Current) -> u64 {
    current.manifest.generation
}

/// Whether the current generation came after this one, by the parents that manifests name.
async fn follows(remote: &RemoteStore, current: &Current, generation: u64, bytes: &[u8]) -> Result<bool> {
    let mut parent = current.manifest.parent;
    while let Some(number) = parent.filter(|number| *number >= generation) {
        let name = manifest::manifest_name(number);
        let Some(found) = remote.read(&name).await? else {
            return Ok(false);
        };
        if number == generation {
            return Ok(found == bytes);
        }
        let earlier = manifest::parse(std::path::Path::new(&name), &found)?.parent;
        parent = earlier.filter(|earlier| *earlier < number);
    }
    Ok(false)
}

fn refuse_others(remote: &RemoteStore, base: Option<&str>, there: Option<&Current>) -> Result<()> {
    let got = there.map(|there| there.pointer.as_str());
    if got == base {
        return Ok(());
    }
    let say =
        |pointer: Option<&str>| pointer.map_or_else(|| "no generation".to_owned(), |text| format!("`{}`", text.trim()));
    Err(Error::Moved {
        url: remote.url().to_owned(),
        expected: say(base),
        got: say(got),
    })
}

/// Each file is there, with its length.
async fn check_files(remote: &RemoteStore, manifest: &Manifest) -> Result<()> {
    let mut there = BTreeMap::new();
    for shard in &manifest.shards {
        let listed = remote.list(&format!("{}/{}", manifest::SHARDS_DIR, shard.id)).await?;
        there.extend(listed.into_iter().map(|object| (object.name, object.bytes)));
    }
    for file in files_of(manifest) {
        let (path, expected) = (file.entry.path, file.entry.bytes);
        let got = there.get(&path).copied();
        if got != Some(expected) {
            let got = got.map_or_else(|| "none".to_owned(), |bytes| format!("{bytes} bytes"));
            return Err(remote.damaged(&path, "object", format!("{expected} bytes"), got));
        }
    }
    Ok(())
}

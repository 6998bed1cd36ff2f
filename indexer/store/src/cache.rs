//! Directories that mirror the indexes of stores, within a number of bytes: one for each URL, below the folder of the
//! cache, under a name that is the same after a restart.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dyad_files::Cancel;
use dyad_files::space::SpaceError;
use dyad_index::manifest;

use crate::error::{Error, Result};
use crate::evict::{self, EvictableGeneration};
use crate::fetched::FetchedRecord;
use crate::files::{IndexFile, files_of_part};
use crate::learned::Direction;
use crate::pull::{PullOptions, Pulled, Pulling, STAGING, is_current, missing, pull_generation};
use crate::remote::{Current, RemoteStore};

/// Longest part of a URL in the name of its directory.
const NAME: usize = 60;

/// How long a mirror waits for another process that fetches its index.
const PATIENCE: Duration = Duration::from_millis(500);

/// A folder of mirrors. Clones share it.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: Arc<Path>,
    limit: Option<u64>,
}

/// The directory that mirrors an index of a store.
#[derive(Debug)]
pub struct Mirror {
    cache: Cache,
    remote: RemoteStore,
    directory: PathBuf,
}

impl Cache {
    /// A cache in a folder, which is created by the first pull. With a limit, no more bytes than this are kept in it.
    pub fn new(folder: &Path, limit: Option<u64>) -> Self {
        Self {
            folder: folder.into(),
            limit,
        }
    }

    /// The mirror of an index.
    pub fn mirror(&self, remote: RemoteStore) -> Mirror {
        let directory = self.folder.join(name_of(remote.url()));
        Mirror {
            cache: self.clone(),
            remote,
            directory,
        }
    }
}

impl Mirror {
    /// Where the index is.
    pub fn remote(&self) -> &RemoteStore {
        &self.remote
    }

    /// Where it is mirrored: an index directory, once a generation has been fetched.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The current generation of the mirror; none where nothing has been fetched yet, or it cannot be read.
    pub fn generation(&self) -> Option<u64> {
        manifest::current(&self.directory)
            .ok()
            .map(|manifest| manifest.generation)
    }

    /// Whether a `CURRENT` of the store was fetched last, by any process and whole: then there is nothing to fetch.
    pub fn has(&self, pointer: &str) -> bool {
        FetchedRecord::read(&self.directory) == Some(FetchedRecord::new(pointer, None))
    }

    /// The same of the shards with these numbers.
    pub fn has_part(&self, pointer: &str, numbers: &[usize]) -> bool {
        FetchedRecord::read(&self.directory) == Some(FetchedRecord::new(pointer, Some(numbers)))
    }

    /// Where a part of the mirror's current generation was fetched last: the numbers of its shards, which are positions
    /// in the manifest, without those of which a file is missing. None where whole generations are mirrored, and where
    /// nothing is known of what was fetched.
    pub fn part(&self) -> Option<Vec<usize>> {
        let manifest = manifest::current(&self.directory).ok()?;
        let mut numbers = FetchedRecord::current_part(&self.directory)?;
        numbers.retain(|number| {
            let files = files_of_part(&manifest, Some(&[*number]));
            files.is_ok_and(|files| missing(&files, &self.directory).is_ok_and(|missing| missing.is_empty()))
        });
        Some(numbers)
    }

    /// Whether another generation than that of this `CURRENT` was made current in the mirror after it was fetched.
    pub fn is_rolled_back(&self, pointer: &str) -> bool {
        let own = fs_err::read_to_string(self.directory.join(manifest::POINTER));
        self.has(pointer) && own.is_ok_and(|own| own != pointer) && self.generation().is_some()
    }

    /// The store's current generation, of whose manifest a part can be chosen for [`Self::refresh_part`].
    pub async fn current(&self) -> Result<Current> {
        self.remote.current().await?.ok_or_else(|| self.absent())
    }

    fn absent(&self) -> Error {
        Error::Absent {
            url: self.remote.url().to_owned(),
        }
    }

    /// The text of the store's `CURRENT`, in one request.
    pub async fn look(&self) -> Result<String> {
        self.remote.pointer().await?.ok_or_else(|| self.absent())
    }

    /// Makes the store's current generation that of the mirror, as [`pull()`](crate::pull()) does. Where the cache
    /// would hold more than its limit then, generations that are neither current nor read are removed first, the oldest
    /// first, as many as it takes; where that is not enough, nothing is fetched. What was learned for the index becomes
    /// the store's, too.
    pub async fn refresh(&self, cancel: &dyn Cancel) -> Result<Pulled> {
        self.refresh_generation(&self.current().await?, None, cancel).await
    }

    /// The same for some shards of a generation of the store, which is `there` ([`Self::current`]): those with these
    /// numbers, which are positions in its manifest, ascending and each once. The mirror holds these from then on, and
    /// has the whole manifest; it is to be opened by [`Snapshot::open_part`](dyad_index::Snapshot::open_part). Other
    /// shards that it has stay until there is no room for them, or until [`Self::tidy`]; those that a process of this
    /// machine has open stay in any case. An error where the numbers are not ascending or there is no such shard;
    /// nothing was fetched then.
    pub async fn refresh_part(&self, there: &Current, numbers: &[usize], cancel: &dyn Cancel) -> Result<Pulled> {
        there.manifest.entries_at(numbers)?;
        self.refresh_generation(there, Some(numbers), cancel).await
    }

    async fn refresh_generation(
        &self,
        there: &Current,
        numbers: Option<&[usize]>,
        cancel: &dyn Cancel,
    ) -> Result<Pulled> {
        let record = FetchedRecord::new(&there.pointer, numbers);
        let before = FetchedRecord::current_part(&self.directory).filter(|_| is_current(&self.directory, there));
        if let Some(before) = before.filter(|_| FetchedRecord::read(&self.directory).as_ref() != Some(&record)) {
            // Until all is there it holds both: nobody removes meanwhile what one of them has.
            let all: Vec<usize> = (0..there.manifest.shards.len()).collect();
            let both: BTreeSet<usize> = before.iter().chain(numbers.unwrap_or(&all)).copied().collect();
            let both: Vec<usize> = both.into_iter().collect();
            FetchedRecord::incomplete(&there.pointer, &both).write(&self.directory)?;
        }
        self.make_room(there, numbers)?;
        let options = PullOptions::default();
        let pulling = Pulling {
            options: &options,
            patience: PATIENCE,
            direction: Direction::Mirror,
            numbers,
        };
        let pulled = pull_generation(&self.remote, there, &self.directory, pulling, cancel).await;
        let pulled = pulled.map_err(|error| self.of_cache(error, there.manifest.generation))?;
        record.write(&self.directory)?;
        Ok(pulled)
    }

    /// Removes all generations but the current one, `keep`, and those that are read; without `keep`, the one before the
    /// current one is kept. Where a part of the current generation was fetched last, the files of other shards are
    /// removed from all generations, but for shards that a process of this machine has open. Returns the generations
    /// that were removed.
    pub fn tidy(&self, keep: Option<u64>) -> Result<Vec<u64>> {
        let index = &self.directory;
        let Some(current) = manifest::current_generation(index)? else {
            return Ok(Vec::new());
        };
        let keep = keep
            .filter(|keep| *keep != current)
            .or_else(|| manifest::predecessor(index, current).ok());
        let mut removed = Vec::new();
        for generation in manifest::generations(index)? {
            if generation != current && Some(generation) != keep && evict::remove(index, generation, &[])? {
                removed.push(generation);
            }
        }
        evict::sweep(index, &[])?;
        Ok(removed)
    }

    /// Removes what the limit asks for before a generation is fetched.
    fn make_room(&self, there: &Current, numbers: Option<&[usize]>) -> Result<()> {
        let Some(limit) = self.cache.limit else { return Ok(()) };
        let (folder, generation) = (&*self.cache.folder, there.manifest.generation);
        let wanted = files_of_part(&there.manifest, numbers)?;
        let needed: u64 = missing(&wanted, &self.directory)?
            .iter()
            .map(|file| file.entry.bytes)
            .sum();
        // What has been fetched of it is counted as needed.
        let held = || evict::bytes_below(folder, &self.directory.join(STAGING));
        if needed == 0 || held()?.saturating_add(needed) <= limit {
            return Ok(());
        }
        let spared = |index: &Path| {
            if index == self.directory {
                &*wanted
            } else {
                &[] as &[IndexFile]
            }
        };
        // What cannot be removed is held, and counts.
        for index in evict::mirrors(folder)? {
            drop(evict::sweep(&index, spared(&index)));
        }
        for EvictableGeneration {
            index, generation: old, ..
        } in evict::oldest_first(folder)?
        {
            if held()?.saturating_add(needed) <= limit {
                return Ok(());
            }
            if index != self.directory || old != generation {
                drop(evict::remove(&index, old, spared(&index)));
            }
        }
        if numbers.is_some() && needed <= limit {
            // What the mirror held before, unless a process has it open.
            drop(evict::sweep_unread(&self.directory, &wanted));
        }
        let held = held()?;
        if held.saturating_add(needed) <= limit {
            return Ok(());
        }
        let (url, cache) = (self.remote.url().to_owned(), folder.to_owned());
        Err(Error::NoRoom {
            url,
            cache,
            generation,
            needed,
            held,
            limit,
        })
    }

    /// An error of a pull, in the words of a cache, whose directories nobody changes.
    fn of_cache(&self, error: Error, generation: u64) -> Error {
        let (url, cache) = (self.remote.url().to_owned(), self.cache.folder.to_path_buf());
        match error {
            Error::Space(SpaceError::Full { needed, free, .. }) => Error::DiskFull {
                url,
                cache,
                generation,
                needed,
                free,
            },
            Error::OtherLineage { .. } | Error::NotPushed { .. } => Error::OtherIndex {
                url,
                index: self.directory.clone(),
                generation,
            },
            error => error,
        }
    }
}

/// The name of a URL's directory: its end, for people, and a checksum of all of it.
fn name_of(url: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '-' {
            letter
        } else {
            '_'
        }
    };
    let name: String = url
        .split_once("://")
        .map_or(url, |(_, place)| place)
        .chars()
        .map(plain)
        .collect();
    let end = name.len().saturating_sub(NAME);
    format!(
        "{}-{:016x}",
        name.get(end..).unwrap_or_default().trim_matches('_'),
        xxhash_rust::xxh3::xxh3_64(url.as_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories_are_plain_short_and_of_one_url() {
        // Restarts of later releases find what these have fetched.
        assert_eq!(name_of("s3://bucket/wiki/en"), "bucket_wiki_en-bbe7e12ef0e2b221");
        let long = format!("gs://{}/{}", "b".repeat(60), "p/".repeat(400));
        let names = [
            name_of("s3://bucket/wiki/en"),
            name_of("gs://bucket/wiki/en"),
            name_of("s3://bucket/wiki_en"),
            name_of(&long),
        ];
        for (number, name) in names.iter().enumerate() {
            assert!(
                name.len() < 80
                    && name
                        .chars()
                        .all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter)),
                "{name}"
            );
            assert_eq!(names.iter().position(|other| other == name), Some(number));
        }
    }
}

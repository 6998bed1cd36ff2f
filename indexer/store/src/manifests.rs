//! The manifests of a place: listed, and put where there is none of their number.

use dyad_index::manifest;

use crate::error::{Error, Result};
use crate::objects::Object;
use crate::remote::{Current, RemoteStore};

impl RemoteStore {
    /// Numbers of the manifests that are there, ascending.
    pub async fn manifests(&self) -> Result<Vec<u64>> {
        Ok(self
            .manifest_objects()
            .await?
            .into_iter()
            .map(|(number, _)| number)
            .collect())
    }

    /// The manifests that are there, ascending by number.
    pub(crate) async fn manifest_objects(&self) -> Result<Vec<(u64, Object)>> {
        let place = self.path("");
        let found = self
            .store()
            .list_with_delimiter(Some(&place))
            .await
            .map_err(self.failed("", "list"))?;
        let mut all: Vec<(u64, Object)> = found.objects.into_iter().filter_map(manifest_object).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all)
    }

    /// Puts a manifest, by which the number of its generation, and with it the names of its files, belong to one index;
    /// [`Error::Taken`] where another one has the number. In a directory, which is an index of this machine as well, a
    /// new one is marked as not published yet, until [`Self::published`].
    pub(crate) async fn reserve(
        &self,
        there: Option<&Current>,
        name: &str,
        generation: u64,
        bytes: &[u8],
    ) -> Result<()> {
        if self.is_directory() {
            // Left by one that was killed at its very end.
            if let Some(there) = there {
                self.published(there.manifest.generation).await?;
            }
            if self.get(name).await?.is_none() {
                self.put(&manifest::mark_name(generation), Vec::new()).await?;
            }
        }
        if self.put_new(name, bytes.to_vec()).await? {
            return Ok(());
        }
        if self.read(name).await?.as_deref() != Some(bytes) {
            return Err(Error::Taken {
                url: self.url().to_owned(),
                path: name.to_owned(),
            });
        }
        // Put again, which makes it new: `gc` removes an old manifest that was never published.
        self.put(name, bytes.to_vec()).await
    }

    /// `CURRENT` names this generation.
    pub(crate) async fn published(&self, generation: u64) -> Result<()> {
        if self.is_directory() {
            self.remove(&[manifest::mark_name(generation)]).await
        } else {
            Ok(())
        }
    }
}

/// A listed object with the number of its generation, if it is a manifest.
fn manifest_object(meta: object_store::ObjectMeta) -> Option<(u64, Object)> {
    let name = meta.location.filename()?.to_owned();
    let number: u64 = name.strip_prefix("manifest-")?.strip_suffix(".json")?.parse().ok()?;
    let object = Object {
        name,
        bytes: meta.size,
        modified: meta.last_modified.into(),
        version: meta.e_tag.or(meta.version),
    };
    (manifest::manifest_name(number) == object.name).then_some((number, object))
}

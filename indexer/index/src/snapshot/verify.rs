//! Every byte of a generation read, and its parts compared with one another.

use rayon::prelude::*;

use super::{Shard, Snapshot};
use crate::error::Result;
use crate::manifest::ShardEntry;
use crate::storage::crc32c_of_file;

impl Snapshot {
    /// Checks everything: the files against the manifest's checksums, every section of the vectors, and that node `i`
    /// and document `i` have the same key. Gives one line per problem, none when sound, and the bytes read.
    pub fn verify(&self) -> Result<(Vec<String>, u64)> {
        let pairs: Vec<_> = self.manifest.shards.iter().zip(&self.shards).collect();
        let found: Vec<_> = pairs.into_par_iter().map(|(entry, shard)| self.verify_shard(entry, shard)).collect();
        let (mut problems, mut bytes_read) = (Vec::new(), 0);
        for shard in found {
            let (lines, bytes) = shard?;
            problems.extend(lines);
            bytes_read += bytes;
        }
        Ok((problems, bytes_read))
    }

    fn verify_shard(&self, entry: &ShardEntry, shard: &Shard) -> Result<(Vec<String>, u64)> {
        // The vectors' own checks name the section; the file's checksum would only say that something is wrong.
        let mut problems = shard.dense.verify().problems;
        let mut bytes_read = 0;
        let dir = self.index.join("shards").join(&entry.id);
        let dense_is_sound = problems.is_empty();
        for file in &entry.files {
            let path = dir.join(&file.path);
            let (bytes, crc32c) = crc32c_of_file(&path)?;
            bytes_read += bytes;
            if (bytes, crc32c) != (file.bytes, file.crc32c) && (dense_is_sound || path != shard.dense.path()) {
                problems.push(format!(
                    "`{}`: expected {} bytes with checksum {:08x}, got {bytes} with {crc32c:08x}. The file is damaged: \
                     restore it from a copy, or build the index again",
                    path.display(),
                    file.bytes,
                    file.crc32c
                ));
            }
        }
        if problems.is_empty() {
            problems.extend(compare_keys(shard)?);
        }
        Ok((problems, bytes_read))
    }
}

/// The first node whose vector and text belong to different documents.
fn compare_keys(shard: &Shard) -> Result<Option<String>> {
    let keys = shard.dense.keys();
    for node in 0..shard.dense.len() as u32 {
        let text = shard.text.document(node)?.key;
        if text != keys.key(node) {
            let (dense, path) = (keys.key(node), shard.text.path().display());
            return Ok(Some(format!(
                "`{path}`, document {node}: expected the key `{dense}` of the vector, got `{text}`"
            )));
        }
    }
    Ok(None)
}

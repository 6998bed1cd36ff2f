//! Writes vectors, codes, graph, keys and certificate into one file.

use std::io::{Seek as _, SeekFrom, Write};
use std::path::Path;

use dyad_files::ChecksumWriter;
use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::error::{Error, Result};
use crate::format::graph::{MAX_DEGREE, MAX_LAYERS};
use crate::format::header::{HEADER_LEN, MAX_DIM};
use crate::format::{RowType, SectionEntry, SectionKind, ShardHeader, align, codes, graph, keys, rows};
use crate::layout::Arranged;
use crate::model::{BuildRecord, ModelRecord};
use crate::search::{MAX_SLOTS, VectorRows};

/// META: the model and the build of the shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardMeta {
    /// The model of the vectors.
    pub model: ModelRecord,
    /// How the graph was built.
    pub build: BuildRecord,
}

/// All that goes into `dense.dyad`. Node `i` has row `i` and key `i`.
#[derive(Clone, Copy)]
pub struct ShardInput<'a> {
    /// Model and build parameters.
    pub meta: &'a ShardMeta,
    /// Vectors of `meta.model.dim` values, unit vectors where the model's metric asks for them.
    pub vectors: &'a dyn VectorRows,
    /// Type of the stored vectors.
    pub row_type: RowType,
    /// Graph and codes over the vectors.
    pub arranged: &'a Arranged,
    /// Distinct document keys.
    pub keys: &'a [String],
    /// The certificate.
    pub certificate: &'a Certificate,
}

impl std::fmt::Debug for ShardInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardInput")
            .field("meta", self.meta)
            .field("vectors", &self.vectors.len())
            .finish_non_exhaustive()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "numbers and texts alike")]
fn mismatch<T>(what: &'static str, expected: impl ToString, got: impl ToString) -> Result<T> {
    Err(Error::Mismatch {
        what,
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

fn check(input: &ShardInput<'_>) -> Result<()> {
    let n = input.vectors.len();
    if input.keys.len() != n {
        return mismatch("keys of a shard", n, input.keys.len());
    }
    if input.vectors.dim() != input.meta.model.dim || input.meta.model.dim == 0 {
        return mismatch(
            "dimension of a shard's vectors",
            input.meta.model.dim,
            input.vectors.dim(),
        );
    }
    if input.meta.model.dim > MAX_DIM as usize {
        return mismatch(
            "dimension of a shard's vectors",
            format!("at most {MAX_DIM}"),
            input.meta.model.dim,
        );
    }
    if n >= MAX_SLOTS {
        return mismatch("vectors of a shard", format!("fewer than {MAX_SLOTS}"), n);
    }
    if input.arranged.layout.order.len() != n || input.arranged.codes.view().len() != n {
        let got = format!(
            "{} slots, {} codes",
            input.arranged.layout.order.len(),
            input.arranged.codes.view().len()
        );
        return mismatch("slots and codes of a shard", n, got);
    }
    let layout = &input.arranged.layout;
    if layout.degree == 0 || layout.degree > MAX_DEGREE as usize || layout.links.len() != n * layout.degree {
        let got = format!("{} of {} each", layout.links.len(), layout.degree);
        return mismatch(
            "links of a shard",
            format!("1 to {MAX_DEGREE} of each of {n} slots"),
            got,
        );
    }
    if layout.upper.len() >= MAX_LAYERS as usize {
        return mismatch(
            "layers of a shard",
            format!("at most {MAX_LAYERS}"),
            layout.upper.len() + 1,
        );
    }
    let mut known = std::collections::HashSet::with_capacity(n);
    if let Some(key) = input
        .keys
        .iter()
        .find(|key| key.is_empty() || !known.insert(key.as_str()))
    {
        return mismatch("keys of a shard", "distinct ones, none empty", format!("`{key}`"));
    }
    if !input.certificate.is_finite() {
        return mismatch(
            "certificate of a shard",
            "finite numbers",
            format!("{:?}", input.certificate),
        );
    }
    let codec = &input.arranged.codes.codec;
    if codec.dim() != input.meta.model.dim || codec.metric() != input.meta.model.metric {
        let say = |dim, metric| format!("{dim} values, {metric:?}");
        let model = &input.meta.model;
        return mismatch(
            "codes of a shard",
            say(model.dim, model.metric),
            say(codec.dim(), codec.metric()),
        );
    }
    Ok(())
}

/// Writes the file; the caller makes its bytes and its name durable.
pub fn write(path: &Path, input: &ShardInput<'_>) -> Result<()> {
    check(input)?;
    let mut file = Blocks {
        file: fs_err::File::create(path)?,
        pending: Vec::with_capacity(BLOCK),
    };
    file.write_all(&[0; HEADER_LEN])?;
    let mut place = WritePosition {
        file,
        end: HEADER_LEN as u64,
        sections: Vec::new(),
    };

    place.section(SectionKind::Meta, |out| {
        Ok(serde_json::to_writer(out, input.meta).map_err(std::io::Error::from)?)
    })?;
    place.section(SectionKind::Vectors, |out| {
        rows::write(input.vectors, input.row_type, &input.arranged.layout.order, out)
    })?;
    place.section(SectionKind::Codes, |out| Ok(codes::write(&input.arranged.codes, out)?))?;
    place.section(SectionKind::Graph, |out| Ok(graph::write(&input.arranged.layout, out)?))?;
    place.section(SectionKind::Keys, |out| Ok(keys::write(input.keys, out)?))?;
    place.section(SectionKind::Certificate, |out| {
        Ok(serde_json::to_writer(out, input.certificate).map_err(std::io::Error::from)?)
    })?;

    let WritePosition { file, end, sections } = place;
    let header = ShardHeader {
        dim: input.meta.model.dim as u32,
        vectors: input.vectors.len() as u64,
        row_stride: input.row_type.stride(input.meta.model.dim) as u32,
        row_type: input.row_type,
        has_copies: input.arranged.layout.copies > 0,
        file_len: end,
        sections,
    };
    let mut file = file.finish()?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&header.to_bytes())?;
    Ok(())
}

/// Bytes of a huge page.
const BLOCK: usize = 2 << 20;

/// Writes a file in whole aligned blocks of [`BLOCK`] bytes. A file system with large folios (ext4 since Linux 6.16,
/// XFS, Btrfs) caches each in one huge page, and a search that maps the file then misses the TLB less often.
struct Blocks {
    file: fs_err::File,
    pending: Vec<u8>,
}

impl Blocks {
    /// Writes what does not fill a block.
    fn finish(mut self) -> std::io::Result<fs_err::File> {
        self.file.write_all(&self.pending)?;
        Ok(self.file)
    }
}

impl Write for Blocks {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(BLOCK - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        if self.pending.len() == BLOCK {
            self.file.write_all(&self.pending)?;
            self.pending.clear();
        }
        Ok(taken)
    }

    /// Does nothing: a block is written when it is whole, and the rest by [`Self::finish`].
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The write position while sections are written.
struct WritePosition {
    file: Blocks,
    end: u64,
    sections: Vec<SectionEntry>,
}

impl WritePosition {
    fn section(
        &mut self,
        kind: SectionKind,
        fill: impl FnOnce(&mut ChecksumWriter<&mut Blocks>) -> Result<()>,
    ) -> Result<()> {
        let offset = align(self.end);
        self.file.write_all(&vec![0; (offset - self.end) as usize])?;
        let mut writer = ChecksumWriter::new(&mut self.file);
        fill(&mut writer)?;
        let (_, crc32c, len) = writer.finish();
        self.end = offset + len;
        self.sections.push(SectionEntry {
            kind,
            offset,
            len,
            crc32c,
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_write_what_they_are_given() {
        let bytes: Vec<u8> = (0..2 * BLOCK + 12_345).map(|at| (at * 31 / 7) as u8).collect();
        let dir = tempfile::tempdir().unwrap();
        for piece in [1000, BLOCK - 1, BLOCK, BLOCK + 1, bytes.len()] {
            let path = dir.path().join(piece.to_string());
            let mut blocks = Blocks {
                file: fs_err::File::create(&path).unwrap(),
                pending: Vec::new(),
            };
            bytes.chunks(piece).for_each(|piece| blocks.write_all(piece).unwrap());
            assert_eq!(
                blocks.file.metadata().unwrap().len(),
                2 * BLOCK as u64,
                "only whole blocks before the end"
            );
            blocks.finish().unwrap();
            assert!(fs_err::read(&path).unwrap() == bytes, "pieces of {piece}");
        }
    }
}

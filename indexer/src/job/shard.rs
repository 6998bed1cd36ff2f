//! A spooled shard -> a complete shard directory: graph, repair, certificate, `dense.dyad`, checksums.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_index::format::{RowType, section};
use dyad_index::manifest::FileEntry;
use dyad_index::search::DenseRows;
use dyad_index::shard::{self, DENSE_FILE, ShardInput, ShardMeta, TEXT_DIR};
use dyad_index::storage::{crc32c_of_file, sync_dir};
use dyad_index::{BuildRecord, Certificate, ModelRecord};

use super::progress::Progress;
use super::spool::Spooled;
use crate::TOOL;
use crate::build::{BuildParams, Exam, GraphBuilder, Made, Make};
use crate::error::Error;

/// What every shard of a build shares.
pub(super) struct Workshop<'a> {
    pub(super) model: &'a ModelRecord,
    pub(super) builder: &'a dyn GraphBuilder,
    pub(super) params: &'a BuildParams,
    pub(super) row_type: RowType,
    pub(super) exam: Exam<'a>,
    pub(super) progress: &'a dyn Progress,
    pub(super) cancel: &'a AtomicBool,
}

/// A complete shard that nobody names yet.
#[derive(Debug)]
pub(crate) struct Built {
    /// Where it lies.
    pub(crate) dir: PathBuf,
    /// Documents in it.
    pub(crate) documents: u64,
    /// Every file, by path.
    pub(crate) files: Vec<FileEntry>,
    /// What its graph is worth.
    pub(crate) certificate: Certificate,
}

impl Workshop<'_> {
    /// Builds the graph and writes the shard; `label` names it in progress.
    pub(super) fn finish(&self, spooled: Spooled, label: &str) -> Result<Built, Error> {
        let values = section::as_slice(&spooled.rows, "rows").map_err(|fault| dyad_index::Error::Mismatch {
            what: "spooled rows",
            expected: fault.expected,
            got: fault.got,
        })?;
        let rows = DenseRows::new(values, self.model.dim);
        let n = spooled.keys.len() as u64;

        let make = Make {
            rows: &rows,
            metric: self.model.metric,
            row_type: self.row_type,
            builder: self.builder,
            params: self.params,
            exam: self.exam,
            progress: self.progress,
            cancel: self.cancel,
            label,
        };
        let Made { arranged, certificate } = make.run()?;

        let meta = ShardMeta {
            model: self.model.clone(),
            build: BuildRecord {
                builder: self.builder.name().to_owned(),
                m: self.params.m,
                ef_construction: self.params.ef_construction,
                seed: self.params.seed,
                threads: self.params.threads,
                tool: TOOL.to_owned(),
            },
        };
        let input = ShardInput {
            meta: &meta,
            vectors: &rows,
            row_type: self.row_type,
            arranged: &arranged,
            keys: &spooled.keys,
            certificate: &certificate,
        };
        shard::write(&spooled.dir.join(DENSE_FILE), &input)?;
        // Its space on disk is free from here on.
        drop(spooled.rows);
        sync_dir(&spooled.dir)?;
        self.check_cancel()?;
        Ok(Built { files: files(&spooled.dir)?, dir: spooled.dir, documents: n, certificate })
    }

    fn check_cancel(&self) -> Result<(), Error> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Every file of a shard with length and checksum, ascending by path.
fn files(dir: &Path) -> Result<Vec<FileEntry>, Error> {
    let mut names = vec![DENSE_FILE.to_owned()];
    for entry in fs_err::read_dir(dir.join(TEXT_DIR))? {
        let entry = entry?;
        // Lock files of tantivy hold nothing, and come and go.
        if entry.path().extension().is_none_or(|extension| extension != "lock") {
            names.push(format!("{TEXT_DIR}/{}", entry.file_name().to_string_lossy()));
        }
    }
    names.sort_unstable();
    names
        .into_iter()
        .map(|path| {
            let (bytes, crc32c) = crc32c_of_file(&dir.join(&path))?;
            Ok(FileEntry { path, bytes, crc32c })
        })
        .collect()
}

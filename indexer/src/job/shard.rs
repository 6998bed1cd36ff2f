//! A spooled shard -> a complete shard directory: graph, repair, certificate, `dense.dyad`, checksums.

use std::path::Path;

use dyad_files::{crc32c_of_file, sync_dir};
use dyad_index::format::{RowType, section};
use dyad_index::manifest::FileEntry;
use dyad_index::search::DenseRows;
use dyad_index::shard::{self, DENSE_FILE, ShardInput, ShardMeta, TEXT_DIR};
use dyad_index::{BuildRecord, ModelRecord};

use super::spool::Spooled;
use crate::TOOL;
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::{BuildParams, BuiltGraph, GraphBuild, GraphBuilder, RecallGate};
use crate::publish::CompleteShard;

/// Builds shards; holds what they have in common.
pub(super) struct ShardBuilder<'a> {
    pub(super) model: &'a ModelRecord,
    pub(super) builder: &'a dyn GraphBuilder,
    pub(super) params: &'a BuildParams,
    pub(super) row_type: RowType,
    pub(super) gate: RecallGate<'a>,
    pub(super) control: JobControl<'a>,
}

impl ShardBuilder<'_> {
    /// Builds the graph and writes the shard; `label` names it in progress.
    pub(super) fn build(&self, spooled: Spooled, label: &str) -> Result<CompleteShard, Error> {
        let values = section::as_slice(&spooled.rows, "rows").map_err(|fault| dyad_index::Error::Mismatch {
            what: "spooled rows",
            expected: fault.expected,
            got: fault.got,
        })?;
        let rows = DenseRows::new(values, self.model.dim);
        let n = spooled.keys.len() as u64;

        let build = GraphBuild {
            rows: &rows,
            metric: self.model.metric,
            row_type: self.row_type,
            builder: self.builder,
            params: self.params,
            gate: self.gate,
            control: self.control,
            label,
        };
        let BuiltGraph { arranged, certificate } = build.run()?;

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
        // Frees its disk space.
        drop(spooled.rows);
        sync_dir(&spooled.dir)?;
        self.control.check()?;
        Ok(CompleteShard { files: files(&spooled.dir)?, dir: spooled.dir, documents: n, certificate })
    }
}

/// Every file of a shard with length and checksum, ascending by path.
fn files(dir: &Path) -> Result<Vec<FileEntry>, Error> {
    let mut names = vec![DENSE_FILE.to_owned()];
    for entry in fs_err::read_dir(dir.join(TEXT_DIR))? {
        let entry = entry?;
        // tantivy's lock files are empty and temporary.
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

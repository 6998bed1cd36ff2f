//! A spooled shard -> a complete shard directory: graph, repair, certificate, `dense.dyad`, checksums.

use std::path::Path;

use dyad_files::{crc32c_of_file, sync_paths};
use dyad_index::TextLanguage;
use dyad_index::format::MappedRows;
use dyad_index::manifest::FileEntry;
use dyad_index::quant::Codec;
use dyad_index::shard::{self, DENSE_FILE, DOCUMENTS_DIR, ShardInput, ShardMeta, TEXT_DIR};
use dyad_index::{BuildRecord, GROUND_TRUTH_FILE, ModelRecord};
use dyad_proto::vector;
use xxhash_rust::xxh3::Xxh3;

use super::spool::Spooled;
use crate::TOOL;
use crate::control::JobControl;
use crate::draft::CompleteShard;
use crate::error::Error;
use crate::graph_build::{BuiltGraph, GraphBuild, GraphConfig, InitialGraph, RecallGate};

/// Builds shards; holds what they have in common.
#[derive(Clone, Copy)]
pub(crate) struct ShardBuilder<'a> {
    pub(crate) model: &'a ModelRecord,
    pub(crate) graph: GraphConfig,
    /// The quantiser of the codes; one that is fitted to each shard where absent.
    pub(crate) codec: Option<&'a Codec>,
    /// By which their texts were analysed.
    pub(crate) language: TextLanguage,
    pub(crate) gate: RecallGate<'a>,
    pub(crate) control: JobControl<'a>,
}

impl ShardBuilder<'_> {
    /// Builds the graph, from `initial` where there is one, and writes the shard; `label` names it in progress.
    pub(crate) fn build(
        &self,
        spooled: Spooled,
        initial: Option<&InitialGraph<'_>>,
        label: &str,
    ) -> Result<CompleteShard, Error> {
        let rows = MappedRows::new(&spooled.rows, self.model.dim).map_err(|fault| dyad_index::Error::Mismatch {
            what: "spooled rows",
            expected: fault.expected,
            got: fault.got,
        })?;
        let n = spooled.keys.len() as u64;
        if spooled.long_words > 0 {
            let words = spooled.long_words;
            self.control.progress.note(&format!(
                "{words} words of 255 bytes or more are no terms of BM25; vectors know them"
            ));
        }
        let build = GraphBuild {
            rows: &rows,
            metric: self.model.metric,
            row_type: self.graph.row_type,
            codec: self.codec,
            builder: self.graph.builder.get(),
            params: &self.graph.params,
            initial,
            gate: self.gate,
            control: self.control,
            label,
        };
        let BuiltGraph {
            mut arranged,
            certificate,
            ground_truth,
        } = build.run()?;
        arranged
            .layout
            .sort_copies(|node| spooled.keys.get(node as usize).map_or("", |key| key.as_ref()));

        let input = ShardInput {
            meta: &self.meta(),
            vectors: &rows,
            row_type: self.graph.row_type,
            arranged: &arranged,
            keys: &spooled.keys,
            certificate: &certificate,
        };
        shard::write(&spooled.dir.join(DENSE_FILE), &input)?;
        ground_truth.write(&spooled.dir.join(GROUND_TRUTH_FILE))?;
        // Frees its disk space.
        drop(spooled.rows);
        let written = [
            spooled.dir.join(DENSE_FILE),
            spooled.dir.join(GROUND_TRUTH_FILE),
            spooled.dir.clone(),
        ];
        sync_paths(&written)?;
        self.control.check()?;
        Ok(CompleteShard {
            files: file_entries(&spooled.dir, &[DENSE_FILE, GROUND_TRUTH_FILE])?,
            dir: spooled.dir,
            documents: n,
            certificate,
        })
    }

    fn meta(&self) -> ShardMeta {
        let params = &self.graph.params;
        ShardMeta {
            model: self.model.clone(),
            build: BuildRecord {
                builder: self.graph.builder.get().name().to_owned(),
                m: params.m,
                ef_construction: params.ef_construction,
                seed: params.seed,
                threads: params.threads,
                tool: TOOL.to_owned(),
            },
        }
    }

    /// Digest of all that decides what [`ShardBuilder::build`] makes of these documents without an initial graph.
    pub(crate) fn digest(&self, spooled: &Spooled) -> Result<String, Error> {
        let mut hash = Xxh3::new();
        hash.update(&spooled.digest.to_le_bytes());
        hash.update(self.language.analyzer().as_bytes());
        hash.update(&serde_json::to_vec(&self.meta()).map_err(std::io::Error::from)?);
        // A target is checked again.
        hash.update(format!("{:?} {:?}", self.graph.row_type, self.gate.widths()).as_bytes());
        if let Some(questions) = self.gate.questions {
            (0..questions.len() as u32).for_each(|number| hash.update(&vector::pack(questions.row(number))));
        }
        Ok(format!("{:032x}", hash.digest128()))
    }
}

/// These files of a directory, those of its text index, and those of the documents of its passages, with length and
/// checksum, ascending by path.
pub(crate) fn file_entries(dir: &Path, names: &[&str]) -> Result<Vec<FileEntry>, Error> {
    let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    add_names(dir, TEXT_DIR, &mut names)?;
    if dir.join(DOCUMENTS_DIR).exists() {
        add_names(dir, DOCUMENTS_DIR, &mut names)?;
    }
    entries_of(dir, names)
}

/// Adds the names of the files in a folder of a directory, and in the folders of that one.
fn add_names(dir: &Path, folder: &str, names: &mut Vec<String>) -> Result<(), Error> {
    for entry in fs_err::read_dir(dir.join(folder))? {
        let entry = entry?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            add_names(dir, &name, names)?;
        } else if entry.path().extension().is_none_or(|extension| extension != "lock") {
            // tantivy's lock files are empty and temporary.
            names.push(name);
        }
    }
    Ok(())
}

/// These files of a directory, with length and checksum, ascending by path.
pub(crate) fn entries_of(dir: &Path, mut names: Vec<String>) -> Result<Vec<FileEntry>, Error> {
    names.sort_unstable();
    names
        .into_iter()
        .map(|path| {
            let (bytes, crc32c) = crc32c_of_file(&dir.join(&path))?;
            Ok(FileEntry { path, bytes, crc32c })
        })
        .collect()
}

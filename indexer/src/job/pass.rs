//! The single pass over corpus and vectors: each document goes to the spool of its shard.

use std::path::Path;

use dyad_corpus::Document;
use dyad_index::ModelRecord;
use dyad_index::TextLanguage;
use dyad_index::format::RowType;
use xxhash_rust::xxh3::xxh3_64;

use super::language::LanguageSample;
use super::spool::{Spool, Spooled};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::validate::RowCheck;
use crate::source::{DocumentBatch, EmbeddedDocument, VectorSource};

/// The single pass over corpus and vectors.
pub(crate) struct IndexPass<'a> {
    pub(crate) workspace: &'a Path,
    pub(crate) model: &'a ModelRecord,
    pub(crate) row_type: RowType,
    /// The language of the texts; absent where that of the first documents is.
    pub(crate) language: Option<TextLanguage>,
    /// Number of the first of the shards, in the workspace.
    pub(crate) first: usize,
    pub(crate) shards: usize,
    /// Most bytes of memory for the terms of each.
    pub(crate) terms: Option<u64>,
    pub(crate) control: JobControl<'a>,
}

/// What a pass has read.
pub(crate) struct PassResult {
    /// The shards that got documents.
    pub(crate) shards: Vec<Spooled>,
    /// The language by which their texts are analysed.
    pub(crate) language: TextLanguage,
}

impl IndexPass<'_> {
    pub(crate) fn run(
        &self,
        corpus: &mut dyn DocumentBatch,
        source: &mut dyn VectorSource,
    ) -> Result<PassResult, Error> {
        // With an encoder service the number of documents is unknown, but the size of the corpus is known.
        match source.documents() {
            Some(documents) => self
                .control
                .progress
                .begin("documents", Unit::Documents, Some(documents)),
            None => self
                .control
                .progress
                .begin("documents", Unit::Bytes, corpus.file_bytes()),
        }
        let spooled = self.spool_all(corpus, source);
        self.control.progress.finish();
        spooled
    }

    fn spool_all(&self, corpus: &mut dyn DocumentBatch, source: &mut dyn VectorSource) -> Result<PassResult, Error> {
        let by_bytes = source.documents().is_none();
        let mut check = RowCheck::new(self.model.dim, self.model.metric, self.row_type);
        let mut spools = Spools {
            pass: self,
            language: self.language,
            by_shard: Vec::new(),
        };
        spools.by_shard.resize_with(self.shards, || None);
        let (mut sample, mut sampled) = (LanguageSample::default(), Vec::new());
        let mut bytes_seen = 0;
        while let Some(mut embedded) = source.pull(corpus, self.control.cancel)? {
            self.control.check()?;
            check.check(&embedded.document.key, &mut embedded.row)?;
            if spools.language.is_some() {
                spools.add(&embedded)?;
            } else {
                sample.add(&embedded.document);
                sampled.push(embedded);
                if sample.is_full() {
                    spools.begin(&sample, &mut sampled)?;
                }
            }
            let bytes = corpus.bytes_read();
            self.control
                .progress
                .advance(if by_bytes { bytes.saturating_sub(bytes_seen) } else { 1 });
            bytes_seen = bytes;
        }
        if spools.language.is_none() {
            spools.begin(&sample, &mut sampled)?;
        }
        if let Some(note) = check.note() {
            self.control.progress.note(&note);
        }
        let language = spools.language.unwrap_or_default();
        let shards = spools
            .by_shard
            .into_iter()
            .flatten()
            .map(Spool::close)
            .collect::<Result<_, _>>()?;
        Ok(PassResult { shards, language })
    }
}

/// Decides the shard of a document. Passages of one document are in one shard, so that its text is stored once.
///
/// xxh3 is a fixed function: a key goes to the same shard on every machine and in every release.
fn place_hash(document: &Document) -> u64 {
    document
        .place
        .as_ref()
        .map_or_else(|| xxh3_64(document.key.as_bytes()), |place| place.digest() as u64)
}

/// The shards that a pass fills.
struct Spools<'a> {
    pass: &'a IndexPass<'a>,
    language: Option<TextLanguage>,
    by_shard: Vec<Option<Spool>>,
}

impl Spools<'_> {
    /// Decides the language, and adds the documents that were read for that.
    fn begin(&mut self, sample: &LanguageSample, sampled: &mut Vec<EmbeddedDocument>) -> Result<(), Error> {
        let found = sample.language();
        found.told.iter().for_each(|told| self.pass.control.progress.note(told));
        self.language = Some(found.language);
        sampled.drain(..).try_for_each(|embedded| self.add(&embedded))
    }

    fn add(&mut self, embedded: &EmbeddedDocument) -> Result<(), Error> {
        let IndexPass {
            workspace,
            first,
            terms,
            ..
        } = *self.pass;
        let number = (place_hash(&embedded.document) % self.by_shard.len().max(1) as u64) as usize;
        let Some(slot) = self.by_shard.get_mut(number) else {
            return Ok(());
        };
        let spool = match slot {
            Some(spool) => spool,
            None => slot.insert(Spool::create(
                workspace,
                first + number,
                self.language.unwrap_or_default(),
                terms,
            )?),
        };
        spool.add(&embedded.document, &embedded.row)
    }
}

//! Document count, lengths and document frequencies over all shards, so that a document's score does not depend on
//! the shard that it is in; or over some of their documents alone, so that scores say nothing of the others.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, Searcher, TERMINATED, Term};

use super::analyzer::Analyzer;
use super::document_statistics::{DocumentCounter, DocumentStatistics};
use super::lengths::DocumentLengths;
use super::schema::schema;
use super::{PassageDocuments, TextShard, text_error};
use crate::deletions::Deletions;
use crate::error::Result;
use crate::search::NodeSet;
use dyad_files::Cancel;

/// Postings or passages that are read between two checks for cancellation.
const CHECKED: u32 = 1 << 14;

/// Statistics of the whole corpus, without deleted documents. Count and frequencies come from the same segments, so
/// that no term can be in more documents than there are (tantivy asserts it).
#[derive(Clone)]
pub struct CorpusStatistics {
    shards: Vec<CountedShard>,
    /// The deleted documents of each shard; none where it has none.
    deleted: Vec<Option<Arc<Deletions>>>,
    part: Option<CountedDocuments>,
    /// The statistics of whole documents, once they were asked for.
    documents: Arc<OnceLock<DocumentStatistics>>,
}

/// A shard's part of the statistics.
#[derive(Clone)]
pub(super) struct CountedShard {
    pub(super) path: PathBuf,
    pub(super) searcher: Searcher,
    pub(super) body: Field,
    analyzer: Analyzer,
    lengths: Option<DocumentLengths>,
}

impl CountedShard {
    fn new(shard: &TextShard) -> Self {
        Self {
            path: shard.path().to_owned(),
            searcher: shard.searcher.clone(),
            body: shard.fields.body,
            analyzer: shard.analyzer,
            lengths: shard.lengths.clone(),
        }
    }
}

/// The documents that are counted, where they are not all.
#[derive(Clone)]
struct CountedDocuments {
    /// The counted nodes of each shard.
    nodes: Arc<[NodeSet]>,
    documents: u64,
    /// Of shards of earlier releases by one byte for each document, which is about 3 % exact above 40 terms.
    tokens: u64,
}

impl std::fmt::Debug for CorpusStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CorpusStatistics")
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

impl CorpusStatistics {
    /// Over these shards.
    pub fn new<'a>(shards: impl IntoIterator<Item = &'a TextShard>) -> Self {
        let shards = shards.into_iter().map(CountedShard::new).collect();
        Self {
            shards,
            deleted: Vec::new(),
            part: None,
            documents: Arc::default(),
        }
    }

    /// Whether the terms of any shard were made by this analyzer.
    pub(super) fn has_shards_of(&self, analyzer: Analyzer) -> bool {
        self.shards.iter().any(|shard| shard.analyzer == analyzer)
    }

    /// Without the deleted documents of the shards, in their order.
    #[must_use]
    pub fn without(self, deleted: impl IntoIterator<Item = Option<Arc<Deletions>>>) -> Self {
        Self {
            deleted: deleted.into_iter().collect(),
            documents: Arc::default(),
            ..self
        }
    }

    pub(super) fn shards(&self) -> &[CountedShard] {
        &self.shards
    }

    /// The nodes of a shard that count; all where absent.
    pub(super) fn counted(&self, shard: usize) -> Option<&NodeSet> {
        let deleted = || self.deleted.get(shard)?.as_ref().map(|deleted| &deleted.live);
        self.part.as_ref().map_or_else(deleted, |part| part.nodes.get(shard))
    }

    /// The same statistics of whole documents, counted when they are first asked for; nothing where the work was
    /// cancelled.
    pub(super) fn of_documents(
        &self,
        passages: &PassageDocuments,
        cancel: &dyn Cancel,
    ) -> Result<Option<&DocumentStatistics>> {
        if let Some(known) = self.documents.get() {
            return Ok(Some(known));
        }
        let counted = self.count_documents(passages, cancel)?;
        Ok(counted.map(|counted| self.documents.get_or_init(|| counted)))
    }

    /// Of some documents alone, none of them deleted; one set per shard, in their order.
    pub fn within(&self, nodes: Arc<[NodeSet]>) -> Result<Self> {
        let (field, mut tokens) = (schema().1.body, 0);
        for (
            CountedShard {
                path,
                searcher,
                lengths,
                ..
            },
            nodes,
        ) in self.shards.iter().zip(&*nodes)
        {
            if let Some(lengths) = lengths {
                tokens += nodes.iter().map(|node| lengths.get(node)).sum::<u64>();
                continue;
            }
            let Some(segment) = searcher.segment_readers().first() else {
                continue;
            };
            let lengths = segment.get_fieldnorms_reader(field).map_err(text_error(path))?;
            tokens += nodes.iter().map(|node| u64::from(lengths.fieldnorm(node))).sum::<u64>();
        }
        let documents = nodes.iter().map(|nodes| nodes.len() as u64).sum();
        let part = Some(CountedDocuments {
            nodes,
            documents,
            tokens,
        });
        Ok(Self {
            part,
            documents: Arc::default(),
            ..self.clone()
        })
    }

    /// Nothing where `cancel`, which is polled between passages, ended the work.
    fn count_documents(&self, passages: &PassageDocuments, cancel: &dyn Cancel) -> Result<Option<DocumentStatistics>> {
        let mut counter = DocumentCounter::new(passages.len());
        for (
            number,
            CountedShard {
                path,
                searcher,
                body,
                lengths,
                ..
            },
        ) in self.shards.iter().enumerate()
        {
            let Some(segment) = searcher.segment_readers().first() else {
                continue;
            };
            let norms = segment.get_fieldnorms_reader(*body).map_err(text_error(path))?;
            let counted = self.counted(number);
            for (node, document) in (0_u32..).zip(passages.of_shard(number)) {
                if node.is_multiple_of(CHECKED) && cancel.is_cancelled() {
                    return Ok(None);
                }
                if counted.is_none_or(|counted| counted.contains(node)) {
                    let of_norm = || u64::from(norms.fieldnorm(node));
                    counter.add(
                        *document,
                        lengths.as_ref().map_or_else(of_norm, |lengths| lengths.get(node)),
                    );
                }
            }
        }
        Ok(Some(counter.statistics()))
    }

    /// The statistics of these terms: one look-up for each different term and shard. `cancel` is polled before each
    /// term; nothing where it ended the work.
    pub(super) fn term_statistics(
        &self,
        field: Field,
        terms: &[Term],
        cancel: &dyn Cancel,
    ) -> Result<Option<TermStatistics>> {
        if let Some(part) = &self.part {
            return self.of_part(part, terms, cancel);
        }
        let deleted = |count: &dyn Fn(&Deletions) -> u64| {
            self.deleted.iter().flatten().map(|deleted| count(deleted)).sum::<u64>()
        };
        let documents = self.sum(Bm25StatisticsProvider::total_num_docs)?;
        let tokens = self.sum(|searcher| searcher.total_num_tokens(field))?;
        let mut known = TermStatistics {
            documents: documents.saturating_sub(deleted(&|deleted| deleted.len() as u64)),
            tokens: tokens.saturating_sub(deleted(&|deleted| deleted.terms.tokens())),
            frequencies: HashMap::with_capacity(terms.len()),
        };
        for term in terms {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            if !known.frequencies.contains_key(term) {
                let frequency = self.sum(|searcher| Searcher::doc_freq(searcher, term))?;
                let bytes = term.serialized_value_bytes();
                let live = frequency.saturating_sub(deleted(&|deleted| deleted.terms.documents(bytes)));
                // Deletions of another shard could otherwise make more of them than there are documents.
                known.frequencies.insert(term.clone(), live.min(known.documents));
            }
        }
        Ok(Some(known))
    }

    /// The same for some documents alone: the postings of each term are read, and those of other documents left out.
    fn of_part(&self, part: &CountedDocuments, terms: &[Term], cancel: &dyn Cancel) -> Result<Option<TermStatistics>> {
        let mut frequencies = HashMap::with_capacity(terms.len());
        for term in terms {
            if frequencies.contains_key(term) {
                continue;
            }
            let mut frequency = 0;
            for (CountedShard { path, searcher, .. }, nodes) in self.shards.iter().zip(&*part.nodes) {
                match frequency_within(searcher, nodes, term, cancel).map_err(text_error(path))? {
                    Some(found) => frequency += found,
                    None => return Ok(None),
                }
            }
            frequencies.insert(term.clone(), frequency);
        }
        Ok(Some(TermStatistics {
            documents: part.documents,
            tokens: part.tokens,
            frequencies,
        }))
    }

    fn sum(&self, one: impl Fn(&Searcher) -> tantivy::Result<u64>) -> Result<u64> {
        self.shards
            .iter()
            .map(|shard| one(&shard.searcher).map_err(text_error(&shard.path)))
            .sum()
    }
}

/// The documents of a set that hold a term; nothing where the work was cancelled.
fn frequency_within(
    searcher: &Searcher,
    nodes: &NodeSet,
    term: &Term,
    cancel: &dyn Cancel,
) -> tantivy::Result<Option<u64>> {
    let Some(segment) = searcher.segment_readers().first().filter(|_| !nodes.is_empty()) else {
        return Ok(Some(0));
    };
    let index = segment.inverted_index(term.field())?;
    let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else {
        return Ok(Some(0));
    };
    let (mut read, mut found, mut node) = (0, 0, postings.doc());
    while node != TERMINATED {
        if read % CHECKED == 0 && cancel.is_cancelled() {
            return Ok(None);
        }
        read += 1;
        found += u64::from(nodes.contains(node));
        node = postings.advance();
    }
    Ok(Some(found))
}

/// Statistics of the whole corpus for the terms of one question. Other terms count as absent.
#[derive(Debug, Clone)]
pub(super) struct TermStatistics {
    documents: u64,
    tokens: u64,
    frequencies: HashMap<Term, u64>,
}

impl TermStatistics {
    /// Documents of all shards that hold a term.
    pub(super) fn frequency(&self, term: &Term) -> u64 {
        self.frequencies.get(term).copied().unwrap_or(0)
    }

    /// Inverse document frequency, as BM25 has it: `ln(1 + (N - df + 0.5) / (df + 0.5))`.
    pub(super) fn inverse_frequency(&self, term: &Term) -> f32 {
        let (documents, frequency) = (self.documents as f64, self.frequency(term) as f64);
        ((documents - frequency + 0.5) / (frequency + 0.5)).ln_1p() as f32
    }

    /// Factor, at most 1, by which a threshold must be lowered so that no block is skipped wrongly.
    ///
    /// tantivy bounds a block by the document that scores best with the average length `a` of the *shard*; the scores
    /// here use the average `c` of the corpus. For any document the two differ by a factor between `min(1, c/a)` and
    /// `max(1, c/a)`, so a bound is too low by at most `max(a, c) / min(a, c)`. The rest covers sums of f32 in another
    /// order.
    pub(super) fn bound_slack(&self, shard: &TextShard) -> Result<f32> {
        const ROUNDING: f32 = 1.0 - 1e-5;
        let average = |provider: &dyn Bm25StatisticsProvider| -> tantivy::Result<f32> {
            Ok(provider.total_num_tokens(shard.fields.body)? as f32 / provider.total_num_docs()?.max(1) as f32)
        };
        let both = average(&shard.searcher).and_then(|shard| Ok((shard, average(self)?)));
        let (shard_average, corpus_average) = both.map_err(text_error(shard.path()))?;
        let (low, high) = (shard_average.min(corpus_average), shard_average.max(corpus_average));
        Ok(if high > 0.0 { low / high * ROUNDING } else { 0.0 })
    }
}

impl Bm25StatisticsProvider for TermStatistics {
    fn total_num_tokens(&self, _field: Field) -> tantivy::Result<u64> {
        Ok(self.tokens)
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.documents)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        Ok(self.frequency(term))
    }
}

//! Document count, lengths and document frequencies over all shards, so that a document's score does not depend on
//! the shard that it is in; or over some of their documents alone, so that scores say nothing of the others.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, Searcher, TERMINATED, Term};

use super::analyzer::Analyzer;
use super::document_statistics::{DocumentCounter, DocumentStatistics};
use super::lengths::DocumentLengths;
use super::schema::schema;
use super::term_counts::TermCounts;
use super::{AnalyzedQuestion, PassageDocuments, TextShard, text_error};
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

/// Documents that hold a term.
#[derive(Clone, Copy)]
struct TermFrequency {
    /// Deleted ones among them, unless only some documents are counted.
    all: u64,
    /// Of these, the deleted ones.
    deleted: u64,
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

    /// The counts of a question's terms: one look-up for each different term and shard; of some documents alone, the
    /// postings of each term are read, and those of other documents left out. `cancel` is polled before each term;
    /// none where it ended the work. An error where a text index cannot be read.
    pub fn term_counts(&self, question: &AnalyzedQuestion, cancel: &dyn Cancel) -> Result<Option<TermCounts>> {
        let mut counts = TermCounts::new(question);
        counts.has_first_analyzer = self.shards.iter().any(|shard| shard.analyzer == Analyzer::First);
        if let Some(part) = &self.part {
            (counts.documents, counts.tokens) = (part.documents, part.tokens);
        } else {
            let body = schema().1.body;
            counts.documents = self.sum(Bm25StatisticsProvider::total_num_docs)?;
            counts.tokens = self.sum(|searcher| searcher.total_num_tokens(body))?;
            counts.deleted_documents = self.sum_deleted(|deleted| deleted.len() as u64);
            counts.deleted_tokens = self.sum_deleted(|deleted| deleted.terms.tokens());
        }
        let mut known: HashMap<&Term, TermFrequency> = HashMap::new();
        let places = counts.frequencies.iter_mut().zip(&mut counts.deleted_frequencies);
        for (term, (all, deleted)) in question.terms_of_both().zip(places) {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            let frequency = match known.entry(term) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => match self.frequency(term, cancel)? {
                    Some(frequency) => *free.insert(frequency),
                    None => return Ok(None),
                },
            };
            (*all, *deleted) = (frequency.all, frequency.deleted);
        }
        Ok(Some(counts))
    }

    /// Nothing where the work was cancelled.
    fn frequency(&self, term: &Term, cancel: &dyn Cancel) -> Result<Option<TermFrequency>> {
        let Some(part) = &self.part else {
            let bytes = term.serialized_value_bytes();
            return Ok(Some(TermFrequency {
                all: self.sum(|searcher| Searcher::doc_freq(searcher, term))?,
                deleted: self.sum_deleted(|deleted| deleted.terms.documents(bytes)),
            }));
        };
        let mut frequency = TermFrequency { all: 0, deleted: 0 };
        for (CountedShard { path, searcher, .. }, nodes) in self.shards.iter().zip(&*part.nodes) {
            match frequency_within(searcher, nodes, term, cancel).map_err(text_error(path))? {
                Some(found) => frequency.all += found,
                None => return Ok(None),
            }
        }
        Ok(Some(frequency))
    }

    fn sum(&self, one: impl Fn(&Searcher) -> tantivy::Result<u64>) -> Result<u64> {
        self.shards
            .iter()
            .map(|shard| one(&shard.searcher).map_err(text_error(&shard.path)))
            .sum()
    }

    fn sum_deleted(&self, one: impl Fn(&Deletions) -> u64) -> u64 {
        self.deleted.iter().flatten().map(|deleted| one(deleted)).sum()
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

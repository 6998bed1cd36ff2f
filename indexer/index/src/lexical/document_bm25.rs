//! BM25 of whole documents: what the documents of passages add to their scores.
//!
//! A passage that is cut out of its document loses its subject. Its score is `BM25(passage) + w BM25(document)`, both
//! in the form of `bm25.rs`. The document is its passages together, title and text, so that a title counts once for
//! each: `tf` and `|d|` are sums over them, `df` and `N` numbers of documents, and `avgdl` the mean of their lengths,
//! which are exact. Such sums of the evidence of a passage and of its document are those of Callan (1994), and for
//! sentences of Fernández, Losada and Azzopardi (2011). On five sets they were better than BM25F with the document as a
//! field (Robertson, Zaragoza and Taylor 2004), which lost on long documents (`benches/records/fusion/README.md`, "BM25
//! of passages and of their documents").
//!
//! Passages that are deleted, or not of the part that statistics are of, count nowhere. Scores are added up in the
//! order of the question's terms, whatever the shards are.

use std::sync::Arc;

use tantivy::Term;
use tantivy::query::Explanation;
use tantivy::schema::IndexRecordOption;

use super::analyzer::Analyzer;
use super::document_statistics::DocumentStatistics;
use super::weighed::{B, K1, Weighed};
use super::{CorpusStatistics, PassageDocuments, TextShard, text_error};
use crate::error::Result;
use dyad_files::Cancel;

/// What the documents of an index add to the scores of their passages, for one question.
pub struct DocumentScores {
    documents: Arc<PassageDocuments>,
    weight: f32,
    /// The weighted score of each document; 0 where no term matches.
    current: Vec<f32>,
    /// For shards of earlier releases, where there are any and their terms are others.
    first: Option<Vec<f32>>,
    bound: f32,
}

/// The outcome of [`Weighed::document_scores`].
#[derive(Debug)]
pub enum WeighedDocuments {
    /// What documents add.
    Scores(DocumentScores),
    /// No two passages that count are of one document: passages have the scores that they have without documents.
    Absent,
    /// The work was cancelled.
    Cancelled,
}

impl std::fmt::Debug for DocumentScores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (weight, documents) = (self.weight, self.documents.len());
        f.debug_struct("DocumentScores")
            .field("weight", &weight)
            .field("documents", &documents)
            .finish_non_exhaustive()
    }
}

/// What documents add to the scores of one shard's passages.
#[derive(Debug, Clone, Copy)]
pub struct ShardDocumentScores<'a> {
    pub(super) shard: &'a TextShard,
    /// The document of each node.
    pub(super) documents: &'a [u32],
    /// The score of each document.
    scores: &'a [f32],
}

impl DocumentScores {
    /// Those of a shard, of which the number is given.
    pub fn of_shard<'a>(&'a self, number: usize, shard: &'a TextShard) -> ShardDocumentScores<'a> {
        let scores = match &self.first {
            Some(first) if shard.analyzer == Analyzer::First => first,
            _ => &self.current,
        };
        ShardDocumentScores {
            shard,
            documents: self.documents.of_shard(number),
            scores,
        }
    }

    /// What no document adds more than.
    pub fn bound(&self) -> f32 {
        self.bound
    }
}

impl ShardDocumentScores<'_> {
    /// What a document adds.
    pub(super) fn of_document(&self, document: u32) -> f32 {
        self.scores.get(document as usize).copied().unwrap_or_default()
    }

    /// What the document of a passage adds to its score: 0 where no term matches.
    pub fn score(&self, node: u32) -> f32 {
        self.documents
            .get(node as usize)
            .map_or(0.0, |document| self.of_document(*document))
    }
}

/// The documents that hold a term.
struct Holding<'a> {
    corpus: &'a CorpusStatistics,
    passages: &'a PassageDocuments,
    statistics: &'a DocumentStatistics,
    /// How often each document has the term; 0 where it does not.
    frequencies: Vec<u32>,
    /// Each once.
    documents: Vec<u32>,
}

impl<'a> Holding<'a> {
    fn new(corpus: &'a CorpusStatistics, passages: &'a PassageDocuments, cancel: &dyn Cancel) -> Result<Option<Self>> {
        let Some(statistics) = corpus.of_documents(passages, cancel)? else {
            return Ok(None);
        };
        let frequencies = vec![0; passages.len()];
        Ok(Some(Self {
            corpus,
            passages,
            statistics,
            frequencies,
            documents: Vec::new(),
        }))
    }

    /// Reads the postings of a term in all shards, in place of those of the term before. False where `cancel`, which is
    /// polled between blocks, ended the work.
    fn read(&mut self, term: &Term, cancel: &dyn Cancel) -> Result<bool> {
        for document in self.documents.drain(..) {
            if let Some(frequency) = self.frequencies.get_mut(document as usize) {
                *frequency = 0;
            }
        }
        for (number, shard) in self.corpus.shards().iter().enumerate() {
            let Some(segment) = shard.searcher.segment_readers().first() else {
                continue;
            };
            let index = segment.inverted_index(shard.body).map_err(text_error(&shard.path))?;
            let Some(info) = index.get_term_info(term)? else {
                continue;
            };
            let mut postings = index.read_block_postings_from_terminfo(&info, IndexRecordOption::WithFreqs)?;
            let (documents, counted) = (self.passages.of_shard(number), self.corpus.counted(number));
            while postings.block_len() > 0 {
                if cancel.is_cancelled() {
                    return Ok(false);
                }
                for (node, frequency) in postings.docs().iter().zip(postings.freqs()) {
                    if counted.is_some_and(|counted| !counted.contains(*node)) {
                        continue;
                    }
                    let Some(document) = documents.get(*node as usize) else {
                        continue;
                    };
                    let Some(sum) = self.frequencies.get_mut(*document as usize) else {
                        continue;
                    };
                    if *sum == 0 {
                        self.documents.push(*document);
                    }
                    *sum = sum.saturating_add(*frequency);
                }
                postings.advance();
            }
        }
        Ok(true)
    }

    fn frequency(&self, document: u32) -> u32 {
        self.frequencies.get(document as usize).copied().unwrap_or_default()
    }

    fn inverse_frequency(&self) -> f32 {
        self.statistics.inverse_frequency(self.documents.len())
    }

    /// The term's part of documents' scores.
    fn scorer(&self) -> impl Fn(u32) -> f32 {
        let weight = self.inverse_frequency() * (K1 + 1.0);
        let (constant, of_length) = (K1 * (1.0 - B), K1 * B / self.statistics.average_length());
        move |document| {
            let frequency = self.frequency(document) as f32;
            let norm = constant + of_length * self.statistics.length(document) as f32;
            weight * (frequency / (frequency + norm))
        }
    }
}

/// A passage, by its shard and its node there.
#[derive(Debug, Clone, Copy)]
pub struct ShardPassage<'a> {
    /// The number of the shard among those of the corpus.
    pub number: usize,
    /// The texts of the shard.
    pub shard: &'a TextShard,
    /// The passage's node.
    pub node: u32,
}

impl Weighed<'_> {
    /// The BM25 scores of all documents, times `weight`, with the same passages counted as in `corpus`. The postings of
    /// each term are read once, on this thread. `cancel` is polled between blocks of postings.
    pub fn document_scores(
        &self,
        corpus: &CorpusStatistics,
        documents: &Arc<PassageDocuments>,
        weight: f32,
        cancel: &dyn Cancel,
    ) -> Result<WeighedDocuments> {
        let Some(mut holding) = Holding::new(corpus, documents, cancel)? else {
            return Ok(WeighedDocuments::Cancelled);
        };
        if !holding.statistics.has_several_passages() {
            return Ok(WeighedDocuments::Absent);
        }
        let (terms, terms_of_first) = self.terms();
        let mut scores = DocumentScores {
            documents: Arc::clone(documents),
            weight,
            current: Vec::new(),
            first: None,
            bound: 0.0,
        };
        let Some((current, bound)) = weighted_scores(&mut holding, terms, weight, cancel)? else {
            return Ok(WeighedDocuments::Cancelled);
        };
        (scores.current, scores.bound) = (current, bound);
        if let Some(terms) = terms_of_first {
            let Some((first, bound)) = weighted_scores(&mut holding, terms, weight, cancel)? else {
                return Ok(WeighedDocuments::Cancelled);
            };
            (scores.first, scores.bound) = (Some(first), scores.bound.max(bound));
        }
        Ok(WeighedDocuments::Scores(scores))
    }

    /// A passage's score, if it or its document has any of the terms, and its explanation as JSON: that of
    /// [`Weighed::explain`], and the part of the document. None for the whole where `cancel` ended the work.
    pub fn explain_in_document(
        &self,
        corpus: &CorpusStatistics,
        scores: &DocumentScores,
        passage: ShardPassage<'_>,
        cancel: &dyn Cancel,
    ) -> Result<Option<Option<(f32, String)>>> {
        let ShardPassage { number, shard, node } = passage;
        let of_shard = scores.of_shard(number, shard);
        let Some(document) = of_shard.documents.get(node as usize).copied() else {
            return Ok(Some(None));
        };
        let (own, added) = (self.explanation(shard, node)?, of_shard.of_document(document));
        if own.is_none() && added <= 0.0 {
            return Ok(Some(None));
        }
        let Some(mut holding) = Holding::new(corpus, &scores.documents, cancel)? else {
            return Ok(None);
        };
        let mut whole =
            Explanation::new_with_string(format!("{} times BM25 of the document, sum of:", scores.weight), added);
        for (word, term) in self.words_of(shard) {
            if !holding.read(term, cancel)? {
                return Ok(None);
            }
            if holding.frequency(document) > 0 {
                whole.add_detail(holding.explain(word, document));
            }
        }
        let value = own.as_ref().map_or(0.0, Explanation::value) + added;
        let mut sum = Explanation::new("BM25 of the passage and of its document, sum of:", value);
        if let Some(own) = own {
            sum.add_detail(own);
        }
        sum.add_detail(whole);
        Ok(Some(Some((value, sum.to_pretty_json()))))
    }
}

impl Holding<'_> {
    fn explain(&self, word: &str, document: u32) -> Explanation {
        let (statistics, score) = (self.statistics, self.scorer()(document));
        let mut of_term = Explanation::new_with_string(
            format!("idf (k1 + 1) tf / (tf + k1 (1 - b + b dl / avgdl)) of `{word}`"),
            score,
        );
        of_term.add_const(
            "idf, computed as log(1 + (N - n + 0.5) / (n + 0.5))",
            self.inverse_frequency(),
        );
        of_term.add_const(
            "n, number of documents containing this term",
            self.documents.len() as f32,
        );
        of_term.add_const("N, total number of documents", statistics.documents() as f32);
        of_term.add_const(
            "tf, occurrences of the term in all passages of the document",
            self.frequency(document) as f32,
        );
        of_term.add_const(
            "dl, length of the document in terms",
            statistics.length(document) as f32,
        );
        of_term.add_const("avgdl, average length of documents", statistics.average_length());
        of_term
    }
}

/// By document, and what none of them exceeds; nothing where the work was cancelled.
fn weighted_scores(
    holding: &mut Holding<'_>,
    terms: &[Term],
    weight: f32,
    cancel: &dyn Cancel,
) -> Result<Option<(Vec<f32>, f32)>> {
    let (mut scores, mut total_idf) = (vec![0.0; holding.passages.len()], 0.0);
    let mut matching = Vec::new();
    for term in terms {
        if !holding.read(term, cancel)? {
            return Ok(None);
        }
        total_idf += holding.inverse_frequency();
        let score = holding.scorer();
        for document in &holding.documents {
            if let Some(sum) = scores.get_mut(*document as usize) {
                if *sum == 0.0 {
                    matching.push(*document);
                }
                *sum += score(*document);
            }
        }
    }
    for document in matching {
        if let Some(sum) = scores.get_mut(document as usize) {
            *sum *= weight;
        }
    }
    Ok(Some((scores, weight * total_idf * (K1 + 1.0))))
}

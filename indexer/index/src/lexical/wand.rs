//! Block-max WAND over one segment (Ding and Suel 2011) that polls for cancellation between blocks, also while it
//! skips.
//!
//! This is tantivy's `block_wand`, step by step over the same blocks. tantivy's own cannot be interrupted before the
//! next hit, which may be a whole segment away. Two differences: tantivy moves to a block without decoding it, which
//! its public interface does not offer; and here the terms of a document are added up in the question's order, so that
//! its score is the same to the last bit in whatever segment it is.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::query::Bm25Weight;
use tantivy::{DocId, Score, TERMINATED};

use dyad_files::Cancel;

/// Documents of a whole block.
const BLOCK: usize = 128;
/// Steps of terms between two checks for cancellation.
const BETWEEN_CHECKS: usize = 4096;

/// A cursor over one term's postings.
pub(super) struct TermCursor<'a> {
    /// The number of the term in the question.
    number: usize,
    block: BlockSegmentPostings,
    weight: &'a Bm25Weight,
    max_score: Score,
    /// The current document.
    doc: DocId,
    /// The position of the cursor in its block, while `ahead` is false.
    at: usize,
    /// The last document of the block; the end of all where it is the last block.
    last: DocId,
    /// The block is after the document: only its score bound has been read.
    ahead: bool,
}

impl<'a> TermCursor<'a> {
    /// A cursor at the first document.
    pub(super) fn new(number: usize, block: BlockSegmentPostings, weight: &'a Bm25Weight) -> Self {
        let (doc, max_score) = (block.doc(0), weight.max_score());
        let mut cursor = Self {
            number,
            block,
            weight,
            max_score,
            doc,
            at: 0,
            last: 0,
            ahead: false,
        };
        cursor.read_end();
        cursor
    }

    fn read_end(&mut self) {
        let docs = self.block.docs();
        self.last = docs
            .last()
            .copied()
            .filter(|_| docs.len() == BLOCK)
            .unwrap_or(TERMINATED);
    }

    /// Moves to the block that may hold a document; the current document stays.
    fn seek_block(&mut self, target: DocId) {
        if self.last < target {
            self.block.seek(target);
            self.read_end();
            self.ahead = true;
        }
    }

    /// An upper bound of the scores in the block.
    fn block_max(&mut self, norms: &FieldNormReader) -> Score {
        if self.ahead && self.last == TERMINATED {
            // As tantivy, which has not decoded the block at this point.
            return self.max_score;
        }
        self.block.block_max_score(norms, self.weight)
    }

    /// Moves to the first document that is not before `target`.
    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.at = self.block.seek(target);
            if self.last < target {
                self.read_end();
            }
            self.set_doc();
        }
        self.doc
    }

    fn advance(&mut self) -> DocId {
        self.at += 1;
        if self.at == BLOCK {
            self.block.advance();
            self.at = 0;
            self.read_end();
        }
        self.set_doc();
        self.doc
    }

    fn set_doc(&mut self) {
        self.doc = self.block.doc(self.at);
        self.ahead = false;
    }

    fn score(&self, norms: &FieldNormReader) -> Score {
        self.weight
            .score(norms.fieldnorm_id(self.doc), self.block.freq(self.at))
    }
}

/// Polls for cancellation between blocks.
struct CancelCheck<'a> {
    cancel: &'a dyn Cancel,
    steps: usize,
}

impl CancelCheck<'_> {
    /// Counts `steps`; true where the work was cancelled.
    fn after(&mut self, steps: usize) -> bool {
        self.steps += steps;
        if self.steps < BETWEEN_CHECKS {
            return false;
        }
        self.steps = 0;
        self.cancel.is_cancelled()
    }
}

/// Calls `take` with every document that scores more than a threshold, ascending; `take` returns the next threshold,
/// and documents that cannot exceed it are skipped. False where it was cancelled.
pub(super) fn block_max_wand(
    mut cursors: Vec<TermCursor<'_>>,
    norms: &FieldNormReader,
    cancel: &dyn Cancel,
    take: &mut dyn FnMut(DocId, Score) -> Score,
) -> bool {
    let mut threshold = Score::MIN;
    let mut check = CancelCheck { cancel, steps: 0 };
    // Cursors hold whole blocks, so references to them are sorted.
    let mut terms: Vec<&mut TermCursor<'_>> = cursors.iter_mut().filter(|term| term.doc < TERMINATED).collect();
    if terms.len() == 1 {
        return terms.pop().is_none_or(|term| one_term(term, norms, &mut check, take));
    }
    terms.sort_by_key(|term| term.doc);
    let mut parts: Vec<(usize, Score)> = Vec::with_capacity(terms.len());
    while let Some((before, pivot_len, pivot)) = find_pivot(&terms, threshold) {
        if check.after(terms.len()) {
            return false;
        }
        let bound: Score = terms[..pivot_len]
            .iter_mut()
            .map(|term| {
                term.seek_block(pivot);
                term.block_max(norms)
            })
            .sum();
        if bound <= threshold {
            skip_block(&mut terms, pivot_len);
            continue;
        }
        if !align(&mut terms, pivot, before) {
            continue;
        }
        parts.clear();
        parts.extend(terms[..pivot_len].iter().map(|term| (term.number, term.score(norms))));
        parts.sort_unstable_by_key(|part| part.0);
        let score = parts.iter().map(|part| part.1).sum();
        if score > threshold {
            threshold = take(pivot, score);
        }
        for term in &mut terms[..pivot_len] {
            term.advance();
        }
        let mut at = 0;
        while let Some(term) = terms.get(at) {
            if term.doc == TERMINATED {
                terms.swap_remove(at);
            } else {
                at += 1;
            }
        }
        terms.sort_by_key(|term| term.doc);
    }
    true
}

/// The first document that may exceed the threshold: the number of terms before it, the number of terms not after it,
/// and the document.
fn find_pivot(terms: &[&mut TermCursor<'_>], threshold: Score) -> Option<(usize, usize, DocId)> {
    let mut most = 0.0;
    let before = terms.iter().position(|term| {
        most += term.max_score;
        most > threshold
    })?;
    let pivot = terms
        .get(before)
        .map(|term| term.doc)
        .filter(|pivot| *pivot != TERMINATED)?;
    let on_pivot = terms
        .iter()
        .skip(before + 1)
        .take_while(|term| term.doc == pivot)
        .count();
    Some((before, before + 1 + on_pivot, pivot))
}

/// No document before the end of the nearest block can exceed the threshold: the term that may score most goes there.
fn skip_block(terms: &mut [&mut TermCursor<'_>], pivot_len: usize) {
    let Some((mut mover, (mut most, mut end))) = terms
        .get(pivot_len - 1)
        .map(|term| (pivot_len - 1, (term.max_score, term.last)))
    else {
        return;
    };
    for (at, term) in terms.iter().enumerate().take(pivot_len - 1).rev() {
        end = end.min(term.last);
        if term.max_score > most {
            (most, mover) = (term.max_score, at);
        }
    }
    if end != TERMINATED {
        end += 1;
    }
    for term in terms.iter().skip(pivot_len) {
        end = end.min(term.doc);
    }
    if let Some(term) = terms.get_mut(mover) {
        term.seek(end);
    }
    restore_order(terms, mover);
}

/// Moves the one term that has gone ahead to its place.
fn restore_order(terms: &mut [&mut TermCursor<'_>], moved: usize) {
    let Some(doc) = terms.get(moved).map(|term| term.doc) else {
        return;
    };
    for at in moved + 1..terms.len() {
        if terms[at].doc >= doc {
            break;
        }
        terms.swap(at, at - 1);
    }
}

/// Moves the first `before` terms to the pivot; false where one of them goes past it.
fn align(terms: &mut Vec<&mut TermCursor<'_>>, pivot: DocId, before: usize) -> bool {
    for at in (0..before).rev() {
        let Some(term) = terms.get_mut(at) else { continue };
        let doc = term.seek(pivot);
        if doc != pivot {
            if doc == TERMINATED {
                terms.swap_remove(at);
            }
            restore_order(terms, at);
            return false;
        }
    }
    true
}

fn one_term(
    term: &mut TermCursor<'_>,
    norms: &FieldNormReader,
    check: &mut CancelCheck<'_>,
    take: &mut dyn FnMut(DocId, Score) -> Score,
) -> bool {
    let mut threshold = Score::MIN;
    let mut doc = term.doc;
    loop {
        while term.block_max(norms) <= threshold {
            if check.after(1) {
                return false;
            }
            if term.last == TERMINATED {
                return true;
            }
            doc = term.last + 1;
            term.seek_block(doc);
        }
        doc = term.seek(doc);
        loop {
            if check.after(1) {
                return false;
            }
            if doc == TERMINATED {
                return true;
            }
            let score = term.score(norms);
            if score > threshold {
                threshold = take(doc, score);
            }
            if doc == term.last {
                break;
            }
            doc = term.advance();
        }
        doc += 1;
        term.seek_block(doc);
    }
}

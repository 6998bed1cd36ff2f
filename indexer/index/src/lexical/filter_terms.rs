//! The documents of one term, of a range of terms, and of numbers whose nearest doubles are those of others too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::{Bound, RangeBounds as _};
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, InvertedIndexReader, TERMINATED};

use super::TextShard;
use super::exact_number::ExactNumber;
use super::facts::{self, FieldValue};
use super::fields_of::{FieldScalar, each_value};
use dyad_files::Cancel;

/// Documents read between two checks for cancellation.
const DOCUMENTS_BETWEEN_CHECKS: u32 = 4096;

/// The two ends of a range.
pub(super) type Ends<T> = (Bound<T>, Bound<T>);

/// Whether no number is between two.
fn is_empty((min, max): Ends<&ExactNumber>) -> bool {
    match (min, max) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(min), Bound::Included(max)) => min > max,
        (Bound::Included(min) | Bound::Excluded(min), Bound::Included(max) | Bound::Excluded(max)) => min >= max,
    }
}

/// Whether the term of an end starts with a prefix.
fn starts_with(end: &Bound<Vec<u8>>, prefix: &[u8]) -> bool {
    match end {
        Bound::Included(term) | Bound::Excluded(term) => term.starts_with(prefix),
        Bound::Unbounded => false,
    }
}

/// Adds a document. A damaged posting list may name one that does not exist.
fn insert_into(bits: &mut FixedBitSet) -> impl FnMut(u32) {
    |document| {
        if (document as usize) < bits.len() {
            bits.insert(document as usize);
        }
    }
}

/// The terms of one indexed field, and their documents.
pub(super) struct FieldTerms<'a> {
    shard: &'a TextShard,
    pub(super) reader: Arc<InvertedIndexReader>,
    cancel: &'a dyn Cancel,
    read: u32,
}

impl<'a> FieldTerms<'a> {
    /// Of a field; none in a shard without documents.
    pub(super) fn open(shard: &'a TextShard, field: Field, cancel: &'a dyn Cancel) -> tantivy::Result<Option<Self>> {
        let Some(segment) = shard.searcher.segment_readers().first() else {
            return Ok(None);
        };
        Ok(Some(Self {
            shard,
            reader: segment.inverted_index(field)?,
            cancel,
            read: 0,
        }))
    }

    /// Adds the documents of one term.
    pub(super) fn equal(&mut self, term: &[u8], into: &mut FixedBitSet) -> io::Result<()> {
        match self.reader.terms().get(term)? {
            Some(info) => self.documents(&info, insert_into(into)),
            None => Ok(()),
        }
    }

    /// Adds the documents of all terms between two that start with `prefix`.
    pub(super) fn between(
        &mut self,
        (from, to): Ends<Vec<u8>>,
        prefix: &[u8],
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        let reader = Arc::clone(&self.reader);
        let range = reader.terms().range();
        let range = match from {
            Bound::Included(from) => range.ge(from),
            Bound::Excluded(from) => range.gt(from),
            Bound::Unbounded => range.ge(prefix),
        };
        let range = match to {
            Bound::Included(to) => range.le(to),
            Bound::Excluded(to) => range.lt(to),
            Bound::Unbounded => range,
        };
        let mut terms = range.into_stream()?;
        while terms.advance() {
            if !terms.key().starts_with(prefix) {
                break;
            }
            self.documents(terms.value(), insert_into(into))?;
        }
        Ok(())
    }

    /// Adds the documents that have one of these values in the field of a path.
    pub(super) fn one_of(&mut self, path: &str, values: &[FieldValue], into: &mut FixedBitSet) -> io::Result<()> {
        let mut ambiguous: BTreeMap<Vec<u8>, BTreeSet<&ExactNumber>> = BTreeMap::new();
        for value in values {
            match value {
                FieldValue::Number(number) if number.is_ambiguous() => {
                    ambiguous
                        .entry(facts::exact_prefix(path, number))
                        .or_default()
                        .insert(number);
                }
                other => self.equal(&facts::term(path, other), into)?,
            }
        }
        for (prefix, numbers) in ambiguous {
            if self.any(&prefix)? {
                numbers
                    .iter()
                    .try_for_each(|number| self.equal(&facts::exact(path, number), into))?;
            } else if let Some(like) = numbers.first() {
                self.stored(path, like, |number| numbers.contains(number), into)?;
            }
        }
        Ok(())
    }

    /// Adds the documents that have a number between two in the field of a path.
    pub(super) fn numbers(
        &mut self,
        path: &str,
        (min, max): Ends<&ExactNumber>,
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        if is_empty((min, max)) {
            return Ok(());
        }
        // Other doubles than those of the ends have the order of their numbers.
        let end = |end: Bound<&ExactNumber>| {
            let term = |number: &ExactNumber| facts::number(path, number);
            match end {
                Bound::Included(number) if number.is_ambiguous() => Bound::Excluded(term(number)),
                other => other.map(term),
            }
        };
        self.between((end(min), end(max)), &facts::prefix(path, facts::NUMBER), into)?;
        for end in [min, max] {
            if let Bound::Included(number) | Bound::Excluded(number) = end
                && number.is_ambiguous()
            {
                self.sharing_double(path, number, (min, max), into)?;
            }
        }
        Ok(())
    }

    /// Adds the documents that have a number between two, of all numbers with the same nearest double as `like`, which
    /// is one of the two.
    fn sharing_double(
        &mut self,
        path: &str,
        like: &ExactNumber,
        (min, max): Ends<&ExactNumber>,
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        let prefix = facts::exact_prefix(path, like);
        if !self.any(&prefix)? {
            return self.stored(path, like, |number| (min, max).contains(number), into);
        }
        let [from, to] = [min, max].map(|end| end.map(|number| facts::exact(path, number)));
        // Where the smallest one has a lower double, all of this one are above it.
        let from = if starts_with(&from, &prefix) {
            from
        } else {
            Bound::Unbounded
        };
        self.between((from, to), &prefix, into)
    }

    /// Adds the documents with an accepted number, of those that a shard has under the same double as `like`. The shard
    /// was written by a release that indexed doubles alone: what is stored decides.
    fn stored(
        &mut self,
        path: &str,
        like: &ExactNumber,
        accepts: impl Fn(&ExactNumber) -> bool,
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        let mut candidates = FixedBitSet::with_capacity(into.len());
        self.equal(&facts::number(path, like), &mut candidates)?;
        for node in candidates.ones() {
            if self.cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let document = self.shard.document(node as u32).map_err(io::Error::other)?;
            each_value(&document.metadata_json, &mut |at, value| {
                if let FieldScalar::Number(number) = value
                    && at == path
                    && accepts(&number)
                {
                    into.insert(node);
                }
            });
        }
        Ok(())
    }

    /// Whether a term starts with a prefix.
    fn any(&self, prefix: &[u8]) -> io::Result<bool> {
        let mut terms = self.reader.terms().range().ge(prefix).into_stream()?;
        Ok(terms.advance() && terms.key().starts_with(prefix))
    }

    /// Calls `visit` with each document of a term. An error of kind `Interrupted` where the work was cancelled.
    pub(super) fn documents(&mut self, info: &TermInfo, mut visit: impl FnMut(u32)) -> io::Result<()> {
        let mut documents = self
            .reader
            .read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        let mut document = documents.doc();
        while document != TERMINATED {
            if self.read.is_multiple_of(DOCUMENTS_BETWEEN_CHECKS) && self.cancel.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.read = self.read.wrapping_add(1);
            visit(document);
            document = documents.advance();
        }
        Ok(())
    }
}

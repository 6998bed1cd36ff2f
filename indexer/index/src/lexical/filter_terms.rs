//! The documents of one term, of a range of terms, and of numbers whose nearest doubles are those of others too.

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
use crate::cancel::Cancel;

/// Documents read between two checks for cancellation.
const DOCUMENTS_BETWEEN_CHECKS: u32 = 4096;

/// The two ends of a range.
pub(super) type Ends<T> = (Bound<T>, Bound<T>);

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
        let Some(segment) = shard.searcher.segment_readers().first() else { return Ok(None) };
        Ok(Some(Self { shard, reader: segment.inverted_index(field)?, cancel, read: 0 }))
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

    /// Adds the documents that have a value in the field of a path.
    pub(super) fn value(&mut self, path: &str, value: &FieldValue, into: &mut FixedBitSet) -> io::Result<()> {
        match value {
            FieldValue::Number(number) if number.is_ambiguous() => {
                let only = (Bound::Included(number), Bound::Included(number));
                self.sharing_double(path, number, only, into)
            }
            other => self.equal(&facts::term(path, other), into),
        }
    }

    /// Adds the documents that have a number between two in the field of a path.
    pub(super) fn numbers(
        &mut self,
        path: &str,
        (min, max): Ends<&ExactNumber>,
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
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

    /// Adds the documents that have a number between two, of all numbers with the same nearest double as `like`, which is one of the two.
    fn sharing_double(
        &mut self,
        path: &str,
        like: &ExactNumber,
        (min, max): Ends<&ExactNumber>,
        into: &mut FixedBitSet,
    ) -> io::Result<()> {
        let prefix = facts::exact_prefix(path, like);
        if self.any(&prefix)? {
            let exact = |number: &ExactNumber| facts::exact(path, number);
            let is_alike =
                |end: Bound<&ExactNumber>| end.map(ExactNumber::ordered_bytes) == end.map(|_| like.ordered_bytes());
            let from = if is_alike(min) { min.map(exact) } else { Bound::Unbounded };
            return self.between((from, max.map(exact)), &prefix, into);
        }
        // Written by a release that indexed doubles alone: what is stored decides.
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
                    && (min, max).contains(&number)
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
        let mut documents = self.reader.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
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

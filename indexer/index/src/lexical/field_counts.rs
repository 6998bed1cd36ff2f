//! How many documents of a text index have a field: every term of `facts.rs` is read, in order, so that those of one
//! field and type follow each other.

use std::collections::BTreeMap;
use std::io;
use std::ops::AddAssign;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use tantivy::TantivyError;

use super::filter_terms::FieldTerms;
use super::{TextShard, facts, text_error};
use crate::error::Result;
use crate::search::NodeSet;
use dyad_files::Cancel;

/// Documents that have a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FieldCounts {
    /// With a value of any type.
    pub documents: u64,
    /// With a text.
    pub texts: u64,
    /// With a number.
    pub numbers: u64,
    /// With true or false.
    pub flags: u64,
}

/// Of other documents.
impl AddAssign for FieldCounts {
    fn add_assign(&mut self, other: Self) {
        self.documents += other.documents;
        self.texts += other.texts;
        self.numbers += other.numbers;
        self.flags += other.flags;
    }
}

/// The counts of fields by their paths.
pub(crate) type CountsByPath = BTreeMap<String, FieldCounts>;

/// The field whose terms are being read.
struct OpenField {
    path: String,
    counts: FieldCounts,
    /// Documents with a value of any type.
    any: FixedBitSet,
    /// Type of the last term.
    kind: u8,
    /// Documents with a value of this type.
    of_kind: FixedBitSet,
}

impl OpenField {
    /// No fields, for this number of documents.
    fn new(documents: usize) -> Self {
        Self {
            path: String::new(),
            counts: FieldCounts::default(),
            any: FixedBitSet::with_capacity(documents),
            kind: 0,
            of_kind: FixedBitSet::with_capacity(documents),
        }
    }

    /// Takes the place of the field before, which goes to `counts`, where a document has it.
    fn begin(&mut self, path: &str, counts: &mut CountsByPath) {
        let before = std::mem::take(&mut self.counts);
        if before.documents > 0 {
            counts.insert(std::mem::take(&mut self.path), before);
            self.any.clear();
            self.of_kind.clear();
        }
        self.kind = 0;
        path.clone_into(&mut self.path);
    }

    /// The following terms are of this type.
    fn begin_kind(&mut self, kind: u8) {
        if self.kind != kind {
            self.kind = kind;
            self.of_kind.clear();
        }
    }

    /// A document has the last term. One that does not exist, as a damaged posting list may name, counts nowhere.
    fn add(&mut self, document: u32) {
        let document = document as usize;
        if document >= self.any.len() || self.of_kind.put(document) {
            return;
        }
        let FieldCounts {
            documents,
            texts,
            numbers,
            flags,
        } = &mut self.counts;
        match self.kind {
            facts::TEXT => *texts += 1,
            facts::NUMBER => *numbers += 1,
            facts::FLAG => *flags += 1,
            _ => return,
        }
        *documents += u64::from(!self.any.put(document));
    }
}

impl TextShard {
    /// The first `most` fields, in the order of their paths, that a document of `among` has, or any where that is
    /// absent; and how many have each. None where the work was cancelled.
    pub(crate) fn field_counts(
        &self,
        most: usize,
        among: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Result<Option<CountsByPath>> {
        match of_terms(self, most, among, cancel) {
            Ok(counts) => Ok(Some(counts)),
            Err(TantivyError::IoError(error)) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(text_error(self.path())(error)),
        }
    }
}

fn of_terms(
    shard: &TextShard,
    most: usize,
    among: Option<&NodeSet>,
    cancel: &dyn Cancel,
) -> tantivy::Result<CountsByPath> {
    let mut counts = CountsByPath::new();
    let Some(mut terms) = FieldTerms::open(shard, shard.fields.facts, cancel)? else {
        return Ok(counts);
    };
    let reader = Arc::clone(&terms.reader);
    let (mut stream, mut field) = (reader.terms().stream()?, OpenField::new(shard.len()));
    while stream.advance() {
        // The exact values of numbers are next to their nearest doubles.
        let Some((path, kind)) = facts::path_and_kind(stream.key()).filter(|(_, kind)| facts::is_type(*kind)) else {
            continue;
        };
        if path != field.path {
            field.begin(path, &mut counts);
            if counts.len() == most {
                return Ok(counts);
            }
        }
        field.begin_kind(kind);
        terms.documents(stream.value(), |document| {
            if among.is_none_or(|among| among.contains(document)) {
                field.add(document);
            }
        })?;
    }
    field.begin("", &mut counts);
    Ok(counts)
}

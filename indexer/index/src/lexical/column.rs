//! Columns: which documents of a text index have the same value of a field. Whoever groups many hits reads one stored
//! document for each value, and not one for each hit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Columns that a text index keeps: those of the fields that were asked for last.
const KEPT: usize = 4;
/// Bytes that the columns of a text index take at most, for each of its documents.
pub const COLUMN_BYTES: usize = KEPT * size_of::<u32>();

/// In place of a value's number: the document has no value of the field.
const ABSENT: u32 = u32::MAX;
/// The document has several values, or one that its term does not tell from others.
const STORED: u32 = u32::MAX - 1;

/// What a column says of a document's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColumnValue {
    /// It has none.
    Absent,
    /// It is the value with this number, which is that of no other value of the text index.
    Shared(u32),
    /// Only the stored document tells.
    Stored,
}

/// One field's values by document, as numbers from 0.
#[derive(Debug)]
pub struct FieldColumn {
    /// Empty where no document has a value, and where only stored documents tell.
    numbers: Box<[u32]>,
    /// The number of documents that are not in `numbers`.
    otherwise: u32,
    values: u32,
}

impl FieldColumn {
    /// A column without values: of documents that have none, or of which only the stored ones tell.
    pub(super) fn empty(is_stored: bool) -> Self {
        let otherwise = if is_stored { STORED } else { ABSENT };
        Self {
            numbers: Box::default(),
            otherwise,
            values: 0,
        }
    }

    /// The number of another value, in a text index of a number of documents. None for values that only stored
    /// documents tell apart.
    pub(super) fn add_value(&mut self, is_exact: bool, documents: usize) -> Option<u32> {
        if self.numbers.is_empty() {
            self.numbers = vec![ABSENT; documents].into();
        }
        let number = is_exact.then_some(self.values);
        self.values += u32::from(is_exact);
        number
    }

    /// A document has a value. One that does not exist, as a damaged posting list may name, has none.
    pub(super) fn add_document(&mut self, node: u32, number: Option<u32>) {
        if let Some(place) = self.numbers.get_mut(node as usize) {
            *place = if *place == ABSENT {
                number.unwrap_or(STORED)
            } else {
                STORED
            };
        }
    }

    /// The value of a document.
    pub fn value(&self, node: u32) -> ColumnValue {
        match self.numbers.get(node as usize).copied().unwrap_or(self.otherwise) {
            ABSENT => ColumnValue::Absent,
            STORED => ColumnValue::Stored,
            number => ColumnValue::Shared(number),
        }
    }

    /// Numbers of values are below this.
    pub fn values(&self) -> u32 {
        self.values
    }
}

/// The columns that a text index keeps.
#[derive(Debug, Default)]
pub(super) struct KeptColumns(Mutex<VecDeque<(String, Arc<FieldColumn>)>>);

impl KeptColumns {
    /// That of a field, where it is kept.
    pub(super) fn get(&self, field: &str) -> Option<Arc<FieldColumn>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(of, _)| of == field)?;
        let found = kept.remove(place)?;
        let column = Arc::clone(&found.1);
        kept.push_front(found);
        Some(column)
    }

    /// Keeps that of a field, in place of the one that was asked for longest ago. One without values takes nothing, and
    /// is made by a look at the dictionary.
    pub(super) fn keep(&self, field: &str, column: &Arc<FieldColumn>) {
        if column.numbers.is_empty() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(of, _)| of != field);
        kept.push_front((field.to_owned(), Arc::clone(column)));
        kept.truncate(KEPT);
    }
}

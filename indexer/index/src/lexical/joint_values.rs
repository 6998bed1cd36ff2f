//! Values of a field that several text indexes have: which numbers of their columns are of the same value.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use tantivy::termdict::TermStreamer;

use super::column_reader::is_exact;
use super::{FieldValue, TextShard, facts, text_error};
use crate::error::Result;
use dyad_files::Cancel;

/// Values between two checks for cancellation.
const VALUES_BETWEEN_CHECKS: u32 = 4096;

/// A value as the terms of its type have it, with all of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct WholeValue(Vec<u8>);

impl From<&FieldValue> for WholeValue {
    fn from(value: &FieldValue) -> Self {
        let mut bytes = vec![value.kind()];
        match value {
            FieldValue::Text(text) => bytes.extend_from_slice(text.as_bytes()),
            FieldValue::Number(number) => {
                bytes.extend_from_slice(&number.ordered_bytes());
                bytes.extend_from_slice(number.difference());
            }
            FieldValue::Flag(flag) => bytes.push(u8::from(*flag)),
        }
        Self(bytes)
    }
}

/// The values of a field over several text indexes, numbered.
#[derive(Debug, Default)]
pub(crate) struct JointValues {
    /// For each text index, the joint number of each number that its column has for a value.
    numbers: Vec<Vec<u32>>,
    /// Numbers of those that were looked for.
    wanted: HashMap<WholeValue, u32>,
    values: u32,
}

impl JointValues {
    /// Reads the dictionaries side by side, each in its order: what is equal in several is one value. `wanted` are
    /// values that columns do not tell: they have a number whether a dictionary has them or not. None where the work
    /// was cancelled.
    pub(crate) fn read(
        texts: &[&TextShard],
        field: &str,
        wanted: impl IntoIterator<Item = WholeValue>,
        cancel: &dyn Cancel,
    ) -> Result<Option<Self>> {
        let mut joint = Self {
            numbers: vec![Vec::new(); texts.len()],
            ..Self::default()
        };
        joint.wanted.extend(wanted.into_iter().map(|value| (value, u32::MAX)));
        let prefix = facts::own(&facts::path(field));
        let mut readers = Vec::with_capacity(texts.len());
        for text in texts {
            let segment = text.searcher.segment_readers().first();
            let reader = segment
                .map(|segment| segment.inverted_index(text.fields.facts))
                .transpose();
            readers.push(reader.map_err(text_error(text.path()))?);
        }
        let mut streams = Vec::with_capacity(texts.len());
        let mut next = BinaryHeap::with_capacity(texts.len());
        for (at, reader) in readers.iter().enumerate() {
            let stream = reader
                .as_ref()
                .map(|reader| reader.terms().range().ge(&prefix).into_stream())
                .transpose()?;
            streams.push(stream);
            next.extend(next_value(&mut streams, at, &prefix).map(|value| Reverse((value, at))));
        }
        let (mut last, mut read) = (None, 0_u32);
        while let Some(Reverse((value, at))) = next.pop() {
            if read.is_multiple_of(VALUES_BETWEEN_CHECKS) && cancel.is_cancelled() {
                return Ok(None);
            }
            read = read.wrapping_add(1);
            if last.as_ref() != Some(&value) {
                if let Some(number) = joint.wanted.get_mut(&value) {
                    *number = joint.values;
                }
                joint.values += 1;
            }
            if let Some(numbers) = joint.numbers.get_mut(at) {
                numbers.push(joint.values - 1);
            }
            next.extend(next_value(&mut streams, at, &prefix).map(|value| Reverse((value, at))));
            last = Some(value);
        }
        for number in joint.wanted.values_mut().filter(|number| **number == u32::MAX) {
            *number = joint.values;
            joint.values += 1;
        }
        Ok(Some(joint))
    }

    /// The number of the value that the column of a text index knows by this one.
    pub(crate) fn of_column(&self, text: usize, number: u32) -> Option<u32> {
        self.numbers.get(text)?.get(number as usize).copied()
    }

    /// The number of a value that was looked for.
    pub(crate) fn of_wanted(&self, value: &WholeValue) -> Option<u32> {
        self.wanted.get(value).copied()
    }

    /// Numbers are below this.
    pub(crate) fn len(&self) -> usize {
        self.values as usize
    }
}

/// The next value of a dictionary that its column has a number for.
fn next_value(streams: &mut [Option<TermStreamer<'_>>], at: usize, prefix: &[u8]) -> Option<WholeValue> {
    let stream = streams.get_mut(at)?.as_mut()?;
    while stream.advance() {
        let value = stream.key().strip_prefix(prefix)?;
        if is_exact(value) {
            return Some(WholeValue(value.to_vec()));
        }
    }
    None
}

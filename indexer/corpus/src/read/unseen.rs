//! Fields that the caller has named and no record has had yet: a misspelt name would lose them silently.

use serde_json::{Map, Value};

use super::options::FieldNames;

/// Names of fields in no record so far. A key or a text that is not there is a fault of its record already.
#[derive(Debug)]
pub(super) struct UnseenFields {
    names: Vec<String>,
}

impl UnseenFields {
    /// Of a corpus from which no record was read.
    pub(super) fn of(fields: &FieldNames) -> Self {
        let names = fields.title.iter().chain(&fields.metadata).cloned().collect();
        Self { names }
    }

    /// Takes note of the fields of a record. Those in its object `metadata` are stored anyway.
    pub(super) fn see(&mut self, record: &Map<String, Value>) {
        if self.names.is_empty() {
            return;
        }
        let metadata = record.get("metadata").and_then(Value::as_object);
        let has = |name: &str| record.contains_key(name) || metadata.is_some_and(|fields| fields.contains_key(name));
        self.names.retain(|name| !has(name));
    }

    /// Takes note of columns, whose values may all be null.
    pub(super) fn see_columns(&mut self, columns: &[String]) {
        self.names.retain(|name| !columns.contains(name));
    }

    /// Those that no record has had, between commas; none where all were seen.
    pub(super) fn listed(&self) -> Option<String> {
        let quoted: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }
}

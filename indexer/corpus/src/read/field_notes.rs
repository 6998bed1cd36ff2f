//! What is noted of the fields of all records, to be told at the end.

use super::mixed_types::MixedTypes;
use super::options::FieldNames;
use super::unseen::UnseenFields;
use super::unstored::Unstored;

/// Notes of one reading.
#[derive(Debug)]
pub(super) struct FieldNotes {
    /// Fields that are there and not stored.
    pub(super) unstored: Unstored,
    /// Fields that were named and are not there.
    pub(super) unseen: UnseenFields,
    /// Fields of the metadata by the types of their values.
    pub(super) types: MixedTypes,
}

impl FieldNotes {
    /// Of a corpus from which no record was read.
    pub(super) fn of(fields: &FieldNames) -> Self {
        Self {
            unstored: Unstored::default(),
            unseen: UnseenFields::of(fields),
            types: MixedTypes::default(),
        }
    }

    /// What a user should hear of them.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        self.unstored.messages().chain(self.types.messages())
    }
}

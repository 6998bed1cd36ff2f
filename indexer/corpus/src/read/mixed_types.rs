//! Fields of the metadata that are numbers in some documents and texts in others, for one warning each: a filter looks
//! for the one or the other, and misses the rest.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::metadata::Metadata;
use crate::raw_fields::RawFields;

/// Fields that are looked at: the first ones of a corpus.
const MOST_FIELDS: usize = 256;
/// Most fields that are told, and most characters of a name and of an example.
const TOLD_FIELDS: usize = 8;
const TOLD_CHARS: usize = 64;
/// Longest name that is kept, in bytes.
const NAME_BYTES: usize = 256;

/// Values of one type.
#[derive(Debug, Default)]
struct ValuesSeen {
    documents: u64,
    /// The first of them, as JSON.
    example: String,
}

impl ValuesSeen {
    fn see(&mut self, value: &RawValue) {
        if self.documents == 0 {
            self.example = value.get().chars().take(TOLD_CHARS).collect();
        }
        self.documents += 1;
    }
}

/// The values of a field.
#[derive(Debug, Default)]
struct FieldValues {
    numbers: ValuesSeen,
    texts: ValuesSeen,
}

impl FieldValues {
    fn is_mixed(&self) -> bool {
        self.numbers.documents > 0 && self.texts.documents > 0
    }
}

/// The values of all fields by their names.
#[derive(Debug, Default)]
pub(super) struct MixedTypes {
    by_name: BTreeMap<String, FieldValues>,
}

impl MixedTypes {
    /// Takes note of the metadata of a document.
    pub(super) fn see(&mut self, metadata: &Metadata) {
        let Ok(RawFields(fields)) = serde_json::from_str(metadata.as_json()) else {
            return;
        };
        for (name, value) in fields {
            let is_number = match value.get().as_bytes() {
                [b'"', ..] => false,
                [b'-' | b'0'..=b'9', ..] => true,
                _ => continue,
            };
            let Some(values) = self.values_of(&name.0) else {
                continue;
            };
            if is_number {
                values.numbers.see(value);
            } else {
                values.texts.see(value);
            }
        }
    }

    /// The values of a field; nothing of one beyond those that are looked at.
    fn values_of(&mut self, name: &str) -> Option<&mut FieldValues> {
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= MOST_FIELDS || name.len() > NAME_BYTES {
                return None;
            }
            self.by_name.insert(name.to_owned(), FieldValues::default());
        }
        self.by_name.get_mut(name)
    }

    /// A warning for each field that has both.
    pub(super) fn messages(&self) -> impl Iterator<Item = String> {
        let mixed = self.by_name.iter().filter(|(_, values)| values.is_mixed());
        mixed.take(TOLD_FIELDS).map(|(name, FieldValues { numbers, texts })| {
            let name: String = name.chars().take(TOLD_CHARS).collect();
            let documents = if numbers.documents == 1 { "document" } else { "documents" };
            format!(
                "metadata field `{name}` is a number in {} {documents} (such as {}) and a text in {} (such as {}), and a filter finds only the ones or the others. \
                 Write it the same way in all documents",
                numbers.documents, numbers.example, texts.documents, texts.example
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(all: &[&str]) -> MixedTypes {
        let mut types = MixedTypes::default();
        for json in all {
            types.see(&Metadata::parse(json).unwrap().unwrap());
        }
        types
    }

    #[test]
    fn a_field_of_both_types_is_told_with_both_counts() {
        let types = seen(&[
            r#"{"year": 2024, "lang": "en", "flag": true}"#,
            r#"{"year": "2023", "lang": "de", "flag": "yes"}"#,
            r#"{"year": -1.50, "lang": null, "list": [1, "a"]}"#,
        ]);
        assert_eq!(
            types.messages().collect::<Vec<_>>(),
            [
                "metadata field `year` is a number in 2 documents (such as 2024) and a text in 1 (such as \"2023\"), \
              and a filter finds only the ones or the others. Write it the same way in all documents"
            ]
        );
        assert_eq!(seen(&[r#"{"a": 1}"#, r#"{"b": "1"}"#]).messages().count(), 0);
    }

    #[test]
    fn many_fields_and_long_values_take_little_memory() {
        let mut types = MixedTypes::default();
        let long = "x".repeat(1_000);
        for number in 0..400 {
            for value in ["7".to_owned(), format!("\"{long}\"")] {
                let json = format!("{{\"f{number}\": {value}, \"{long}\": {value}}}");
                types.see(&Metadata::parse(&json).unwrap().unwrap());
            }
        }
        assert_eq!(types.by_name.len(), MOST_FIELDS);
        let told: Vec<String> = types.messages().collect();
        assert!(told.len() == TOLD_FIELDS && told.concat().len() < 4_000, "{told:?}");
    }
}

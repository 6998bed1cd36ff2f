//! Fields of JSON and of front matters that are not stored, for one warning each.
use std::path::Path;

use serde_json::{Map, Value};

/// Names that are kept.
const NAMES: usize = 16;
/// Longest name that is kept, in characters.
const NAME_CHARS: usize = 64;

/// Names of fields outside of those that are read, in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct Unstored {
    names: Vec<String>,
    more: bool,
    /// Files whose front matter has something that is not stored.
    front_matters: u64,
    /// Place and reason of the first.
    first_front_matter: String,
}

impl Unstored {
    /// Adds the remaining fields of a record after the known ones were read. Null fields are ignored.
    pub(super) fn add(&mut self, rest: &Map<String, Value>) {
        for (name, _) in rest.iter().filter(|(_, value)| !value.is_null()) {
            self.add_name(name);
        }
    }

    /// Adds a field.
    pub(super) fn add_name(&mut self, name: &str) {
        let shown = match name.char_indices().nth(NAME_CHARS) {
            Some((end, _)) => name.get(..end).unwrap_or_default(),
            None => name,
        };
        if self.names.iter().any(|known| known == shown) {
            return;
        }
        if self.names.len() < NAMES {
            self.names.push(shown.to_owned());
        } else {
            self.more = true;
        }
    }

    /// Adds a file whose front matter has something that is not stored, in a line.
    pub(super) fn add_front_matter(&mut self, path: &Path, line: u64, reason: &str) {
        if self.front_matters == 0 {
            self.first_front_matter = format!("`{}`, line {line}: {reason}", path.display());
        }
        self.front_matters += 1;
    }

    /// The warnings.
    pub(super) fn messages(&self) -> impl Iterator<Item = String> {
        self.message().into_iter().chain(self.front_matter_message())
    }

    fn front_matter_message(&self) -> Option<String> {
        let files = if self.front_matters == 1 { "file" } else { "files" };
        (self.front_matters > 0).then(|| {
            format!(
                "front matter of {} {files} is not all understood, and what is not is left out; the first: {}",
                self.front_matters, self.first_front_matter
            )
        })
    }

    /// The names, between commas; none where there are none.
    pub(super) fn listed(&self) -> Option<String> {
        let quoted: Vec<String> = self.names.iter().map(|name| format!("`{name}`")).collect();
        (!quoted.is_empty()).then(|| quoted.join(", "))
    }

    /// The warning about fields of JSON; none where there are no such fields.
    fn message(&self) -> Option<String> {
        let more = if self.more { " and others" } else { "" };
        (!self.names.is_empty()).then(|| {
            format!(
                "fields outside `metadata` are not stored: {}{more}",
                self.names.join(", ")
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_there_are_some_are_named() {
        let mut unstored = Unstored::default();
        assert_eq!(unstored.message(), None);
        let record = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
        unstored.add(&record("url", "http://x".into()));
        unstored.add(&record("url", 1.into()));
        unstored.add(&record("absent", Value::Null));
        assert_eq!(
            unstored.message().unwrap(),
            "fields outside `metadata` are not stored: url"
        );
        for number in 0..1_000 {
            unstored.add(&record(&format!("{number}{}", "x".repeat(200)), true.into()));
        }
        let told = unstored.message().unwrap();
        assert!(
            told.ends_with(" and others") && told.len() < 64 + NAMES * (NAME_CHARS + 2),
            "{told}"
        );
    }
}

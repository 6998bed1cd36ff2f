//! Which stored fields of a document are wanted.

use dyad_index::lexical::{MetadataFields, StoredDocument};
use serde_json::value::RawValue;

/// What the path of a metadata field may start with, as in filters.
const METADATA: &str = "metadata.";

/// Depth of objects and arrays that is looked at: that of the JSON that indexes take.
const DEPTH: usize = 128;

/// Stored fields of a hit's document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoredFields {
    /// Keys and scores alone: no document is read.
    None,
    /// The whole document.
    All,
    /// The key and these.
    Named {
        /// The title.
        title: bool,
        /// The text.
        text: bool,
        /// Paths of metadata, without `metadata.`; one that leads to an object stands for all of it.
        metadata: Vec<String>,
    },
}

impl StoredFields {
    /// The fields of these names; all where there is none.
    pub fn named(names: &[String]) -> Self {
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        let metadata = names
            .iter()
            .filter(|name| !matches!(name.as_str(), "key" | "title" | "text"));
        let metadata = metadata
            .map(|name| name.strip_prefix(METADATA).unwrap_or(name).to_owned())
            .collect();
        if names.is_empty() {
            Self::All
        } else {
            Self::Named {
                title: has("title"),
                text: has("text"),
                metadata,
            }
        }
    }

    /// Names by which [`Self::named`] makes the same of them; none where all fields are wanted, or no document is read.
    pub fn names(&self) -> Vec<String> {
        let Self::Named { title, text, metadata } = self else {
            return Vec::new();
        };
        let own = [(*title, "title"), (*text, "text")]
            .into_iter()
            .filter(|(wanted, _)| *wanted);
        let of_metadata = metadata.iter().map(|path| format!("{METADATA}{path}"));
        let names: Vec<String> = own.map(|(_, name)| name.to_owned()).chain(of_metadata).collect();
        // The key alone.
        if names.is_empty() {
            vec!["key".to_owned()]
        } else {
            names
        }
    }

    /// The document without what is not wanted of it.
    pub fn select(&self, document: StoredDocument) -> StoredDocument {
        let StoredDocument {
            key,
            title,
            text,
            metadata_json,
        } = document;
        match self {
            Self::All => StoredDocument {
                key,
                title,
                text,
                metadata_json,
            },
            Self::None => StoredDocument {
                key,
                ..StoredDocument::default()
            },
            Self::Named {
                title: with_title,
                text: with_text,
                metadata,
            } => StoredDocument {
                key,
                title: if *with_title { title } else { String::new() },
                text: if *with_text { text } else { String::new() },
                metadata_json: if metadata.is_empty() {
                    String::new()
                } else {
                    part_of(&metadata_json, metadata)
                },
            },
        }
    }
}

/// The values at some paths of an object, with the objects that they are in, as they are written; empty where there is
/// none of them.
fn part_of(json: &str, paths: &[String]) -> String {
    part(json, "", paths, 0).unwrap_or_default()
}

/// Recursion is as deep as the paths are long, and arrays within arrays, up to [`DEPTH`].
fn part(object: &str, at: &str, paths: &[String], depth: usize) -> Option<String> {
    let MetadataFields(fields) = serde_json::from_str(object).ok()?;
    let mut parts = Vec::new();
    for (name, value) in fields {
        let path = format!("{at}{}", name.0);
        if let (Some(value), Ok(name)) = (
            wanted_value(value.get(), &path, paths, depth),
            serde_json::to_string(&name.0),
        ) {
            parts.push(format!("{name}:{value}"));
        }
    }
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
}

/// The value at a path, or the part of it that is at longer paths; none where nothing of it is wanted.
fn wanted_value(value: &str, path: &String, paths: &[String], depth: usize) -> Option<String> {
    if paths.contains(path) {
        return Some(value.to_owned());
    }
    let inside = format!("{path}.");
    let is_wanted = paths.iter().any(|wanted| wanted.starts_with(&inside));
    is_wanted.then(|| part_within(value, &inside, paths, depth)).flatten()
}

/// The same of a value; of an array those of its objects, as a filter by such a path matches each of them.
fn part_within(value: &str, at: &str, paths: &[String], depth: usize) -> Option<String> {
    if depth == DEPTH {
        return None;
    }
    if value.starts_with('{') {
        return part(value, at, paths, depth + 1);
    }
    let all: Vec<&RawValue> = serde_json::from_str(value).ok()?;
    let parts: Vec<String> = all
        .into_iter()
        .filter_map(|value| part_within(value.get(), at, paths, depth + 1))
        .collect();
    (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn selected(names: &[&str]) -> [String; 4] {
        let metadata = r#"{"lang":"en","author":{"name":"a","born":{"year":1815,"place":"x"}},"text":7.50,"a.b":[1]}"#;
        let [key, title, text, metadata_json] = ["k", "the title", "the text", metadata].map(String::from);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let part = StoredFields::named(&names).select(StoredDocument {
            key,
            title,
            text,
            metadata_json,
        });
        [part.key, part.title, part.text, part.metadata_json]
    }

    #[test]
    fn only_what_is_named_is_kept() {
        assert!(selected(&[]).iter().all(|field| !field.is_empty()));
        assert_eq!(selected(&["key"]), ["k", "", "", ""]);
        assert_eq!(selected(&["title", "lang"]), ["k", "the title", "", r#"{"lang":"en"}"#]);
        assert_eq!(selected(&["text"]), ["k", "", "the text", ""]);
        assert_eq!(selected(&["metadata.text"]), ["k", "", "", r#"{"text":7.50}"#]);
        assert_eq!(
            selected(&["author.born.year"]),
            ["k", "", "", r#"{"author":{"born":{"year":1815}}}"#]
        );
        let metadata = |names: &[&str]| serde_json::from_str::<Value>(&selected(names)[3]).unwrap();
        assert_eq!(
            metadata(&["author.name", "a.b"]),
            json!({"a.b": [1], "author": {"name": "a"}})
        );
        assert_eq!(
            metadata(&["author.born"]),
            json!({"author": {"born": {"place": "x", "year": 1815}}})
        );
        assert_eq!(selected(&["auth", "author.nam", "lang.x", "none"]), ["k", "", "", ""]);
    }

    #[test]
    fn of_arrays_what_is_named_in_their_objects_is_kept() {
        let json =
            r#"{"authors":[{"name":"a","born":1},7,{"born":2},[{"name":"b","of":[{"x":1,"y":2}]}]],"years":[1,2]}"#;
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let document = StoredDocument {
                metadata_json: json.into(),
                ..Default::default()
            };
            serde_json::from_str::<Value>(&StoredFields::named(&names).select(document).metadata_json)
                .unwrap_or_default()
        };
        assert_eq!(
            of(&["authors.name"]),
            json!({"authors": [{"name": "a"}, [{"name": "b"}]]})
        );
        assert_eq!(
            of(&["authors.of.y", "years"]),
            json!({"authors": [[{"of": [{"y": 2}]}]], "years": [1, 2]})
        );
        assert_eq!(of(&["authors.none", "years.x"]), Value::Null);
    }

    #[test]
    fn metadata_that_are_no_object_have_no_fields() {
        let document = |metadata_json: &str| StoredDocument {
            metadata_json: metadata_json.into(),
            ..Default::default()
        };
        for json in ["", "7", "[1]", "{"] {
            assert_eq!(
                StoredFields::named(&["a".into()]).select(document(json)).metadata_json,
                ""
            );
        }
    }
}

//! The format of a source of examples, detected from a file's name and first bytes.

use std::path::Path;
use std::str::FromStr;

use serde::de::IntoDeserializer as _;
use serde::de::value::Error as Unknown;
use serde::{Deserialize, Serialize};

/// The format of a source of examples. JSON records are one per line or the elements of one array, as the first bytes
/// show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ExampleFormat {
    /// A folder is [`ExampleFormat::Beir`], a file named `.tsv` or `.txt` (before `.gz` or `.zst`) is
    /// [`ExampleFormat::Tsv`], and others are detected from their first record.
    #[default]
    Auto,
    /// Questions, corpus and the judgements of one split: grades above 0 are positives, others negatives.
    Beir,
    /// `query_id`, `query` (or `query_text`), `positive_passages` and `negative_passages` of `docid`, `title`, `text`
    /// and optional `score`, `document`, `start` and `end`; or `positive_document_ids` and `negative_document_ids` with
    /// a corpus.
    Tevatron,
    /// `question`, `positive_ctxs`, `hard_negative_ctxs`, `negative_ctxs` of `title`, `text`, `passage_id`. Their
    /// `score` is that of a retriever, with a fixed value for gold passages: it is not a teacher's, and is ignored.
    Dpr,
    /// sentence-transformers, FlagEmbedding, plain pairs. An array: question, positive, negatives. An object: the
    /// question is `question`, `query` or `anchor`; positives are `positive`, `positives`, `pos`, `answer`, `answers`
    /// or `response`, negatives `negative`, `negatives`, `neg` or `negative_1`, `negative_2` and so on; each a text or
    /// a list of texts. `title` belongs to the positive where there is one, and so do `document` (or `paragraph`, the
    /// key of its document), `start` and `end` (its characters there). Scores: `pos_scores` and `neg_scores`, or
    /// `scores` (positives, then negatives). A `label` is 1 or true for a pair; with negatives it is the margin to each
    /// (MarginMSE), read as scores with the positive at 0.
    Pairs,
    /// SQuAD 1.1 or 2.0, by the ReQA construction: the sentence that holds the answer is the positive.
    Squad,
    /// Question, answer, negatives between tabs; a first line of only known names is a header.
    Tsv,
}

/// Its name in lower case: `auto`, `beir`, `tevatron`, `dpr`, `pairs`, `squad`, `tsv`.
impl FromStr for ExampleFormat {
    type Err = Unknown;

    fn from_str(name: &str) -> Result<Self, Unknown> {
        Self::deserialize(name.into_deserializer())
    }
}

/// The arrangement of the values in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// One JSON value per line.
    Lines,
    /// The elements of one array.
    Array,
    /// The elements of the array under `data`.
    Data,
}

/// What the first bytes of a file show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detected {
    pub(super) arrangement: Arrangement,
    /// `None` where it is no JSON at all.
    pub(super) format: Option<ExampleFormat>,
    /// Passages are named by key.
    pub(super) by_key: bool,
}

/// Whether the name says tab-separated columns.
pub(super) fn is_tsv(path: &Path) -> bool {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    let name = name
        .strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name);
    name.rsplit_once('.')
        .is_some_and(|(_, extension)| matches!(extension, "tsv" | "txt"))
}

/// Whether the name says JSON.
pub(super) fn is_json(path: &Path) -> bool {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    [".json", ".jsonl", ".ndjson"]
        .iter()
        .any(|extension| name.contains(extension))
        || name == "-"
}

/// Detects the format from the first bytes.
pub(super) fn detect(head: &[u8]) -> Detected {
    let head = head
        .strip_prefix("\u{feff}".as_bytes())
        .unwrap_or(head)
        .trim_ascii_start();
    match head.first() {
        Some(b'[') => match head.get(1..).unwrap_or_default().trim_ascii_start().first() {
            Some(b'{' | b'[' | b']') => {
                let start = head.iter().position(|&byte| byte == b'{').unwrap_or(head.len());
                let keys = keys(head.get(start..).unwrap_or_default());
                let of = of_record(&keys);
                Detected {
                    arrangement: Arrangement::Array,
                    format: Some(of),
                    by_key: by_key(&keys),
                }
            }
            _ => Detected {
                arrangement: Arrangement::Lines,
                format: Some(ExampleFormat::Pairs),
                by_key: false,
            },
        },
        Some(b'{') => {
            let keys = keys(head);
            if keys.iter().any(|(key, value)| key == b"data" && *value == b'[') {
                return Detected {
                    arrangement: Arrangement::Data,
                    format: Some(ExampleFormat::Squad),
                    by_key: false,
                };
            }
            Detected {
                arrangement: Arrangement::Lines,
                format: Some(of_record(&keys)),
                by_key: by_key(&keys),
            }
        }
        _ => Detected {
            arrangement: Arrangement::Lines,
            format: None,
            by_key: false,
        },
    }
}

fn of_record(keys: &[(Vec<u8>, u8)]) -> ExampleFormat {
    let has = |name: &[u8]| keys.iter().any(|(key, _)| key == name);
    if has(b"positive_passages") || has(b"positive_document_ids") {
        ExampleFormat::Tevatron
    } else if has(b"positive_ctxs") {
        ExampleFormat::Dpr
    } else {
        ExampleFormat::Pairs
    }
}

fn by_key(keys: &[(Vec<u8>, u8)]) -> bool {
    keys.iter().any(|(key, _)| key == b"positive_document_ids")
}

/// Keys of the object at the start of `text` and the first byte of each value, as far as the text goes.
fn keys(text: &[u8]) -> Vec<(Vec<u8>, u8)> {
    let (mut found, mut depth, mut at) = (Vec::new(), 0usize, 0usize);
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth <= 1 => break,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let start = at;
                while let Some(&byte) = text.get(at).filter(|&&byte| byte != b'"') {
                    at += 1 + usize::from(byte == b'\\');
                }
                let string = text.get(start..at.min(text.len())).unwrap_or_default();
                at += 1;
                let after = text.get(at..).unwrap_or_default().trim_ascii_start();
                if let Some(value) = after.strip_prefix(b":").filter(|_| depth == 1) {
                    found.push((string.to_vec(), value.trim_ascii_start().first().copied().unwrap_or(0)));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected_in(head: &str) -> (Arrangement, Option<ExampleFormat>) {
        let detected = detect(head.as_bytes());
        (detected.arrangement, detected.format)
    }

    #[test]
    fn the_first_record_tells_the_format() {
        use ExampleFormat::{Dpr, Pairs, Squad, Tevatron};
        assert_eq!(
            detected_in("{\"question\":\"positive_ctxs\",\"answer\":\"b\"}\n"),
            (Arrangement::Lines, Some(Pairs))
        );
        assert_eq!(
            detected_in("[\"a\", \"b\"]\n[\"c\", \"d\"]"),
            (Arrangement::Lines, Some(Pairs))
        );
        assert_eq!(
            detected_in("\u{feff} [\n [\"a\", \"b\"]]"),
            (Arrangement::Array, Some(Pairs))
        );
        assert_eq!(
            detected_in("{\"query_id\":1,\"positive_passages\" : []}"),
            (Arrangement::Lines, Some(Tevatron))
        );
        assert_eq!(
            detected_in("[{\"question\":\"a\",\"answers\":[\"\\\"{\"],\"positive_ctxs\":["),
            (Arrangement::Array, Some(Dpr))
        );
        assert_eq!(
            detected_in("{\"version\":\"1.1\",\"data\": [{\"title\""),
            (Arrangement::Data, Some(Squad))
        );
        assert_eq!(
            detected_in("{\"data\":\"x\",\"query\":\"y\"}"),
            (Arrangement::Lines, Some(Pairs))
        );
        assert_eq!(detected_in("[]"), (Arrangement::Array, Some(Pairs)));
        assert_eq!(detected_in("a\tb"), (Arrangement::Lines, None));
        assert!(detect(b"{\"query\":\"a\",\"positive_document_ids\":[1]}").by_key);
    }

    #[test]
    fn names_tell_columns() {
        assert!(is_tsv(Path::new("a/b.TSV.gz")) && is_tsv(Path::new("b.txt")) && !is_tsv(Path::new("tsv.jsonl")));
        assert!(is_json(Path::new("a.jsonl.zst")) && !is_json(Path::new("a.tsv")));
    }
}

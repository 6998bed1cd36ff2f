//! Sentences of a corpus's documents: real texts in large numbers.

use std::collections::HashSet;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use dyad_corpus::{CorpusReader, ReadOptions};
use serde_json::json;
use unicode_segmentation::UnicodeSegmentation as _;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{BenchError, BenchResult};

/// Words of a sentence, at least: headings and numbers of lists are none.
const WORDS: usize = 5;

/// Writes the sentences of `corpus` (Unicode Standard Annex 29) as JSON lines with keys `document#n`: each once, of at
/// least five words. Titles are left out. Gives their number.
pub fn write_sentences(corpus: &Path, out: &Path) -> BenchResult<u64> {
    let fail = |error: dyad_corpus::Error| BenchError::file(corpus, error);
    let mut file = BufWriter::new(fs_err::File::create(out)?);
    let mut seen = HashSet::new();
    for document in CorpusReader::open(corpus, &ReadOptions::default()).map_err(fail)? {
        let document = document.map_err(fail)?.value;
        // A sentence never goes on in the next line of a text.
        let sentences = document
            .text
            .lines()
            .flat_map(|line| line.unicode_sentences())
            .map(str::trim);
        let fresh = sentences
            .filter(|sentence| sentence.unicode_words().count() >= WORDS && seen.insert(xxh3_128(sentence.as_bytes())));
        for (number, sentence) in fresh.enumerate() {
            writeln!(
                file,
                "{}",
                json!({ "_id": format!("{}#{number}", document.key), "text": sentence })
            )?;
        }
    }
    file.flush()?;
    Ok(seen.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sentence_of_five_words_is_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let (corpus, out) = (dir.path().join("c.jsonl"), dir.path().join("s.jsonl"));
        let text = "Oslo is the capital of Norway. It rains.\nHISTORY\nIt was founded in 1040, they say! Was it founded by a king?";
        let again = "Was it founded by a king? Nobody knows for certain any more.";
        let lines = [
            json!({ "_id": "a", "title": "Oslo", "text": text }),
            json!({ "_id": "b", "text": again }),
        ];
        fs_err::write(&corpus, lines.map(|line| format!("{line}\n")).concat()).unwrap();
        assert_eq!(write_sentences(&corpus, &out).unwrap(), 4);
        let written = fs_err::read_to_string(&out).unwrap();
        let sentences: Vec<(String, String)> = CorpusReader::open(&out, &ReadOptions::default())
            .unwrap()
            .map(|document| document.unwrap().value)
            .map(|document| (document.key, document.text))
            .collect();
        let expected = [
            ("a#0", "Oslo is the capital of Norway."),
            ("a#1", "It was founded in 1040, they say!"),
            ("a#2", "Was it founded by a king?"),
            ("b#0", "Nobody knows for certain any more."),
        ];
        assert_eq!(
            sentences,
            expected.map(|(key, text)| (key.to_owned(), text.to_owned())),
            "{written}"
        );
    }

    #[test]
    fn a_corpus_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let corpus = dir.path().join("c.jsonl");
        fs_err::write(&corpus, "{\"_id\": \"a\", ").unwrap();
        let error = write_sentences(&corpus, &dir.path().join("s.jsonl"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("c.jsonl"), "{error}");
    }
}

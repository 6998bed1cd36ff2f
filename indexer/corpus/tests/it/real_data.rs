//! Readers on the real sets that `DYAD_DATA` holds; counts from their INDEX.md.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use dyad_corpus::examples::{ExampleOptions, ExampleReader, sentences};
use dyad_corpus::{BeirFolder, CorpusReader, ReadOptions, qrels, queries};

#[test]
fn real_sets_are_read_whole() {
    let Some(data) = std::env::var_os("DYAD_DATA").map(PathBuf::from) else {
        eprintln!("skipped: DYAD_DATA is not set");
        return;
    };
    for (name, documents, questions, judged, judgements) in [
        ("reqa-squad", 10_246, 10_539, 10_539, None),
        ("scifact", 5_183, 1_109, 300, Some(339)),
    ] {
        let folder = BeirFolder::open(&data.join(name)).unwrap();
        let mut reader = CorpusReader::open(folder.root(), &ReadOptions::default()).unwrap();
        assert_eq!(
            reader
                .by_ref()
                .inspect(|item| assert!(item.is_ok(), "{item:?}"))
                .count(),
            documents,
            "{name}"
        );
        assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
        let asked = queries::read(&folder.queries().unwrap()).unwrap();
        assert_eq!(asked.len(), questions, "{name}");
        let asked: HashSet<&str> = asked.iter().map(|query| query.key.as_str()).collect();
        let qrels = qrels::read(&folder.qrels("test").unwrap()).unwrap();
        assert_eq!(qrels.len(), judged, "{name}");
        assert!(qrels.keys().all(|query| asked.contains(query.as_str())), "{name}");
        if let Some(expected) = judgements {
            let pairs: usize = qrels.values().map(BTreeMap::len).sum();
            assert_eq!(pairs, expected, "{name}");
        }
    }
}

#[test]
fn real_examples_are_read_whole() {
    let Some(data) = std::env::var_os("DYAD_DATA").map(PathBuf::from) else {
        eprintln!("skipped: DYAD_DATA is not set");
        return;
    };
    for (name, split, count, positives) in [
        ("squad-train/pairs.jsonl.gz", "", 28_939, 28_939),
        ("medquad/pairs.jsonl.gz", "", 16_407, 16_407),
        ("scifact", "train", 809, 919),
        ("scifact", "test", 300, 339),
    ] {
        let options = ExampleOptions {
            split: split.to_owned(),
            ..ExampleOptions::default()
        };
        let mut reader = ExampleReader::open(&data.join(name), &options).unwrap();
        let found: Vec<usize> = reader
            .by_ref()
            .map(|example| example.unwrap().positives.len())
            .collect();
        assert_eq!(
            (found.len(), found.iter().sum::<usize>()),
            (count, positives),
            "{name} {split}"
        );
        assert_eq!(reader.skipped().total(), 0, "{name}");
    }
}

#[test]
fn candidates_of_reqa_are_sentences_to_us_too() {
    let Some(data) = std::env::var_os("DYAD_DATA").map(PathBuf::from) else {
        eprintln!("skipped: DYAD_DATA is not set");
        return;
    };
    let reader = CorpusReader::open(&data.join("reqa-squad"), &ReadOptions::default()).unwrap();
    let texts: Vec<String> = reader.map(|document| document.unwrap().value.text).collect();
    let whole = texts.iter().filter(|text| sentences(text).len() == 1).count();
    let share = whole as f64 / texts.len() as f64;
    // Among the rest are candidates that do hold two sentences.
    assert!(share > 0.995, "{share}");
}

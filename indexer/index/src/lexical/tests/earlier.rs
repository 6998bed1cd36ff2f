//! Shards of an earlier release, alone and next to shards of this one.

use std::path::Path;

use tantivy::directory::MmapDirectory;
use tantivy::{Index, TantivyDocument};

use super::*;
use crate::lexical::analyzer::Analyzer;
use crate::lexical::schema::schema_by;

/// Words that the analyzers cut or spell in different ways: Greek, Hindi, Arabic, decomposed Latin.
const WORDS: [&str; 5] = [
    "\u{3c3}\u{3bf}\u{3c6}\u{3cc}\u{3c2}",
    "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}",
    "\u{643}\u{64e}\u{62a}\u{64e}\u{628}\u{64e}",
    "Beyonce\u{301}",
    "plain",
];

/// A shard with one document for each word, as the first analyzer wrote it.
fn earlier(dir: &Path) -> TextShard {
    fs_err::create_dir_all(dir).unwrap();
    let (schema, fields) = schema_by(Analyzer::First);
    let tokenizers = tantivy::tokenizer::TokenizerManager::default();
    tokenizers.register(Analyzer::First.name(), Analyzer::First.build());
    let directory = MmapDirectory::open(dir).unwrap();
    let builder = Index::builder().schema(schema).tokenizers(tokenizers);
    let mut writer = builder.single_segment_index_writer(directory, 64 << 20).unwrap();
    for (number, word) in WORDS.iter().enumerate() {
        let mut document = TantivyDocument::new();
        for (field, text) in [
            (fields.text, *word),
            (fields.body, ""),
            (fields.body, *word),
            (fields.title, ""),
        ] {
            document.add_text(field, text);
        }
        document.add_text(fields.key, number.to_string());
        document.add_text(fields.metadata, "");
        writer.add_document(document).unwrap();
    }
    writer.finalize().unwrap();
    TextShard::open(dir).unwrap()
}

fn current(dir: &Path) -> TextShard {
    let mut writer = TextWriter::create(dir, TextLanguage::English).unwrap();
    for (number, text) in WORDS.iter().enumerate() {
        writer
            .add(TextDocument {
                key: &number.to_string(),
                title: "",
                text,
                metadata_json: "",
            })
            .unwrap();
    }
    writer.finish().unwrap();
    TextShard::open(dir).unwrap()
}

#[test]
fn shards_of_both_analyzers_are_searched_by_their_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (earlier(&dir.path().join("old")), current(&dir.path().join("new")));
    assert_eq!(
        (old.analyzer(), new.analyzer()),
        ("dyad_en_1", TextLanguage::English.analyzer())
    );
    for shards in [vec![&old], vec![&new], vec![&old, &new]] {
        let statistics = CorpusStatistics::new(shards.iter().copied());
        for (number, word) in WORDS.iter().enumerate() {
            let question = AnalyzedQuestion::new(TextLanguage::English, word);
            let weighed = question.weigh(&statistics, &Never).unwrap().unwrap();
            for shard in &shards {
                let found = weighed.best(shard, 1, &|_| "", None, &Never).unwrap().hits;
                let hit = found
                    .first()
                    .unwrap_or_else(|| panic!("{word} by {}", shard.analyzer()));
                assert_eq!(hit.node as usize, number, "{word} by {}", shard.analyzer());
                assert!(hit.score > 0.0 && hit.score <= weighed.bound(), "{word}: {}", hit.score);
                let exactness = weighed.exactness(shard, &[hit.node], &Never).unwrap().unwrap();
                // Both shards hold the word, by one term or by one each.
                assert!([0.5, 1.0].contains(&exactness[0]), "{word}: {exactness:?}");
                let (score, _) = weighed.explain(shard, hit.node).unwrap().unwrap();
                assert!((score - hit.score).abs() < 1e-5, "{word}: {score}, {}", hit.score);
            }
        }
    }
}

/// The terms of the first analyzer are counted in all shards, whichever of them have such terms.
#[test]
fn merged_counts_of_both_analyzers_weigh_as_one_count_of_all_shards() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (earlier(&dir.path().join("old")), current(&dir.path().join("new")));
    for word in WORDS {
        let question = AnalyzedQuestion::new(TextLanguage::English, &format!("{word} plain {word}"));
        let count = |shards: &[&TextShard]| {
            let statistics = CorpusStatistics::new(shards.iter().copied());
            statistics.term_counts(&question, &Never).unwrap().unwrap()
        };
        let whole = count(&[&old, &new]);
        for parts in [[&old, &new], [&new, &old]] {
            let mut merged = TermCounts::new(&question);
            for part in parts {
                merged.merge(&count(&[part])).unwrap();
            }
            assert_eq!(merged, whole, "{word}");
            assert!(merged.has_first_analyzer && !count(&[&new]).has_first_analyzer);
        }
        let (by_counts, weighed) = (
            question.weigh_by(&whole, &Never).unwrap().unwrap(),
            question
                .weigh(&CorpusStatistics::new([&old, &new]), &Never)
                .unwrap()
                .unwrap(),
        );
        assert_eq!(by_counts.bound().to_bits(), weighed.bound().to_bits(), "{word}");
        for shard in [&old, &new] {
            let best = |weighed: &Weighed<'_>| weighed.best(shard, 5, &|_| "", None, &Never).unwrap();
            assert_eq!(best(&by_counts), best(&weighed), "{word}");
            assert!(!best(&weighed).hits.is_empty(), "{word}");
        }
    }
}

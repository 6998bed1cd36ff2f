//! BM25 over shards against the formula written out, and stored fields.

mod column;
mod documents;
mod earlier;
mod filter;
mod filter_oracle;
mod joint_values;
mod languages;
mod lengths;
mod wand;

use std::collections::BTreeMap;

use super::*;
use crate::language::TextLanguage;
use dyad_files::Never;

const TEXTS: [&str; 9] = [
    "The quick brown fox jumps over the lazy dog",
    "A fox is a small wild dog",
    "Dogs and foxes rarely live together, though a fox may share a den with a fox",
    "Super Bowl 50 was an American football game",
    "The Denver Broncos defeated the Carolina Panthers in Super Bowl 50",
    "Curaçao lies in the Caribbean Sea",
    "Naïve readers believe each word",
    "the and of",
    "fox",
];

fn shards(count: usize) -> (tempfile::TempDir, Vec<TextShard>, Vec<Vec<String>>) {
    let dir = tempfile::tempdir().unwrap();
    let mut keys = vec![Vec::new(); count];
    let mut writers: Vec<_> = (0..count)
        .map(|i| TextWriter::create(&dir.path().join(i.to_string()), TextLanguage::English).unwrap())
        .collect();
    for (i, text) in TEXTS.iter().enumerate() {
        let key = format!("k{i}");
        let title = if i == 3 { "Final" } else { "" };
        writers[i % count]
            .add(TextDocument {
                key: &key,
                title,
                text,
                metadata_json: "{}",
            })
            .unwrap();
        keys[i % count].push(key);
    }
    for writer in writers {
        writer.finish().unwrap();
    }
    let shards = (0..count)
        .map(|i| TextShard::open(&dir.path().join(i.to_string())).unwrap())
        .collect();
    (dir, shards, keys)
}

/// Each document is a part: the answers, stored fields and statistics are those of one part.
#[test]
fn parts_that_are_merged_are_read_as_one() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, merged, one) = (
        dir.path().join("whole"),
        dir.path().join("merged"),
        dir.path().join("one"),
    );
    let mut writers = [
        TextWriter::create(&whole, TextLanguage::English).unwrap(),
        TextWriter::create_within(&merged, TextLanguage::English, 1).unwrap(),
        TextWriter::create_within(&one, TextLanguage::English, usize::MAX).unwrap(),
    ];
    let mut keys = Vec::new();
    for (i, text) in TEXTS.iter().cycle().take(40).enumerate() {
        let (key, title) = (format!("k{i}"), if i % 7 == 3 { "Final" } else { "" });
        let metadata_json = if i % 2 == 0 { "{\"n\":1}" } else { "" };
        for writer in &mut writers {
            writer
                .add(TextDocument {
                    key: &key,
                    title,
                    text,
                    metadata_json,
                })
                .unwrap();
        }
        keys.push(key);
    }
    assert_eq!(fs_err::read_dir(dir.path().join("merged.parts")).unwrap().count(), 41);
    for writer in writers {
        writer.finish().unwrap();
    }
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 3, "no parts are left");
    let open = |path: &std::path::Path| [TextShard::open(path).unwrap()];
    let (whole, keys) = (open(&whole), [keys]);
    for other in [open(&merged), open(&one)] {
        for question in ["fox dog", "super bowl broncos", "final", "the", "caribbean sea word"] {
            assert_eq!(
                search(&other, &keys, question, 40),
                search(&whole, &keys, question, 40),
                "{question}"
            );
        }
        for node in 0..40 {
            assert_eq!(other[0].document(node).unwrap(), whole[0].document(node).unwrap());
        }
    }
}

fn search(shards: &[TextShard], keys: &[Vec<String>], question: &str, k: usize) -> Vec<(String, f32)> {
    let question = AnalyzedQuestion::new(TextLanguage::English, question);
    let question = question.weigh(&CorpusStatistics::new(shards), &Never).unwrap().unwrap();
    let mut hits: Vec<(String, f32)> = Vec::new();
    for (shard, keys) in shards.iter().zip(keys) {
        let key = |node: u32| keys[node as usize].as_str();
        let best = question.best(shard, k, &key, None, &Never).unwrap().hits;
        hits.extend(best.iter().map(|hit| (key(hit.node).to_owned(), hit.score)));
    }
    hits.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    hits.truncate(k);
    hits
}

/// The formula of the module's header over whole texts.
fn oracle(question: &str) -> Vec<(String, f32)> {
    let documents: Vec<Vec<String>> = TEXTS
        .iter()
        .enumerate()
        .map(|(i, text)| {
            terms(
                TextLanguage::English,
                &format!("{} {text}", if i == 3 { "Final" } else { "" }),
            )
        })
        .collect();
    let n = documents.len() as f32;
    let average = documents.iter().map(Vec::len).sum::<usize>() as f32 / n;
    let mut scores = BTreeMap::new();
    for (i, document) in documents.iter().enumerate() {
        for term in terms(TextLanguage::English, question) {
            let df = documents.iter().filter(|document| document.contains(&term)).count() as f32;
            let tf = document.iter().filter(|word| **word == term).count() as f32;
            if tf > 0.0 {
                let idf = (1.0 + (n - df + 0.5) / (df + 0.5)).ln();
                let length = 1.0 - 0.75 + 0.75 * document.len() as f32 / average;
                *scores.entry(format!("k{i}")).or_insert(0.0) += idf * tf * 2.2 / (tf + 1.2 * length);
            }
        }
    }
    let mut scores: Vec<_> = scores.into_iter().collect();
    scores.sort_by(|a: &(String, f32), b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    scores
}

#[test]
fn analysis_folds_stops_and_stems() {
    assert_eq!(
        terms(
            TextLanguage::English,
            "The naïve Foxes were jumping, JUMPING in Curaçao!"
        ),
        ["naiv", "fox", "were", "jump", "jump", "curacao"]
    );
    assert!(terms(TextLanguage::English, "the of and").is_empty());
}

#[test]
fn scores_equal_the_formula_however_many_shards_there_are() {
    for count in [1, 2, 4] {
        let (_dir, shards, keys) = shards(count);
        for question in [
            "fox dog",
            "super bowl 50",
            "fox fox den",
            "naive curacao",
            "nothing matches xyzzy",
            "the",
        ] {
            let (got, expected) = (search(&shards, &keys, question, 20), oracle(question));
            assert_eq!(got.len(), expected.len(), "{question}");
            for (got, expected) in got.iter().zip(&expected) {
                assert_eq!(got.0, expected.0, "{question}");
                assert!((got.1 - expected.1).abs() < 1e-5, "{question}: {got:?} {expected:?}");
            }
            assert_eq!(
                search(&shards, &keys, question, 2)[..],
                got[..got.len().min(2)],
                "{question}"
            );
        }
    }
}

#[test]
fn ties_at_the_cut_go_to_the_smaller_key() {
    let dir = tempfile::tempdir().unwrap();
    let keys: Vec<String> = (0..500).rev().map(|i| format!("k{i:03}")).collect();
    let mut writer = TextWriter::create(dir.path(), TextLanguage::English).unwrap();
    for key in &keys {
        writer
            .add(TextDocument {
                key,
                title: "",
                text: "same words here",
                metadata_json: "",
            })
            .unwrap();
    }
    writer.finish().unwrap();
    let shards = [TextShard::open(dir.path()).unwrap()];
    let got: Vec<String> = search(&shards, &[keys], "same words", 3)
        .into_iter()
        .map(|hit| hit.0)
        .collect();
    assert_eq!(got, ["k000", "k001", "k002"]);
}

#[test]
fn stored_fields_come_back_by_node() {
    let (_dir, shards, keys) = shards(2);
    for (shard, keys) in shards.iter().zip(&keys) {
        for (node, key) in keys.iter().enumerate() {
            let document = shard.document(node as u32).unwrap();
            let number: usize = key[1..].parse().unwrap();
            assert_eq!(
                (document.key.as_str(), document.text.as_str()),
                (key.as_str(), TEXTS[number])
            );
            assert_eq!(
                (document.title.as_str(), document.metadata_json.as_str()),
                (if number == 3 { "Final" } else { "" }, "{}")
            );
        }
        assert!(shard.document(keys.len() as u32).is_err());
    }
}

#[test]
fn an_explanation_sums_to_the_score() {
    let (_dir, shards, keys) = shards(2);
    let statistics = CorpusStatistics::new(&shards);
    let best = search(&shards, &keys, "fox den", 1).remove(0);
    let (shard, node) = (0..2)
        .find_map(|shard| Some((shard, keys[shard].iter().position(|key| *key == best.0)?)))
        .unwrap();
    let explain = |question: &str| {
        let question = AnalyzedQuestion::new(TextLanguage::English, question);
        let weighed = question.weigh(&statistics, &Never).unwrap().unwrap();
        weighed.explain(&shards[shard], node as u32).unwrap()
    };
    let (score, json) = explain("fox den").unwrap();
    assert!((score - best.1).abs() < 1e-5 && json.contains("idf"), "{json}");
    assert!(explain("curacao").is_none());
}

#[test]
fn reading_leaves_the_directory_as_it_was_and_needs_no_right_to_write() {
    use std::os::unix::fs::PermissionsExt as _;
    let (dir, shards, _) = shards(1);
    drop(shards);
    let path = dir.path().join("0");
    let names = || -> std::collections::BTreeSet<_> {
        fs_err::read_dir(&path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect()
    };
    let before = names();
    for entry in fs_err::read_dir(&path).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o444, 0o444, "everyone may read");
    }
    let shard = TextShard::open(&path).unwrap();
    assert_eq!(shard.document(0).unwrap().key, "k0");
    assert_eq!(names(), before);
}

/// Every byte of every file is flipped in turn: opening and reading give an answer or an error.
#[test]
fn a_flipped_byte_never_ends_the_process() {
    let (dir, shards, _) = shards(1);
    drop(shards);
    let path = dir.path().join("0");
    let mut damaged = 0;
    for entry in fs_err::read_dir(&path).unwrap() {
        let file = entry.unwrap().path();
        let intact = fs_err::read(&file).unwrap();
        // The last bytes hold lengths and offsets, the first ones headers.
        for at in (0..intact.len()).filter(|at| *at < 64 || at + 96 > intact.len()) {
            let mut bytes = intact.clone();
            bytes[at] ^= 0x84;
            // A new file: the map of an earlier turn must not change.
            fs_err::remove_file(&file).unwrap();
            fs_err::write(&file, bytes).unwrap();
            damaged += usize::from(TextShard::open(&path).is_err());
        }
        fs_err::remove_file(&file).unwrap();
        fs_err::write(&file, intact).unwrap();
    }
    assert!(damaged > 0);
    TextShard::open(&path).unwrap();
}

/// `c² / n` from the texts themselves, whatever the shards.
#[test]
fn exactness_is_the_share_of_idf_squared_over_the_documents_that_hold_the_rarest_term() {
    let of_text = |text: &str| {
        terms(TextLanguage::English, text)
            .into_iter()
            .collect::<std::collections::BTreeSet<String>>()
    };
    // The title of the fourth is a term of it, and of no question here.
    let documents: Vec<_> = TEXTS.iter().map(|text| of_text(text)).collect();
    for count in [1, 2, 4] {
        let (_dir, shards, _) = shards(count);
        let statistics = CorpusStatistics::new(&shards);
        for text in [
            "panthers",
            "fox",
            "what is a fox",
            "which fox dens does the lazy dog share",
            "zebra",
            "zebra fox fox",
            "the of",
        ] {
            let question = AnalyzedQuestion::new(TextLanguage::English, text);
            let weighed = question.weigh(&statistics, &Never).unwrap().unwrap();
            let holding = |term: &String| documents.iter().filter(|all| all.contains(term)).count();
            let idf = |term: &String| {
                let (all, some) = (documents.len() as f64, holding(term) as f64);
                (1.0 + (all - some + 0.5) / (some + 0.5)).ln()
            };
            let asked = terms(TextLanguage::English, text);
            let total: f64 = asked.iter().map(idf).sum();
            for (number, shard) in shards.iter().enumerate() {
                let nodes: Vec<u32> = (0..shard.len() as u32).collect();
                let got = weighed.exactness(shard, &nodes, &Never).unwrap().unwrap();
                for (node, got) in got.into_iter().enumerate() {
                    let document = &documents[node * count + number];
                    let held: Vec<&String> = asked.iter().filter(|term| document.contains(*term)).collect();
                    let share = held.iter().map(|term| idf(term)).sum::<f64>() / total;
                    let rarest = held.iter().map(|term| holding(term)).min();
                    let expected = rarest.map_or(0.0, |documents| share * share / documents as f64);
                    assert!(
                        (f64::from(got) - expected).abs() < 1e-6,
                        "{text}, {node}: {got}, expected {expected}"
                    );
                }
            }
        }
    }
}

//! BM25 of passages and of their documents against the formulas written out over whole texts, whatever the shards are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::super::passage_documents::{NO_DOCUMENT, PassageDocuments};
use super::*;
use crate::search::{Completeness, NodeSet};

const PASSAGES: usize = 300;
const QUESTIONS: [&str; 8] = [
    "river",
    "river comet",
    "comet comet ocean",
    "the",
    "title mountain",
    "zebra",
    "zebra planet sea",
    "river ocean mountain comet planet sea title",
];

/// A passage of the test, and where it is.
struct TestedPassage {
    key: String,
    terms: Vec<String>,
    /// The number of its document; none where it is a document of its own.
    document: Option<usize>,
    place: (usize, u32),
}

fn random(state: &mut u64, below: usize) -> usize {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % below as u64) as usize
}

/// Passages of 0 to 60 words in shards by turns, of 70 documents that are in several of them, and some of none.
fn corpus(count: usize) -> (tempfile::TempDir, Vec<TextShard>, Vec<TestedPassage>) {
    const WORDS: [&str; 9] = [
        "river", "ocean", "mountain", "the", "of", "comet", "planet", "planet", "sea",
    ];
    let (dir, mut state) = (tempfile::tempdir().unwrap(), 11);
    let path = |shard: usize| dir.path().join(shard.to_string());
    let mut writers: Vec<_> = (0..count)
        .map(|shard| TextWriter::create(&path(shard), TextLanguage::English).unwrap())
        .collect();
    let mut passages = Vec::new();
    for number in 0..PASSAGES {
        let words = random(&mut state, 60);
        let text: Vec<&str> = (0..words).map(|_| WORDS[random(&mut state, 4 + number % 6)]).collect();
        let (text, title) = (text.join(" "), if number % 4 == 0 { "A title" } else { "" });
        let document = (number % 11 > 0).then(|| random(&mut state, 70));
        let key = format!("k{:03}", number * 7 % PASSAGES);
        let metadata = document.map_or_else(String::new, |document| format!(r#"{{"document":"d{document}"}}"#));
        writers[number % count]
            .add(TextDocument {
                key: &key,
                title,
                text: &text,
                metadata_json: &metadata,
            })
            .unwrap();
        let terms = terms(TextLanguage::English, &format!("{title} {text}"));
        passages.push(TestedPassage {
            key,
            terms,
            document,
            place: (number % count, (number / count) as u32),
        });
    }
    for writer in writers {
        writer.finish().unwrap();
    }
    let shards = (0..count).map(|shard| TextShard::open(&path(shard)).unwrap()).collect();
    (dir, shards, passages)
}

fn passage_documents(shards: &[TextShard], passages: &[TestedPassage]) -> Arc<PassageDocuments> {
    let mut values: Vec<Vec<u32>> = shards.iter().map(|shard| vec![NO_DOCUMENT; shard.len()]).collect();
    for passage in passages {
        values[passage.place.0][passage.place.1 as usize] =
            passage.document.map_or(NO_DOCUMENT, |number| number as u32);
    }
    Arc::new(PassageDocuments::new(values, 70))
}

fn scored(
    weighed: &Weighed<'_>,
    statistics: &CorpusStatistics,
    documents: &Arc<PassageDocuments>,
    weight: f32,
) -> DocumentScores {
    match weighed.document_scores(statistics, documents, weight, &Never).unwrap() {
        WeighedDocuments::Scores(scores) => scores,
        other => panic!("{other:?}"),
    }
}

/// BM25 of every text by the formula of `bm25.rs`.
fn bm25(texts: &[Vec<&String>], question: &[String]) -> Vec<f64> {
    let average = texts.iter().map(Vec::len).sum::<usize>() as f64 / texts.len().max(1) as f64;
    let of_text = |text: &Vec<&String>| {
        let of_term = |term: &String| {
            let tf = text.iter().filter(|word| **word == term).count() as f64;
            let df = texts.iter().filter(|text| text.contains(&term)).count() as f64;
            let idf = (1.0 + (texts.len() as f64 - df + 0.5) / (df + 0.5)).ln();
            if tf > 0.0 {
                idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * text.len() as f64 / average))
            } else {
                0.0
            }
        };
        question.iter().map(of_term).sum()
    };
    texts.iter().map(of_text).collect()
}

/// The ranking of the allowed among the passages that count.
fn oracle(
    passages: &[TestedPassage],
    question: &str,
    weight: f64,
    counts: impl Fn(&TestedPassage) -> bool,
    allows: impl Fn(&TestedPassage) -> bool,
) -> Vec<(String, f64)> {
    let question = terms(TextLanguage::English, question);
    let counted: Vec<&TestedPassage> = passages.iter().filter(|passage| counts(passage)).collect();
    let own = bm25(
        &counted
            .iter()
            .map(|passage| passage.terms.iter().collect())
            .collect::<Vec<_>>(),
        &question,
    );
    // Whoever has no document has its key in place of it.
    let name = |passage: &TestedPassage| {
        passage
            .document
            .map_or_else(|| passage.key.clone(), |number| format!("d{number}"))
    };
    let mut documents: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for passage in &counted {
        documents.entry(name(passage)).or_default().extend(&passage.terms);
    }
    let (names, texts): (Vec<String>, Vec<Vec<&String>>) = documents.into_iter().unzip();
    let of_documents: BTreeMap<String, f64> = names.into_iter().zip(bm25(&texts, &question)).collect();
    let scored = counted.iter().zip(own).filter(|(passage, _)| allows(passage));
    let scored = scored.map(|(passage, own)| (passage.key.clone(), own + weight * of_documents[&name(passage)]));
    let mut scored: Vec<(String, f64)> = scored.filter(|(_, score)| *score > 0.0).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    scored
}

/// One set for each shard of the passages that a condition holds for.
fn sets(shards: &[TextShard], passages: &[TestedPassage], condition: impl Fn(&TestedPassage) -> bool) -> Vec<NodeSet> {
    let mut sets: Vec<NodeSet> = shards.iter().map(|shard| NodeSet::new(shard.len())).collect();
    for TestedPassage {
        place: (shard, node), ..
    } in passages.iter().filter(|passage| condition(passage))
    {
        sets[*shard].insert(*node);
    }
    sets
}

/// The `k` best of all shards.
fn best(
    shards: &[TextShard],
    passages: &[TestedPassage],
    weighed: &Weighed<'_>,
    scores: &DocumentScores,
    k: usize,
    allowed: &[NodeSet],
) -> Vec<(String, f32)> {
    let keys: BTreeMap<(usize, u32), &str> = passages
        .iter()
        .map(|passage| (passage.place, passage.key.as_str()))
        .collect();
    let mut hits = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let key = |node| keys[&(number, node)];
        let of_shard = scores.of_shard(number, shard);
        let found = weighed
            .best_in_documents(of_shard, k, &key, Some(&allowed[number]), &Never)
            .unwrap();
        assert_eq!(found.completeness, Completeness::Complete);
        hits.extend(found.hits.iter().map(|hit| (key(hit.node).to_owned(), hit.score)));
    }
    hits.sort_by(|a: &(String, f32), b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    hits.truncate(k);
    hits
}

/// Passages of 40 terms at most have lengths that a byte holds exactly: of longer ones their own part would differ.
#[test]
fn scores_are_those_of_the_formulas_however_many_shards_there_are() {
    let is_short = |passage: &TestedPassage| passage.terms.len() <= 40;
    let is_third = |passage: &TestedPassage| passage.key.as_bytes()[3].is_multiple_of(3);
    let mut of_counts: Vec<Vec<Vec<(String, u32)>>> = Vec::new();
    for count in [1, 3, 64] {
        let (_dir, shards, passages) = corpus(count);
        let documents = passage_documents(&shards, &passages);
        let counted = sets(&shards, &passages, is_short);
        let statistics = CorpusStatistics::new(&shards).within(counted.clone().into()).unwrap();
        let thirds = sets(&shards, &passages, |passage| is_short(passage) && is_third(passage));
        let mut all = Vec::new();
        for (question, weight) in QUESTIONS
            .iter()
            .flat_map(|question| [(question, 1.0), (question, 0.25)])
        {
            let asked = AnalyzedQuestion::new(TextLanguage::English, question);
            let weighed = asked.weigh(&statistics, &Never).unwrap().unwrap();
            let scores = scored(&weighed, &statistics, &documents, weight as f32);
            for (allowed, expected) in [
                (&counted, oracle(&passages, question, weight, is_short, |_| true)),
                (&thirds, oracle(&passages, question, weight, is_short, is_third)),
            ] {
                let whole = best(&shards, &passages, &weighed, &scores, PASSAGES, allowed);
                assert_eq!(whole.len(), expected.len(), "{question}");
                let expected: BTreeMap<String, f64> = expected.into_iter().collect();
                for (key, score) in &whole {
                    assert!(
                        (f64::from(*score) - expected[key]).abs() < 1e-4,
                        "{question}, {key}: {score} {expected:?}"
                    );
                    assert!(*score <= weighed.bound() + scores.bound(), "{question}, {key}");
                }
                for k in [1, 10, 77] {
                    let cut = best(&shards, &passages, &weighed, &scores, k, allowed);
                    assert_eq!(cut[..], whole[..k.min(whole.len())], "{question}, {k}");
                }
                all.push(
                    whole
                        .into_iter()
                        .map(|(key, score)| (key, score.to_bits()))
                        .collect::<Vec<_>>(),
                );
            }
        }
        assert!(
            all.iter().any(|hits| hits.len() > 200) && all.iter().any(Vec::is_empty),
            "hits of both kinds"
        );
        of_counts.push(all);
    }
    assert!(of_counts.iter().all(|all| *all == of_counts[0]), "to the last bit");
}

/// The part of a passage itself is that of a search without documents, and passages without a term of the question have
/// the rest.
#[test]
fn a_passage_has_its_own_score_and_that_of_its_document() {
    let (_dir, shards, passages) = corpus(3);
    let (statistics, documents) = (CorpusStatistics::new(&shards), passage_documents(&shards, &passages));
    for question in QUESTIONS {
        let asked = AnalyzedQuestion::new(TextLanguage::English, question);
        let weighed = asked.weigh(&statistics, &Never).unwrap().unwrap();
        let scores = scored(&weighed, &statistics, &documents, 0.5);
        for (number, shard) in shards.iter().enumerate() {
            let mut own = vec![0.0; shard.len()];
            weighed
                .each(shard, |node, score| own[node as usize] = score, &Never)
                .unwrap();
            let (of_shard, mut met) = (scores.of_shard(number, shard), BTreeSet::new());
            let take = |node: u32, score: f32| {
                met.insert(node);
                assert_eq!(
                    score.to_bits(),
                    (own[node as usize] + of_shard.score(node)).to_bits(),
                    "{question}, {node}"
                );
            };
            assert!(weighed.each_in_documents(of_shard, take, &Never).unwrap());
            for node in 0..shard.len() as u32 {
                assert_eq!(met.contains(&node), of_shard.score(node) > 0.0, "{question}, {node}");
                assert!(own[node as usize] <= 0.0 || met.contains(&node), "{question}, {node}");
                let passage = ShardPassage { number, shard, node };
                let told = weighed
                    .explain_in_document(&statistics, &scores, passage, &Never)
                    .unwrap()
                    .unwrap();
                let told = told.map_or(0.0, |(score, json)| {
                    assert!(json.contains("0.5 times BM25 of the document"), "{json}");
                    score
                });
                assert!(
                    (told - own[node as usize] - of_shard.score(node)).abs() < 1e-4,
                    "{question}, {node}: {told}"
                );
            }
        }
    }
}

/// Whatever others have: documents of one passage each among those that count, of which the others have several.
#[test]
fn documents_of_one_passage_each_add_nothing() {
    let (_dir, shards, passages) = corpus(3);
    let documents = passage_documents(&shards, &passages);
    let mut seen = BTreeSet::new();
    let firsts: BTreeSet<&str> = passages
        .iter()
        .filter(|passage| passage.document.is_none_or(|document| seen.insert(document)))
        .map(|passage| passage.key.as_str())
        .collect();
    let counted = sets(&shards, &passages, |passage| firsts.contains(passage.key.as_str()));
    let statistics = CorpusStatistics::new(&shards).within(counted.into()).unwrap();
    let asked = AnalyzedQuestion::new(TextLanguage::English, "river");
    let weighed = asked.weigh(&statistics, &Never).unwrap().unwrap();
    let told = weighed.document_scores(&statistics, &documents, 1.0, &Never).unwrap();
    assert!(matches!(told, WeighedDocuments::Absent), "{told:?}");
}

#[test]
fn cancelled_work_ends_and_says_so() {
    let (_dir, shards, passages) = corpus(3);
    let (statistics, documents) = (CorpusStatistics::new(&shards), passage_documents(&shards, &passages));
    let asked = AnalyzedQuestion::new(TextLanguage::English, "river comet");
    let weighed = asked.weigh(&statistics, &Never).unwrap().unwrap();
    let cancelled = weighed
        .document_scores(&statistics, &documents, 1.0, &AtomicBool::new(true))
        .unwrap();
    assert!(matches!(cancelled, WeighedDocuments::Cancelled), "{cancelled:?}");
    let scores = scored(&weighed, &statistics, &documents, 1.0);
    let of_shard = scores.of_shard(0, &shards[0]);
    for polls in 0..3 {
        let left = AtomicUsize::new(polls);
        let cancel = || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
        };
        let found = weighed.best_in_documents(of_shard, 5, &|_| "", None, &cancel).unwrap();
        assert_eq!(found.completeness, Completeness::Cancelled, "{polls}");
    }
}

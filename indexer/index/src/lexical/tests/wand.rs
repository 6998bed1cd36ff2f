//! Block-max WAND against tantivy's own, and against every document scored.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use crate::language::TextLanguage;
use crate::lexical::{AnalyzedQuestion, CorpusStatistics, TextDocument, TextShard, TextWriter};
use crate::search::{NodeSet, Scored, TopK};
use dyad_files::Never;

const DOCUMENTS: u32 = 3000;

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Shards whose documents differ much in length, with far more documents than a block, some of whose words are in all
/// of them and some only in a few. One is empty.
fn unlike_shards() -> (tempfile::TempDir, Vec<TextShard>) {
    let dir = tempfile::tempdir().unwrap();
    let mut state = 7;
    let shards = [(0, DOCUMENTS, 6), (1, DOCUMENTS, 200), (2, 128, 30), (3, 0, 1)];
    let shards = shards.map(|(part, documents, longest)| {
        let path = dir.path().join(part.to_string());
        let mut writer = TextWriter::create(&path, TextLanguage::English).unwrap();
        for i in 0..documents {
            let words = 1 + random(&mut state, longest);
            let mut text: Vec<String> = (0..words)
                .map(|_| format!("w{}", random(&mut state, 4) * random(&mut state, 30)))
                .collect();
            if i % 700 == 3 {
                text.push("rare".into());
            }
            // A part of the documents in which only one word is at home.
            if (1000..1800).contains(&i) {
                text = vec!["region".into(); 1 + (i % 3) as usize];
            }
            let key = format!("{part}-{i:04}");
            writer
                .add(TextDocument {
                    key: &key,
                    title: "",
                    text: &text.join(" "),
                    metadata_json: "",
                })
                .unwrap();
        }
        writer.finish().unwrap();
        TextShard::open(&path).unwrap()
    });
    (dir, shards.into())
}

const QUESTIONS: [&str; 9] = [
    "w0 w1 w2",
    "w5",
    "w6 w29 w0",
    "w12 w18",
    "w0",
    "rare w0",
    "rare region w3 w3 w3 w9",
    "absent w7",
    "region w0 w2 w4 w6 w8 w10 w12 w14 w16 w18 w20 w22 w24 w26 w28 w30 w33 w36 w39 w42 w45 w48 w51 rare",
];

/// Looks everything up in every shard for every question to it, as it was done before.
struct Slow<'a>(&'a [TextShard]);

impl Bm25StatisticsProvider for Slow<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        self.0.iter().map(|shard| shard.searcher.total_num_tokens(field)).sum()
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        self.0.iter().map(|shard| shard.searcher.total_num_docs()).sum()
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        self.0
            .iter()
            .map(|shard| Searcher::doc_freq(&shard.searcher, term))
            .sum()
    }
}

/// Every matching document with the sum of its terms in the question's order, looked up one by one.
fn slowly(question: &str, shards: &[TextShard], shard: &TextShard) -> Vec<(u32, f32)> {
    use tantivy::postings::Postings as _;
    use tantivy::query::Bm25Weight;
    use tantivy::schema::IndexRecordOption::WithFreqs;
    use tantivy::{DocSet as _, TERMINATED};
    let mut sums: BTreeMap<u32, f32> = BTreeMap::new();
    for word in super::terms(TextLanguage::English, question) {
        let term = Term::from_field_text(shard.fields.body, &word);
        let weight = Bm25Weight::for_terms(&Slow(shards), std::slice::from_ref(&term)).unwrap();
        for segment in shard.searcher.segment_readers() {
            let norms = segment.get_fieldnorms_reader(shard.fields.body).unwrap();
            let index = segment.inverted_index(shard.fields.body).unwrap();
            let Some(mut postings) = index.read_postings(&term, WithFreqs).unwrap() else {
                continue;
            };
            while postings.doc() != TERMINATED {
                let node = postings.doc();
                *sums.entry(node).or_default() += weight.score(norms.fieldnorm_id(node), postings.term_freq());
                postings.advance();
            }
        }
    }
    let mut sums: Vec<(u32, f32)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    sums
}

fn bits(hits: &[(u32, f32)]) -> Vec<(u32, u32)> {
    hits.iter().map(|(node, score)| (*node, score.to_bits())).collect()
}

fn keys(shard: &TextShard, part: usize) -> Vec<String> {
    (0..shard.len()).map(|i| format!("{part}-{i:04}")).collect()
}

#[test]
fn scores_are_sums_in_the_questions_order_to_the_last_bit_and_no_hit_is_lost() {
    let (_dir, shards) = unlike_shards();
    let statistics = CorpusStatistics::new(&shards);
    for text in QUESTIONS {
        let question = AnalyzedQuestion::new(TextLanguage::English, text);
        let mut question = question.weigh(&statistics, &Never).unwrap().unwrap();
        for (part, shard) in shards.iter().enumerate() {
            let keys = keys(shard, part);
            let all = slowly(text, &shards, shard);
            for segment in shard.searcher.segment_readers() {
                let (weight, mut matches) = (question.by_tantivy(shard).unwrap(), 0);
                weight.for_each(segment, &mut |_, _| matches += 1).unwrap();
                assert_eq!(matches, all.len());
            }
            for k in [1, 7, 40, 5000] {
                for quick in [0, u64::MAX] {
                    question.quick = quick;
                    let best = question
                        .best(shard, k, &|node| keys[node as usize].as_str(), None, &Never)
                        .unwrap()
                        .hits;
                    let got: Vec<(u32, f32)> = best.iter().map(|hit| (hit.node, hit.score)).collect();
                    assert_eq!(bits(&got), bits(&all[..k.min(all.len())]), "{text:?} in {part}, k {k}");
                }
            }
            let mut each = Vec::new();
            assert!(
                question
                    .each(shard, |node, score| each.push((node, score)), &Never)
                    .unwrap()
            );
            assert!(each.is_sorted_by_key(|hit| hit.0));
            each.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            assert_eq!(bits(&each), bits(&all), "{text:?} in {part}");
        }
    }
}

#[test]
fn it_asks_whether_to_stop_also_while_it_skips() {
    let (_dir, shards) = unlike_shards();
    let statistics = CorpusStatistics::new(&shards);
    let question = AnalyzedQuestion::new(TextLanguage::English, "w0 w1 w2 w3 w4 w6 w8 w9 rare");
    let mut question = question.weigh(&statistics, &Never).unwrap().unwrap();
    question.quick = 0;
    let (shard, keys) = (&shards[1], keys(&shards[1], 1));
    let mut few = NodeSet::new(shard.len());
    few.insert(3);
    let none = NodeSet::new(shard.len());
    for allowed in [None, Some(&few), Some(&none)] {
        let asked = AtomicUsize::new(0);
        let run = |patience: usize| {
            asked.store(0, Ordering::Relaxed);
            let stop = || asked.fetch_add(1, Ordering::Relaxed) == patience;
            let key = |node: u32| keys[node as usize].as_str();
            let found = question.best(shard, 1, &key, allowed, &stop).unwrap();
            (found.is_cancelled(), asked.load(Ordering::Relaxed))
        };
        let (stopped, looks) = run(usize::MAX);
        assert!(
            !stopped && looks > 1 + 9,
            "{looks} looks: once, for each term, and between blocks"
        );
        for patience in [0, 1, 9, looks - 1] {
            assert_eq!(run(patience), (true, patience + 1));
        }
    }
    // The quick way does so for each term when it adds up the scores.
    question.quick = u64::MAX;
    for patience in 0..9 {
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) == patience;
        let found = question
            .best(shard, 1, &|node| keys[node as usize].as_str(), None, &stop)
            .unwrap();
        assert!(found.is_cancelled(), "{patience}");
    }
    let stop = || true;
    assert!(!question.each(shard, |_, _| (), &stop).unwrap());
    assert!(
        AnalyzedQuestion::new(TextLanguage::English, "w0 w1")
            .weigh(&statistics, &stop)
            .unwrap()
            .is_none()
    );
}

/// What was looked up again and again: once per term and shard is enough, whatever the number of shards.
#[test]
fn a_term_that_is_asked_twice_is_weighed_once_and_counts_twice() {
    let (_dir, shards) = unlike_shards();
    let statistics = CorpusStatistics::new(&shards);
    let asked = AtomicUsize::new(0);
    let stop = || {
        asked.fetch_add(1, Ordering::Relaxed);
        false
    };
    let (once, twice) = (
        AnalyzedQuestion::new(TextLanguage::English, "w5"),
        AnalyzedQuestion::new(TextLanguage::English, "w5 w5"),
    );
    let (once, twice) = (
        once.weigh(&statistics, &Never).unwrap().unwrap(),
        twice.weigh(&statistics, &stop).unwrap().unwrap(),
    );
    assert_eq!(asked.load(Ordering::Relaxed), 4, "between terms");
    let score = |question: &crate::lexical::Weighed<'_>| {
        let mut scores = Vec::new();
        question
            .each(&shards[0], |_, score| scores.push(score), &Never)
            .unwrap();
        scores
    };
    assert!(
        score(&once)
            .iter()
            .zip(score(&twice))
            .all(|(once, twice)| (2.0 * once - twice).abs() < 1e-5)
    );
}

/// Prints the cost of a question over shards, compared with tantivy's own block-max WAND.
/// `cargo test --release -p dyad-index -- --ignored --nocapture questions_over_many_shards`
#[test]
#[ignore = "measures"]
fn questions_over_many_shards() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = 3;
    let mut shards_of = |count: usize, documents: usize| -> Vec<TextShard> {
        let shard = |part: usize| {
            let path = dir.path().join(format!("{count}-{part}"));
            let mut writer = TextWriter::create(&path, TextLanguage::English).unwrap();
            for i in 0..documents / count {
                // Words as frequent as in texts: the n-th has a share of 1/n.
                let text: Vec<String> = (0..60)
                    .map(|_| format!("w{}", (9.0 * random(&mut state, 1000) as f64 / 1000.0).exp() as u64))
                    .collect();
                let key = format!("{part}-{i:06}");
                writer
                    .add(TextDocument {
                        key: &key,
                        title: "",
                        text: &text.join(" "),
                        metadata_json: "",
                    })
                    .unwrap();
            }
            writer.finish().unwrap();
            TextShard::open(&path).unwrap()
        };
        (0..count).map(shard).collect()
    };
    let ask = |words: usize| {
        (0..words)
            .map(|at| format!("w{}", at * 7 + 1))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for count in [1, 3, 64] {
        let shards = shards_of(count, 60_000);
        let statistics = CorpusStatistics::new(&shards);
        for words in [2, 5, 20, 200] {
            let text = ask(words);
            let keys: Vec<Vec<String>> = shards
                .iter()
                .enumerate()
                .map(|(part, shard)| keys(shard, part))
                .collect();
            let (mut ours, mut tantivys) = (Vec::new(), Vec::new());
            for _ in 0..15 {
                let began = std::time::Instant::now();
                let question = AnalyzedQuestion::new(TextLanguage::English, &text);
                let question = question.weigh(&statistics, &Never).unwrap().unwrap();
                for (shard, keys) in shards.iter().zip(&keys) {
                    question
                        .best(shard, 10, &|node| keys[node as usize].as_str(), None, &Never)
                        .unwrap();
                }
                ours.push(began.elapsed());
                let began = std::time::Instant::now();
                for shard in &shards {
                    let (weight, mut best) = (question.by_tantivy(shard).unwrap(), TopK::new(10));
                    let mut take = |node, score| {
                        best.offer(Scored { node, score });
                        best.threshold().map_or(f32::MIN, |last| last.score)
                    };
                    weight
                        .for_each_pruning(f32::MIN, shard.searcher.segment_reader(0), &mut take)
                        .unwrap();
                }
                tantivys.push(began.elapsed());
            }
            ours.sort_unstable();
            tantivys.sort_unstable();
            println!(
                "{count} shards, {words} words: {:?}, tantivy's own top k {:?}",
                ours[7], tantivys[7]
            );
        }
    }
}

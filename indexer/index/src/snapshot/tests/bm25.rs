//! BM25 of parts, by what was counted in all of them.

use super::generation::Draws;
use super::*;
use crate::hybrid::exactness;
use crate::lexical::TermCounts;

/// Of one to seven words, some of them repeated, in no document, or in all.
fn questions() -> Vec<String> {
    let mut draws = Draws(9);
    let mut questions: Vec<String> = (0..12)
        .map(|number| {
            let words = 1 + draws.below(7);
            format!("{} {}", draws.text(words), ["", "title", "nowhere"][number % 3])
        })
        .collect();
    questions.extend(["", "nowhere", "word1 word1 word1"].map(str::to_owned));
    questions
}

/// The counts of all parts.
fn merged_counts<'a>(question: &AnalyzedQuestion, parts: impl IntoIterator<Item = &'a CorpusStatistics>) -> TermCounts {
    let mut counts = TermCounts::new(question);
    for statistics in parts {
        counts
            .merge(&statistics.term_counts(question, &Never).unwrap().unwrap())
            .unwrap();
    }
    counts
}

#[test]
fn parts_find_what_the_whole_generation_finds_by_their_merged_counts() {
    let opened = OpenedParts::new();
    let whole = &opened.whole;
    let allowed = whole.allowed(&filter(), &Never).unwrap().unwrap();
    let scoped = whole.statistics().within(allowed.clone().into()).unwrap();
    for text in questions() {
        let question = whole.question(&text);
        for is_scoped in [false, true] {
            let statistics = if is_scoped { &scoped } else { whole.statistics() };
            let sets = is_scoped.then_some(&*allowed);
            let weighed = question.weigh(statistics, &Never).unwrap().unwrap();
            let found = whole.search_text(&question, 20, sets, statistics, &Never).unwrap();
            let exact = exactness(whole, &weighed, &found.hits, &Never).unwrap().unwrap();
            let (hits, counted) = (
                FoundByKey::new(whole, &found),
                statistics.term_counts(&question, &Never).unwrap().unwrap(),
            );
            let of_hits: HashMap<&str, f32> = hits.hits.iter().map(|(key, _)| &**key).zip(exact).collect();
            for division in opened.divisions() {
                let of_parts: Vec<Vec<NodeSet>> = division
                    .iter()
                    .map(|part| part.allowed(&filter(), &Never).unwrap().unwrap())
                    .collect();
                let within = |(part, sets): (&&Snapshot, &Vec<NodeSet>)| {
                    let all = part.statistics();
                    if is_scoped {
                        all.within(sets.clone().into()).unwrap()
                    } else {
                        all.clone()
                    }
                };
                let statistics: Vec<CorpusStatistics> = division.iter().zip(&of_parts).map(within).collect();
                let counts = merged_counts(&question, &statistics);
                assert_eq!(counts, counted, "`{text}`");
                let by_counts = question.weigh_by(&counts, &Never).unwrap().unwrap();
                assert_eq!(by_counts.bound().to_bits(), weighed.bound().to_bits(), "`{text}`");
                let mut merged = Vec::new();
                for (part, sets) in division.iter().zip(&of_parts) {
                    let sets = is_scoped.then_some(&**sets);
                    let found = part.search_weighed(&by_counts, None, 20, sets, &Never).unwrap();
                    let exact = exactness(part, &by_counts, &found.hits, &Never).unwrap().unwrap();
                    let found = FoundByKey::new(part, &found);
                    for ((key, _), exact) in found.hits.iter().zip(exact) {
                        assert!(
                            of_hits
                                .get(&**key)
                                .is_none_or(|expected| expected.total_cmp(&exact).is_eq()),
                            "{key}"
                        );
                    }
                    merged.push(found);
                }
                assert_eq!(
                    FoundByKey::merged(merged, 20),
                    hits,
                    "`{text}`, {} parts",
                    division.len()
                );
            }
        }
    }
}

/// More is deleted in one part than it has, if only its own counts are looked at: that may not be clamped too early.
#[test]
fn deletions_are_subtracted_when_all_is_added_up() {
    let opened = OpenedParts::new();
    let question = opened.whole.question("word0 word1 word1");
    let own = opened.parts[&vec![1]].statistics();
    let own = own.term_counts(&question, &Never).unwrap().unwrap();
    assert!(own.deleted_documents > 0 && own.deleted_tokens > 0 && own.deleted_frequencies[0] > 0);
    assert_eq!(own.frequencies.len(), 3);
    assert_eq!(own.frequencies[1], own.frequencies[2]);
    let (mut few, many) = (own.clone(), own.clone());
    few.documents = 1;
    few.frequencies = vec![0; 3];
    let (mut one, mut other) = (few.clone(), many.clone());
    one.merge(&many).unwrap();
    other.merge(&few).unwrap();
    assert_eq!(one, other);
    assert_eq!(
        (one.documents, one.frequencies[0]),
        (own.documents + 1, own.frequencies[0])
    );
}

#[test]
fn counts_of_another_question_are_refused_and_absurd_ones_do_no_harm() {
    let opened = OpenedParts::new();
    let (one, two) = (opened.whole.question("word1"), opened.whole.question("word1 word2"));
    let counts = opened.whole.statistics().term_counts(&two, &Never).unwrap().unwrap();
    let mut other = TermCounts::new(&one);
    let error = other.merge(&counts).unwrap_err().to_string();
    assert!(error.contains("expected 1, as many as it has terms"), "{error}");
    assert_eq!(other, TermCounts::new(&one));
    assert!(one.weigh_by(&counts, &Never).is_err());
    let mut uneven = counts.clone();
    uneven.deleted_frequencies.pop();
    assert!(two.weigh_by(&uneven, &Never).is_err() && uneven.merge(&counts).is_err());
    let most = TermCounts {
        documents: u64::MAX,
        deleted_documents: 0,
        tokens: u64::MAX,
        deleted_tokens: 0,
        frequencies: vec![u64::MAX; 2],
        deleted_frequencies: vec![0; 2],
        has_first_analyzer: true,
    };
    let none = TermCounts {
        documents: 0,
        deleted_documents: u64::MAX,
        frequencies: vec![7; 2],
        ..most.clone()
    };
    let mut sum = most.clone();
    sum.merge(&most).unwrap();
    for counts in [most, none, sum] {
        let weighed = two.weigh_by(&counts, &Never).unwrap().unwrap();
        let found = opened.whole.search_weighed(&weighed, None, 5, None, &Never).unwrap();
        assert!(found.hits.len() <= 5);
    }
}

//! The nearest vectors of parts, in the rounds of the whole generation.

use super::*;
use crate::certificate::Certificate;

/// One round in every part, by question.
fn round(
    parts: &[&Snapshot],
    questions: &[&[f32]],
    params: &DenseParams,
    round: ShardRound<'_>,
) -> Vec<Vec<FoundByKey>> {
    let mut of_questions = vec![Vec::new(); questions.len()];
    for part in parts {
        let found = part.search_dense_of(questions, params, None, round, &Never).unwrap();
        assert_eq!(found.len(), questions.len());
        for (found, of_question) in found.iter().zip(&mut of_questions) {
            of_question.push(FoundByKey::new(part, found));
        }
    }
    of_questions
}

/// As whoever holds no shard asks those who do: by what they tell of their shards.
fn search_parts(parts: &[&Snapshot], questions: &[&[f32]], params: &DenseParams) -> Vec<FoundByKey> {
    let told = parts.iter().flat_map(|part| part.numbers().iter().zip(part.shards()));
    let mut told: Vec<(usize, usize, Certificate)> = told
        .map(|(number, shard)| {
            let certificate = Certificate {
                calibration: shard.certificate().calibration.clone(),
                ..Certificate::default()
            };
            (*number, shard.len(), certificate)
        })
        .collect();
    told.sort_by_key(|(number, ..)| *number);
    let documents = told.iter().map(|(_, documents, _)| *documents);
    let small = SmallShards::new(params, documents, |at| {
        told.get(at).map(|(_, _, certificate)| certificate)
    });
    let Some(small) = small else {
        let found = round(parts, questions, params, ShardRound::All);
        return found
            .into_iter()
            .map(|found| FoundByKey::merged(found, params.k))
            .collect();
    };
    let mut found = round(parts, questions, params, ShardRound::Large(small));
    let kth_of = |found: &Vec<FoundByKey>| {
        let scores = found.iter().flat_map(|part| &part.hits);
        let is_out = found.iter().any(|part| part.cost.out_of_distribution > 0);
        kth_score(scores.map(|(_, score)| f32::from_bits(*score)), params.k, is_out)
    };
    let kth_scores: Vec<f32> = found.iter().map(kth_of).collect();
    let round_of_small = ShardRound::Small {
        small,
        kth_scores: &kth_scores,
    };
    let rest = round(parts, questions, params, round_of_small);
    for (found, rest) in found.iter_mut().zip(rest) {
        found.extend(rest);
    }
    found
        .into_iter()
        .map(|found| FoundByKey::merged(found, params.k))
        .collect()
}

fn by_key(snapshot: &Snapshot, found: &[SearchHits<DocumentHit>]) -> Vec<FoundByKey> {
    found.iter().map(|found| FoundByKey::new(snapshot, found)).collect()
}

const ADAPTIVE: SearchMode = SearchMode::Adaptive { ef: 20 };
const CERTIFIED: SearchMode = SearchMode::Certified {
    ef: 20,
    out_of_distribution_ef: 40,
};

#[test]
fn parts_find_what_the_whole_generation_finds_in_every_mode() {
    let opened = OpenedParts::new();
    let questions: Vec<&[f32]> = opened
        .generation
        .questions
        .iter()
        .map(|question| &question[..])
        .collect();
    let modes = [ADAPTIVE, CERTIFIED, SearchMode::Beam { ef: 20 }, SearchMode::Exact];
    for (mode, k) in modes.into_iter().flat_map(|mode| [1, 10, 70].map(|k| (mode, k))) {
        let params = DenseParams { k, mode };
        let whole = opened.whole.search_dense(&questions, &params, None, &Never).unwrap();
        let whole = by_key(&opened.whole, &whole);
        for division in opened.divisions() {
            let found = search_parts(&division, &questions, &params);
            assert_eq!(found, whole, "{params:?} in {} parts", division.len());
        }
    }
}

/// Otherwise the test above would show nothing.
#[test]
fn both_rounds_and_questions_out_of_distribution_occur() {
    let opened = OpenedParts::new();
    let questions: Vec<&[f32]> = opened
        .generation
        .questions
        .iter()
        .map(|question| &question[..])
        .collect();
    let params = DenseParams { k: 10, mode: ADAPTIVE };
    let search = |round| {
        opened
            .whole
            .search_dense_of(&questions, &params, None, round, &Never)
            .unwrap()
    };
    let shards = opened.whole.shards();
    let certificate = |at: usize| shards.get(at).map(Shard::certificate);
    let small = SmallShards::new(&params, shards.iter().map(Shard::len), certificate).unwrap();
    let sizes: Vec<bool> = shards.iter().map(|shard| shard.len() <= small.most_documents).collect();
    assert_eq!(sizes, [true, false, true, false, true]);
    let in_two = opened.whole.search_dense(&questions, &params, None, &Never).unwrap();
    let (in_one, large) = (search(ShardRound::All), search(ShardRound::Large(small)));
    let is_cheaper = |at: usize| in_two[at].cost.total() < in_one[at].cost.total();
    let is_out = |at: usize| large[at].cost.out_of_distribution > 0;
    let count = |is: &dyn Fn(usize) -> bool| (0..questions.len()).filter(|at| is(*at)).count();
    assert!(count(&is_cheaper) > 5, "{}", count(&is_cheaper));
    assert!((1..10).contains(&count(&is_out)), "{}", count(&is_out));
    assert!((0..questions.len()).all(|at| !is_out(at) || in_two[at].hits == in_one[at].hits));
    // Some hits come from small shards, and some of equal scores from several shards.
    let from_small = in_two
        .iter()
        .flat_map(|found| &found.hits)
        .filter(|hit| sizes[hit.shard]);
    assert!(from_small.count() > 10);
    let tied = &in_two[16].hits;
    assert!(
        tied[..4].iter().all(|hit| hit.score.total_cmp(&tied[0].score).is_eq()),
        "{tied:?}"
    );
}

#[test]
fn filtered_searches_of_parts_are_those_of_the_whole_in_one_round() {
    let opened = OpenedParts::new();
    let questions: Vec<&[f32]> = opened
        .generation
        .questions
        .iter()
        .map(|question| &question[..])
        .collect();
    let allowed = opened.whole.allowed(&filter(), &Never).unwrap().unwrap();
    for mode in [ADAPTIVE, CERTIFIED, SearchMode::Beam { ef: 20 }, SearchMode::Exact] {
        let params = DenseParams { k: 10, mode };
        let whole = opened
            .whole
            .search_dense(&questions, &params, Some(&allowed), &Never)
            .unwrap();
        let whole = by_key(&opened.whole, &whole);
        for division in opened.divisions() {
            let mut found = vec![Vec::new(); questions.len()];
            for part in division {
                let of_part = part.allowed(&filter(), &Never).unwrap().unwrap();
                let expected: Vec<NodeSet> = part.numbers().iter().map(|number| allowed[*number].clone()).collect();
                assert_eq!(of_part, expected);
                let hits = part.search_dense_of(&questions, &params, Some(&of_part), ShardRound::All, &Never);
                for (found, hits) in found.iter_mut().zip(by_key(part, &hits.unwrap())) {
                    found.push(hits);
                }
            }
            let found: Vec<_> = found.into_iter().map(|found| FoundByKey::merged(found, 10)).collect();
            assert_eq!(found, whole, "{params:?}");
        }
    }
}

#[test]
fn a_round_that_no_search_comes_to_is_refused() {
    let generation = TestGeneration::new();
    let part = generation.part(&[0, 4], None);
    let questions: Vec<&[f32]> = generation
        .questions
        .iter()
        .take(2)
        .map(|question| &question[..])
        .collect();
    let params = DenseParams { k: 3, mode: ADAPTIVE };
    let small = |margin| SmallShards {
        most_documents: 100,
        margin,
    };
    let ask = |margin, kth_scores: &[f32]| {
        let round = ShardRound::Small {
            small: small(margin),
            kth_scores,
        };
        part.search_dense_of(&questions, &params, None, round, &Never).map(drop)
    };
    ask(0.1, &[0.5, f32::NEG_INFINITY]).unwrap();
    for (margin, kth_scores) in [(0.1, &[0.5][..]), (0.1, &[0.5; 3]), (0.1, &[0.5, f32::NAN])] {
        let error = ask(margin, kth_scores).unwrap_err().to_string();
        assert!(error.contains("expected 2 numbers, one for each question"), "{error}");
    }
    for margin in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = ask(margin, &[0.5; 2]).unwrap_err().to_string();
        assert!(error.contains("expected a finite number above 0"), "{error}");
    }
}

#[test]
fn the_kth_score_is_that_of_a_sorted_list() {
    let (scores, sorted) = ([0.5, -1.0, 0.75, 0.5], [0.75, 0.5, 0.5, -1.0]);
    let bits = |k, is_out| kth_score(scores, k, is_out).to_bits();
    for (k, score) in (1..).zip(sorted) {
        assert_eq!(bits(k, false), f32::to_bits(score));
        assert_eq!(bits(k, true), f32::NEG_INFINITY.to_bits());
    }
    for k in [0, 5] {
        assert_eq!(bits(k, false), f32::NEG_INFINITY.to_bits());
    }
}

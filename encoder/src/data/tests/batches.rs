//! Order, cursor, mask, teacher.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn epoch(sampler: &mut Sampler) -> Vec<Vec<Draw>> {
    (0..sampler.batches()).map(|_| sampler.draw()).collect()
}

#[test]
fn an_epoch_is_every_example_once_in_an_order_of_its_own() {
    let pairs = distinct(23);
    let mut sampler = Sampler::new(
        Arc::clone(&pairs),
        SamplerOptions {
            last: Last::Keep,
            ..options(5)
        },
    )
    .unwrap();
    assert_eq!(sampler.batches(), 5);
    let (first, second) = (epoch(&mut sampler), epoch(&mut sampler));
    for batches in [&first, &second] {
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5, 5, 5, 3]);
        let seen: BTreeSet<u32> = batches.iter().flatten().map(|draw| draw.example).collect();
        assert_eq!(seen.len(), 23);
    }
    assert_ne!(first, second);
    assert_eq!(sampler.cursor(), Cursor { epoch: 2, position: 0 });
    let mut dropping = Sampler::new(pairs, options(5)).unwrap();
    assert_eq!((dropping.batches(), epoch(&mut dropping)), (4, first[..4].to_vec()));
}

#[test]
fn negatives_and_positives_are_sampled_again_each_epoch() {
    let pairs = built(vec![
        example(1, &[10, 11, 12], &[20, 21, 22, 23]),
        example(2, &[13], &[24]),
    ]);
    let mut sampler = Sampler::new(
        Arc::clone(&pairs),
        SamplerOptions {
            negatives: 2,
            ..options(2)
        },
    )
    .unwrap();
    let (mut positives, mut negatives) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..60 {
        for draw in sampler.draw() {
            assert!(pairs.positives(draw.example).contains(&draw.positive));
            let different: BTreeSet<u32> = draw.negatives.iter().copied().collect();
            assert_eq!(different.len(), if draw.example == 0 { 2 } else { 1 });
            assert!(
                different
                    .iter()
                    .all(|place| pairs.negatives(draw.example).contains(place))
            );
            if draw.example == 0 {
                positives.insert(draw.positive);
                negatives.insert(different);
            }
        }
    }
    assert_eq!((positives.len(), negatives.len()), (3, 6), "each of them comes");
}

#[test]
fn what_cannot_be_sampled_is_refused_by_name() {
    let pairs = distinct(3);
    let refusal = |result: Result<Sampler, DataError>| result.unwrap_err().to_string();
    assert_eq!(
        refusal(Sampler::new(Arc::clone(&pairs), options(4))),
        "a batch of 4 is larger than the data: 3 examples. Use a batch of at most 3, or more data"
    );
    assert_eq!(
        refusal(Sampler::new(Arc::clone(&pairs), options(0))),
        "a batch must have at least 1 example, got: 0"
    );
    let sampler = || Sampler::new(Arc::clone(&pairs), options(1)).unwrap();
    assert!(
        refusal(sampler().seek(Cursor { epoch: 2, position: 4 }))
            .starts_with("cursor at batch 4 of epoch 2, which has 3")
    );
    assert_eq!(
        sampler().seek(Cursor { epoch: 2, position: 3 }).unwrap().cursor(),
        Cursor { epoch: 3, position: 0 }
    );
    let state = SamplerState {
        data: "other".into(),
        ..sampler().state()
    };
    assert!(refusal(Sampler::restore(Arc::clone(&pairs), &state)).contains("expected digest other, got: "));
}

#[test]
fn equal_answers_wait_for_another_batch_while_there_is_one() {
    // Each of ten answers belongs to four questions; eight batches of five can hold them apart.
    let pairs = built(
        (0..40)
            .map(|number| example(number, &[100 + number % 10], &[]))
            .collect(),
    );
    let mut sampler = Sampler::new(Arc::clone(&pairs), options(5)).unwrap();
    for _ in 0..20 {
        let forced = sampler.forced();
        let mut clashes = 0;
        for batch in epoch(&mut sampler) {
            let classes: BTreeSet<u32> = batch.iter().map(|draw| pairs.answer(draw.positive)).collect();
            clashes += batch.len() - classes.len();
        }
        assert_eq!((clashes, forced), (0, 0));
    }
    // One answer of all questions cannot be held apart, and the mask must say so.
    let pairs = built((0..6).map(|number| example(number, &[100], &[])).collect());
    let mut sampler = Sampler::new(pairs, options(3)).unwrap();
    assert_eq!(sampler.forced(), 4);
    let batch = collate(&mut sampler);
    assert_eq!(
        batch.excluded,
        [false, true, true, true, false, true, true, true, false]
    );
    assert!(batch.excludes());
}

#[test]
fn the_teachers_scores_stand_where_their_passages_do() {
    let scored = |number: usize, score: f32| Passage {
        score: Some(score),
        ..Passage::from_text(text(number))
    };
    let one = TrainingExample {
        question: text(1),
        positives: vec![scored(10, 0.9)],
        negatives: vec![scored(20, 0.2), Passage::from_text(text(21))],
        key: None,
    };
    let pairs = built(vec![one, example(2, &[11], &[22])]);
    let mut sampler = Sampler::new(
        pairs,
        SamplerOptions {
            negatives: 2,
            ..options(2)
        },
    )
    .unwrap();
    let batch = collate(&mut sampler);
    let (rows, columns) = (batch.questions.len(), batch.answers.len());
    assert_eq!((rows, columns, batch.owners.len()), (2, 5, 3));
    let teacher = batch.teacher.unwrap();
    let row = batch.examples.iter().position(|&example| example == 0).unwrap();
    let mut found = BTreeMap::new();
    for (at, score) in teacher.iter().enumerate().filter(|(_, score)| !score.is_nan()) {
        assert_eq!(at / columns, row);
        found.insert(at % columns, *score);
    }
    let low = (2..5).find(|&at| batch.answers[at] == tokenizer().encode(crate::Tower::Answer, &text(20)).unwrap());
    assert_eq!(found, BTreeMap::from([(row, 0.9), (low.unwrap(), 0.2)]));
    assert_eq!(batch.owners[low.unwrap() - 2], row);
    assert!(
        collate(&mut Sampler::new(distinct(4), options(2)).unwrap())
            .teacher
            .is_none()
    );
}

/// The numbers of a question, of its positives and of its negatives.
fn row() -> impl Strategy<Value = (usize, Vec<usize>, Vec<usize>)> {
    let numbers = |count| prop::collection::vec(0usize..12, count);
    (0usize..8, numbers(1..3), numbers(0..4))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// However questions and answers are entangled: every example once, batches full, the mask as its definition has
    /// it.
    #[test]
    fn masks_are_those_of_the_definition(
        rows in prop::collection::vec(row(), 4..24),
        batch in 1usize..5,
        negatives in 0usize..3,
        seed in any::<u64>(),
    ) {
        let pairs = built(rows.iter().map(|(question, positives, negatives)| {
            let shifted = |numbers: &[usize]| numbers.iter().map(|number| number + 100).collect::<Vec<_>>();
            example(*question, &shifted(positives), &shifted(negatives))
        }).collect());
        let options = SamplerOptions { seed, batch, negatives, last: Last::Keep };
        let mut sampler = Sampler::new(pairs, options).unwrap();
        let mut seen = BTreeSet::new();
        let encoded = |number: usize| tokenizer().encode(crate::Tower::Answer, &text(number + 100)).unwrap();
        for _ in 0..sampler.batches() {
            let batch = collate(&mut sampler);
            let columns = batch.answers.len();
            prop_assert_eq!(batch.excluded.len(), batch.questions.len() * columns);
            prop_assert_eq!(batch.owners.len() + batch.questions.len(), columns);
            for (row, &example) in batch.examples.iter().enumerate() {
                seen.insert(example);
                let question = rows[example as usize].0;
                let same_question = rows.iter().filter(|row| row.0 == question);
                let known: Vec<_> = same_question.flat_map(|row| row.1.iter().map(|&a| encoded(a))).collect();
                prop_assert!(known.contains(&batch.answers[row]));
                for (column, answer) in batch.answers.iter().enumerate() {
                    let repeated = batch.answers[..column].contains(answer);
                    let expected = column != row && (known.contains(answer) || repeated);
                    prop_assert_eq!(batch.excluded[row * columns + column], expected, "row {} column {}", row, column);
                }
            }
        }
        prop_assert_eq!(seen.len(), rows.len());
    }

    /// A run that is stopped anywhere resumes as if it had not been.
    #[test]
    fn a_cursor_restores_the_same_continuation(
        stop in 0usize..30,
        batch in 1usize..7,
        keep in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let pairs = distinct(13);
        let last = if keep { Last::Keep } else { Last::Drop };
        let mut whole = Sampler::new(Arc::clone(&pairs), SamplerOptions { seed, batch, negatives: 1, last }).unwrap();
        let mut next = Cursor::default();
        for _ in 0..stop {
            let batch = collate(&mut whole);
            prop_assert_eq!(batch.cursor, next);
            next = batch.next;
        }
        let state = serde_json::to_string(&whole.state()).unwrap();
        let mut resumed = Sampler::restore(pairs, &serde_json::from_str(&state).unwrap()).unwrap();
        for _ in 0..20 {
            prop_assert_eq!(collate(&mut whole), collate(&mut resumed));
        }
    }
}

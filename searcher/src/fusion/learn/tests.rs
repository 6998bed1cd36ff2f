//! What is learned of made-up questions, and what is not.

use super::*;

fn learn(examples: &[Example]) -> Learned {
    let mut trials = Trials::new(Fusion::default());
    trials.add(Fusion::default().document_weight, examples);
    trials.learned()
}

/// Ten documents by each ranking; `right` is the place of the answer in the dense one, and in that of BM25.
fn example(number: u32, right: (usize, usize)) -> Example {
    let ranking = |right: usize, other: u32| -> Vec<DocumentHit> {
        let node = |at: usize| if at == right { 0 } else { other + at as u32 };
        (0..10)
            .map(|at| DocumentHit {
                score: 10.0 - at as f32,
                shard: 0,
                node: node(at),
            })
            .collect()
    };
    let (dense, bm25) = (ranking(right.0, 100), ranking(right.1, 200));
    let keys = dense
        .iter()
        .chain(&bm25)
        .map(|hit| ((0, hit.node), format!("{number}-{}", hit.node)))
        .collect();
    let judgements = BTreeMap::from([(format!("{number}-0"), 1)]);
    Example {
        dense,
        bm25,
        keys,
        judgements,
        ..Example::default()
    }
}

#[test]
fn bounded_scores_are_learned_where_they_alone_are_right() {
    // The answer is in one ranking, after eight others.
    let bounded = |number: u32| {
        let scores = |right| {
            [(108, right), (0, 0.5)]
                .map(|(node, score)| DocumentHit { score, shard: 0, node })
                .to_vec()
        };
        let judgements = BTreeMap::from([(format!("{number}-108"), 1)]);
        let (bounded_dense, bounded_bm25) = (scores(0.9), scores(0.6));
        Example {
            bounded_dense,
            bounded_bm25,
            judgements,
            ..example(number, (9, 9))
        }
    };
    let learned = learn(&(0..40).map(bounded).collect::<Vec<_>>());
    assert_eq!(learned.fusion, Fusion::with(FusionMethod::MinMax));
    assert!(learned.cross_validated.iter().all(|value| *value > 0.999));
}

#[test]
fn the_ranking_that_is_right_gets_the_weight() {
    let (first, last) = (0, 9);
    let dense: Vec<Example> = (0..40).map(|number| example(number, (first, last))).collect();
    let learned = learn(&dense);
    assert!(learned.fusion.dense_weight > 0.5 && learned.cross_validated.iter().all(|value| *value > 0.999));
    assert!(learned.dense.iter().all(|value| *value > 0.999) && learned.bm25.iter().all(|value| *value < 0.3));
    let bm25: Vec<Example> = (0..40).map(|number| example(number, (last, first))).collect();
    let learned = learn(&bm25);
    assert!(
        learned.fusion.dense_weight <= 0.5 && learned.default.iter().sum::<f64>() < 40.0,
        "{:?}",
        learned.fusion
    );
}

/// By ranks alone it is not, and by one ranking alone it may not be.
#[test]
fn whatever_is_learned_the_only_document_with_a_rare_word_is_found() {
    let dense: Vec<DocumentHit> = (0..100)
        .map(|node| DocumentHit {
            score: 0.9 - node as f32 / 200.0,
            shard: 0,
            node,
        })
        .collect();
    let scaled = Fusion {
        logit_scale: Some(22.6),
        ..Fusion::with(FusionMethod::LogOdds)
    };
    let hits = [DocumentHit {
        score: 0.4,
        shard: 0,
        node: 99,
    }];
    for fusion in grid(scaled) {
        let exact = Bm25Ranking {
            hits: &hits,
            exactness: &[1.0],
        };
        let fused = fusion.fuse(&dense, exact, 10, |_| "");
        assert_eq!(fused[0].node, 99, "{fusion:?}");
    }
}

/// Of the rankings that three document weights make, one has the answers first, or none has them otherwise than the
/// default.
#[test]
fn the_document_weight_whose_rankings_are_right_is_learned() {
    assert_eq!(
        DOCUMENT_WEIGHTS[0].to_bits(),
        Fusion::default().document_weight.to_bits()
    );
    let of_weight = |right: f64| {
        let mut trials = Trials::new(Fusion::default());
        for weight in DOCUMENT_WEIGHTS {
            let place = if (weight - right).abs() < 0.01 { 0 } else { 7 };
            trials.add(
                weight,
                &(0..40)
                    .map(|number| example(number, (place, place)))
                    .collect::<Vec<_>>(),
            );
        }
        trials.learned()
    };
    let learned = of_weight(0.3);
    assert_eq!(
        learned.fusion,
        Fusion {
            document_weight: 0.3,
            ..Fusion::default()
        }
    );
    assert!(
        learned.cross_validated.iter().all(|value| *value > 0.999) && learned.bm25.iter().all(|value| *value < 0.4)
    );
    assert_eq!(
        of_weight(9.0).fusion.document_weight.to_bits(),
        DOCUMENT_WEIGHTS[0].to_bits(),
        "all are the same"
    );
}

#[test]
fn what_is_no_better_than_the_default_leaves_it() {
    let same: Vec<Example> = (0..40).map(|number| example(number, (0, 0))).collect();
    assert_eq!(learn(&same).fusion, Fusion::default());
    assert_eq!(learn(&[]).fusion, Fusion::default());
}

/// By the definition: every fold's choice from the other folds' means, one weight after the other.
#[test]
fn no_question_is_judged_by_what_it_taught() {
    let examples: Vec<Example> = (0..53u32)
        .map(|number| example(number, ((number * 7 % 10) as usize, (number * 3 % 8) as usize)))
        .collect();
    let learned = learn(&examples);
    for fold in 0..FOLDS {
        let others: Vec<&Example> = examples
            .iter()
            .enumerate()
            .filter(|(at, _)| at % FOLDS != fold)
            .map(|(_, one)| one)
            .collect();
        let mean = |fusion: &Fusion| others.iter().map(|one| one.fused(fusion)).sum::<f64>();
        let highest = grid(Fusion::default()).iter().map(mean).fold(0.0, f64::max);
        let chosen = grid(Fusion::default())
            .into_iter()
            .find(|fusion| mean(fusion) >= highest)
            .unwrap();
        for (at, example) in examples.iter().enumerate().filter(|(at, _)| at % FOLDS == fold) {
            assert_eq!(
                learned.cross_validated[at].to_bits(),
                example.fused(&chosen).to_bits(),
                "question {at}"
            );
        }
    }
}

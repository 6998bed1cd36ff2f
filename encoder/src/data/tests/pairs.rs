//! Deduplication, equal answers, known answers.

use super::*;

#[test]
fn texts_are_held_once_and_answers_are_alike_by_text_or_key() {
    let keyed = |number: usize, key: &str| Passage {
        key: Some(key.into()),
        ..Passage::from_text(text(number))
    };
    let with = |question, positives: Vec<Passage>, negatives: Vec<Passage>| TrainingExample {
        question: text(question),
        positives,
        negatives,
        key: None,
    };
    let pairs = built(vec![
        with(1, vec![keyed(10, "a")], vec![keyed(11, "b")]),
        with(2, vec![keyed(11, "c")], vec![keyed(12, "a"), keyed(13, "d")]),
        with(
            1,
            vec![keyed(14, "")],
            vec![
                keyed(12, "x"),
                Passage::from_text(text(15)),
                Passage::from_text(text(15)),
            ],
        ),
    ]);
    assert_eq!((pairs.len(), pairs.texts()), (3, (2, 6)));
    assert_eq!(pairs.question(0), pairs.question(2));
    let answers = |places: std::ops::Range<u32>| places.map(|place| pairs.answer(place)).collect::<Vec<_>>();
    let of = |number: usize| {
        let ids = tokenizer().encode(crate::Tower::Answer, &text(number)).unwrap();
        (0..6).find(|&answer| pairs.answer_tokens(answer) == ids).unwrap()
    };
    assert_eq!(pairs.class(of(10)), pairs.class(of(12)), "they share key a");
    assert_ne!(pairs.class(of(10)), pairs.class(of(14)), "an empty key is none");
    assert_eq!(answers(pairs.positives(2)), [of(14)]);
    // 12 is alike 10, which answers question 1 in the first example; 15 stands once.
    assert_eq!(
        (answers(pairs.negatives(2)), pairs.false_negatives()),
        (vec![of(15)], 1)
    );
    assert_eq!(answers(pairs.negatives(1)), [of(12), of(13)]);
    assert!(pairs.answers(pairs.question(0), of(14)) && !pairs.answers(pairs.question(1), of(14)));
    assert!(!pairs.has_scores());
}

#[test]
fn texts_are_cut_between_their_special_tokens() {
    let tokenizer = tokenizer();
    let long = text(1_234_567);
    let whole = tokenizer.encode(crate::Tower::Answer, &long).unwrap();
    let cut = tokenizer.encode_within(crate::Tower::Answer, &long, 5).unwrap();
    assert_eq!((cut.ids.len(), cut.truncated), (5, true));
    assert_eq!((&cut.ids[..4], cut.ids.last()), (&whole.ids[..4], whole.ids.last()));
    assert_eq!(
        tokenizer.encode_within(crate::Tower::Answer, &long, 100).unwrap(),
        whole
    );
    let refusal = tokenizer
        .encode_within(crate::Tower::Question, &long, 2)
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("2 tokens of a question leave none for the text: expected at least 3"),
        "{refusal}"
    );

    let options = PairOptions {
        question_tokens: 4,
        answer_tokens: 5,
        titles: true,
    };
    let mut builder = PairsBuilder::new(Arc::clone(&tokenizer), options);
    builder
        .extend([Ok::<_, Infallible>(example(123, &[1_234_567, 1_239_999], &[]))])
        .unwrap();
    let pairs = builder.finish().unwrap();
    assert_eq!(
        (pairs.tokens(), pairs.truncated(), pairs.texts()),
        ((4, 5), (1, 1), (1, 1)),
        "equal where it is read"
    );
}

#[test]
fn titles_stand_before_texts_unless_left_out() {
    let titled = Passage {
        title: text(7),
        ..Passage::from_text(text(8))
    };
    let only = Passage {
        title: text(9),
        ..Passage::default()
    };
    let tokens = |titles: bool, passage: &Passage| {
        let mut builder = PairsBuilder::new(
            tokenizer(),
            PairOptions {
                titles,
                ..PairOptions::default()
            },
        );
        let example = TrainingExample {
            question: text(1),
            positives: vec![passage.clone()],
            ..TrainingExample::default()
        };
        builder.extend([Ok::<_, Infallible>(example)]).unwrap();
        builder.finish().unwrap().answer_tokens(0)
    };
    let encoded = |text: String| tokenizer().encode(crate::Tower::Answer, &text).unwrap();
    assert_eq!(tokens(true, &titled), encoded(text(78)));
    assert_eq!(tokens(false, &titled), encoded(text(8)));
    assert_eq!(tokens(false, &only), encoded(text(9)));
}

#[test]
fn the_digest_is_of_everything() {
    let base = || vec![example(1, &[2], &[3]), example(4, &[5], &[6])];
    let digest = |examples: Vec<TrainingExample>| built(examples).digest().to_owned();
    assert_eq!(digest(base()), digest(base()));
    assert_eq!(digest(base()).len(), 64);
    let mut scored = base();
    scored[0].positives[0].score = Some(1.0);
    let mut keyed = base();
    keyed[0].positives[0].key = Some("k".into());
    keyed[1].negatives[0].key = Some("k".into());
    let swapped = base().into_iter().rev().collect();
    for other in [vec![example(1, &[2], &[3])], swapped, scored, keyed] {
        assert_ne!(digest(other), digest(base()));
    }
}

#[test]
fn nothing_is_refused_by_name() {
    let builder = || PairsBuilder::new(tokenizer(), PairOptions::default());
    assert!(matches!(builder().finish(), Err(DataError::Empty)));
    let without = [Ok::<_, Infallible>(example(1, &[], &[2]))];
    assert!(matches!(
        builder().extend(without),
        Err(DataError::NoPositive { example: 1 })
    ));
    let broken = [Err(dyad_corpus::Error::NoCorpus { path: "x".into() })];
    assert!(
        builder()
            .extend(broken)
            .unwrap_err()
            .to_string()
            .starts_with("`x` names its passages by key")
    );
}

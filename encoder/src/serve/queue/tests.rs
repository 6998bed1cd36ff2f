//! The queue against its promises: order, budget, padding, fairness, nothing lost.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

const BUDGET: Budget = Budget { tokens: 40, rows: 4 };

fn request(name: &'static str, tower: Tower, lengths: &[usize], deadline: Instant) -> QueuedRequest<&'static str> {
    let texts = lengths
        .iter()
        .map(|&length| Tokens {
            ids: vec![1; length],
            ..Tokens::default()
        })
        .collect();
    QueuedRequest {
        tower,
        skipped: 0,
        texts,
        contexts: Vec::new(),
        deadline,
        reply: name,
    }
}

fn far() -> Instant {
    Instant::now() + Duration::from_hours(1)
}

/// Name, position and length of each piece.
fn shape(cut: &Cut<&'static str>) -> Vec<(&'static str, usize, usize)> {
    cut.pieces
        .iter()
        .map(|piece| (piece.reply, piece.position, piece.tokens.ids.len()))
        .collect()
}

#[test]
fn an_empty_queue_has_no_batch() {
    let mut queue: RequestQueue<&str> = RequestQueue::new();
    assert_eq!(queue.cut(BUDGET), None);
    queue.push(request("a", Tower::Answer, &[], far()));
    assert_eq!(queue.cut(BUDGET), None);
}

/// A batch leaves out as many tokens of each of its texts.
#[test]
fn texts_whose_prompts_are_left_out_wait_for_those_with_prompts_of_as_many_tokens() {
    let mut queue = RequestQueue::new();
    let push = |queue: &mut RequestQueue<&'static str>, name, skipped| {
        queue.push(QueuedRequest {
            skipped,
            ..request(name, Tower::Answer, &[5, 4], far())
        });
    };
    for (name, skipped) in [("a", 3), ("b", 0), ("c", 3), ("d", 2)] {
        push(&mut queue, name, skipped);
    }
    let mut batches = Vec::new();
    while let Some(cut) = queue.cut(BUDGET) {
        let mut names: Vec<&str> = cut.pieces.iter().map(|piece| piece.reply).collect();
        names.sort_unstable();
        batches.push((cut.skipped, names));
    }
    assert_eq!(
        batches,
        [(3, vec!["a", "a", "c", "c"]), (0, vec!["b", "b"]), (2, vec!["d", "d"])]
    );
}

#[test]
fn the_longest_go_first_and_equal_ones_in_order() {
    let mut queue = RequestQueue::new();
    queue.push(request("a", Tower::Answer, &[8, 10, 10, 9, 1], far()));
    assert_eq!(
        shape(&queue.cut(BUDGET).unwrap()),
        [("a", 1, 10), ("a", 2, 10), ("a", 3, 9), ("a", 0, 8)]
    );
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("a", 4, 1)]);
    assert_eq!(queue.cut(BUDGET), None);
}

#[test]
fn requests_share_a_batch_where_lengths_are_alike() {
    let mut queue = RequestQueue::new();
    let budget = Budget { tokens: 400, rows: 4 };
    queue.push(request("a", Tower::Answer, &[100], far()));
    queue.push(request("b", Tower::Answer, &[300, 90, 40], far()));
    queue.push(request("c", Tower::Question, &[100], far()));
    queue.push(request("d", Tower::Answer, &[100], far()));
    // 300 is longer than the front's 100, 40 is shorter than half of it, c is of the other tower.
    assert_eq!(
        shape(&queue.cut(budget).unwrap()),
        [("a", 0, 100), ("d", 0, 100), ("b", 1, 90)]
    );
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("b", 0, 300)]);
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("c", 0, 100)]);
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("b", 2, 40)]);
    assert_eq!(queue.cut(budget), None);
}

#[test]
fn short_texts_of_any_length_go_together_after_those_of_the_front() {
    let mut queue = RequestQueue::new();
    let budget = Budget { tokens: 100, rows: 5 };
    queue.push(request("front", Tower::Question, &[5, 8], far()));
    queue.push(request("bulk", Tower::Question, &[65, 64, 12], far()));
    queue.push(request("other", Tower::Answer, &[9], far()));
    queue.push(request("third", Tower::Question, &[3, 3], far()));
    // 65 is not short; 64 and the front's come to 77, and 12 more to 89.
    let expected = [
        ("bulk", 1, 64),
        ("bulk", 2, 12),
        ("front", 1, 8),
        ("front", 0, 5),
        ("third", 0, 3),
    ];
    assert_eq!(shape(&queue.cut(budget).unwrap()), expected);
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("bulk", 0, 65)]);
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("other", 0, 9)]);
    assert_eq!(shape(&queue.cut(budget).unwrap()), [("third", 1, 3)]);
    // Of more than the budget the front's come first.
    queue.push(request("front", Tower::Question, &[30, 30], far()));
    queue.push(request("long", Tower::Question, &[60, 35], far()));
    let expected = [("front", 0, 30), ("front", 1, 30)];
    assert_eq!(shape(&queue.cut(budget).unwrap()), expected);
}

/// New requests with longer texts would fill every batch, were these taken first.
#[test]
fn short_texts_do_not_wait_for_longer_ones_that_came_later() {
    let (mut queue, budget) = (RequestQueue::new(), Budget { tokens: 120, rows: 16 });
    for _ in 0..20 {
        queue.push(request("short", Tower::Question, &[5], far()));
    }
    let mut shorts = Vec::new();
    for _ in 0..2 {
        queue.push(request("long", Tower::Question, &[60], far()));
        queue.push(request("long", Tower::Question, &[60], far()));
        let cut = queue.cut(budget).unwrap();
        shorts.push(shape(&cut).iter().filter(|(name, ..)| *name == "short").count());
    }
    assert_eq!(shorts, [16, 4]);
}

#[test]
fn one_question_behind_a_thousand_passages_waits_for_one_batch() {
    let mut queue = RequestQueue::new();
    queue.push(request("bulk", Tower::Answer, &[20; 1000], far()));
    queue.push(request("question", Tower::Question, &[5], far()));
    assert!(
        shape(&queue.cut(BUDGET).unwrap())
            .iter()
            .all(|(name, ..)| *name == "bulk")
    );
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("question", 0, 5)]);
}

#[test]
fn a_probe_goes_first() {
    let mut queue = RequestQueue::new();
    queue.push(request("bulk", Tower::Answer, &[20; 1000], far()));
    queue.push_first(request("probe", Tower::Question, &[5], far()));
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("probe", 0, 5)]);
    assert!(
        shape(&queue.cut(BUDGET).unwrap())
            .iter()
            .all(|(name, ..)| *name == "bulk")
    );
}

#[test]
fn a_text_above_the_budget_goes_alone() {
    let mut queue = RequestQueue::new();
    queue.push(request("a", Tower::Answer, &[100, 99], far()));
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("a", 0, 100)]);
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("a", 1, 99)]);
}

#[test]
fn dead_requests_leave_and_are_named() {
    let now = Instant::now();
    let mut queue = RequestQueue::new();
    queue.push(request("late", Tower::Answer, &[5], now));
    queue.push(request("gone", Tower::Answer, &[5], far()));
    queue.push(request("alive", Tower::Answer, &[5], far()));
    assert_eq!(queue.drop_dead(now, |name| *name == "gone"), ["late", "gone"]);
    assert_eq!(shape(&queue.cut(BUDGET).unwrap()), [("alive", 0, 5)]);
    queue.push(request("rest", Tower::Answer, &[5], far()));
    assert_eq!(queue.drain(), ["rest"]);
    assert_eq!(queue.cut(BUDGET), None);
}

#[test]
fn a_request_waits_for_one_turn_of_the_others_in_each_of_its_own() {
    let mut queue = RequestQueue::new();
    assert_eq!((queue.tokens(), queue.ahead(5, BUDGET)), (0, 0));
    queue.push(request("bulk", Tower::Answer, &[20; 1000], far()));
    queue.push(request("small", Tower::Answer, &[5, 6], far()));
    assert_eq!(queue.tokens(), 20_011);
    // 40 tokens of a batch of `bulk`, and all of `small`.
    assert_eq!(queue.ahead(5, BUDGET), 40 + 11);
    assert_eq!(queue.ahead(100, BUDGET), 3 * 40 + 11);
    assert_eq!(queue.cut(BUDGET).unwrap().tokens(), 40);
    assert_eq!(queue.tokens(), 20_011 - 40);
    // With one more of `bulk`.
    assert_eq!(queue.cut(BUDGET).unwrap().tokens(), 11 + 20);
    assert_eq!((queue.tokens(), queue.ahead(5, BUDGET)), (20_000 - 60, 40));
}

proptest! {
    #[test]
    fn every_text_leaves_once_within_budget_and_padding(
        requests in proptest::collection::vec(
            (any::<bool>(), proptest::collection::vec(1usize..120, 1..40)), 1..12),
        tokens in 1usize..400, rows in 1usize..20,
    ) {
        const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
        let budget = Budget { tokens, rows };
        let mut queue = RequestQueue::new();
        let mut expected = Vec::new();
        for ((question, lengths), name) in requests.iter().zip(NAMES) {
            let tower = if *question { Tower::Question } else { Tower::Answer };
            queue.push(request(name, tower, lengths, far()));
            expected.extend(lengths.iter().enumerate().map(|(position, &length)| (name, position, length)));
        }
        let mut seen = Vec::new();
        while let Some(cut) = queue.cut(budget) {
            let pieces = shape(&cut);
            prop_assert!(!pieces.is_empty());
            let width = pieces[0].2;
            let work = if width <= SHORT { cut.tokens() } else { pieces.len() * width };
            prop_assert!(pieces.len() == 1 || (pieces.len() <= rows && work <= tokens));
            let is_like = |length| length <= width && (length * 2 >= width || width <= SHORT);
            prop_assert!(pieces.iter().all(|&(_, _, length)| is_like(length)));
            seen.extend(pieces);
        }
        seen.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn every_request_is_served_each_round(counts in proptest::collection::vec(1usize..50, 1..8)) {
        const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut queue = RequestQueue::new();
        for (&count, name) in counts.iter().zip(NAMES) {
            queue.push(request(name, Tower::Answer, &vec![10; count], far()));
        }
        let mut served: Vec<&str> = Vec::new();
        for _ in 0..counts.len() {
            if let Some(cut) = queue.cut(BUDGET) {
                served.extend(cut.pieces.iter().map(|piece| piece.reply));
            }
        }
        prop_assert!(NAMES.iter().take(counts.len()).all(|name| served.contains(name)));
    }
}

//! Who is refused and who is not, and a service at three times its capacity under a clock of its own.

use super::super::queue::QueuedRequest;
use super::*;
use crate::config::Tower;
use crate::tokenize::Tokens;

const BUDGET: Budget = Budget { tokens: 400, rows: 64 };
const MS: Duration = Duration::from_millis(1);

fn request(reply: usize, length: usize, texts: usize, deadline: Instant) -> QueuedRequest<usize> {
    let texts = vec![
        Tokens {
            ids: vec![1; length],
            ..Tokens::default()
        };
        texts
    ];
    QueuedRequest {
        tower: Tower::Question,
        skipped: 0,
        texts,
        contexts: Vec::new(),
        deadline,
        reply,
    }
}

/// A line whose model embeds a thousand tokens a second, seen at a batch of 100.
fn measured(now: Instant) -> WaitingLine<usize> {
    let mut line = WaitingLine::new(BUDGET);
    line.queue().push(request(0, 10, 10, now + MS * 1000));
    assert!(line.begin(0, now).is_some());
    line.end(0, now + MS * 100, true);
    line
}

#[test]
fn nobody_is_refused_before_anything_was_measured() {
    let now = Instant::now();
    let mut line = WaitingLine::new(BUDGET);
    for reply in 0..100 {
        line.in_time(10, now + MS, now).unwrap();
        line.queue().push(request(reply, 10, 1, now + MS));
    }
    assert!(line.begin(0, now).is_some());
    line.in_time(10, now + MS, now).unwrap();
    // A batch that failed measures nothing.
    line.end(0, now + MS * 1000, false);
    line.in_time(10, now + MS, now).unwrap();
}

#[test]
fn nobody_is_refused_while_the_model_is_idle() {
    let now = Instant::now();
    let line = measured(now);
    assert!(line.in_time(100, now + MS, now).is_ok());
}

#[test]
fn with_several_runners_all_have_to_be_busy() {
    let now = Instant::now();
    let mut line = measured(now);
    let now = now + MS * 100;
    line.set_runners(2);
    for runner in 0..2 {
        line.in_time(100, now + MS, now).unwrap();
        line.queue().push(request(1, 10, 10, now + MS * 1000));
        assert!(line.begin(runner, now).is_some());
    }
    // Two batches of 100 that have half of the rate each, 10 tokens, and the last batch of 25 at that rate: 260 ms,
    // with the margin 390.
    line.in_time(10, now + MS * 392, now).unwrap();
    assert!(line.in_time(10, now + MS * 388, now).is_err());
    // Two at once are taken for twice the rate of one.
    line.end(0, now + MS * 100, true);
    let of_both = line.rates.at(100).unwrap().per_second;
    assert!((1500.0..2000.0).contains(&of_both), "{of_both}");
}

/// A batch that was alone until just before its end tells the rate of one.
#[test]
fn what_counts_is_how_many_batches_there_were_all_the_time() {
    let now = Instant::now();
    let mut line = WaitingLine::new(BUDGET);
    line.set_runners(2);
    for (runner, at) in [(0, 0), (1, 99)] {
        line.queue().push(request(1, 10, 10, now + MS * 1000));
        assert!(line.begin(runner, now + MS * at).is_some());
    }
    line.end(0, now + MS * 100, true);
    let alone = line.rates.at(100).unwrap().per_second;
    assert!((1000.0..1020.0).contains(&alone), "{alone}");
    line.end(1, now + MS * 199, true);
    let still = line.rates.at(100).unwrap().per_second;
    assert!((1000.0..1020.0).contains(&still), "{still}");
}

#[test]
fn more_runners_have_smaller_batches() {
    let tokens = |tokens, runners| {
        let mut line = WaitingLine::<usize>::new(Budget { tokens, rows: 64 });
        line.set_runners(runners);
        line.limit_runners(1);
        (line.budget.tokens, line.running.len())
    };
    assert_eq!(
        [tokens(2048, 1), tokens(2048, 4), tokens(2048, 32), tokens(100, 4)].map(|(tokens, _)| tokens),
        [2048, 512, 256, 100]
    );
    assert_eq!(tokens(2048, 4).1, 1);
}

#[test]
fn what_cannot_be_answered_in_time_is_refused_with_the_time_that_it_takes() {
    let now = Instant::now();
    let mut line = measured(now);
    line.queue().push(request(1, 10, 6, now + MS * 1000));
    // 60 tokens that wait, 10 of its own and a batch (25 of 100 so far) are 95 ms, with the margin 142.
    line.in_time(10, now + MS * 145, now).unwrap();
    let error = line.in_time(10, now + MS * 130, now).unwrap_err();
    let EncodeError::Overloaded { ahead: 60, wait, left } = error else {
        panic!("{error}")
    };
    assert_eq!((wait.as_millis(), left.as_millis()), (142, 130));
    assert_eq!(error.retry_after().unwrap().as_millis(), 12);
    let message = error.to_string();
    assert!(
        message.contains("60 tokens come first") && message.contains("Try again in 12 ms"),
        "{message}"
    );
    // Who is late already gets his turn, to be told that.
    line.in_time(10, now, now).unwrap();
}

#[test]
fn the_batch_under_way_counts_by_what_is_left_of_it() {
    let now = Instant::now();
    let mut line = measured(now);
    line.queue().push(request(1, 10, 6, now + MS * 1000));
    assert!(line.begin(0, now).is_some());
    let refused = |at: Instant| line.in_time(10, at + MS * 60, at).is_err();
    assert!(refused(now) && refused(now + MS * 40));
    assert!(!refused(now + MS * 58));
    // Longer than it should take: it may end at any moment.
    assert!(!refused(now + MS * 5000));
}

#[test]
fn a_question_is_not_refused_for_bulk_work_that_it_overtakes() {
    let now = Instant::now();
    let mut line = measured(now);
    line.queue().push(request(1, 10, 1000, now + MS * 100_000));
    assert!(line.begin(0, now).is_some());
    line.end(0, now + MS * 400, true);
    // 9,600 tokens wait; before the question one batch of them is embedded.
    assert_eq!(line.queue().tokens(), 9600);
    line.in_time(10, now + MS * 1600, now + MS * 400).unwrap();
    // Other bulk work has its turns between those of the first.
    let bulk = line.in_time(5000, now + MS * 1600, now + MS * 400).unwrap_err();
    assert!(matches!(bulk, EncodeError::Overloaded { ahead: 5200, .. }), "{bulk}");
}

/// The outcomes of a simulation.
#[derive(Debug, Default)]
struct Counts {
    answered: usize,
    refused: usize,
    late: usize,
}

/// A minute in which requests of 12 tokens come evenly, at `load` times what the runners embed in full batches; `spent`
/// is the time of a batch.
fn simulate(
    line: &mut WaitingLine<usize>,
    start: Instant,
    load: f64,
    deadline: Duration,
    spent: &dyn Fn(usize) -> Duration,
) -> Counts {
    let (full, runners) = (BUDGET.tokens / 12, line.running.len());
    let capacity = (runners * full) as f64 / spent(full * 12).as_secs_f64();
    let every = Duration::from_secs_f64(1.0 / (capacity * load));
    let end = start + Duration::from_mins(1);
    let (mut now, mut next, mut counts) = (start, start, Counts::default());
    let mut answering = vec![Vec::new(); runners];
    while now < end {
        let ends = line.running.iter().enumerate();
        let ends = ends.filter_map(|(runner, running)| Some((running.as_ref()?, runner)));
        match ends
            .map(|(running, runner)| (running.since + spent(running.tokens), runner))
            .min()
        {
            Some((done, runner)) if done < next => {
                now = done;
                line.end(runner, now, true);
                let of_batch = std::mem::take(&mut answering[runner]);
                let late = of_batch.iter().filter(|deadline| **deadline < now).count();
                counts.late += late;
                counts.answered += of_batch.len() - late;
            }
            _ => {
                now = next;
                next += every;
                match line.in_time(12, now + deadline, now) {
                    Ok(()) => line.queue().push(request(0, 12, 1, now + deadline)),
                    Err(_) => counts.refused += 1,
                }
            }
        }
        if let Some(idle) = line.running.iter().position(Option::is_none) {
            counts.late += line.queue().drop_dead(now, |_| false).len();
            let deadlines = line.queue().deadlines();
            if let Some(cut) = line.begin(idle, now) {
                answering[idle] = deadlines.into_iter().take(cut.pieces.len()).collect();
            }
        }
    }
    (0..runners).for_each(|runner| line.end(runner, now, false));
    line.queue().drain();
    counts
}

#[test]
fn at_three_times_the_capacity_the_model_is_busy_with_what_is_answered_in_time() {
    // A batch costs 5 ms and 1 ms per 4 tokens: a full one of 396 tokens 104 ms, one question 8 ms.
    let spent = |tokens: usize| MS * 5 + MS * tokens as u32 / 4;
    for (deadline, runners) in [300, 1000, 5000]
        .into_iter()
        .flat_map(|ms| [1, 2, 4].map(|runners| (MS * ms, runners)))
    {
        let now = Instant::now();
        let mut line = WaitingLine::new(BUDGET);
        line.set_runners(runners);
        let idle = simulate(&mut line, now, 0.1, deadline, &spent);
        assert_eq!((idle.refused, idle.late), (0, 0), "{deadline:?}");
        let busy = simulate(&mut line, now + MS * 100_000, 3.0, deadline, &spent);
        let capacity = runners as f64 * 60.0 * 33.0 / 0.104;
        let goodput = busy.answered as f64 / capacity;
        assert!(
            goodput >= 0.85,
            "{deadline:?}, {runners} runners: {goodput:.2} of the capacity, {busy:?}"
        );
        assert!(
            busy.late * 50 <= busy.answered,
            "{deadline:?}, {runners} runners: {busy:?}"
        );
        let after = simulate(&mut line, now + MS * 200_000, 0.5, deadline, &spent);
        assert_eq!((after.refused, after.late), (0, 0), "{deadline:?}");
    }
}

#[test]
fn after_a_slow_minute_it_serves_all_again() {
    let slow = |tokens: usize| MS * 500 + MS * tokens as u32 * 25;
    let fast = |tokens: usize| MS * 5 + MS * tokens as u32 / 4;
    let now = Instant::now();
    let mut line = WaitingLine::new(BUDGET);
    let counts = simulate(&mut line, now, 1.0, MS * 1000, &slow);
    assert!(counts.refused > 0, "{counts:?}");
    let counts = simulate(&mut line, now + MS * 100_000, 0.8, MS * 1000, &fast);
    assert!(counts.refused * 100 < counts.answered, "{counts:?}");
    assert!(counts.late * 100 < counts.answered, "{counts:?}");
}

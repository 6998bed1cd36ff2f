//! Arrivals, accounting and search on engines whose behaviour is known.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use dyad_command::JobCancellation;
use proptest::prelude::*;

use super::arrivals::{ArrivalTimes, Arrivals, AskedQuestion, RequestMix};
use super::drive::{AnsweringProcess, LoadPass, LoadTarget, ReplyReceiver};
use super::overload::{back_after, memory};
use super::rate_search::{RateSearch, most};
use super::tally::{
    ANSWERED, LoadReply, NOT_SENT, REFUSED, RequestTally, SentAt, UNANSWERED, WINDOW, failed, milliseconds,
};
use super::targets::SearchThreads;

const STALL: Duration = Duration::from_millis(300);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn pass(measured: Duration) -> LoadPass {
    LoadPass {
        warm_up: Duration::ZERO,
        measured,
        deadline: Duration::from_mins(1),
        max_in_flight: 1_000,
        kinds: 1,
        questions: 10,
        has_windows: false,
        cancel: JobCancellation::new(),
    }
}

fn mix() -> RequestMix {
    RequestMix::new(&[1.0], 10, 0)
}

fn times(rate: f64) -> ArrivalTimes {
    ArrivalTimes::new(Arrivals::Constant, rate, 0)
}

fn answered() -> LoadReply {
    LoadReply::Answered(vec!["a".to_owned()])
}

/// Answers one request after the other, each at once, but stalls at the 30th.
struct Stalls(Mutex<Sender<ReplyReceiver>>);

impl Stalls {
    fn new() -> Self {
        let (sender, asked) = channel::<ReplyReceiver>();
        thread::spawn(move || {
            for (number, done) in asked.iter().enumerate() {
                if number == 30 {
                    thread::sleep(STALL);
                }
                done(vec![answered()]);
            }
        });
        Self(Mutex::new(sender))
    }
}

impl LoadTarget for Stalls {
    fn start(&self, _: &[AskedQuestion], done: ReplyReceiver) {
        self.0.lock().unwrap().send(done).unwrap();
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }
}

/// Keeps the sender itself waiting at the 30th request.
struct Blocks(AtomicUsize);

impl LoadTarget for Blocks {
    fn start(&self, _: &[AskedQuestion], done: ReplyReceiver) {
        if self.0.fetch_add(1, Ordering::SeqCst) == 30 {
            thread::sleep(STALL);
        }
        done(vec![answered()]);
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }
}

/// Replies to nothing until it has all of these requests.
struct Holds(usize, Mutex<Vec<ReplyReceiver>>);

impl LoadTarget for Holds {
    fn start(&self, _: &[AskedQuestion], done: ReplyReceiver) {
        let mut held = self.1.lock().unwrap();
        held.push(done);
        if held.len() == self.0 {
            let held = std::mem::take(&mut *held);
            thread::spawn(move || {
                thread::sleep(ms(200));
                for done in held {
                    done(vec![answered()]);
                }
            });
        }
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }
}

#[test]
fn arrivals_have_their_rate_and_repeat_with_their_seed() {
    let last = |arrivals, seed| {
        ArrivalTimes::new(arrivals, 250.0, seed)
            .take(20_000)
            .last()
            .unwrap()
            .as_secs_f64()
    };
    // The sum of n gaps has a standard deviation of 1 / sqrt(n) of its mean: 0.7 %.
    assert!((last(Arrivals::Poisson, 1) - 80.0).abs() < 80.0 * 0.03);
    assert!((last(Arrivals::Constant, 1) - 80.0).abs() < 1e-6);
    let few = |seed| {
        ArrivalTimes::new(Arrivals::Poisson, 10.0, seed)
            .take(100)
            .collect::<Vec<_>>()
    };
    assert_eq!(few(3), few(3));
    assert_ne!(few(3), few(4));
    assert!(few(3).is_sorted());
    // Exponential gaps vary by as much as their mean.
    let times = few(5);
    let gaps: Vec<f64> = times
        .windows(2)
        .map(|pair| pair[1].as_secs_f64() - pair[0].as_secs_f64())
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!(
        (0.6..1.5).contains(&(variance.sqrt() / mean)),
        "{}",
        variance.sqrt() / mean
    );
}

#[test]
fn a_mix_has_its_weights_and_asks_every_question_before_it_repeats_one() {
    let mut mix = RequestMix::new(&[3.0, 1.0], 7, 9);
    let asks: Vec<AskedQuestion> = (0..4_000).map(|_| mix.next()).collect();
    let of = |kind| asks.iter().filter(move |ask| ask.kind == kind).map(|ask| ask.question);
    assert!((0.72..0.78).contains(&(of(0).count() as f64 / 4_000.0)));
    for kind in [0, 1] {
        let questions: Vec<usize> = of(kind).collect();
        for round in questions.chunks_exact(7) {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 7);
        }
    }
}

/// The same stall, seen by requests that come at their times, and by a client that waits meanwhile.
#[test]
fn a_stall_shows_in_the_open_loop_and_hides_in_a_closed_one() {
    let open = pass(ms(600)).open(&Stalls::new(), times(200.0), mix()).unwrap();
    // 60 of 119 requests are meant to be sent during the stall, and wait for 150 ms on average.
    assert_eq!((open.asked(), open.count(ANSWERED)), (119, 119));
    let most = open.milliseconds(0.8).unwrap();
    assert!(most >= 100.0, "{most}");

    let stalls: Arc<dyn LoadTarget> = Arc::new(Stalls::new());
    let closed = pass(ms(600)).closed(&stalls, 1, mix()).unwrap();
    assert!(closed.count(ANSWERED) > 30 && closed.milliseconds(1.0).unwrap() >= 300.0);
    assert!(
        closed.milliseconds(0.5).unwrap() < most,
        "one of many requests has met the stall"
    );
}

#[test]
fn what_keeps_the_sender_waiting_counts_from_the_intended_start() {
    let tally = pass(ms(600))
        .open(&Blocks(AtomicUsize::new(0)), times(200.0), mix())
        .unwrap();
    assert_eq!(tally.count(ANSWERED), 119);
    let most = tally.milliseconds(0.8).unwrap();
    assert!(most >= 100.0, "{most}");
    assert!(
        milliseconds(&tally.classes[ANSWERED].service, 0.5) < most,
        "all but one were answered at once"
    );
}

#[test]
fn requests_beyond_the_bound_are_not_sent_and_count() {
    let mut pass = pass(ms(200));
    pass.max_in_flight = 5;
    let tally = pass.open(&Holds(5, Mutex::default()), times(1_000.0), mix()).unwrap();
    assert_eq!(tally.asked(), 199);
    assert_eq!(tally.count(ANSWERED) + tally.count(NOT_SENT), 199);
    assert!(tally.count(NOT_SENT) > 0 && tally.count(UNANSWERED) == 0);
    assert!(tally.failed_share() > 0.0);
}

/// Replies at once to each request of a call of three, but holds the calls back that it is to hold.
struct Calls(bool, Mutex<Vec<ReplyReceiver>>);

impl LoadTarget for Calls {
    fn start(&self, asks: &[AskedQuestion], done: ReplyReceiver) {
        if self.0 {
            self.1.lock().unwrap().push(done);
        } else {
            let key = |ask: &AskedQuestion| LoadReply::Answered(vec![ask.question.to_string()]);
            done(asks.iter().map(key).collect());
        }
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }

    fn batch(&self) -> usize {
        3
    }
}

/// A client that starts its next job at the end of the one before, and says each time who it is; until nobody listens.
fn ask_again(workers: &Arc<SearchThreads>, client: usize, asked: SyncSender<usize>) {
    let next = Arc::clone(workers);
    workers.start(Box::new(move || {
        if asked.send(client).is_ok() {
            ask_again(&next, client, asked);
        }
    }));
}

#[test]
fn every_client_of_the_library_has_its_turn() {
    let workers = Arc::new(SearchThreads::new(1).unwrap());
    // The first turn does not end before all clients wait for theirs.
    let (asked, served) = sync_channel(0);
    for client in 0..16 {
        ask_again(&workers, client, asked.clone());
    }
    let turns: Vec<usize> = served.into_iter().take(320).collect();
    assert_eq!(turns, (0..320).map(|turn| turn % 16).collect::<Vec<_>>());
}

#[test]
fn every_request_of_a_call_counts() {
    let tally = pass(ms(200))
        .open(&Calls(false, Mutex::default()), times(100.0), mix())
        .unwrap();
    assert_eq!((tally.asked(), tally.count(ANSWERED)), (57, 57), "19 calls");
    assert!(tally.answers().all(|(ask, keys)| keys == [ask.question.to_string()]));
    assert_eq!(tally.answers().count(), 10);

    let mut pass = pass(ms(200));
    pass.max_in_flight = 8;
    let held = Calls(true, Mutex::default());
    let running = pass.send_all(&held, times(100.0), mix()).unwrap();
    let held: Vec<ReplyReceiver> = held.1.into_inner().unwrap();
    assert_eq!(held.len(), 2, "a third call would be the ninth request under way");
    for done in held {
        done(failed(3, REFUSED));
    }
    let tally = running.finish().unwrap();
    assert_eq!(
        (tally.count(REFUSED), tally.count(NOT_SENT), tally.asked()),
        (6, 51, 57)
    );
}

#[test]
fn a_tally_counts_what_was_meant_to_be_sent_after_the_warm_up() {
    let mut tally = RequestTally::new(ms(1_000), ms(50), 1, 3).unwrap();
    let mut record = |intended, sent, now, question, reply| {
        tally.record(
            AskedQuestion { kind: 0, question },
            SentAt {
                intended: ms(intended),
                sent: ms(sent),
            },
            ms(now),
            reply,
        );
    };
    record(999, 999, 1_500, 0, answered());
    record(1_000, 1_010, 1_040, 1, answered());
    record(1_700, 1_700, 1_800, 1, LoadReply::Answered(vec!["b".to_owned()]));
    record(1_800, 1_800, 1_801, 2, LoadReply::Failed("ResourceExhausted".into()));
    assert_eq!((tally.asked(), tally.count(ANSWERED), tally.in_time), (3, 2, 1));
    assert!((tally.failed_share() - 1.0 / 3.0).abs() < 1e-9);
    let class = &tally.classes[ANSWERED];
    let close = |nanoseconds: u64, milliseconds: f64| (nanoseconds as f64 / 1e6 / milliseconds - 1.0).abs() < 1e-3;
    assert!(close(class.intended.min(), 40.0) && close(class.service.min(), 30.0) && close(class.service.max(), 100.0));
    let answers: Vec<_> = tally
        .answers()
        .map(|(ask, keys)| (ask.question, keys.concat()))
        .collect();
    assert_eq!(answers, [(1, "a".to_owned())]);
}

#[test]
fn latency_is_back_after_the_last_bad_window() {
    // By window: latencies in milliseconds of its requests; none for one without an answer.
    let after = |windows: &[&[Option<u64>]]| {
        let measured = WINDOW * windows.len() as u32;
        let mut tally = RequestTally::new(Duration::ZERO, ms(1_000), 1, 1)
            .unwrap()
            .with_windows(measured)
            .unwrap();
        for (window, latencies) in windows.iter().enumerate() {
            let intended = WINDOW * window as u32;
            tally.expect(latencies.len(), intended);
            for latency in latencies.iter().flatten() {
                let sent = SentAt {
                    intended,
                    sent: intended,
                };
                tally.record(
                    AskedQuestion { kind: 0, question: 0 },
                    sent,
                    intended + ms(*latency),
                    answered(),
                );
            }
        }
        assert_eq!(tally.windows.len(), windows.len());
        back_after(&tally, 20.0)
    };
    let good: &[Option<u64>] = &[Some(5)];
    let bad: &[Option<u64>] = &[Some(90)];
    let silent: &[Option<u64>] = &[None];
    assert_eq!(after(&[good, good, good]), Some(0.0));
    assert_eq!(after(&[bad, good, bad, good, good]), Some(1.5));
    assert_eq!(after(&[good, good, bad]), None);
    assert_eq!(after(&[]), None);
    // A server that stops answering is not back; nor is one that answers half of the requests.
    assert_eq!(after(&[good, silent, silent]), None);
    assert_eq!(after(&[good, &[Some(5), None], good]), Some(1.0));
    // In a window without requests nothing is known.
    assert_eq!(after(&[bad, good, &[], good, &[]]), Some(0.5));
    assert_eq!(after(&[bad, &[]]), None);
}

#[test]
fn requests_without_an_answer_count_in_the_window_in_which_they_were_due() {
    let pass = LoadPass {
        has_windows: true,
        max_in_flight: 8,
        ..pass(ms(1_000))
    };
    let held = Calls(true, Mutex::default());
    let running = pass.send_all(&held, times(20.0), mix()).unwrap();
    for done in held.1.into_inner().unwrap() {
        done(failed(3, REFUSED));
    }
    let tally = running.finish().unwrap();
    let windows: Vec<_> = tally
        .windows
        .iter()
        .map(|window| (window.requests, window.answers.len()))
        .collect();
    assert_eq!(windows, [(27, 0), (30, 0)], "calls from 50 ms to 950 ms");
}

#[test]
fn memory_has_a_slope() {
    let row = memory(&[100, 103, 106, 109]);
    assert_eq!(
        (row["resident_min_bytes"].as_u64(), row["resident_max_bytes"].as_u64()),
        (Some(100), Some(109))
    );
    assert!((row["resident_bytes_per_minute"].as_f64().unwrap() - 180.0).abs() < 1e-9);
    assert!(
        memory(&[])
            .as_object()
            .unwrap()
            .values()
            .all(serde_json::Value::is_null)
    );
}

proptest! {
    /// From anywhere, the search ends at an engine's capacity.
    #[test]
    fn the_highest_rate_is_found(capacity in 0.2f64..1e6, first in 0.1f64..1e6) {
        let mut search = RateSearch::new(first);
        let mut steps = 0;
        while let Some(rate) = search.next() {
            search.tell(rate <= capacity);
            steps += 1;
            prop_assert!(steps < 60);
        }
        let found = search.highest().unwrap();
        prop_assert!(found <= capacity && found * 1.07 >= capacity, "{found} of {capacity}");
    }
}

#[test]
fn most_passes_decide_and_no_more_are_made_than_that_takes() {
    assert_eq!([most(1, 1, 0), most(1, 0, 1)], [Some(true), Some(false)]);
    assert_eq!(
        [most(3, 1, 0), most(3, 1, 1), most(3, 2, 0), most(3, 2, 1)],
        [None, None, Some(true), Some(true)]
    );
    assert_eq!(
        [most(3, 0, 1), most(3, 0, 2), most(3, 1, 2)],
        [None, Some(false), Some(false)]
    );
    assert_eq!(
        [most(2, 1, 0), most(2, 0, 1), most(2, 2, 0)],
        [None, Some(false), Some(true)]
    );
}

#[test]
fn a_search_in_which_nothing_passes_ends() {
    let mut search = RateSearch::new(1_000.0);
    for _ in 0..60 {
        if search.next().is_some() {
            search.tell(false);
        }
    }
    assert_eq!((search.next(), search.highest()), (None, None));
}

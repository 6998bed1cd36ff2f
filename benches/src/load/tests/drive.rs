//! Arrivals and passes over targets that stall, block or hold requests back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Calls, answered, mix, ms, pass, times};
use crate::load::arrivals::{ArrivalTimes, Arrivals, AskedQuestion, RequestMix};
use crate::load::drive::{AnsweringProcess, LoadTarget, ReplyReceiver};
use crate::load::tally::{ANSWERED, NOT_SENT, REFUSED, UNANSWERED, failed, milliseconds};
use crate::load::targets::SearchThreads;

const STALL: Duration = Duration::from_millis(300);

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

//! Arrivals, accounting and search on engines whose behaviour is known.
//!
//! | file | contents |
//! |---|---|
//! | `drive.rs` | arrivals and passes over targets that stall, block or hold requests back |
//! | `overload.rs` | recovery after an overload, and growth of memory |
//! | `rate_search.rs` | the search for the highest rate that is met |

use std::sync::Mutex;
use std::time::Duration;

use dyad_command::JobCancellation;

use super::arrivals::{ArrivalTimes, Arrivals, AskedQuestion, RequestMix};
use super::drive::{AnsweringProcess, LoadPass, LoadTarget, ReplyReceiver};
use super::tally::{ANSWERED, LoadReply, RequestTally, SentAt};

mod drive;
mod overload;
mod rate_search;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn answered() -> LoadReply {
    LoadReply::Answered(vec!["a".to_owned()])
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

//! Recovery after an overload, and growth of memory.

use std::sync::Mutex;
use std::time::Duration;

use super::{Calls, answered, mix, ms, pass, times};
use crate::load::arrivals::AskedQuestion;
use crate::load::drive::LoadPass;
use crate::load::overload::{back_after, memory};
use crate::load::tally::{REFUSED, RequestTally, SentAt, WINDOW, failed};

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

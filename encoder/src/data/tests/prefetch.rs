//! The thread that works ahead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

const SOON: Duration = Duration::from_mins(1);

#[test]
fn batches_come_as_they_are_sampled() {
    let sampler = || Sampler::new(distinct(9), options(2)).unwrap();
    let mut direct = sampler();
    let mut ahead = Prefetch::batches(sampler(), 3).unwrap();
    for _ in 0..12 {
        assert_eq!(ahead.next(SOON).unwrap(), Some(collate(&mut direct)));
    }
}

#[test]
fn an_end_and_an_error_are_told_once() {
    let mut left = 2;
    let mut ending = Prefetch::start("dyad-test", 1, move || {
        left -= 1;
        Ok((left >= 0).then_some(left))
    })
    .unwrap();
    let items: Vec<_> = (0..4).map(|_| ending.next(SOON).unwrap()).collect();
    assert_eq!(items, [Some(1), Some(0), None, None]);
    let mut failing = Prefetch::<u8>::start("dyad-test", 1, || Err(DataError::Empty)).unwrap();
    assert!(matches!(failing.next(SOON), Err(DataError::Empty)));
    assert!(matches!(failing.next(SOON), Ok(None)));
}

#[test]
fn a_thread_that_is_late_or_dies_is_named() {
    let (release, wait) = channel::<()>();
    let mut late = Prefetch::start("dyad-test", 1, move || {
        let _ = wait.recv_timeout(SOON);
        Ok(Some(1))
    })
    .unwrap();
    let refusal = late.next(Duration::from_millis(1)).unwrap_err().to_string();
    assert!(
        refusal.starts_with("no batch within 0 s from thread `dyad-test`"),
        "{refusal}"
    );
    drop(release);
    assert_eq!(late.next(SOON).unwrap(), Some(1), "it may still come");

    let mut dying = Prefetch::<u8>::start("dyad-test", 1, || panic!("on purpose")).unwrap();
    assert!(matches!(dying.next(SOON), Err(DataError::Lost { name: "dyad-test" })));
}

#[test]
fn dropping_it_stops_the_thread() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let mut endless = Prefetch::start("dyad-test", 2, move || {
        Ok(Some(counter.fetch_add(1, Ordering::Relaxed)))
    })
    .unwrap();
    assert_eq!(endless.next(SOON).unwrap(), Some(0));
    drop(endless);
    // One taken, two ready, one at hand when the channel closed.
    assert!(made.load(Ordering::Relaxed) <= 4);
    assert_eq!(Arc::strong_count(&made), 1, "the thread has ended");
}

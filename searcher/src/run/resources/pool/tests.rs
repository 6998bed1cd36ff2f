//! Slots of searches: shared by classes, given back, refused.

use std::time::Instant;

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const MS: Duration = Duration::from_millis(1);

async fn at_rest(pool: &SearchPools) {
    while pool.jobs().iter().any(|(_, jobs)| *jobs > 0) {
        tokio::time::sleep(MS).await;
    }
}

/// rayon's threads share shards; on any other thread that would take the whole process's pool.
#[tokio::test]
async fn what_is_over_several_shards_runs_on_rayon_threads() {
    let pool = SearchPools::with_threads(8, 2).unwrap();
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
    for (class, shards, rayon) in [
        (RequestClass::Interactive, 1, false),
        (RequestClass::Interactive, 2, true),
        (RequestClass::Bulk, 1, true),
        (RequestClass::Bulk, 2, true),
    ] {
        let index = pool.spawn(class.over(shards), MS, rayon::current_thread_index);
        assert_eq!(
            finish(index, &cancel).await.unwrap().is_some(),
            rayon,
            "{class:?} over {shards}"
        );
    }
}

#[tokio::test]
async fn batches_take_their_slots_and_wait_for_them() {
    let pool = SearchPools::new(8).unwrap();
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
    let batch = pool.admit_many(1000, &cancel).await.unwrap();
    let other_batch = pool.admit_many(1000, &cancel).await.unwrap();
    // The slots for batches are taken, the others are not; nor do bulk requests take the slots of others.
    let bulk: Vec<_> = (0..2)
        .map(|_| pool.admit(RequestClass::Bulk, MS, HOUR).unwrap())
        .collect();
    assert!(matches!(
        pool.admit(RequestClass::Bulk, MS, HOUR),
        Err(Error::Busy { limit: 2, all: 8, .. })
    ));
    let singles: Vec<_> = (0..4)
        .map(|_| pool.admit(RequestClass::Interactive, MS, HOUR).unwrap())
        .collect();
    assert!(matches!(
        pool.admit(RequestClass::Interactive, MS, HOUR),
        Err(Error::Busy { limit: 4, all: 8, .. })
    ));
    let (short, _other_guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(20));
    assert!(matches!(pool.admit_many(1, &short).await, Err(Error::Deadline(_))));
    let next = async {
        tokio::task::yield_now().await;
        drop(batch);
    };
    let (admitted, ()) = tokio::join!(pool.admit_many(1000, &cancel), next);
    assert!(admitted.is_ok());
    drop((singles, bulk, other_batch));
    assert!(pool.admit(RequestClass::Interactive, MS, HOUR).is_ok());
    assert!(
        SearchPools::new(1)
            .unwrap()
            .admit(RequestClass::Interactive, MS, HOUR)
            .is_ok()
    );
}

/// Costly requests wait in a queue of their own: a cheap one is admitted while an hour of them is ahead of the next
/// costly one.
#[tokio::test]
async fn requests_that_would_be_late_are_refused_at_once_and_others_are_not() {
    let pool = SearchPools::new(1000).unwrap();
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
    // All threads take as long as expected.
    for class in [RequestClass::Interactive, RequestClass::Bulk] {
        let cost = Duration::from_micros(100);
        finish(
            pool.spawn(class, cost, || std::thread::sleep(Duration::from_micros(100))),
            &cancel,
        )
        .await
        .unwrap();
    }
    at_rest(&pool).await;
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    let threads = pool.threads(RequestClass::Bulk);
    let costly: Vec<_> = (0..threads * 3)
        .map(|_| {
            let held = Arc::clone(&held);
            pool.spawn(RequestClass::Bulk, HOUR, move || held.lock().unwrap().recv().is_err())
        })
        .collect();
    let refused = pool.admit(RequestClass::Bulk, HOUR, HOUR).unwrap_err();
    // Three before it on each thread, and itself, at no less than the expected time.
    assert!(
        matches!(refused, Error::Overloaded { wait, .. } if wait >= HOUR),
        "{refused}"
    );
    assert!(pool.admit(RequestClass::Interactive, MS, MS).is_ok(), "other threads");
    drop(release);
    for job in costly {
        finish(job, &cancel).await.unwrap();
    }
    // Nothing is queued, so nothing is refused, however long jobs took.
    at_rest(&pool).await;
    assert!(pool.admit(RequestClass::Bulk, HOUR, MS).is_ok());
}

#[tokio::test]
async fn bulk_work_does_not_keep_an_answer_waiting() {
    let pool = SearchPools::new(10).unwrap();
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Arc::new(std::sync::Mutex::new(held));
    // More scans than threads: every one of them is taken.
    let scans: Vec<_> = (0..64)
        .map(|_| {
            let held = Arc::clone(&held);
            pool.spawn(RequestClass::Bulk, MS, move || held.lock().unwrap().recv().is_err())
        })
        .collect();
    let joined = pool.spawn(RequestClass::Interactive, MS, || rayon::join(|| 3, || 4));
    assert_eq!(finish(joined, &cancel).await.unwrap(), (3, 4));
    drop(release);
    for scan in scans {
        finish(scan, &cancel).await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_deadline_holds() {
    let pool = SearchPools::new(10).unwrap();
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_secs(5));
    for class in [RequestClass::Interactive, RequestClass::SingleShard, RequestClass::Bulk] {
        // More than there are threads: none of them ends.
        for _ in 0..=pool.threads(class) {
            let failed = finish(pool.spawn(class, MS, || -> u32 { panic!("on purpose") }), &cancel).await;
            assert!(matches!(failed, Err(Error::Internal)));
        }
        assert_eq!(finish(pool.spawn(class, MS, || 7), &cancel).await.unwrap(), 7);
    }
    at_rest(&pool).await;
    let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(10));
    let slow = pool.spawn(RequestClass::Interactive, MS, || {
        std::thread::sleep(Duration::from_millis(200));
    });
    let late = finish(slow, &cancel).await;
    assert!(matches!(late, Err(Error::Deadline(_))));
}

//! Pieces are each taken once, by several threads, whatever else goes on.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::thread::ThreadId;

use super::*;

/// Each number to its square.
fn squares(count: usize) {
    let mut numbers: Vec<usize> = (0..count).collect();
    share(numbers.iter_mut(), |number| *number *= *number);
    assert!(
        numbers.iter().enumerate().all(|(at, number)| *number == at * at),
        "{numbers:?}"
    );
}

#[test]
fn operators_have_one_thread_inside_and_as_many_as_before_outside() {
    tch::set_num_threads(2);
    let pool = KernelPool::new(3).unwrap();
    assert_eq!(tch::get_num_threads(), 2);
    assert_eq!(pool.run(tch::get_num_threads), 1);
    assert_eq!(tch::get_num_threads(), 2);
    assert_eq!(std::thread::spawn(tch::get_num_threads).join().unwrap(), 2);
    let (pool, all, of_helpers) = (KernelPool::awake(3), Barrier::new(3), Mutex::new(Vec::new()));
    pool.share_long([(); 3].into_iter(), |()| {
        all.wait();
        of_helpers.lock().unwrap().push(tch::get_num_threads());
    });
    assert_eq!(*of_helpers.lock().unwrap(), [1; 3]);
}

/// Three pieces that wait for each other need three threads.
#[test]
fn helpers_take_pieces() {
    let awake = KernelPool::awake(3);
    let (all, threads) = (Barrier::new(3), Mutex::new(HashSet::<ThreadId>::new()));
    awake.run(|| {
        share(0..3, |_| {
            all.wait();
            threads.lock().unwrap().insert(std::thread::current().id());
        });
    });
    assert_eq!(threads.into_inner().unwrap().len(), 3);
    // A long pass wakes one with each kernel that could use it.
    let asleep = KernelPool::new(3).unwrap();
    asleep.run(|| {
        let begun = Instant::now();
        while threads_here(8) < 3 {
            assert!(begun.elapsed() < Duration::from_mins(1), "no two helpers are active");
            std::hint::spin_loop();
        }
    });
    // Without pieces they sleep again.
    let begun = Instant::now();
    while asleep.0.shared.awake.load(Ordering::Relaxed) > 0 {
        assert!(begun.elapsed() < Duration::from_mins(1), "helpers spin for ever");
        std::thread::yield_now();
    }
    // No more than a kernel has work for.
    awake.run(|| {
        assert_eq!(
            (threads_here(0), threads_here(1), threads_here(2), threads_here(8)),
            (1, 1, 2, 3)
        );
    });
}

#[test]
fn a_short_pass_wakes_nobody_and_computes_alone() {
    let pool = KernelPool::with_times(
        4,
        WakeTimes {
            long: Duration::from_mins(10),
            ..TIMES
        },
    )
    .unwrap();
    pool.run(|| {
        assert_eq!(threads_here(8), 1);
        squares(100);
    });
    assert_eq!(pool.0.shared.awake.load(Ordering::Relaxed), 0);
    squares(100);
    assert_eq!(threads_here(8), 1);
}

#[test]
fn a_piece_may_share_and_does_so_alone() {
    KernelPool::awake(3).run(|| {
        share(0..50, |_| {
            assert_eq!(threads_here(8), 1);
            squares(20);
        });
        squares(1000);
    });
}

#[test]
fn helpers_leave_when_passes_need_the_threads() {
    let pool = KernelPool::awake(2);
    let shared = Arc::clone(&pool.0.shared);
    assert_eq!(pool.free_threads(), 2);
    pool.run(|| {
        assert_eq!((pool.free_threads(), threads_here(8)), (1, 2));
        let other = pool.clone();
        std::thread::spawn(move || {
            other.run(|| {
                while other.0.shared.awake.load(Ordering::Relaxed) > 0 {
                    std::thread::yield_now();
                }
                assert_eq!(threads_here(8), 1);
                // A pass too many has no slot, and is computed alone.
                other.run(|| squares(100));
            });
        })
        .join()
        .unwrap();
    });
    assert_eq!(shared.passes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_panic_reaches_the_pass_whoever_had_the_piece() {
    let pool = KernelPool::awake(3);
    for _ in 0..100 {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|| share(0..64, |piece| assert!(piece != 40, "piece {piece}")));
        }));
        assert!(caught.unwrap_err().downcast::<String>().unwrap().contains("piece 40"));
        pool.run(|| squares(500));
    }
}

/// Many kernels of many passes, on more threads than the pool has.
#[test]
fn passes_at_once_do_not_meet() {
    let new = |threads| KernelPool::new(threads).unwrap();
    for (pool, passes) in [
        (new(1), 3),
        (new(2), 4),
        (new(4), 6),
        (new(4), 2),
        (KernelPool::awake(4), 2),
    ] {
        std::thread::scope(|scope| {
            for at in 0..passes {
                let pool = pool.clone();
                scope.spawn(move || {
                    for round in 0..300 {
                        pool.run(|| {
                            if (at + round) % 7 == 0 {
                                std::thread::sleep(TIMES.long);
                            }
                            for kernel in 1..40 {
                                threads_here(kernel);
                                squares(kernel);
                            }
                        });
                    }
                });
            }
        });
        let shared = &pool.0.shared;
        assert_eq!(shared.passes.load(Ordering::Relaxed), 0);
        assert!(shared.slots.iter().all(Slot::is_closed));
    }
}

//! Writers that meet two others: each time that one is about to publish, another one does first.

use std::cell::Cell;
use std::rc::Rc;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use dyad_index::manifest;
use dyad_index::storage::WriteLock;
use dyad_index::verify::verify_current;
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, PurgeConfig, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::job::{BuildConfig, build_index};

use super::writer::{ALL, Writer, key, newest};
use super::{MEANWHILE, ever, live, prepared, when_reached};
use crate::fixture::{Fixture, document};
use crate::hash_source::HashSource;

type PurgeThread = JoinHandle<Result<(), Error>>;

/// Waits until something is so, and no longer than this.
fn wait_until(longest: Duration, is_so: impl Fn() -> bool) -> bool {
    let until = Instant::now() + longest;
    while !is_so() && Instant::now() < until {
        sleep(Duration::from_millis(5));
    }
    is_so()
}

/// Makes the three changes, and compares the index with the documents that it must have.
fn three(first: Writer, second: Writer, third: Writer) {
    let name = format!("{first:?} that meets {second:?} and {third:?}");
    let fixture = prepared();
    let others = [(); 2].map(|()| Fixture::at(&fixture.path(".")));
    let was_made = Rc::new(Cell::new(false));
    let made_third = Rc::clone(&was_made);
    when_reached("publish-begin", move || {
        let [one, other] = others;
        second.make(&one, 2).unwrap();
        // Where the second one was of the same kind, its change may be refused.
        when_reached("publish-begin", move || made_third.set(third.make(&other, 2).is_ok()));
    });
    let made = first.make(&fixture, 1);
    // Not reached where the second one has published nothing.
    MEANWHILE.with_borrow_mut(Option::take);
    let mut after = second.apply(newest(), 2);
    if was_made.get() {
        after = third.apply(after, 2);
    }
    let expected = match &made {
        Ok(_) => first.apply(after, 1),
        Err(error) => {
            assert!(
                first.may_fail_after(second) || first.may_fail_after(third),
                "{name}: {error}"
            );
            after
        }
    };
    assert_eq!(
        live(&fixture.index()),
        expected,
        "{name}: {:?}",
        made.as_ref().map(|_| ())
    );
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0], "{name}");
    if first == Writer::Purge {
        let ever = ever(&fixture.index());
        assert!(
            first.keys(1).iter().all(|key| !ever.contains(key)),
            "{name}: no generation holds what was purged"
        );
    }
}

#[test]
fn every_writer_that_publishes_meets_two_others() {
    let publishes = |writer: &Writer| ![Writer::Rollback, Writer::Gc].contains(writer);
    for (at, first) in ALL.into_iter().filter(publishes).enumerate() {
        for (number, second) in ALL.into_iter().enumerate() {
            three(first, second, ALL[(at + 5 * number) % ALL.len()]);
        }
    }
}

/// The purge waits for the generation that the merge reads, however often the merge begins its publication again, and
/// then looks into what the merge has published.
#[test]
fn what_a_merge_has_copied_is_purged_of_it_too() {
    let fixture = prepared();
    let (index, other) = (fixture.index(), Fixture::at(&fixture.path(".")));
    let before = manifest::current_generation(&index).unwrap();
    let purging: Rc<Cell<Option<PurgeThread>>> = Rc::default();
    let started = Rc::clone(&purging);
    when_reached("publish-begin", move || {
        let config = PurgeConfig {
            wait: Duration::from_secs(20),
            ..other.purge_config()
        };
        started.set(Some(spawn(move || {
            purge(&config, &[key(7)], JobControl::silent()).map(drop)
        })));
        let index = other.index();
        let has_published = || manifest::current_generation(&index).unwrap() != before;
        assert!(wait_until(Duration::from_secs(20), has_published));
        when_reached("publish-begin", move || {
            other.upsert(Operation::Upsert, &[document(60)]).unwrap();
            when_reached("publish-begin", move || {
                let purge = started.take().unwrap();
                wait_until(Duration::from_secs(1), || purge.is_finished());
                started.set(Some(purge));
            });
        });
    });
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    purging.take().unwrap().join().unwrap().unwrap();
    assert!(!ever(&index).contains(&key(7)));
    assert!(live(&index).contains_key(&key(60)) && !live(&index).contains_key(&key(7)));
}

/// What the index must keep is looked at in the generation that a change is published on.
#[test]
fn a_change_keeps_the_recall_that_a_build_asks_for_meanwhile() {
    let fixture = prepared();
    let (index, other) = (fixture.index(), Fixture::at(&fixture.path(".")));
    when_reached("publish-begin", move || {
        let target = Some(RecallTarget::new(0.5, 64).unwrap());
        let config = BuildConfig {
            target,
            ..other.config()
        };
        let built = build_index(&config, &mut HashSource::default(), JobControl::silent()).unwrap();
        let built = built.manifest.generation;
        // More than any graph reaches.
        let path = other.index().join(format!("manifest-{built:06}.json"));
        let text = fs_err::read_to_string(&path).unwrap();
        fs_err::write(&path, text.replace("\"recall\": 0.5", "\"recall\": 1.5")).unwrap();
        manifest::point_to(&other.index(), built, &WriteLock::acquire(&other.index()).unwrap()).unwrap();
    });
    let before = manifest::current_generation(&index).unwrap().unwrap();
    let refused = fixture.upsert(Operation::Upsert, &[document(60)]).unwrap_err();
    assert!(matches!(refused, Error::BelowTarget { ef: 64, .. }), "{refused}");
    assert_eq!(manifest::current_generation(&index).unwrap(), Some(before + 1));
}

//! Every pair of writers: one is ready to publish, and the other begins and ends before it does. Whatever the second
//! one did, the first either does to the index that it then finds what it would have done to it from the start, or ends
//! with an error and changes nothing.

mod twice;
mod writer;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Once, OnceLock};

use dyad_corpus::{Document, Metadata};
use dyad_index::verify::verify_current;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::change::{ChangeOutcome, Operation};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;

use crate::fixture::{Fixture, row_of};
use crate::hash_source::HashSource;
use writer::{ALL, DocumentsByKey, Writer, key, newest, oldest};

/// A change that is made when this thread reaches a fail point.
struct Meanwhile {
    point: &'static str,
    change: Box<dyn FnOnce()>,
}

thread_local! {
    static MEANWHILE: RefCell<Option<Meanwhile>> = const { RefCell::new(None) };
}

/// Makes a change when this thread next reaches a fail point. Other threads pass it.
pub(crate) fn when_reached(point: &'static str, change: impl FnOnce() + 'static) {
    static POINTS: Once = Once::new();
    POINTS.call_once(|| {
        for point in ["publish-begin", "generations-remove"] {
            fail::cfg_callback(point, move || reached(point)).unwrap();
        }
    });
    MEANWHILE.with_borrow_mut(|meanwhile| {
        *meanwhile = Some(Meanwhile {
            point,
            change: Box::new(change),
        });
    });
}

fn reached(point: &str) {
    let taken = MEANWHILE.with_borrow_mut(|meanwhile| meanwhile.take_if(|meanwhile| meanwhile.point == point));
    if let Some(Meanwhile { change, .. }) = taken {
        change();
    }
}

/// An index with a generation for each of these changes, in a directory of its own.
fn prepared() -> Fixture {
    static FIRST: OnceLock<Fixture> = OnceLock::new();
    let fixture = Fixture::empty();
    copy(&FIRST.get_or_init(build_and_change).index(), &fixture.index());
    fixture
}

/// No hard links: a lock is one of a file, whatever its name.
fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).unwrap();
        }
    }
}

fn build_and_change() -> Fixture {
    let fixture = Fixture::empty();
    fixture.write_corpus(&oldest().into_values().collect::<Vec<_>>());
    build_index(&fixture.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
    let newest = newest();
    fixture
        .upsert(Operation::Upsert, &[newest[&key(5)].clone(), newest[&key(6)].clone()])
        .unwrap();
    fixture.update_metadata(&[newest[&key(8)].clone()]).unwrap();
    fixture.delete(&[key(9)]).unwrap();
    fixture
}

/// The live documents of the current generation; their vectors are those of their texts.
fn live(index: &Path) -> DocumentsByKey {
    let snapshot = Snapshot::open(index).unwrap();
    let (mut live, mut row) = (DocumentsByKey::new(), Vec::new());
    for shard in snapshot.shards() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let stored = shard.document(node).unwrap();
            let metadata = Metadata::of_stored(stored.metadata_json);
            let document = Document {
                key: stored.key,
                title: stored.title,
                text: stored.text,
                metadata,
                place: None,
            };
            shard.dense.rows().decode(node, &mut row);
            assert_eq!(row, row_of(&document.passage()), "the vector of {}", document.key);
            assert!(
                live.insert(document.key.clone(), document).is_none(),
                "a key is live twice"
            );
        }
    }
    live
}

/// The keys that any generation holds, live or deleted.
fn ever(index: &Path) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for generation in manifest::generations(index).unwrap() {
        let snapshot = Snapshot::open_manifest(index, manifest::load(index, generation).unwrap(), None).unwrap();
        for shard in snapshot.shards() {
            keys.extend((0..shard.dense.len() as u32).map(|node| shard.dense.key(node).unwrap().to_owned()));
        }
    }
    keys
}

/// Makes both changes, and compares the index with the documents that it must have.
fn pair(first: Writer, second: Writer, point: &'static str) {
    let name = format!("{first:?} that meets {second:?} at {point}");
    let fixture = prepared();
    let other = Fixture::at(&fixture.path("."));
    let newest_number = *manifest::generations(&fixture.index()).unwrap().last().unwrap();
    when_reached(point, move || drop(second.make(&other, 2).unwrap()));
    let made = first.make(&fixture, 1);
    assert!(MEANWHILE.with_borrow(Option::is_none), "{name}: the other was made");
    let after_second = second.apply(newest(), 2);
    let expected = match &made {
        // The point after its publication.
        Ok(_) if point == "generations-remove" => first.apply(second.apply(first.apply(newest(), 1), 2), 1),
        Ok(_) => first.apply(after_second, 1),
        Err(error) => {
            assert!(first.may_fail_after(second), "{name}: {error}");
            after_second
        }
    };
    assert_eq!(
        live(&fixture.index()),
        expected,
        "{name}: {:?}",
        made.as_ref().map(|_| ())
    );
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0], "{name}");
    if let Ok(Some(ChangeOutcome { change, manifest, .. })) = &made {
        let parts = change.indexed + change.unchanged + change.superseded + change.rejected;
        assert_eq!(change.read, parts, "{name}: {change:?}");
        assert!(
            manifest
                .as_ref()
                .is_none_or(|manifest| manifest.generation > newest_number),
            "{name}"
        );
    }
    if first == Writer::Purge {
        let ever = ever(&fixture.index());
        assert!(
            first.keys(1).iter().all(|key| !ever.contains(key)),
            "{name}: no generation holds what was purged"
        );
    }
}

/// Every other writer comes before the first one publishes.
fn meets_every_other(first: Writer) {
    for second in ALL {
        pair(first, second, "publish-begin");
    }
}

#[test]
fn a_build_meets_every_other_writer() {
    meets_every_other(Writer::Build);
}

#[test]
fn an_append_meets_every_other_writer() {
    meets_every_other(Writer::Append);
}

#[test]
fn an_append_that_leaves_what_is_there_meets_every_other_writer() {
    meets_every_other(Writer::AppendSkipping);
}

#[test]
fn an_upsert_meets_every_other_writer() {
    meets_every_other(Writer::Upsert);
}

#[test]
fn an_upsert_of_vectors_meets_every_other_writer() {
    meets_every_other(Writer::UpsertVectors);
}

#[test]
fn new_metadata_meet_every_other_writer() {
    meets_every_other(Writer::Metadata);
}

#[test]
fn a_delete_meets_every_other_writer() {
    meets_every_other(Writer::Delete);
}

#[test]
fn a_merge_meets_every_other_writer() {
    meets_every_other(Writer::Merge);
}

#[test]
fn a_purge_meets_every_other_writer() {
    meets_every_other(Writer::Purge);
}

#[test]
fn a_reembedding_meets_every_other_writer() {
    meets_every_other(Writer::Reembed);
}

#[test]
fn a_purge_that_has_published_meets_every_other() {
    for second in ALL {
        pair(Writer::Purge, second, "generations-remove");
    }
}

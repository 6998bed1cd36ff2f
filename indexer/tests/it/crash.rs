//! Processes that die, and disks that fail, at every step of every change: the index is as it was, or as it should
//! become, and the next change needs no repair.
//!
//! A change runs in a child, which is this test binary again with [`child`] alone. It dies at the n-th time that it
//! reaches a fail point, for every n until it reaches the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_corpus::Document;
use dyad_index::verify::verify_current;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::change::{Operation, delete, merge, purge};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc::gc;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::build_index;
use dyad_indexer::rollback::roll_back;

use crate::fixture::{Fixture, document, documents};
use crate::hash_source::HashSource;

const POINTS: [&str; 8] = [
    "file-write",
    "file-sync",
    "file-rename",
    "directory-sync",
    "directory-move",
    "manifest-begin",
    "published",
    "generation-remove",
];
const CHANGES: [&str; 8] = [
    "build", "append", "upsert", "metadata", "delete", "merge", "purge", "rollback",
];
/// Exit code of a test that fails, as one whose change returns an error.
const FAILED: i32 = 101;

fn changed(number: usize) -> Document {
    Document {
        text: format!("changed text of {number}"),
        ..document(number)
    }
}

/// An index of two generations: 20 documents, of which two are deleted.
fn prepared() -> Fixture {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    fixture.delete(&["doc-0003".to_owned(), "doc-0004".to_owned()]).unwrap();
    fixture
}

/// Makes a change of the fixture in this directory, whose corpus it writes.
fn make(fixture: &Fixture, change: &str) -> Result<(), dyad_indexer::Error> {
    let (index, control) = (fixture.index(), JobControl::silent());
    let add = |operation, documents: &[Document]| {
        fixture.write_corpus(documents);
        let config = fixture.upsert_config(operation);
        fixture
            .upsert_from("corpus.jsonl", &config, &mut HashSource::default(), control)
            .map(drop)
    };
    match change {
        "build" => {
            fixture.write_corpus(&documents(5));
            build_index(&fixture.config(), &mut HashSource::default(), control).map(drop)
        }
        "append" => add(
            Operation::Append { skip_existing: false },
            &[document(30), document(31)],
        ),
        "upsert" => add(Operation::Upsert, &[changed(1), changed(2), document(3), document(30)]),
        "metadata" => {
            let metadata = serde_json::json!({ "changed": true });
            let with = |number| Document {
                metadata: crate::fixture::metadata(&metadata),
                ..document(number)
            };
            fixture.update_metadata(&[with(1), with(2)]).map(drop)
        }
        "delete" => delete(&index, &["doc-0000".into(), "doc-0001".into()], false, control).map(drop),
        "merge" => merge(&fixture.merge_config(true), control).map(drop),
        "purge" => purge(&fixture.purge_config(), &["doc-0000".into()], control).map(drop),
        "rollback" => roll_back(&index, None, false).map(drop),
        other => Err(dyad_indexer::Error::Io(std::io::Error::other(other.to_owned()))),
    }
}

/// Key, text and metadata of every live document.
fn live(index: &Path) -> BTreeSet<(String, String)> {
    let snapshot = Snapshot::open(index).unwrap();
    let mut live = BTreeSet::new();
    for (at, shard) in snapshot.shards().iter().enumerate() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let stored = snapshot.document(at, node).unwrap();
            assert!(
                live.insert((stored.key, stored.text + &stored.metadata_json)),
                "a key is live twice"
            );
        }
    }
    assert_eq!(snapshot.len(), live.len());
    live
}

/// Not a test of its own: what the children run.
#[test]
fn child() {
    let Some(wanted) = std::env::var_os("DYAD_CRASH") else {
        return;
    };
    let wanted = wanted.into_string().unwrap();
    let parts: Vec<&str> = wanted.split(',').collect();
    let [dir, change, point, action, skip] = parts[..] else {
        return;
    };
    let (skip, reached): (usize, _) = (skip.parse().unwrap(), AtomicUsize::new(0));
    if action == "die" {
        let die = move || {
            if reached.fetch_add(1, Ordering::SeqCst) == skip {
                std::process::abort();
            }
        };
        fail::cfg_callback(point, die).unwrap();
    } else if !point.is_empty() {
        fail::cfg(point, &format!("{skip}*off->1*return->off")).unwrap();
    }
    make(&Fixture::at(Path::new(dir)), change).unwrap();
}

/// Runs the child, by itself or by a command that gets the directory, the number, and then what it shall run.
fn run(dir: &Path, change: &str, point: &str, action: &str, number: usize, by: Option<&[&str]>) -> Output {
    let wanted = format!("{},{change},{point},{action},{number}", dir.display());
    let program = std::env::current_exe().unwrap();
    let mut command = match by {
        None => Command::new(program),
        Some(by) => {
            let mut command = Command::new(by[0]);
            command
                .args(&by[1..])
                .arg("by")
                .arg(dir)
                .arg(number.to_string())
                .arg(program);
            command
        }
    };
    command
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env("DYAD_CRASH", wanted);
    command.output().unwrap()
}

/// Copies an index with hard links: its files are never written again.
fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else if entry.file_name() == "LOCK" {
            fs_err::write(to, "").unwrap();
        } else {
            fs_err::hard_link(entry.path(), to).unwrap();
        }
    }
}

/// A child ends a change at every place of every kind; what is left is one of two states, and can be changed on. `run`
/// runs the child with a directory, a change, a kind, and the number of the place.
fn at_every_place(
    kinds: &[&str],
    run: impl Fn(&Path, &str, &str, usize) -> Output,
    died: impl Fn(&Output, &str) -> bool,
) {
    let prepared = prepared();
    let before = live(&prepared.index());
    let mut reached = BTreeSet::new();
    for change in CHANGES {
        let done = Fixture::empty();
        copy(&prepared.index(), &done.index());
        make(&done, change).unwrap();
        let after = live(&done.index());
        for &kind in kinds {
            for skip in 0.. {
                let broken = Fixture::empty();
                copy(&prepared.index(), &broken.index());
                let output = run(broken.path("").as_path(), change, kind, skip);
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let (now, place) = (live(&broken.index()), format!("{change} at {kind} {skip}: {said}"));
                if !died(&output, &said) {
                    assert!(output.status.success(), "{place}");
                    assert_eq!(now, after, "{place}");
                    break;
                }
                reached.insert(kind);
                assert!(now == before || now == after, "{place}: {now:?}");
                // A change that was made is not told as one that was not; a purge goes on after its change.
                if before != after && change != "purge" && output.status.code() == Some(FAILED) {
                    assert_eq!(said.contains("Unsettled"), now == after, "{place}");
                }
                assert_eq!(verify_current(&broken.index()).unwrap().problems, [""; 0], "{place}");
                if change == "build" {
                    // The same again, with whatever shards are kept of it.
                    let again = Fixture::empty();
                    copy(&broken.index(), &again.index());
                    make(&again, change).unwrap();
                    assert_eq!(live(&again.index()), after, "{place}");
                    let names = fs_err::read_dir(again.index())
                        .unwrap()
                        .map(|entry| entry.unwrap().file_name());
                    assert_eq!(
                        names.filter(|name| name.to_string_lossy().starts_with('.')).count(),
                        0,
                        "{place}"
                    );
                }
                // No repair by hand: the next change works, and nothing is left over.
                delete(&broken.index(), &["doc-0009".to_owned()], false, JobControl::silent()).unwrap();
                gc(&broken.index(), 100, std::time::Duration::ZERO, false).unwrap();
                assert_eq!(inspect(&broken.index()).unwrap().debt.unnamed_bytes, Some(0), "{place}");
                let next: BTreeSet<_> = now.into_iter().filter(|(key, _)| key != "doc-0009").collect();
                assert_eq!(live(&broken.index()), next, "{place}");
                let current = manifest::current(&broken.index()).unwrap();
                assert!(current.generation > 2 && skip < 100, "{place}");
            }
        }
    }
    assert_eq!(
        reached.len(),
        kinds.len(),
        "every kind of place was reached: {reached:?}"
    );
}

#[test]
fn a_process_that_dies_leaves_one_generation_or_the_next() {
    use std::os::unix::process::ExitStatusExt as _;
    let run = |dir: &Path, change: &str, point: &str, skip| run(dir, change, point, "die", skip, None);
    at_every_place(&POINTS, run, |output, _| output.status.signal().is_some());
}

#[test]
fn a_disk_that_fails_is_an_error_and_leaves_the_index_as_it_was_or_as_it_becomes() {
    let run = |dir: &Path, change: &str, point: &str, skip| run(dir, change, point, "fail", skip, None);
    at_every_place(&["file-write", "file-sync", "directory-sync"], run, |output, _| {
        output.status.code() == Some(FAILED)
    });
}

/// Limits the size of every file, in blocks of 512 bytes: the write that crosses the limit is short, the next one
/// fails.
const SMALL_FILES: &str = r#"trap '' XFSZ; ulimit -f "$2"; shift 2; exec "$@""#;
/// Moves the index to a disk on which that number of pages is free.
const SMALL_DISK: &str = r#"
    dir=$1 pages=$2; shift 2; set -e
    mv "$dir/index" "$dir/before"; mkdir "$dir/index"; mount -t tmpfs none "$dir/index"; cp -a "$dir/before/." "$dir/index"
    used=$(df -k "$dir/index" | awk 'NR == 2 { print $3 }'); mount -o "remount,size=$((used + 4 * pages))k" "$dir/index"
    code=0; "$@" || code=$?
    cp -a "$dir/index" "$dir/after"; umount "$dir/index"; rmdir "$dir/index"; mv "$dir/after" "$dir/index"; exit "$code""#;
/// Makes the index's disk read-only, the first time.
const READ_ONLY: &str = r#"
    if [ "$2" = 0 ]; then mount --bind "$1/index" "$1/index"; mount -o remount,bind,ro "$1/index"; fi; shift 2; exec "$@""#;

#[test]
fn a_write_that_is_cut_short_is_an_error_and_leaves_the_index_as_it_was() {
    let run =
        |dir: &Path, change: &str, _: &str, blocks| run(dir, change, "", "", blocks, Some(&["sh", "-c", SMALL_FILES]));
    at_every_place(&["small files"], run, |output, said| {
        output.status.code() == Some(FAILED) && said.contains("File too large")
    });
}

#[test]
fn a_full_or_read_only_disk_is_an_error_and_leaves_the_index_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let probe = ["-rm", "mount", "-t", "tmpfs", "none", dir.path().to_str().unwrap()];
    if !Command::new("unshare")
        .args(probe)
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return eprintln!("skipped: `unshare -rm mount -t tmpfs` is not possible here");
    }
    for (kind, script, error) in [
        ("small disk", SMALL_DISK, "No space left on device"),
        ("read-only", READ_ONLY, "Read-only file system"),
    ] {
        let run = |dir: &Path, change: &str, _: &str, number| {
            run(
                dir,
                change,
                "",
                "",
                number,
                Some(&["unshare", "-rm", "sh", "-c", script]),
            )
        };
        at_every_place(&[kind], run, |output, said| {
            output.status.code() == Some(FAILED) && said.contains(error)
        });
    }
}

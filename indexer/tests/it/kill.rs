//! Programs killed at random moments: nothing is lost, and the next one needs no repair.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use dyad_corpus::Document;
use dyad_index::Snapshot;
use dyad_index::verify::verify_current;

use crate::command_line::dyad_indexer;
use crate::fixture::{Fixture, document, header};

/// Texts by key.
pub(crate) type Texts = BTreeMap<String, String>;

fn texts(documents: &[Document]) -> Texts {
    documents
        .iter()
        .map(|document| (document.key.clone(), document.text.clone()))
        .collect()
}

/// The live documents of an index that is sound, of which each key is live once.
pub(crate) fn stored(fixture: &Fixture) -> Texts {
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let mut texts = Texts::new();
    for (at, shard) in snapshot.shards().iter().enumerate() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let document = snapshot.document(at, node).unwrap();
            assert!(
                texts.insert(document.key, document.text).is_none(),
                "a key is live twice"
            );
        }
    }
    texts
}

/// The next number below a bound.
pub(crate) fn random(state: &mut u64, below: u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// The next command, and the documents that there are once it has ended.
fn next(fixture: &Fixture, now: &Texts, number: usize, state: &mut u64) -> (Command, Texts) {
    let mut command = dyad_indexer();
    let new = |range: std::ops::Range<usize>| -> Vec<Document> {
        let changed = |at| Document {
            text: format!("text {number} of {at}"),
            ..document(at)
        };
        range.map(changed).collect()
    };
    let some = random(state, 60) as usize;
    let (name, batch) = match random(state, 5) {
        0 => ("build", new(0..40 + some)),
        1 => ("append", new(1000 + number * 10..1000 + number * 10 + some % 9 + 1)),
        2 => ("upsert", new(some..some + 8)),
        3 => ("delete", Vec::new()),
        _ => ("merge", Vec::new()),
    };
    command.arg(name).arg("--index").arg(fixture.index());
    let mut after = if name == "build" { Texts::new() } else { now.clone() };
    match name {
        "delete" => {
            let keys: Vec<String> = now.keys().step_by(7).cloned().collect();
            fs_err::write(fixture.path("keys"), keys.join("\n")).unwrap();
            command.arg("--keys").arg(fixture.path("keys"));
            after.retain(|key, _| !keys.contains(key));
        }
        "merge" => _ = command.args(["--all", "--threads", "1"]),
        _ => {
            let vectors = format!("vectors-{number}");
            fixture.write_corpus(&batch);
            fixture.write_embeddings(&vectors, header(), &batch);
            let corpus = fixture.path("corpus.jsonl");
            command
                .arg("--corpus")
                .arg(corpus)
                .arg("--embeddings")
                .arg(fixture.path(&vectors))
                .args(["--threads", "1"]);
            if name == "build" {
                command.args(["--shards", "3"]);
            }
            after.extend(texts(&batch));
        }
    }
    (command, after)
}

fn kill(times: usize, seed: u64) {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let (mut now, mut state, mut killed, mut number) = (stored(&fixture), seed, 0, 0);
    while killed < times {
        number += 1;
        let (mut command, after) = next(&fixture, &now, number, &mut state);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random(&mut state, 90_000)));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let found = stored(&fixture);
        if output.status.success() {
            assert_eq!(found, after, "{command:?}");
        } else {
            use std::os::unix::process::ExitStatusExt as _;
            assert_eq!(
                output.status.signal(),
                Some(9),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(found == now || found == after, "{command:?}");
            killed += 1;
        }
        now = found;
    }
    let gc = dyad_indexer()
        .arg("gc")
        .arg("--index")
        .arg(fixture.index())
        .args(["--keep", "1"])
        .output()
        .unwrap();
    assert!(gc.status.success(), "{}", String::from_utf8_lossy(&gc.stderr));
    assert_eq!((stored(&fixture), fixture.building()), (now, 0));
    let names = fs_err::read_dir(fixture.index())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    assert_eq!(
        names.filter(|name| name.to_string_lossy().starts_with('.')).count(),
        0,
        "and nothing that was kept"
    );
    assert_eq!(
        dyad_indexer::inspect::inspect(&fixture.index())
            .unwrap()
            .debt
            .unnamed_bytes,
        Some(0)
    );
}

#[test]
fn a_killed_program_leaves_one_generation_or_the_next() {
    kill(25, 1);
}

/// `cargo test --release -p dyad-indexer --test it -- --ignored hundreds_of_killed_programs`
#[test]
#[ignore = "takes a minute"]
fn hundreds_of_killed_programs() {
    for seed in 10..14 {
        kill(100, seed);
    }
}

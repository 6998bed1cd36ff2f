//! `dyad-indexer serve` gathers calls, merges shards and removes generations; `maintain` does so in one call.

use std::time::{Duration, Instant};

use dyad_index::Snapshot;
use dyad_index::manifest;
use dyad_index::verify::verify_current;

use crate::command_line::dyad_indexer;
use crate::fixture::Fixture;
use crate::serve::{message, serve, serve_with};

/// Time for merges that have begun.
const PATIENCE: Duration = Duration::from_mins(1);

#[test]
fn single_upserts_leave_few_shards_and_generations() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let serving = serve_with(index.to_str().unwrap(), &["--gather-ms", "0"]);
    for number in 100..140 {
        assert_eq!(serving.upsert(&[message(number)]).unwrap().indexed, 1);
        if number % 4 == 0 && number > 100 {
            assert_eq!(serving.delete(&[&message(number - 2).key]).unwrap().indexed, 1);
        }
    }
    let until = Instant::now() + PATIENCE;
    let few = || {
        let current = manifest::current(&index).unwrap();
        current.shards.len() <= 12 && manifest::generations(&index).unwrap().len() <= 8
    };
    while !few() {
        assert!(
            Instant::now() < until,
            "{} shards",
            manifest::current(&index).unwrap().shards.len()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(serving);
    let snapshot = Snapshot::open(&index).unwrap();
    assert_eq!(snapshot.manifest().documents(), 20 + 40 - 9);
    for number in 100..140 {
        let is_deleted = number % 4 == 2 && number < 138;
        let found = snapshot.find(&message(number).key).unwrap();
        assert_eq!(found.is_none(), is_deleted, "{number}");
    }
    assert_eq!(verify_current(&index).unwrap().problems, [""; 0]);
}

#[test]
fn calls_that_come_together_share_a_generation() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let index = fixture.index();
    let options = ["--gather-ms", "2000", "--merge", "never", "--keep", "all"];
    let serving = serve_with(index.to_str().unwrap(), &options);
    let client = serving.client();
    let replies = serving.runtime.block_on(async {
        let calls = (40..48).map(|number| {
            let client = client.clone();
            // Two of them bring the same document.
            tokio::spawn(async move { client.upsert(&[message(number.min(46))]).await.unwrap() })
        });
        let mut replies = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            replies.push(call.await.unwrap());
        }
        replies
    });
    let current = manifest::current(&index).unwrap();
    assert!(current.generation < 9, "{}", current.generation);
    assert!(
        replies
            .iter()
            .all(|reply| reply.read == 1 && reply.generation <= current.generation)
    );
    let indexed: u64 = replies.iter().map(|reply| reply.indexed).sum();
    let others: u64 = replies.iter().map(|reply| reply.superseded + reply.unchanged).sum();
    assert_eq!((indexed, others, current.documents()), (7, 1, 27));
}

#[test]
fn maintain_merges_and_removes_in_one_call() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let serving = serve(&fixture);
    for number in 100..112 {
        serving.upsert(&[message(number)]).unwrap();
    }
    drop(serving);
    let index = fixture.index();
    assert_eq!(manifest::generations(&index).unwrap().len(), 13);
    let maintain = |more: &[&str]| {
        let mut command = dyad_indexer();
        command
            .args(["maintain", "--threads", "1", "--keep", "2", "--index"])
            .arg(&index)
            .args(more);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let told = maintain(&["--dry-run"]);
    assert!(
        told.contains("dry run") && told.contains("would remove generations 1 to 11"),
        "{told}"
    );
    assert_eq!(manifest::generations(&index).unwrap().len(), 13);
    let told = maintain(&[]);
    assert!(
        told.contains("published generation 1") && told.contains("removed generations 1 to "),
        "{told}"
    );
    let current = manifest::current(&index).unwrap();
    assert_eq!(
        (current.documents(), manifest::generations(&index).unwrap().len()),
        (32, 2)
    );
    assert!(current.shards.len() <= 3, "{}", current.shards.len());
    assert_eq!(verify_current(&index).unwrap().problems, [""; 0]);
    let told = maintain(&[]);
    assert!(
        told.contains("nothing to change") && told.contains("removed no generation"),
        "{told}"
    );
}

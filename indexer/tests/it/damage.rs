//! Damage on disk: `verify` names file and section, and nothing panics.

use std::path::{Path, PathBuf};

use dyad_index::format::VERSION;
use dyad_index::shard::DenseShard;
use dyad_index::verify::verify_current as verify;
use dyad_indexer::change::merge;
use dyad_indexer::control::JobControl;
use dyad_indexer::inspect::inspect;

use crate::fixture::{Fixture, document};

fn dense_files(fixture: &Fixture) -> Vec<PathBuf> {
    fixture
        .files()
        .into_keys()
        .filter(|path| path.ends_with("dense.dyad"))
        .collect()
}

fn change(path: &Path, act: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let original = fs_err::read(path).unwrap();
    let mut bytes = original.clone();
    act(&mut bytes);
    fs_err::write(path, bytes).unwrap();
    original
}

fn problems(fixture: &Fixture) -> Vec<String> {
    verify(&fixture.index()).unwrap().problems
}

fn assert_named(problems: &[String], parts: &[&str]) {
    let named = problems
        .iter()
        .any(|problem| parts.iter().all(|part| problem.contains(part)));
    assert!(named, "{parts:?} in {problems:#?}");
}

#[test]
fn a_flipped_byte_in_each_section_is_named() {
    let fixture = Fixture::new(120);
    fixture.build().unwrap();
    let path = dense_files(&fixture).remove(0);
    let sections = DenseShard::open(&path).unwrap().header().sections.clone();
    assert_eq!(sections.len(), 6);
    for section in sections {
        for at in [
            section.offset,
            section.offset + section.len / 2,
            section.offset + section.len - 1,
        ] {
            let original = change(&path, |bytes| bytes[at as usize] ^= 0x40);
            assert_named(&problems(&fixture), &[path.to_str().unwrap(), section.kind.name()]);
            fs_err::write(&path, original).unwrap();
        }
    }
    let original = change(&path, |bytes| bytes[40] ^= 1);
    assert_named(&problems(&fixture), &["header"]);
    fs_err::write(&path, original).unwrap();
    assert_eq!(problems(&fixture), [""; 0]);
}

#[test]
fn a_damaged_shard_is_not_merged() {
    let fixture = Fixture::new(120);
    fixture.build().unwrap();
    fixture.delete(&[document(3).key]).unwrap();
    let shards = fixture.index().join("shards");
    let files = fixture
        .files()
        .into_iter()
        .filter(|(path, bytes)| path.starts_with(&shards) && bytes.len() > 300);
    let mut names = Vec::new();
    for (path, bytes) in files {
        // A middle that opening does not look at.
        let original = change(&path, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x40;
        });
        let refused = merge(&fixture.merge_config(true), JobControl::silent())
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(path.to_str().unwrap()) || refused.contains("text"),
            "{} bytes: {refused}",
            bytes.len()
        );
        fs_err::write(&path, original).unwrap();
        names.push(path.extension().unwrap().to_string_lossy().into_owned());
    }
    assert!(
        ["dyad", "store", "idx"]
            .iter()
            .all(|kind| names.iter().any(|name| name == kind)),
        "{names:?}"
    );
    assert_eq!(
        inspect(&fixture.index()).unwrap().generation,
        2,
        "nothing was published"
    );
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
}

#[test]
fn any_flipped_byte_is_found() {
    let fixture = Fixture::new(30);
    fixture.build().unwrap();
    for path in fixture
        .files()
        .into_keys()
        .filter(|path| path.starts_with(fixture.index().join("shards")))
    {
        let len = fs_err::metadata(&path).unwrap().len() as usize;
        for at in (0..len).step_by(len / 23 + 1) {
            let original = change(&path, |bytes| bytes[at] ^= 0x81);
            let found = problems(&fixture);
            assert_named(&found, &[path.file_name().unwrap().to_str().unwrap()]);
            fs_err::write(&path, original).unwrap();
        }
    }
    assert_eq!(problems(&fixture), [""; 0]);
}

#[test]
fn truncated_and_missing_files_are_named() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let path = dense_files(&fixture).remove(0);
    for keep in [0, 100, 512, 5_000] {
        let original = change(&path, |bytes| bytes.truncate(keep));
        assert_named(&problems(&fixture), &[path.to_str().unwrap()]);
        assert!(inspect(&fixture.index()).is_err());
        fs_err::write(&path, original).unwrap();
    }
    let original = fs_err::read(&path).unwrap();
    fs_err::remove_file(&path).unwrap();
    assert_named(&problems(&fixture), &[path.to_str().unwrap(), "No such file"]);
    fs_err::write(&path, original).unwrap();
    let text = path.parent().unwrap().join("text/meta.json");
    fs_err::remove_file(&text).unwrap();
    assert_named(&problems(&fixture), &[text.to_str().unwrap(), "No such file"]);
}

#[test]
fn a_shard_of_a_newer_release_is_named() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let path = dense_files(&fixture).remove(0);
    let (newest, newer) = (VERSION, VERSION + 1);
    change(&path, |bytes| bytes[8] = newer as u8);
    let [version, reads] = [format!("format version {newer}"), format!("reads up to {newest}")];
    assert_named(&problems(&fixture), &[&version, &reads, "Upgrade dyad"]);
    let message = inspect(&fixture.index()).unwrap_err().to_string();
    assert!(message.contains(&version), "{message}");
}

#[test]
fn texts_of_another_shard_are_noticed() {
    let fixture = Fixture::new(100);
    let other = Fixture::new(100);
    let mut reversed = crate::fixture::documents(100);
    reversed.reverse();
    other.write_corpus(&reversed);
    fs_err::remove_dir_all(other.path("embeddings")).unwrap();
    other.write_embeddings("embeddings", crate::fixture::header(), &reversed);
    fixture.build().unwrap();
    other.build().unwrap();
    // The other's texts and their entries in the manifest: every checksum holds, and still nothing fits.
    let manifest = dyad_index::manifest::current(&other.index()).unwrap();
    let mut mixed = dyad_index::manifest::current(&fixture.index()).unwrap();
    for (mine, theirs) in mixed.shards.iter_mut().zip(&manifest.shards) {
        let dir = |fixture: &Fixture, id: &str| fixture.index().join("shards").join(id);
        fs_err::remove_dir_all(dir(&fixture, &mine.id).join("text")).unwrap();
        fs_err::rename(
            dir(&other, &theirs.id).join("text"),
            dir(&fixture, &mine.id).join("text"),
        )
        .unwrap();
        mine.files.retain(|file| file.path == "dense.dyad");
        mine.files
            .extend(theirs.files.iter().filter(|file| file.path != "dense.dyad").cloned());
    }
    mixed.generation = 2;
    let lock = dyad_index::storage::WriteLock::acquire(&fixture.index()).unwrap();
    dyad_index::manifest::publish(&fixture.index(), &mixed, &[], &lock).unwrap();
    let found = problems(&fixture);
    assert_named(&found, &["text", "document 0: expected key `doc-"]);
    assert_named(&found, &["documents differ from the vectors' keys"]);
}

#[test]
fn a_verification_that_is_told_to_stop_says_so() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let manifest = dyad_index::manifest::current(&fixture.index()).unwrap();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let run = |patience: usize| {
        asked.store(0, std::sync::atomic::Ordering::Relaxed);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= patience;
        let findings = dyad_index::verify::verify(&fixture.index(), &manifest, &stop);
        assert_eq!(findings.problems, [""; 0], "what was not read is not damaged");
        (findings.stopped, asked.load(std::sync::atomic::Ordering::Relaxed))
    };
    let (stopped, looks) = run(usize::MAX);
    assert!(!stopped && looks > 20);
    for patience in [0, 1, looks / 2, looks - 1] {
        assert_eq!(run(patience), (true, patience + 1));
    }
}

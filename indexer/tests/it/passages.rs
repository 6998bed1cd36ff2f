//! Documents indexed as passages: replaced, deleted and purged by the keys of their documents.

use std::collections::BTreeSet;

use dyad_corpus::{Document, ReadOptions, Split};
use dyad_index::Snapshot;
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeStart, DeleteConfig, Operation, Passages, PurgeConfig, UpsertConfig, delete, delete_documents, passages_of,
    purge, upsert,
};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::Corpus;

use crate::fixture::Fixture;
use crate::hash_source::HashSource;
use crate::pairs::when_reached;

/// Sentences of two words each, passages of two sentences.
fn documents(lengths: &[(&str, usize)]) -> Vec<Document> {
    let text = |key: &str, length: usize| {
        (0..length)
            .map(|at| format!("Word{at} {key}."))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let document = |(key, length): &(&str, usize)| Document {
        key: (*key).to_owned(),
        title: format!("Title of {key}"),
        text: text(key, *length),
        metadata: None,
        place: None,
    };
    lengths.iter().map(document).collect()
}

fn corpus(fixture: &Fixture) -> Corpus {
    let split = Some(Split::new(4, 0).unwrap());
    Corpus::File {
        path: fixture.path("corpus.jsonl"),
        read: ReadOptions {
            split,
            ..ReadOptions::default()
        },
    }
}

fn keys(fixture: &Fixture) -> BTreeSet<String> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let live = snapshot.shards().iter().flat_map(|shard| {
        (0..shard.dense.len() as u32)
            .filter(|node| shard.is_live(*node))
            .map(|node| shard.dense.keys().key(node).to_owned())
    });
    live.collect()
}

fn expected(lengths: &[(&str, usize)]) -> BTreeSet<String> {
    lengths
        .iter()
        .flat_map(|(key, length)| (0..length.div_ceil(2)).map(move |number| format!("{key}#{number}")))
        .collect()
}

fn built(lengths: &[(&str, usize)]) -> Fixture {
    let fixture = Fixture::empty();
    fixture.write_corpus(&documents(lengths));
    let config = BuildConfig {
        corpus: corpus(&fixture),
        ..fixture.config()
    };
    build_index(&config, &mut HashSource::default(), JobControl::silent()).unwrap();
    assert_eq!(keys(&fixture), expected(lengths));
    fixture
}

fn replace(fixture: &Fixture, lengths: &[(&str, usize)], dry_run: bool) -> dyad_indexer::change::ChangeOutcome {
    fixture.write_corpus(&documents(lengths));
    let config = UpsertConfig {
        passages: Passages::Batch,
        dry_run,
        ..fixture.upsert_config(Operation::Upsert)
    };
    let mut batch = corpus(fixture).open(true).unwrap();
    upsert(
        &config,
        batch.as_mut(),
        &mut HashSource::default(),
        JobControl::silent(),
    )
    .unwrap()
}

#[test]
fn a_document_that_has_become_shorter_loses_its_last_passages() {
    let fixture = built(&[("a", 9), ("b", 4), ("a#0", 3), ("c", 8)]);
    let outcome = replace(&fixture, &[("a", 3), ("b", 4), ("d", 2)], true);
    assert!(outcome.manifest.is_none() && keys(&fixture).len() == 13);
    // `a` from five to two passages, of which the second has another text; `b` as it was; `d` is new. `a#0#0` is of
    // document `a#0`.
    let outcome = replace(&fixture, &[("a", 3), ("b", 4), ("d", 2)], false);
    assert_eq!(
        keys(&fixture),
        expected(&[("a", 3), ("b", 4), ("a#0", 3), ("c", 8), ("d", 2)])
    );
    assert_eq!(
        (
            outcome.change.read,
            outcome.change.indexed,
            outcome.change.unchanged,
            outcome.change.deleted
        ),
        (5, 3, 2, 5)
    );
    assert_eq!(
        outcome.change.reused, 1,
        "`a#0` stands in another document now, with the vector that it had"
    );
    assert_eq!((outcome.documents_before, outcome.documents_after), (13, 11));
    // Only shorter: nothing is embedded.
    let outcome = replace(&fixture, &[("c", 4)], false);
    assert_eq!(
        (outcome.change.indexed, outcome.change.reused, outcome.change.deleted),
        (2, 2, 4)
    );
    assert_eq!(
        keys(&fixture),
        expected(&[("a", 3), ("b", 4), ("a#0", 3), ("c", 4), ("d", 2)])
    );
    // Nothing at all.
    assert!(replace(&fixture, &[("c", 4)], false).manifest.is_none());
    // A document that comes twice would leave passages of the longer one.
    fixture.write_corpus(&documents(&[("c", 4), ("c", 2)]));
    let refused = corpus(&fixture)
        .open(true)
        .unwrap()
        .collect::<Result<Vec<_>, _>>()
        .unwrap_err()
        .to_string();
    assert!(refused.contains("key `c#0` was already used"), "{refused}");
}

/// From whole to passages and back, whatever makes them.
#[test]
fn a_document_is_whole_or_it_is_passages() {
    let fixture = built(&[("a", 9), ("b", 4)]);
    let whole = |key: &str| Document {
        key: key.to_owned(),
        text: "alone".to_owned(),
        ..Document::default()
    };
    let outcome = fixture.upsert(Operation::Upsert, &[whole("a"), whole("c")]).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.deleted), (2, 5));
    assert_eq!(
        keys(&fixture),
        &expected(&[("b", 4)]) | &BTreeSet::from(["a".to_owned(), "c".to_owned()])
    );
    let append = |lengths: &[(&str, usize)], skip_existing: bool| {
        fixture.write_corpus(&documents(lengths));
        let operation = Operation::Append { skip_existing };
        let config = UpsertConfig {
            passages: Passages::Batch,
            ..fixture.upsert_config(operation)
        };
        upsert(
            &config,
            corpus(&fixture).open(false).unwrap().as_mut(),
            &mut HashSource::default(),
            JobControl::silent(),
        )
    };
    let refused = append(&[("c", 4), ("d", 4)], false).unwrap_err();
    assert!(
        matches!(&refused, Error::KeysExist { total: 2, first } if first == &["c#0", "c#1"]),
        "{refused}"
    );
    let outcome = append(&[("c", 4), ("d", 4)], true).unwrap();
    assert_eq!((outcome.change.indexed, outcome.change.unchanged), (2, 2));
    let outcome = replace(&fixture, &[("a", 3), ("c", 4)], false);
    assert_eq!((outcome.change.indexed, outcome.change.deleted), (4, 2));
    assert_eq!(keys(&fixture), expected(&[("a", 3), ("b", 4), ("c", 4), ("d", 4)]));
}

#[test]
fn documents_are_deleted_and_purged_with_all_of_their_passages() {
    let fixture = built(&[("a", 24), ("b", 4), ("a#1", 2), ("c", 3)]);
    let index = fixture.index();
    // A document of its own, whose key only looks like that of a passage.
    let alone = |key: &str| Document {
        key: key.to_owned(),
        text: "alone".to_owned(),
        ..Document::default()
    };
    fixture
        .upsert(Operation::Append { skip_existing: false }, &[alone("a#99")])
        .unwrap();
    let refused = fixture
        .upsert(Operation::Append { skip_existing: false }, &[alone("b")])
        .unwrap_err();
    assert!(
        matches!(&refused, Error::KeysExist { first, .. } if first == &["b"]),
        "{refused}"
    );
    let named_b = passages_of(&index, &["b".to_owned()], false).unwrap();
    assert_eq!(named_b, ["b#0", "b#1"]);
    let named = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<String>>();
    let passages = passages_of(&index, &named(&["a", "none"]), false).unwrap();
    assert_eq!(
        passages.iter().cloned().collect::<BTreeSet<_>>(),
        &expected(&[("a", 24)]) | &BTreeSet::from(["none".to_owned()])
    );
    let outcome = delete(&index, &passages, false, JobControl::silent()).unwrap();
    assert_eq!((outcome.change.deleted, outcome.change.rejected), (12, 1));
    let left = &expected(&[("b", 4), ("a#1", 2), ("c", 3)]) | &BTreeSet::from(["a#99".to_owned()]);
    assert_eq!(keys(&fixture), left);
    assert_eq!(
        passages_of(&index, &named(&["a"]), false).unwrap(),
        ["a"],
        "none are left"
    );
    // Earlier generations have them, until they are purged.
    let all = passages_of(&index, &named(&["a"]), true).unwrap();
    assert_eq!(all.iter().cloned().collect::<BTreeSet<_>>(), expected(&[("a", 24)]));
    purge(&fixture.purge_config(), &all, JobControl::silent()).unwrap();
    assert_eq!(passages_of(&index, &named(&["a"]), true).unwrap(), ["a"]);
    assert_eq!(keys(&fixture), left);
}

/// Another job ends between the first change's look at the index and its publication.
#[test]
fn passages_that_others_change_meanwhile_are_those_of_the_generation_that_is_changed() {
    let fixture = built(&[("a", 4), ("b", 4), ("c", 4)]);
    let (index, dir) = (fixture.index(), fixture.path("."));
    let all = |lengths: &[(&str, usize)]| assert_eq!(keys(&fixture), expected(lengths));
    let document = |key: &str| vec![key.to_owned()];
    // One becomes longer while it is deleted, and while it is purged.
    let path = dir.clone();
    when_reached("publish-begin", move || {
        drop(replace(&Fixture::at(&path), &[("a", 9)], false));
    });
    let config = DeleteConfig {
        index: &index,
        start: &ChangeStart::default(),
        passages: true,
        named_missing: dyad_indexer::change::MissingKeys::NAMED,
        dry_run: false,
    };
    delete_documents(&config, &document("a"), JobControl::silent()).unwrap();
    all(&[("b", 4), ("c", 4)]);
    let path = dir.clone();
    when_reached("generations-remove", move || {
        drop(replace(&Fixture::at(&path), &[("b", 9)], false));
    });
    let config = PurgeConfig {
        passages: true,
        ..fixture.purge_config()
    };
    purge(&config, &document("b"), JobControl::silent()).unwrap();
    all(&[("c", 4)]);
    assert_eq!(
        passages_of(&index, &document("b"), true).unwrap(),
        ["b"],
        "no generation has any"
    );
    // A batch leaves one as it is, which is whole, or gone, when the batch is published.
    let path = dir.clone();
    let whole = Document {
        key: "c".to_owned(),
        text: "alone".to_owned(),
        ..Document::default()
    };
    when_reached("publish-begin", move || {
        drop(Fixture::at(&path).upsert(Operation::Upsert, &[whole]).unwrap());
    });
    replace(&fixture, &[("c", 4), ("d", 2)], false);
    all(&[("c", 4), ("d", 2)]);
    let deleted = document("c#1");
    when_reached("publish-begin", move || {
        drop(delete(&index, &deleted, false, JobControl::silent()).unwrap());
    });
    replace(&fixture, &[("c", 4), ("e", 2)], false);
    all(&[("c", 4), ("d", 2), ("e", 2)]);
    // A whole one becomes passages while it is replaced.
    let whole = Document {
        key: "d".to_owned(),
        text: "alone".to_owned(),
        ..Document::default()
    };
    let path = dir.clone();
    when_reached("publish-begin", move || {
        drop(replace(&Fixture::at(&path), &[("d", 9)], false));
    });
    fixture.upsert(Operation::Upsert, &[whole]).unwrap();
    assert_eq!(
        keys(&fixture),
        &expected(&[("c", 4), ("e", 2)]) | &BTreeSet::from(["d".to_owned()])
    );
}

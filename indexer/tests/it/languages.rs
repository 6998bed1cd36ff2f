//! The language of an index: told by its texts or named, kept by every change, and the same in all of its shards.

use std::sync::atomic::{AtomicBool, Ordering};

use dyad_corpus::Document;
use dyad_index::verify::verify_current;
use dyad_index::{Never, Snapshot, TextLanguage, manifest};
use dyad_indexer::change::{MergeConfig, Operation, merge, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::{Error, bulk};

use crate::bulk::Job;
use crate::fixture::{Fixture, Recorder};
use crate::hash_source::HashSource;
use crate::reembed::config as reembed_config;

const TOWNS: [&str; 8] = [
    "Köln", "München", "Bremen", "Dresden", "Leipzig", "Mainz", "Kassel", "Erfurt",
];

fn german(number: usize) -> Document {
    let town = TOWNS[number % TOWNS.len()];
    Document {
        key: format!("{number:03}"),
        title: town.to_owned(),
        text: format!(
            "In den alten Häusern von {town} wohnen seit vielen Jahren Familien, die ihre Geschichte für die Kinder \
             aufschreiben und jedes Jahr ein neues Buch mit der Nummer {number} herausgeben."
        ),
        metadata: None,
        place: None,
    }
}

fn english(number: usize) -> Document {
    let text = format!(
        "Families have lived for many years in the old houses of this town, and publish a new book of their history \
         with the number {number} every year."
    );
    Document {
        key: format!("{number:03}"),
        text,
        ..Document::default()
    }
}

fn build(fixture: &Fixture, documents: &[Document], language: Option<TextLanguage>) -> Vec<String> {
    fixture.write_corpus(documents);
    let recorder = Recorder::new(&|_| {});
    let config = BuildConfig {
        language,
        ..fixture.config()
    };
    build_index(&config, &mut HashSource::default(), recorder.control()).unwrap();
    recorder.lines.into_inner().unwrap()
}

/// Keys of the documents that a question finds, ascending.
fn found(fixture: &Fixture, question: &str) -> Vec<String> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let question = snapshot.question(question);
    let hits = snapshot
        .search_text(&question, 100, None, snapshot.statistics(), &Never)
        .unwrap()
        .hits;
    let mut keys: Vec<String> = hits
        .iter()
        .map(|hit| snapshot.key(hit.shard, hit.node).unwrap().to_owned())
        .collect();
    keys.sort_unstable();
    keys
}

fn language(fixture: &Fixture) -> TextLanguage {
    manifest::current(&fixture.index()).unwrap().language
}

#[test]
fn texts_tell_their_language_and_every_change_keeps_it() {
    let fixture = Fixture::empty();
    let all: Vec<Document> = (0..40).map(german).collect();
    let told = build(&fixture, &all, None);
    assert!(told.iter().any(|line| line.contains("German (`de`)")), "{told:?}");
    assert_eq!(
        (language(&fixture), found(&fixture, "Haus").len()),
        (TextLanguage::German, 40)
    );
    assert!(
        inspect(&fixture.index())
            .unwrap()
            .to_string()
            .contains("German (`de`), for BM25")
    );
    // A text of another language is analysed as those of the index are.
    fixture.upsert(Operation::Upsert, &[german(40), english(41)]).unwrap();
    fixture.delete(&["000".to_owned(), "001".to_owned()]).unwrap();
    assert_eq!(found(&fixture, "haus buches").len(), 39);
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!(
        (language(&fixture), found(&fixture, "haus").len()),
        (TextLanguage::German, 39)
    );
    reembed(
        &reembed_config(&fixture, 1_000),
        &mut HashSource::with_fingerprint("beef"),
        JobControl::silent(),
    )
    .unwrap();
    assert_eq!(
        (language(&fixture), found(&fixture, "haus").len()),
        (TextLanguage::German, 39)
    );
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
}

#[test]
fn a_named_language_counts_and_english_is_what_it_was() {
    let fixture = Fixture::empty();
    let all: Vec<Document> = (0..40).map(german).collect();
    let told = build(&fixture, &all, Some(TextLanguage::Any));
    assert!(!told.iter().any(|line| line.contains("BM25 analyses")), "{told:?}");
    assert_eq!(
        (found(&fixture, "Haus").len(), found(&fixture, "hausern").len()),
        (0, 40)
    );
    let fixtures = [Fixture::empty(), Fixture::empty()];
    let all: Vec<Document> = (0..40).map(english).collect();
    for (fixture, language) in fixtures.iter().zip([None, Some(TextLanguage::English)]) {
        build(fixture, &all, language);
        let manifest = fs_err::read_to_string(fixture.index().join("manifest-000001.json")).unwrap();
        assert!(!manifest.contains("language"), "earlier releases read it: {manifest}");
    }
    let [sampled, named] = fixtures.map(|fixture| found(&fixture, "houses"));
    assert_eq!((sampled.len(), &sampled), (40, &named));
}

#[test]
fn a_merge_analyses_all_texts_again() {
    let fixture = Fixture::empty();
    build(
        &fixture,
        &(0..40).map(german).collect::<Vec<_>>(),
        Some(TextLanguage::English),
    );
    fixture.upsert(Operation::Upsert, &[german(40)]).unwrap();
    fixture.delete(&["003".to_owned()]).unwrap();
    assert!(found(&fixture, "Haus").is_empty());
    let german_language = Some(TextLanguage::German);
    let some = MergeConfig {
        language: german_language,
        ..fixture.merge_config(false)
    };
    let refused = merge(&some, JobControl::silent()).unwrap_err();
    assert!(
        matches!(refused, Error::LanguageOfSome { .. }) && refused.to_string().contains("--all"),
        "{refused}"
    );
    // Of one shard that no merge would touch too.
    let all = MergeConfig {
        language: german_language,
        max_documents: 20,
        ..fixture.merge_config(true)
    };
    merge(&all, JobControl::silent()).unwrap();
    assert_eq!(
        (language(&fixture), found(&fixture, "Haus").len()),
        (TextLanguage::German, 40)
    );
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
}

#[test]
fn shards_of_two_languages_are_never_published_together() {
    let fixture = Fixture::empty();
    build(
        &fixture,
        &(0..40).map(german).collect::<Vec<_>>(),
        Some(TextLanguage::English),
    );
    let merged = AtomicBool::new(false);
    let stage = |stage: &str| {
        if stage == "graph" && !merged.swap(true, Ordering::Relaxed) {
            let all = MergeConfig {
                language: Some(TextLanguage::German),
                ..fixture.merge_config(true)
            };
            merge(&all, JobControl::silent()).unwrap();
        }
    };
    let recorder = Recorder::new(&stage);
    fixture.write_corpus(&[german(40)]);
    let config = fixture.upsert_config(Operation::Upsert);
    let refused = fixture.upsert_from("corpus.jsonl", &config, &mut HashSource::default(), recorder.control());
    assert!(matches!(refused, Err(Error::Contended)), "{refused:?}");
    assert_eq!(
        (language(&fixture), found(&fixture, "Haus").len()),
        (TextLanguage::German, 40)
    );
    // A manifest that was changed by hand is refused.
    let path = fixture.index().join(manifest::manifest_name(
        manifest::current(&fixture.index()).unwrap().generation,
    ));
    let other = fs_err::read_to_string(&path).unwrap().replace("\"de\"", "\"fr\"");
    let other: manifest::Manifest = serde_json::from_str(&other).unwrap();
    let refused = Snapshot::open_manifest(&fixture.index(), other, None)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("language") && refused.contains("fr") && refused.contains("de"),
        "{refused}"
    );
}

#[test]
fn a_bulk_job_has_the_language_of_its_sample() {
    let all: Vec<Document> = (0..60).map(german).collect();
    let job = Job::new(&[("a.jsonl", &all)]);
    job.run().unwrap();
    let plan = job.plan(&job.config()).unwrap().plan;
    assert_eq!(
        (plan.format_version, plan.job.language),
        (2, TextLanguage::German),
        "earlier releases refuse it"
    );
    assert_eq!(
        (language(&job.fixture), found(&job.fixture, "Haus").len()),
        (TextLanguage::German, 60)
    );
    let other = bulk::PlanConfig {
        language: Some(TextLanguage::French),
        ..job.config()
    };
    let refused = job.plan(&other).unwrap_err().to_string();
    assert!(refused.contains("language") && refused.contains("fr"), "{refused}");
}

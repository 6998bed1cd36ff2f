//! An index with the vectors of another model: the same documents, whatever came meanwhile; and what two generations
//! find.

use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_corpus::Document;
use dyad_corpus::embeddings::EmbeddingsHeader;
use dyad_files::space::boundless;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::change::{Operation, ReembedConfig, estimate, merge, reembed};
use dyad_indexer::compare::{GenerationQuestions, METRICS, compare_generations};
use dyad_indexer::control::JobControl;
use dyad_indexer::rollback::roll_back;

use crate::fixture::{Fixture, Recorder, documents, header};
use crate::hash_source::HashSource;
use crate::life::{APPEND, Life, check, document};

pub(crate) fn config(fixture: &Fixture, max_documents: u64) -> ReembedConfig {
    ReembedConfig {
        dimensions: None,
        index: fixture.index(),
        max_documents,
        threads: 1,
        queries: None,
        target: None,
        memory: None,
        free_space: boundless,
    }
}

#[test]
fn every_document_gets_a_vector_of_the_new_model() {
    for (most, shards) in [(1_000, 1), (15, 4)] {
        let mut life = Life::begin(31, 50);
        let gone = ["k0003", "k0007", "k0049"].map(str::to_owned);
        life.fixture.delete(&gone).unwrap();
        life.model.retain(|key, _| !gone.contains(key));
        let mut source = HashSource::with_fingerprint("beef");
        let outcome = reembed(&config(&life.fixture, most), &mut source, JobControl::silent()).unwrap();
        assert_eq!(
            (source.embedded, outcome.change.indexed, outcome.documents_after),
            (47, 47, 47)
        );
        let manifest = outcome.manifest.unwrap();
        assert_eq!(
            (manifest.model.fingerprint.as_str(), manifest.shards.len()),
            ("beef", shards)
        );
        check(&life.fixture, &life.model);
        assert_eq!(life.fixture.building(), 0);
        // And back, to the vectors that were there.
        roll_back(&life.fixture.index(), None, false).unwrap();
        assert_eq!(
            manifest::current(&life.fixture.index()).unwrap().model.fingerprint,
            "f00d"
        );
        check(&life.fixture, &life.model);
    }
}

#[test]
fn what_comes_meanwhile_is_in_it() {
    let life = Life::begin(32, 40);
    let (mut model, mut random) = (life.model.clone(), life.random);
    let fixture = &life.fixture;
    let appended: Vec<Document> = (100..108).map(|number| document(number, &mut random)).collect();
    let replaced: Vec<Document> = [4, 5, 6].map(|number| document(number, &mut random)).to_vec();
    let mut described: Vec<Document> = ["k0010", "k0011"].iter().map(|key| model[*key].clone()).collect();
    for document in &mut described {
        document.metadata = crate::fixture::metadata(&serde_json::json!({ "n": 9 }));
    }
    let rounds = AtomicUsize::new(0);
    let stage = |stage: &str| {
        if stage != "graph" && stage != "graph meanwhile" {
            return;
        }
        match rounds.fetch_add(1, Ordering::Relaxed) {
            // While the graph of all documents is built.
            0 => {
                fixture.upsert(APPEND, &appended).unwrap();
                fixture.delete(&["k0001".to_owned(), "k0104".to_owned()]).unwrap();
                fixture.upsert(Operation::Upsert, &replaced).unwrap();
                fixture.update_metadata(&described).unwrap();
                merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
            }
            // While that of what came is.
            1 => {
                fixture
                    .delete(&["k0005".to_owned(), "k0020".to_owned(), "k0101".to_owned()])
                    .unwrap();
                fixture.upsert(Operation::Upsert, &appended[4..5]).unwrap();
            }
            _ => {}
        }
    };
    let recorder = Recorder::new(&stage);
    let mut source = HashSource::with_fingerprint("beef");
    let outcome = reembed(&config(fixture, 1_000), &mut source, recorder.control()).unwrap();
    assert!(
        rounds.load(Ordering::Relaxed) >= 3,
        "{:?}",
        recorder.lines.lock().unwrap()
    );
    model.extend(
        appended
            .iter()
            .chain(&replaced)
            .chain(&described)
            .map(|document| (document.key.clone(), document.clone())),
    );
    for key in ["k0001", "k0005", "k0020", "k0101"] {
        model.remove(key);
    }
    assert_eq!(outcome.manifest.unwrap().model.fingerprint, "beef");
    assert_eq!(outcome.documents_after, model.len() as u64);
    check(fixture, &model);
    // A merge alone moved all documents, and none of them was embedded again for that: 40, then 7 appended, 3 replaced
    // and 2 described, then the one that came back.
    assert_eq!(source.embedded, 40 + 7 + 3 + 2 + 1);
    assert_eq!(fixture.building(), 0);
}

#[test]
fn a_sample_tells_what_it_would_take_and_failures_change_nothing() {
    let fixture = Fixture::new(600);
    fixture.build().unwrap();
    let before = fixture.files();
    let mut source = HashSource::with_fingerprint("beef");
    let told = estimate(&config(&fixture, 1_000), &mut source, JobControl::silent()).unwrap();
    assert_eq!((told.documents, told.sampled, source.embedded), (600, 256, 256));
    let text: usize = documents(600)
        .iter()
        .map(|document| document.title.len() + document.text.len())
        .sum();
    assert!(
        told.text_bytes.abs_diff(text as u64) < text as u64 / 50,
        "{} {text}",
        told.text_bytes
    );
    assert!(told.disk_bytes > 600 * 24 * 4 && told.memory_bytes > told.disk_bytes);
    let error = reembed(
        &config(&fixture, 1_000),
        &mut HashSource::default(),
        JobControl::silent(),
    )
    .unwrap_err();
    assert!(matches!(error, Error::SameModel { generation: 1, .. }), "{error}");
    // A vector that is none.
    let mut source = HashSource::with_fingerprint("beef");
    source.change = Box::new(|number, row| {
        if number == 300 {
            row.fill(f32::NAN);
        }
    });
    assert!(reembed(&config(&fixture, 1_000), &mut source, JobControl::silent()).is_err());
    assert_eq!((fixture.files(), fixture.building()), (before, 0));
    // Another model was published meanwhile.
    let stage = |stage: &str| {
        if stage == "graph" {
            reembed(
                &config(&fixture, 1_000),
                &mut HashSource::with_fingerprint("cafe"),
                JobControl::silent(),
            )
            .unwrap();
        }
    };
    let recorder = Recorder::new(&stage);
    let error = reembed(
        &config(&fixture, 1_000),
        &mut HashSource::with_fingerprint("beef"),
        recorder.control(),
    )
    .unwrap_err();
    assert!(matches!(error, Error::Contended), "{error}");
    assert_eq!(manifest::current(&fixture.index()).unwrap().model.fingerprint, "cafe");
}

#[test]
fn generations_are_compared_by_what_they_find() {
    let fixture = Fixture::new(60);
    fixture.build().unwrap();
    let mut source = HashSource::with_fingerprint("beef");
    // Of every third document the vector points away from where it was.
    source.change = Box::new(|number, row| {
        if number % 3 == 0 {
            for value in row.iter_mut() {
                *value = -*value;
            }
        }
    });
    reembed(&config(&fixture, 1_000), &mut source, JobControl::silent()).unwrap();
    // Each question is the text of a document.
    let questions: Vec<Document> = documents(30)
        .into_iter()
        .map(|document| Document {
            key: format!("q-{}", document.key),
            metadata: None,
            ..document
        })
        .collect();
    let of = |fingerprint: &str| {
        let mut header: EmbeddingsHeader = header();
        header.tower = "question".to_owned();
        header.model.fingerprint = fingerprint.to_owned();
        header
    };
    fixture.write_embeddings("before", of("f00d"), &questions);
    fixture.write_embeddings("after", of("beef"), &questions);
    let line = |question: &Document| format!("{}\t{}\t1", question.key, &question.key[2..]);
    let lines = questions.iter().map(line).collect::<Vec<_>>().join("\n");
    fs_err::write(
        fixture.path("qrels.tsv"),
        format!("query-id\tcorpus-id\tscore\n{lines}\n"),
    )
    .unwrap();
    let asked = |generation: u64, name: &str| GenerationQuestions {
        generation,
        questions: fixture.path(name),
    };
    let qrels = fixture.path("qrels.tsv");
    let compare = |first: &GenerationQuestions, second: &GenerationQuestions| {
        compare_generations(
            &fixture.index(),
            [first, second],
            10,
            Some(&qrels),
            JobControl::silent(),
        )
    };
    let (before, after) = (asked(1, "before"), asked(2, "after"));
    let same = compare(&before, &before).unwrap();
    assert!((same.overlap - 1.0).abs() < 1e-9 && (same.same_first - 1.0).abs() < 1e-9 && same.questions == 30);
    let compared = compare(&before, &after).unwrap();
    // The documents in their order of shards and nodes decide which were turned: those of whose vector the question is
    // the opposite are last.
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let exact = |question: &Document| {
        let row = crate::fixture::row_of(&question.passage());
        let (shard, node) = snapshot.find(&question.key[2..]).unwrap().unwrap();
        let mut stored = Vec::new();
        snapshot.shards()[shard].dense.rows().decode(node, &mut stored);
        row.iter().zip(&stored).map(|(left, right)| left * right).sum::<f32>() > 0.5
    };
    let still = questions.iter().filter(|question| exact(question)).count() as f64 / 30.0;
    assert!(still > 0.4 && still < 0.9);
    assert!(
        (compared.same_first - still).abs() < 1e-9 && compared.overlap < 0.95,
        "{compared:?}"
    );
    assert!(compared.furthest.windows(2).all(|two| two[0].1 <= two[1].1) && compared.furthest.len() == 5);
    let (metric, mrr) = &compared.metrics[0];
    assert_eq!(
        (*metric, mrr.questions, compared.metrics.len()),
        (METRICS[0], 30, METRICS.len())
    );
    assert!(
        (mrr.first - 1.0).abs() < 1e-9 && mrr.second < still + 0.1 && mrr.p_randomisation < 0.01,
        "{mrr:?}"
    );
    for (first, second, expected) in [
        (&before, &asked(2, "before"), "the model of generation 2"),
        (&asked(1, "after"), &after, "the model of generation 1"),
        (&asked(1, "embeddings"), &after, "tower: expected question"),
    ] {
        let message = compare(first, second).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    }
    fixture.write_embeddings("fewer", of("beef"), &questions[1..]);
    let message = compare(&before, &asked(2, "fewer")).unwrap_err().to_string();
    assert!(message.contains("`q-doc-0000` is in one of them alone"), "{message}");
}

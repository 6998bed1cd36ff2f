//! Indexes of the first values of a model's vectors: every way in which vectors come cuts them alike, and others are
//! refused.

use dyad_corpus::Document;
use dyad_corpus::logit_scale::{documents as paired_documents, estimate, questions};
use dyad_index::manifest::{self, Manifest};
use dyad_index::snapshot::{DenseParams, SearchMode};
use dyad_index::storage::WriteLock;
use dyad_index::verify::verify_current;
use dyad_index::{FusionMethod, FusionRecord, LearnedFrom, Never, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::bulk;
use dyad_indexer::change::{Operation, merge, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::FileSource;
use dyad_proto::v1;
use tonic::Code;

use crate::bulk::{Job, some};
use crate::command_line::{build, dyad_indexer, text};
use crate::encoder::connect;
use crate::encoder_service::{encoder_service, tower_row};
use crate::fixture::{DIM, Fixture, document, documents, header, row_of};
use crate::hash_source::HashSource;
use crate::reembed::config;
use crate::serve::{message, serve_with};
use crate::serve_vectors::upsert;

const APPEND: Operation = Operation::Append { skip_existing: false };

/// By the definition: the first values, divided by their length.
fn first(row: &[f32], kept: usize) -> Vec<f32> {
    let mut squares = 0.0;
    for value in &row[..kept] {
        squares += f64::from(*value) * f64::from(*value);
    }
    row[..kept]
        .iter()
        .map(|value| (f64::from(*value) / squares.sqrt()) as f32)
        .collect()
}

fn cut(fixture: &Fixture, kept: usize) -> BuildConfig {
    BuildConfig {
        dimensions: Some(kept),
        ..fixture.config()
    }
}

fn current(fixture: &Fixture) -> Manifest {
    manifest::current(&fixture.index()).unwrap()
}

/// The index has the first `kept` values of these documents' vectors, and finds by them what is nearest.
fn check(fixture: &Fixture, all: &[Document], kept: usize) {
    assert_eq!(verify_current(&fixture.index()).unwrap().problems, [""; 0]);
    let model = current(fixture).model;
    let full = (kept < DIM).then_some(DIM);
    assert_eq!((model.dim, model.full_dim), (kept, full));
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    assert_eq!(snapshot.len(), all.len());
    let rows: Vec<Vec<f32>> = all
        .iter()
        .map(|document| first(&row_of(&document.passage()), kept))
        .collect();
    for (document, expected) in all.iter().zip(&rows) {
        let (shard, node) = snapshot.find(&document.key).unwrap().unwrap();
        let stored = snapshot.shards()[shard].dense.vector(node).unwrap();
        let apart = stored.iter().zip(expected).map(|(one, other)| (one - other).abs());
        assert!(
            stored.len() == kept && apart.fold(0.0, f32::max) < 1e-6,
            "{}",
            document.key
        );
    }
    let question = first(&row_of("a question"), kept);
    let params = DenseParams {
        k: 5,
        mode: SearchMode::Exact,
    };
    let found = snapshot
        .search_dense(&[&question], &params, None, &Never)
        .unwrap()
        .remove(0);
    let mut expected: Vec<(f32, &str)> = rows
        .iter()
        .zip(all)
        .map(|(row, document)| {
            let score = row.iter().zip(&question).map(|(one, other)| one * other).sum();
            (score, document.key.as_str())
        })
        .collect();
    expected.sort_by(|one, other| other.0.total_cmp(&one.0));
    let keys = found.hits.iter().map(|hit| snapshot.key(hit.shard, hit.node).unwrap());
    let expected: Vec<&str> = expected.iter().take(5).map(|(_, key)| *key).collect();
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn every_change_of_the_index_cuts_vectors_alike_without_being_told() {
    let fixture = Fixture::new(60);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&cut(&fixture, 7), &mut source, JobControl::silent()).unwrap();
    assert_eq!(current(&fixture).format_version, 4, "earlier releases refuse it");
    let mut all = documents(60);
    check(&fixture, &all, 7);
    let more: Vec<Document> = (60..75).map(document).collect();
    fixture.upsert(APPEND, &more).unwrap();
    all.extend(more);
    check(&fixture, &all, 7);
    "another text".clone_into(&mut all[3].text);
    fixture.upsert(Operation::Upsert, &all[3..4]).unwrap();
    fixture.delete(&[all.remove(5).key]).unwrap();
    check(&fixture, &all, 7);
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    check(&fixture, &all, 7);
    // Another model, and then the same one with more of its values.
    let mut source = HashSource::with_fingerprint("beef");
    reembed(&config(&fixture, 1_000), &mut source, JobControl::silent()).unwrap();
    check(&fixture, &all, 7);
    for kept in [12, DIM] {
        let wider = dyad_indexer::change::ReembedConfig {
            dimensions: Some(kept),
            ..config(&fixture, 1_000)
        };
        reembed(&wider, &mut source, JobControl::silent()).unwrap();
        check(&fixture, &all, kept);
    }
    assert_eq!(
        current(&fixture).format_version,
        2,
        "whole again, as earlier releases write it"
    );
}

#[test]
fn a_build_over_an_index_keeps_what_that_keeps_and_another_number_is_another_space() {
    let fixture = Fixture::new(40);
    let again = |config: &BuildConfig| {
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        build_index(config, &mut source, JobControl::silent())
    };
    for wrong in [0, DIM + 1] {
        let error = again(&cut(&fixture, wrong)).unwrap_err().to_string();
        assert!(
            error.contains("`dimensions`: expected 1 to 24") && error.ends_with(&format!("got {wrong}")),
            "{error}"
        );
    }
    again(&cut(&fixture, 7)).unwrap();
    again(&fixture.config()).unwrap();
    check(&fixture, &documents(40), 7);
    let refused = again(&cut(&fixture, 8)).unwrap_err();
    assert!(matches!(refused, Error::OtherModel { .. }), "{refused:?}");
    let refused = refused.to_string();
    assert!(
        refused.contains("7 of 24 values") && refused.contains("8 of 24 values"),
        "{refused}"
    );
    again(&BuildConfig {
        new_model: true,
        ..cut(&fixture, DIM)
    })
    .unwrap();
    check(&fixture, &documents(40), DIM);
}

#[test]
fn vectors_that_are_cut_already_are_taken_and_other_lengths_are_refused() {
    let fixture = Fixture::new(30);
    let array = |name: &str, kept: usize, numbers: std::ops::Range<usize>| {
        let rows: Vec<f32> = numbers
            .clone()
            .flat_map(|number| first(&row_of(&document(number).passage()), kept))
            .collect();
        dyad_files::npy::write(&fixture.path(name), &[numbers.len(), kept], &rows).unwrap();
        let lines: Vec<String> = numbers
            .map(|number| crate::fixture::line_of(&document(number)))
            .collect();
        fs_err::write(fixture.path("more.jsonl"), lines.join("\n")).unwrap();
    };
    let queries: Vec<f32> = (0..20)
        .flat_map(|number| row_of(&format!("question {number}")))
        .collect();
    dyad_files::npy::write(&fixture.path("queries.npy"), &[20, DIM], &queries).unwrap();
    let queries = fixture.path("queries.npy").display().to_string();
    let built = build(
        &fixture,
        &["--dimensions", "9", "--vector-type", "f32", "--queries", &queries],
    );
    assert!(built.status.success(), "{}", text(&built.stderr));
    let append = |vectors: &str| {
        let output = dyad_indexer()
            .args(["append", "--index"])
            .arg(fixture.index())
            .arg("--corpus")
            .arg(fixture.path("more.jsonl"))
            .arg("--vectors")
            .arg(fixture.path(vectors))
            .output()
            .unwrap();
        (output.status.success(), text(&output.stderr))
    };
    array("whole.npy", DIM, 30..35);
    let (appended, said) = append("whole.npy");
    assert!(appended, "{said}");
    array("cut.npy", 9, 35..40);
    let (appended, said) = append("cut.npy");
    assert!(appended, "{said}");
    check(&fixture, &documents(40), 9);
    array("other.npy", 10, 40..41);
    let (is_done, told) = append("other.npy");
    assert!(
        !is_done && told.contains("9 of 24 values") && told.contains("10 values"),
        "{told}"
    );
    let output = dyad_indexer()
        .arg("inspect")
        .arg("--index")
        .arg(fixture.index())
        .output()
        .unwrap();
    let told = text(&output.stdout);
    assert!(told.contains("hash, 9 of 24 values, cosine"), "{told}");
}

#[test]
fn an_encoder_service_measures_the_logit_scale_of_what_is_kept() {
    let fixture = Fixture::new(40);
    let server = encoder_service();
    build_index(
        &cut(&fixture, 16),
        &mut connect(&server.url).unwrap(),
        JobControl::silent(),
    )
    .unwrap();
    check(&fixture, &documents(40), 16);
    let rows = |texts: Vec<String>| -> Vec<f32> { texts.iter().flat_map(|text| first(&tower_row(text), 16)).collect() };
    let expected = estimate(&rows(questions()), &rows(paired_documents()), 16);
    assert!(
        expected.is_some() && current(&fixture).logit_scale == expected,
        "{expected:?}"
    );

    // Embeddings say what that of whole vectors is, which is not theirs once they are cut.
    let fixture = Fixture::empty();
    fixture.write_corpus(&documents(30));
    let header = dyad_corpus::embeddings::EmbeddingsHeader {
        logit_scale: Some(31.5),
        ..header()
    };
    fixture.write_embeddings("embeddings", header, &documents(30));
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&cut(&fixture, 16), &mut source, JobControl::silent()).unwrap();
    assert_eq!(current(&fixture).logit_scale, None);
}

#[test]
fn what_was_learned_for_other_numbers_of_values_counts_as_absent() {
    let fixture = Fixture::new(30);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&cut(&fixture, 9), &mut source, JobControl::silent()).unwrap();
    let learned_from = LearnedFrom {
        data: "d".into(),
        split: "dev".into(),
        questions: 30,
        dense: 0.5,
        bm25: 0.4,
        default: 0.6,
        learned: 0.7,
    };
    for (space, counts) in [("f00d", false), ("f00d/8", false), ("f00d/9", true)] {
        let record = FusionRecord::new(space.into(), FusionMethod::WeightedSum, 0.4, learned_from.clone());
        let lock = WriteLock::acquire(&fixture.index()).unwrap();
        record.save(&fixture.index(), &lock).unwrap();
        drop(lock);
        assert_eq!(
            Snapshot::open(&fixture.index()).unwrap().fusion().is_some(),
            counts,
            "{space}"
        );
        assert_eq!(inspect(&fixture.index()).unwrap().fusion.is_some(), counts, "{space}");
    }
}

#[test]
fn a_server_of_changes_cuts_what_clients_send() {
    let fixture = Fixture::new(20);
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&cut(&fixture, 5), &mut source, JobControl::silent()).unwrap();
    let serving = serve_with(fixture.index().to_str().unwrap(), &["--merge", "never"]);
    let request = |number: usize, values: Vec<f32>| v1::UpsertRequest {
        documents: vec![message(number)],
        vectors: vec![v1::DocumentVector { values }],
        fingerprint: "f00d".into(),
        ..v1::UpsertRequest::default()
    };
    let row = row_of("sent");
    upsert(&serving, vec![request(30, row.clone()), request(31, first(&row, 5))]).unwrap();
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let stored = |number: usize| {
        let (shard, node) = snapshot.find(&message(number).key).unwrap().unwrap();
        snapshot.shards()[shard].dense.vector(node).unwrap()
    };
    let expected = first(&row, 5);
    for number in [30, 31] {
        let apart = stored(number)
            .into_iter()
            .zip(&expected)
            .map(|(one, other)| (one - other).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-6, "{number}");
    }
    let refused = upsert(&serving, vec![request(32, vec![1.0; 6])]).unwrap_err();
    assert!(
        refused.code() == Code::InvalidArgument && refused.message().contains("expected 24 or 5 values"),
        "{refused}"
    );
}

#[test]
fn a_bulk_job_cuts_vectors_and_the_next_one_does_so_too() {
    let all = some(0..60);
    let job = Job::new(&[("a.jsonl", &all)]);
    let planned = job
        .plan(&bulk::PlanConfig {
            dimensions: Some(11),
            ..job.config()
        })
        .unwrap();
    assert_eq!(planned.plan.format_version, 3, "earlier releases would keep all values");
    let count = planned.plan.job.partitions.len();
    (0..count).for_each(|partition| assert!(job.embed(partition).unwrap()));
    (0..planned.plan.job.shards.len()).for_each(|shard| assert!(job.shard(shard).unwrap()));
    assert!(job.commit().unwrap());
    assert_eq!(current(&job.fixture).format_version, 4);
    check(&job.fixture, &all, 11);
    let next = job
        .plan(&bulk::PlanConfig {
            out: job.url("next"),
            ..job.config()
        })
        .unwrap();
    assert_eq!((next.plan.job.model.dim, next.plan.job.model.full_dim), (11, Some(DIM)));
}

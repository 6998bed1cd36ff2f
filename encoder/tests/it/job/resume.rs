//! Jobs over the output of an earlier one: what is kept, and what is embedded again.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsReader, EmbeddingsWriter, VectorType};
use dyad_encoder::embed::{EmbedOutcome, JobError};
use dyad_encoder::{Compute, Dtype, Model};

use super::{PART_ROWS, Place, cancelled, corpus};
use crate::fixture::{open, tiny};

#[test]
fn a_finished_run_is_not_done_again() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let before = fs_err::read(place.out().join("part-000003.npy")).unwrap();
    assert_eq!(place.run().unwrap(), EmbedOutcome::NothingToDo { documents: 30 });
    assert_eq!(fs_err::read(place.out().join("part-000003.npy")).unwrap(), before);
}

#[test]
fn an_interrupted_job_keeps_whole_parts_and_goes_on() {
    let place = Place::new(&corpus(0..30));
    let error = place.job().run(&place.encoder, &cancelled()).unwrap_err();
    assert!(matches!(error, JobError::Interrupted { rows: 0, .. }), "{error}");
    assert!(error.to_string().contains("same command again"), "{error}");
    place.report();
    // Only whole parts were recorded before a kill: take the last ones back.
    let record = place.out().join("embeddings.json");
    crate::fixture::edit(&record, |record| {
        record["complete"] = false.into();
        record["parts"].as_array_mut().unwrap().truncate(2);
        record["rows"] = (2 * PART_ROWS).into();
    });
    let report = place.report();
    assert_eq!((report.documents_kept, report.summary.rows), (2 * PART_ROWS, 30));
    place.assert_holds(0..30);
}

/// Every file of a directory with its content.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs_err::read_dir(dir).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                fs_err::read(entry.path()).unwrap(),
            )
        })
        .collect()
}

#[test]
fn changed_documents_are_embedded_and_all_others_used_again() {
    let place = Place::one_by_one(&corpus(0..30));
    place.report();
    // Documents kept with their parts, and one by one; the rest is new.
    let assert_becomes = |numbers: Vec<usize>, kept: u64, reused: u64| {
        place.write(&corpus(numbers.iter().copied()));
        let report = place.report();
        assert_eq!(
            (report.documents_kept, report.documents_reused),
            (kept, reused),
            "{numbers:?}"
        );
        let new = numbers.len() as u64 - kept - reused;
        assert_eq!(report.tokens > 0, new > 0);
        place.assert_holds(numbers.iter().copied());
        let truncated = EmbeddingsReader::open(&place.out()).unwrap().truncated();
        assert_eq!(truncated, Some(place.truncated(numbers.iter().copied())), "{numbers:?}");
        let fresh = Place::one_by_one(&corpus(numbers));
        fresh.report();
        assert!(
            files(&place.out()) == files(&fresh.out()),
            "byte for byte what a fresh run writes"
        );
    };
    // One in the middle, one more at the start, one away, all backwards, the end away, more at the end.
    assert_becomes((0..10).chain([100]).chain(11..30).collect(), PART_ROWS, 21);
    assert_becomes(
        [101].into_iter().chain(0..10).chain([100]).chain(11..30).collect(),
        0,
        30,
    );
    assert_becomes((1..10).chain([100]).chain(11..30).collect(), 0, 29);
    assert_becomes((1..30).rev().collect(), 0, 28);
    assert_becomes((11..30).rev().collect(), 2 * PART_ROWS, 3);
    assert_becomes((5..30).rev().collect(), 2 * PART_ROWS, 3);
    assert_becomes((200..220).collect(), 0, 0);
}

#[test]
fn what_a_run_that_was_ended_has_set_aside_is_used_again() {
    let place = Place::one_by_one(&corpus(0..30));
    place.report();
    let fresh = Place::one_by_one(&corpus([100].into_iter().chain(0..30)));
    fresh.report();
    place.write(&corpus([100].into_iter().chain(0..30)));
    // Ended after the old parts were set aside.
    let error = place.job().run(&place.encoder, &cancelled()).unwrap_err();
    assert!(matches!(error, JobError::Interrupted { .. }), "{error}");
    let mut writer = EmbeddingsWriter::open(&place.out(), header(&place)).unwrap();
    writer.set_aside(0).unwrap();
    drop(writer);
    let report = place.report();
    assert_eq!(
        (report.documents_kept, report.documents_reused, report.summary.rows),
        (0, 30, 31)
    );
    assert!(files(&place.out()) == files(&fresh.out()));
}

fn header(place: &Place) -> EmbeddingsHeader {
    let info = place.encoder.info();
    let model = EmbeddingsReader::open(&place.out()).unwrap().model().clone();
    assert_eq!(model.fingerprint, info.fingerprint);
    let (tower, dtype) = ("answer".into(), Some("f32".into()));
    let two_towers = Some(info.has_two_towers);
    EmbeddingsHeader {
        model,
        tower,
        vectors: VectorType::F32,
        part_rows: PART_ROWS,
        dtype,
        two_towers,
        logit_scale: None,
        context: PassageContext::default(),
    }
}

#[test]
fn another_dtype_does_not_continue() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let int8 = Compute {
        dtype: Dtype::Int8,
        ..Compute::default()
    };
    let int8 = Model::open(&tiny("newer-dense"), &int8).unwrap();
    let refused = |what: &str| {
        let message = place.job().run(&int8, &JobCancellation::new()).unwrap_err().to_string();
        assert!(
            message.ends_with(
                "it was made with another dtype: expected int8, got f32. Choose another `--out`, or remove the directory"
            ),
            "{what}: {message}"
        );
    };
    refused("a complete set");
    let record = place.out().join("embeddings.json");
    crate::fixture::edit(&record, |record| {
        assert_eq!(record["dtype"], "f32");
        record["complete"] = false.into();
        record["parts"].as_array_mut().unwrap().truncate(2);
        record["rows"] = (2 * PART_ROWS).into();
    });
    refused("half a set");
    place.report();
    place.assert_holds(0..30);
}

#[test]
fn another_model_does_not_continue() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let other = open(&tiny("classic-mean"));
    let message = place
        .job()
        .run(&other, &JobCancellation::new())
        .unwrap_err()
        .to_string();
    assert!(message.contains(&other.info().fingerprint), "{message}");
    place.assert_holds(0..30);
}

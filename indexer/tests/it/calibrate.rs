//! `calibrate`: recall and margins measured again by other questions, published without a rebuild.

use std::time::Duration;

use dyad_corpus::embeddings::EmbeddingsHeader;
use dyad_index::manifest::CALIBRATIONS_DIR;
use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode};
use dyad_index::verify::verify_current as verify;
use dyad_index::{Certificate, Never, QuerySource, SearchHits, Snapshot};
use dyad_indexer::gc::gc;

use crate::certificate::write_npy;
use crate::command_line::{build, dyad_indexer, text};
use crate::encoder_service::{encoder_service, own_encoder};
use crate::fixture::{DIM, Fixture, documents, header, row_of};

fn certificates(fixture: &Fixture) -> Vec<Certificate> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    snapshot
        .shards()
        .iter()
        .map(|shard| shard.certificate().clone())
        .collect()
}

fn run(fixture: &Fixture, command: &str, more: &[&str]) -> (Option<i32>, String) {
    let output = dyad_indexer()
        .arg(command)
        .arg("--index")
        .arg(fixture.index())
        .args(more)
        .output()
        .unwrap();
    (
        output.status.code(),
        format!("{}{}", text(&output.stdout), text(&output.stderr)),
    )
}

fn sources(certificates: &[Certificate]) -> Vec<(QuerySource, u64)> {
    certificates
        .iter()
        .map(|certificate| (certificate.source, certificate.queries))
        .collect()
}

#[test]
fn questions_renew_what_searches_go_by_until_the_shards_are_written_again() {
    let fixture = Fixture::new(400);
    assert_eq!(
        build(&fixture, &["--shards", "2", "--threads", "1"]).status.code(),
        Some(0)
    );
    let questions = write_npy(&fixture, "q.npy", 70, DIM);
    let before = certificates(&fixture);
    assert_eq!(sources(&before), [(QuerySource::Documents, 200); 2]);

    let (code, said) = run(&fixture, "calibrate", &["--queries", &questions, "--dry-run"]);
    assert!(
        code == Some(0) && said.contains("dry run") && said.contains("for these 70 questions"),
        "{said}"
    );
    assert!(certificates(&fixture) == before && !fixture.index().join(CALIBRATIONS_DIR).exists());

    let (code, said) = run(&fixture, "calibrate", &["--queries", &questions]);
    assert!(code == Some(0) && said.contains("published generation 2"), "{said}");
    assert!(
        said.contains("it was") && said.contains("for the 200 documents before"),
        "{said}"
    );
    let after = certificates(&fixture);
    assert_eq!(sources(&after), [(QuerySource::HeldOut, 70); 2]);
    assert_ne!(after[0].calibration, before[0].calibration);
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
    let inspected = run(&fixture, "inspect", &[]).1;
    assert!(inspected.contains("certificate 70 held-out questions"), "{inspected}");

    // Deletions are measured by the same questions, and calibrated again with them.
    let keys: Vec<String> = (0..100).map(|number| format!("doc-{:04}", 3 * number)).collect();
    fixture.delete(&keys).unwrap();
    let deleted = certificates(&fixture);
    assert_eq!(sources(&deleted), [(QuerySource::HeldOut, 70); 2]);
    assert_eq!(deleted.iter().map(|certificate| certificate.vectors).sum::<u64>(), 300);
    let more = write_npy(&fixture, "more.npy", 90, DIM);
    assert_eq!(run(&fixture, "calibrate", &["--queries", &more]).0, Some(0));
    let again = certificates(&fixture);
    assert_eq!(sources(&again), [(QuerySource::HeldOut, 90); 2]);
    assert_eq!(again.iter().map(|certificate| certificate.vectors).sum::<u64>(), 300);
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);

    // What it says is what is found.
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let rows: Vec<Vec<f32>> = (0..90).map(|number| row_of(&format!("question {number}"))).collect();
    let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let search = |mode| {
        snapshot
            .search_dense(&rows, &DenseParams { k: 10, mode }, None, &Never)
            .unwrap()
    };
    let (found, exact) = (search(SearchMode::Adaptive { ef: 128 }), search(SearchMode::Exact));
    let common = |(found, exact): (&SearchHits<DocumentHit>, &SearchHits<DocumentHit>)| {
        found.hits.iter().filter(|hit| exact.hits.contains(hit)).count()
    };
    let recall = found.iter().zip(&exact).map(common).sum::<usize>() as f64 / 900.0;
    assert!(recall > 0.99, "{recall}");

    // Of a generation that is read, nothing is removed.
    drop(snapshot);

    // Shards that are written again are measured by the newest questions, and name no calibration.
    let merged = dyad_indexer::change::merge(&fixture.merge_config(true), dyad_indexer::control::JobControl::silent());
    merged.unwrap();
    assert_eq!(sources(&certificates(&fixture)), [(QuerySource::HeldOut, 90)]);
    assert_eq!(
        fs_err::read_dir(fixture.index().join(CALIBRATIONS_DIR))
            .unwrap()
            .count(),
        4
    );
    gc(&fixture.index(), 1, Duration::ZERO, false).unwrap();
    assert_eq!(
        fs_err::read_dir(fixture.index().join(CALIBRATIONS_DIR))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_rollback_brings_the_certificates_before_back_and_damage_is_found() {
    let fixture = Fixture::new(120);
    assert_eq!(build(&fixture, &["--threads", "1"]).status.code(), Some(0));
    let before = certificates(&fixture);
    let questions = write_npy(&fixture, "q.npy", 20, DIM);
    assert_eq!(run(&fixture, "calibrate", &["--queries", &questions]).0, Some(0));
    let after = certificates(&fixture);
    assert_eq!(run(&fixture, "rollback", &[]).0, Some(0));
    assert_eq!(certificates(&fixture), before);
    assert_eq!(run(&fixture, "rollback", &["--to", "2"]).0, Some(0));
    assert_eq!(certificates(&fixture), after);

    let of_calibration =
        |path: &std::path::PathBuf| path.parent().unwrap().parent().unwrap().ends_with(CALIBRATIONS_DIR);
    for (path, bytes) in fixture.files().into_iter().filter(|(path, _)| of_calibration(path)) {
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        fs_err::write(&path, damaged).unwrap();
        let problems = verify(&fixture.index()).unwrap().problems;
        assert!(
            problems.len() == 1 && problems[0].contains(path.to_str().unwrap()),
            "{problems:?}"
        );
        fs_err::write(&path, bytes).unwrap();
    }
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
}

#[test]
fn texts_are_embedded_by_the_question_tower() {
    let fixture = Fixture::new(60);
    assert_eq!(build(&fixture, &["--threads", "1"]).status.code(), Some(0));
    let log = fixture.path("asked.log");
    let lines: Vec<String> = (0..40).map(|number| format!("asked {}", number % 30)).collect();
    fs_err::write(&log, lines.join("\n")).unwrap();
    let log = log.to_str().unwrap();

    let (code, said) = run(&fixture, "calibrate", &["--queries", log]);
    assert!(
        code == Some(1) && said.contains("nothing embeds them") && said.contains("--encoder"),
        "{said}"
    );
    let service = encoder_service();
    let (code, said) = run(&fixture, "calibrate", &["--queries", log, "--encoder", &service.url]);
    assert!(code == Some(0) && said.contains("published generation 2"), "{said}");
    assert_eq!(sources(&certificates(&fixture)), [(QuerySource::HeldOut, 40)]);
    let (program, _) = own_encoder(&fixture, &service);
    let own = ["--queries", log, "--model", "m", "--encoder-program", &program];
    assert_eq!(run(&fixture, "calibrate", &own).0, Some(0));

    fs_err::write(fixture.path("none.log"), "\n\n").unwrap();
    let none = fixture.path("none.log");
    let (code, said) = run(
        &fixture,
        "calibrate",
        &["--queries", none.to_str().unwrap(), "--encoder", &service.url],
    );
    assert!(
        code == Some(1) && said.contains("none.log`, rows: expected at least 1, got 0"),
        "{said}"
    );
}

/// What is said of questions, where the index was built without: nothing, a note, or a warning.
#[test]
fn a_model_of_two_towers_is_warned_of_where_documents_are_the_questions() {
    let fixture = Fixture::new(60);
    let said = |more: &[&str]| text(&build(&fixture, &[&["--threads", "1"], more].concat()).stderr);
    let warning = "and the model embeds questions otherwise: `dyad-indexer calibrate --index";
    for (two_towers, expected) in [(None, false), (Some(false), false), (Some(true), true)] {
        fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
        fixture.write_embeddings(
            "embeddings",
            EmbeddingsHeader { two_towers, ..header() },
            &documents(60),
        );
        let said = said(&[]);
        assert!(
            said.contains("recall was measured with documents as questions"),
            "{said}"
        );
        assert_eq!(said.contains(warning), expected, "{said}");
    }
    let questions = write_npy(&fixture, "q.npy", 70, DIM);
    let said = said(&["--queries", &questions]);
    assert!(!said.contains("documents as questions"), "{said}");

    let service = encoder_service();
    let corpus = fixture.path("corpus.jsonl");
    let arguments = [
        "build",
        "--corpus",
        corpus.to_str().unwrap(),
        "--encoder",
        &service.url,
        "--threads",
        "1",
    ];
    let output = dyad_indexer()
        .args(arguments)
        .arg("--index")
        .arg(fixture.path("other"))
        .output()
        .unwrap();
    assert!(text(&output.stderr).contains(warning), "{}", text(&output.stderr));
}

#[test]
fn what_the_index_keeps_is_kept() {
    let sparse = ["--threads", "1", "--m", "4", "--ef-construction", "8"];
    let fixture = Fixture::new(500);
    assert_eq!(build(&fixture, &sparse).status.code(), Some(0));
    let least = |fixture: &Fixture| certificates(fixture)[0].least_recall(16).unwrap();
    // Of few questions some sets are easier than others.
    let recall_by = |count: usize| {
        let questions = write_npy(&fixture, &format!("{count}.npy"), count, DIM);
        assert_eq!(run(&fixture, "calibrate", &["--queries", &questions]).0, Some(0));
        (least(&fixture), questions)
    };
    let mut sets: Vec<(f64, String)> = [1, 2, 3, 5, 8, 13, 21, 34].map(recall_by).into();
    sets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let ((lowest, questions), (highest, easy)) = (&sets[0], &sets[sets.len() - 1]);
    assert!(lowest + 0.01 < *highest);

    let kept = Fixture::new(500);
    let target = f64::midpoint(*lowest, *highest).to_string();
    let gate = ["--queries", easy, "--min-recall", &target, "--at-ef", "16"];
    assert_eq!(build(&kept, &[&sparse[..], &gate].concat()).status.code(), Some(0));
    let before = certificates(&kept);
    let (code, said) = run(&kept, "calibrate", &["--queries", questions]);
    assert!(code == Some(1) && said.contains("below the target of"), "{said}");
    assert!(certificates(&kept) == before && !kept.index().join(CALIBRATIONS_DIR).exists());
}

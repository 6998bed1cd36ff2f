//! The embedding job in process: what it stores, what it keeps, what it makes again.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dyad_corpus::ReadOptions;
use dyad_corpus::embeddings::{EmbeddingsReader, VectorType};
use dyad_encoder::job::{EmbedJob, JobError, Outcome, Report};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Encoder, Tower};
use tempfile::TempDir;

use crate::fixture::{embed, open, tiny, worst};

const PART_ROWS: u64 = 8;

/// Numbered documents of varied length, the same for the same number.
fn document(number: usize) -> (String, String) {
    let words = ["the river", "a mountain", "the queen of light", "who was in the city", "water"];
    let text: Vec<&str> = (0..=number % 7).map(|word| words[(number + word) % words.len()]).collect();
    (format!("doc-{number}"), text.join(" "))
}

fn corpus(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut lines = String::new();
    for number in numbers {
        let (key, text) = document(number);
        writeln!(lines, "{}", serde_json::json!({"_id": key, "title": "The king", "text": text})).unwrap();
    }
    lines
}

struct Place {
    root: TempDir,
    encoder: Encoder,
}

impl Place {
    fn new(lines: &str) -> Self {
        let place = Self { root: tempfile::tempdir().unwrap(), encoder: open(&tiny("newer-dense")) };
        place.write(lines);
        place
    }

    fn write(&self, lines: &str) {
        fs_err::write(self.root.path().join("corpus.jsonl"), lines).unwrap();
    }

    fn out(&self) -> std::path::PathBuf {
        self.root.path().join("out")
    }

    fn job(&self) -> EmbedJob {
        EmbedJob {
            corpus: self.root.path().join("corpus.jsonl"),
            read: ReadOptions::default(),
            tower: Tower::Answer,
            budget: Budget { tokens: 60, rows: 5 },
            out: self.out(),
            vectors: VectorType::F32,
            part_rows: PART_ROWS,
        }
    }

    fn run(&self) -> Result<Outcome, JobError> {
        self.job().run(&self.encoder, &AtomicBool::new(false))
    }

    fn report(&self) -> Report {
        match self.run().unwrap() {
            Outcome::Embedded(report) => report,
            Outcome::NothingToDo { documents } => panic!("nothing to do for {documents} documents"),
        }
    }

    /// Checks that the directory holds exactly these documents with their vectors.
    #[track_caller]
    fn assert_holds(&self, numbers: impl IntoIterator<Item = usize>) {
        let (keys, texts): (Vec<String>, Vec<String>) = numbers.into_iter().map(document).unzip();
        let passages: Vec<String> = texts.iter().map(|text| format!("The king {text}")).collect();
        let (stored_keys, stored): (Vec<String>, Vec<Vec<f32>>) =
            EmbeddingsReader::open(&self.out()).unwrap().map(Result::unwrap).unzip();
        assert_eq!(stored_keys, keys);
        assert!(worst(&stored, &embed(&self.encoder, Tower::Answer, &passages)) > 0.999_999);
    }
}

#[test]
fn documents_are_stored_in_order_with_their_passages_vectors() {
    let place = Place::new(&corpus(0..30));
    let report = place.report();
    assert_eq!((report.summary.rows, report.summary.parts, report.documents_kept), (30, 4, 0));
    assert!(report.tokens > 30);
    place.assert_holds(0..30);
    let reader = EmbeddingsReader::open(&place.out()).unwrap();
    let info = place.encoder.info();
    assert_eq!((reader.tower(), reader.dim()), ("answer", info.dim));
    assert_eq!((&reader.model().fingerprint, &reader.model().name), (&info.fingerprint, &info.name));
}

#[test]
fn a_finished_run_is_not_done_again() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let before = fs_err::read(place.out().join("part-000003.npy")).unwrap();
    assert_eq!(place.run().unwrap(), Outcome::NothingToDo { documents: 30 });
    assert_eq!(fs_err::read(place.out().join("part-000003.npy")).unwrap(), before);
}

#[test]
fn a_job_that_failed_goes_on_behind_its_whole_parts() {
    let good = corpus(0..30);
    let broken: String = good
        .lines()
        .enumerate()
        .map(|(i, line)| if i == 20 { "{broken\n".into() } else { format!("{line}\n") })
        .collect();
    let place = Place::new(&broken);
    let message = place.run().unwrap_err().to_string();
    assert!(message.contains("corpus.jsonl") && message.contains("21"), "{message}");
    assert!(EmbeddingsReader::open(&place.out()).is_err(), "incomplete sets are not read");
    // The window with the broken line was never embedded: nothing is half done.
    place.write(&good);
    place.report();
    place.assert_holds(0..30);
}

#[test]
fn an_interrupted_job_keeps_whole_parts_and_goes_on() {
    let place = Place::new(&corpus(0..30));
    let error = place.job().run(&place.encoder, &AtomicBool::new(true)).unwrap_err();
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

#[test]
fn changed_and_added_documents_are_embedded_again_from_their_part_on() {
    let place = Place::new(&corpus(0..30));
    place.report();
    place.write(&corpus((0..10).chain(100..120)));
    assert_eq!(place.report().documents_kept, PART_ROWS);
    place.assert_holds((0..10).chain(100..120));
    // The last part of 30 rows is short: documents behind it make it anew.
    place.write(&corpus((0..10).chain(100..130)));
    assert_eq!(place.report().documents_kept, 3 * PART_ROWS);
    place.assert_holds((0..10).chain(100..130));
    place.write(&corpus(0..10));
    assert_eq!(place.report().documents_kept, PART_ROWS);
    place.assert_holds(0..10);
    // Whole parts and nothing behind them.
    place.write(&corpus(0..16));
    place.report();
    place.write(&corpus(0..20));
    assert_eq!(place.report().documents_kept, 2 * PART_ROWS);
    place.assert_holds(0..20);
}

#[test]
fn another_model_does_not_continue() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let other = open(&tiny("classic-mean"));
    let message = place.job().run(&other, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(message.contains(&other.info().fingerprint), "{message}");
    place.assert_holds(0..30);
}

#[test]
fn a_corpus_that_cannot_be_read_leaves_nothing_behind() {
    for lines in ["", "{\"_id\": \"a\"}\n", "{\"_id\": \"a\", \"text\": \"  \"}\n", "not json\n"] {
        let place = Place::new(lines);
        place.run().unwrap_err();
        assert!(!place.out().exists(), "{lines}");
    }
    let place = Place::new("");
    let job = EmbedJob { corpus: Path::new("/no/such/corpus.jsonl").to_owned(), ..place.job() };
    let message = job.run(&place.encoder, &AtomicBool::new(false)).unwrap_err().to_string();
    assert!(message.contains("/no/such/corpus.jsonl"), "{message}");
}

#[test]
fn vectors_can_be_stored_in_half_the_bytes() {
    let place = Place::new(&corpus(0..30));
    let job = EmbedJob { vectors: VectorType::F16, ..place.job() };
    job.run(&place.encoder, &AtomicBool::new(false)).unwrap();
    let rows: Vec<Vec<f32>> = EmbeddingsReader::open(&place.out()).unwrap().map(|row| row.unwrap().1).collect();
    let texts: Vec<String> = (0..30).map(|number| format!("The king {}", document(number).1)).collect();
    let worst = worst(&rows, &embed(&place.encoder, Tower::Answer, &texts));
    assert!(worst > 0.999_99, "{worst}");
}

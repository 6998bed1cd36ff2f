//! The embedding job in process: what it stores, what it keeps, what it makes again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsReader, EmbeddingsWriter, VectorType};
use dyad_corpus::{PassageContext, ReadOptions};
use dyad_encoder::embed::{EmbedJob, EmbedOutcome, EmbedReport, JobError};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Compute, Dtype, Model, Tower};
use dyad_files::space::{ByteSize, boundless};
use tempfile::TempDir;

use crate::fixture::{embed, open, tiny, worst};

const PART_ROWS: u64 = 8;

/// Numbered documents of varied length, the same for the same number; some are longer than the model reads.
fn document(number: usize) -> (String, String) {
    let words = [
        "the river",
        "a mountain",
        "the queen of light",
        "who was in the city",
        "water",
    ];
    let count = if number % 9 == 8 { 40 } else { number % 7 + 1 };
    let text: Vec<&str> = (0..count).map(|word| words[(number + word) % words.len()]).collect();
    (format!("doc-{number}"), text.join(" "))
}

fn corpus(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut lines = String::new();
    for number in numbers {
        let (key, text) = document(number);
        writeln!(
            lines,
            "{}",
            serde_json::json!({"_id": key, "title": "The king", "text": text})
        )
        .unwrap();
    }
    lines
}

struct Place {
    root: TempDir,
    encoder: Model,
    budget: Budget,
}

impl Place {
    fn new(lines: &str) -> Self {
        let (root, encoder) = (tempfile::tempdir().unwrap(), open(&tiny("newer-dense")));
        let place = Self {
            root,
            encoder,
            budget: Budget { tokens: 60, rows: 5 },
        };
        place.write(lines);
        place
    }

    /// Each document a batch of its own: with a model as small as this one, the last bits of a vector depend on its
    /// batch.
    fn one_by_one(lines: &str) -> Self {
        Self {
            budget: Budget { tokens: 1, rows: 1 },
            ..Self::new(lines)
        }
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
            context: PassageContext::default(),
            budget: self.budget,
            out: self.out(),
            vectors: VectorType::F32,
            part_rows: PART_ROWS,
            refuse_long: false,
            free_space: boundless,
        }
    }

    fn run(&self) -> Result<EmbedOutcome, JobError> {
        self.job().run(&self.encoder, &JobCancellation::new())
    }

    fn report(&self) -> EmbedReport {
        match self.run().unwrap() {
            EmbedOutcome::Embedded(report) => report,
            EmbedOutcome::NothingToDo { documents } => panic!("nothing to do for {documents} documents"),
        }
    }

    /// How many of these documents the model truncates, by its tokenizer; some, and not all.
    fn truncated(&self, numbers: impl IntoIterator<Item = usize>) -> u64 {
        let tokenizer = self.encoder.tokenizer();
        let cut = |number| {
            let text = format!("The king {}", document(number).1);
            tokenizer.encode(Tower::Answer, &text).unwrap().truncated
        };
        let (cut, whole): (Vec<bool>, Vec<bool>) = numbers.into_iter().map(cut).partition(|cut| *cut);
        assert!(!cut.is_empty() && !whole.is_empty());
        cut.len() as u64
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

/// A job that was told to end before it began.
fn cancelled() -> JobCancellation {
    let cancel = JobCancellation::new();
    cancel.cancel();
    cancel
}

#[test]
fn documents_are_stored_in_order_with_their_passages_vectors() {
    let place = Place::new(&corpus(0..30));
    let report = place.report();
    assert_eq!(
        (report.summary.rows, report.summary.parts, report.documents_kept),
        (30, 4, 0)
    );
    assert!(report.tokens > 30);
    assert_eq!(report.documents_truncated, place.truncated(0..30));
    place.assert_holds(0..30);
    let reader = EmbeddingsReader::open(&place.out()).unwrap();
    let info = place.encoder.info();
    assert_eq!((reader.tower(), reader.dim()), ("answer", info.dim));
    assert_eq!(reader.truncated(), Some(report.documents_truncated));
    assert_eq!(
        (&reader.model().fingerprint, &reader.model().name),
        (&info.fingerprint, &info.name)
    );
}

#[test]
fn a_finished_run_is_not_done_again() {
    let place = Place::new(&corpus(0..30));
    place.report();
    let before = fs_err::read(place.out().join("part-000003.npy")).unwrap();
    assert_eq!(place.run().unwrap(), EmbedOutcome::NothingToDo { documents: 30 });
    assert_eq!(fs_err::read(place.out().join("part-000003.npy")).unwrap(), before);
}

#[test]
fn a_corpus_is_read_to_its_end_before_any_of_it_is_embedded() {
    let good = corpus(0..30);
    let broken: String = good
        .lines()
        .enumerate()
        .map(|(i, line)| {
            if i % 10 == 9 {
                "{broken\n".into()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    let place = Place::new(&broken);
    let message = place.run().unwrap_err().to_string();
    assert!(message.starts_with("3 bad records in "), "{message}");
    for line in ["corpus.jsonl:10: ", "corpus.jsonl:20: ", "corpus.jsonl:30: "] {
        assert!(message.contains(line), "{message}");
    }
    assert!(!place.out().exists());
    place.write(&good);
    place.report();
    // Nor does it cost what is there.
    place.write(&broken);
    place.run().unwrap_err();
    place.write(&good);
    assert_eq!(place.run().unwrap(), EmbedOutcome::NothingToDo { documents: 30 });
}

#[test]
fn flawed_records_have_no_rows() {
    let place = Place::new(&format!(
        "{}{{\"_id\": \"x\", \"text\": \" \"}}\n7\n{}",
        corpus(0..5),
        corpus(5..30)
    ));
    let rejects = place.root.path().join("rejects.jsonl");
    let read = ReadOptions {
        max_bad: Some(2),
        rejects: Some(rejects.clone()),
        ..ReadOptions::default()
    };
    let job = EmbedJob { read, ..place.job() };
    job.run(&place.encoder, &JobCancellation::new()).unwrap();
    place.assert_holds(0..30);
    let listed = fs_err::read_to_string(&rejects).unwrap();
    assert_eq!(
        listed.lines().count(),
        2,
        "each once, however often the corpus is read: {listed}"
    );
}

#[test]
fn a_disk_without_room_is_told_before_the_work() {
    let place = Place::new(&corpus(0..30));
    // 30 vectors of 4 bytes per value, 16 bytes for each text, and keys.
    let vectors = 30 * place.encoder.info().dim as u64 * 4;
    let keys: u64 = (0..30).map(|number| document(number).0.len() as u64 + 3).sum();
    let needed = vectors + 30 * 16 + keys;
    let run = |free_space| {
        EmbedJob {
            free_space,
            ..place.job()
        }
        .run(&place.encoder, &JobCancellation::new())
    };
    let message = run(|_| Ok(1_000)).unwrap_err().to_string();
    let expected = format!(
        "`{}` needs about {} of disk, and 1000 B are free. Free some space, use a directory on another disk, or start anyway \
         with `--skip-space-check`",
        place.out().display(),
        ByteSize(needed)
    );
    assert_eq!(message, expected);
    assert!(!place.out().exists());
    run(boundless).unwrap();
    // What already exists takes no more room.
    assert_eq!(run(|_| Ok(0)).unwrap(), EmbedOutcome::NothingToDo { documents: 30 });
    place.write(&corpus(0..24));
    run(|_| Ok(0)).unwrap();
    place.assert_holds(0..24);
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

#[test]
fn a_corpus_that_cannot_be_read_leaves_nothing_behind() {
    for lines in [
        "",
        "{\"_id\": \"a\"}\n",
        "{\"_id\": \"a\", \"text\": \"  \"}\n",
        "not json\n",
    ] {
        let place = Place::new(lines);
        place.run().unwrap_err();
        assert!(!place.out().exists(), "{lines}");
    }
    let place = Place::new("");
    let job = EmbedJob {
        corpus: Path::new("/no/such/corpus.jsonl").to_owned(),
        ..place.job()
    };
    let message = job
        .run(&place.encoder, &JobCancellation::new())
        .unwrap_err()
        .to_string();
    assert!(message.contains("/no/such/corpus.jsonl"), "{message}");
}

#[test]
fn vectors_can_be_stored_in_half_the_bytes() {
    let place = Place::new(&corpus(0..30));
    let job = EmbedJob {
        vectors: VectorType::F16,
        ..place.job()
    };
    job.run(&place.encoder, &JobCancellation::new()).unwrap();
    let rows: Vec<Vec<f32>> = EmbeddingsReader::open(&place.out())
        .unwrap()
        .map(|row| row.unwrap().1)
        .collect();
    let texts: Vec<String> = (0..30)
        .map(|number| format!("The king {}", document(number).1))
        .collect();
    let worst = worst(&rows, &embed(&place.encoder, Tower::Answer, &texts));
    assert!(worst > 0.999_99, "{worst}");
}

/// Document 8 is the first that is longer than the model reads.
#[test]
fn long_documents_are_refused_where_that_is_asked_for() {
    let place = Place::new(&corpus(0..20));
    let refuse = || {
        EmbedJob {
            refuse_long: true,
            ..place.job()
        }
        .run(&place.encoder, &JobCancellation::new())
    };
    let max = place.encoder.info().max_tokens;
    let refused = refuse().unwrap_err();
    assert!(
        matches!(&refused, JobError::LongText { key, max_tokens } if key == "doc-8" && *max_tokens == max),
        "{refused}"
    );
    // Not found among what an earlier run has embedded, either.
    place.run().unwrap();
    let refused = refuse().unwrap_err();
    assert!(matches!(&refused, JobError::LongKept { documents: 2, .. }), "{refused}");
    assert!(refused.to_string().contains("--on-long truncate"), "{refused}");
    // Of shorter ones, nothing is.
    place.write(&corpus(0..8));
    assert!(matches!(
        refuse().unwrap(),
        EmbedOutcome::Embedded(EmbedReport {
            documents_truncated: 0,
            ..
        })
    ));
}

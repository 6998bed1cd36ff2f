//! What a job stores, what it reports, and what it refuses.

use std::path::Path;

use dyad_command::JobCancellation;
use dyad_corpus::ReadOptions;
use dyad_corpus::embeddings::{EmbeddingsReader, VectorType};
use dyad_encoder::Tower;
use dyad_encoder::embed::{EmbedJob, EmbedOutcome, EmbedReport, JobError};
use dyad_files::space::{ByteSize, boundless};

use super::{Place, corpus, document};
use crate::fixture::{embed, worst};

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
fn vectors_can_be_stored_in_fewer_bytes() {
    let texts: Vec<String> = (0..30)
        .map(|number| format!("The king {}", document(number).1))
        .collect();
    for (vectors, least) in [
        (VectorType::F16, 0.999_99),
        (VectorType::Int8, 0.999),
        (VectorType::Uint8, 0.999),
        (VectorType::Binary, 0.6),
        (VectorType::Ubinary, 0.6),
    ] {
        let place = Place::new(&corpus(0..30));
        let job = EmbedJob {
            vectors,
            part_rows: 10,
            ..place.job()
        };
        let run = || job.run(&place.encoder, &JobCancellation::new()).unwrap();
        let rows = || -> Vec<Vec<f32>> {
            let reader = EmbeddingsReader::open(&place.out()).unwrap();
            reader.map(|row| row.unwrap().1).collect()
        };
        run();
        let before = rows();
        let worst = worst(&before, &embed(&place.encoder, Tower::Answer, &texts));
        assert!(worst > least, "{vectors:?}: {worst}");
        // Rows that are taken from the run before stay as they were, to the bit.
        place.write(&corpus(1..30));
        assert!(matches!(
            run(),
            EmbedOutcome::Embedded(EmbedReport {
                documents_reused: 29,
                ..
            })
        ));
        assert_eq!(rows(), before[1..], "{vectors:?}");
    }
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

//! The embedding job with passages that are read in their documents.

use std::fmt::Write as _;
use std::path::Path;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsReader, VectorType};
use dyad_corpus::{CorpusReader, Document, ReadOptions, Split};
use dyad_encoder::embed::{EmbedJob, EmbedOutcome, JobError};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Model, Tower};
use dyad_files::space::boundless;
use tempfile::TempDir;

use crate::fixture::{cosine, embed, open, tiny, worst};
use crate::late::by_formula;

const MODEL: &str = "classic-mean";

struct LateJob {
    root: TempDir,
    encoder: Model,
}

impl LateJob {
    fn new(model: &str) -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            encoder: open(&tiny(model)),
        }
    }

    fn write(&self, name: &str, lines: &str) {
        fs_err::write(self.root.path().join(name), lines).unwrap();
    }

    fn job(&self, read: &ReadOptions, context: &str, out: &str) -> EmbedJob {
        EmbedJob {
            corpus: self.root.path().join("corpus.jsonl"),
            read: read.clone(),
            tower: Tower::Answer,
            context: context.parse().unwrap(),
            budget: Budget { tokens: 60, rows: 5 },
            out: self.root.path().join(out),
            vectors: VectorType::F32,
            part_rows: 8,
            refuse_long: false,
            free_space: boundless,
        }
    }

    fn run(&self, read: &ReadOptions, context: &str, out: &str) -> Result<EmbedOutcome, JobError> {
        self.job(read, context, out).run(&self.encoder, &JobCancellation::new())
    }

    fn stored(&self, out: &str) -> Vec<(String, Vec<f32>)> {
        EmbeddingsReader::open(&self.root.path().join(out))
            .unwrap()
            .map(Result::unwrap)
            .collect()
    }

    /// By the formula, each passage alone.
    fn by_formula(&self, read: &ReadOptions, context: &str) -> Vec<(String, Vec<f32>)> {
        let reader = CorpusReader::open(&self.root.path().join("corpus.jsonl"), read).unwrap();
        let passages: Vec<Document> = reader.map(|passage| passage.unwrap().value).collect();
        let vectors = by_formula(&self.encoder, &passages, context.parse().unwrap());
        passages.into_iter().map(|passage| passage.key).zip(vectors).collect()
    }
}

/// Documents of some sentences, all of which one window holds.
fn documents(changed: Option<usize>) -> String {
    let mut lines = String::new();
    for number in 0..9 {
        let end = if changed == Some(number) {
            "It went home"
        } else {
            "It was water"
        };
        let text = format!("The king of {number}. He saw water. {end}.");
        writeln!(
            lines,
            "{}",
            serde_json::json!({"_id": format!("d{number}"), "title": "A river", "text": text})
        )
        .unwrap();
    }
    lines
}

fn split() -> ReadOptions {
    ReadOptions {
        split: Some(Split::new(4, 0).unwrap()),
        ..ReadOptions::default()
    }
}

fn assert_alike(got: &[(String, Vec<f32>)], expected: &[(String, Vec<f32>)]) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.0, expected.0);
        assert!(
            cosine(&got.1, &expected.1) > 0.999_99,
            "{}: {}",
            got.0,
            cosine(&got.1, &expected.1)
        );
    }
}

#[test]
fn vectors_are_those_of_the_formula_and_the_directory_says_so() {
    let place = LateJob::new(MODEL);
    place.write("corpus.jsonl", &documents(None));
    for context in ["title+late", "late:1"] {
        place.run(&split(), context, context).unwrap();
        assert_alike(&place.stored(context), &place.by_formula(&split(), context));
        let reader = EmbeddingsReader::open(&place.root.path().join(context)).unwrap();
        assert_eq!(reader.context(), context.parse().unwrap());
    }
    place.run(&split(), "none", "none").unwrap();
    let texts = place.stored("none");
    let alone = embed(&place.encoder, Tower::Answer, &["The king of 0.".to_owned()]).remove(0);
    assert!(cosine(&texts[0].1, &alone) > 0.999_999);
    // A directory of one kind takes no vectors of another.
    let refused = place
        .run(&split(), "title+late:0.7", "title+late")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("context") && refused.contains("title+late:0.5"),
        "{refused}"
    );
}

#[test]
fn a_sentence_that_changes_changes_its_neighbours() {
    let place = LateJob::new(MODEL);
    place.write("corpus.jsonl", &documents(None));
    place.run(&split(), "title+late", "out").unwrap();
    let before = place.stored("out");
    assert!(matches!(
        place.run(&split(), "title+late", "out").unwrap(),
        EmbedOutcome::NothingToDo { .. }
    ));
    place.write("corpus.jsonl", &documents(Some(5)));
    let EmbedOutcome::Embedded(report) = place.run(&split(), "title+late", "out").unwrap() else {
        panic!("it has changed")
    };
    // Of 27 passages the three of that document, of which one has another text.
    assert_eq!(
        (report.summary.rows, report.documents_kept + report.documents_reused),
        (27, 24)
    );
    let after = place.stored("out");
    assert_alike(&after, &place.by_formula(&split(), "title+late:0.5"));
    let same = |at: &usize| worst(&[before[*at].1.clone()], &[after[*at].1.clone()]) > 0.999_999;
    assert_eq!((0..27).filter(|at| !same(at)).collect::<Vec<_>>(), [15, 16, 17]);
}

#[test]
fn passages_may_say_where_they_stand_in_documents_of_another_file() {
    let place = LateJob::new(MODEL);
    let whole = |text: &str| format!("{}\n", serde_json::json!({"_id": "p", "text": text}));
    place.write("whole.jsonl", &whole("Na\u{ef}ve kings. The river  ran.\nWater."));
    let passage = |key: &str, text: &str, start: usize, end: usize| {
        let metadata = serde_json::json!({"document": "p", "start": start, "end": end});
        format!(
            "{}\n",
            serde_json::json!({"_id": key, "text": text, "metadata": metadata})
        )
    };
    let passages = [
        passage("b", "The river ran.", 13, 28),
        passage("a", "Na\u{ef}ve kings.", 0, 12),
    ]
    .concat();
    place.write("corpus.jsonl", &passages);
    let read = ReadOptions {
        documents: Some(place.root.path().join("whole.jsonl")),
        ..ReadOptions::default()
    };
    place.run(&read, "late", "out").unwrap();
    let (stored, mut reader) = (
        place.stored("out"),
        CorpusReader::open(Path::new(&place.root.path().join("corpus.jsonl")), &read).unwrap(),
    );
    assert_eq!(
        stored.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(),
        ["b", "a"]
    );
    let place_of_first = reader.next().unwrap().unwrap().value.place.unwrap();
    assert_eq!(&place_of_first.document()[place_of_first.bytes()], "The river  ran.");
    for (line, told) in [
        (passage("c", "Another text.", 0, 12), "got `Na"),
        (passage("c", "Water.", 29, 99), "within 35 characters, got 29 and 99"),
        (
            "{\"_id\": \"c\", \"text\": \"Water.\"}\n".to_owned(),
            "metadata `document`",
        ),
        (
            passage("c", "Water.", 29, 35).replace("\"p\"", "\"q\""),
            "a document of `--documents` (of a training `data.documents`), got `q`",
        ),
    ] {
        place.write("corpus.jsonl", &line);
        let refused = place.run(&read, "late", "other").unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn what_has_no_document_or_no_means_is_refused() {
    let place = LateJob::new(MODEL);
    place.write("corpus.jsonl", &documents(None));
    let refused = place
        .run(&ReadOptions::default(), "late", "out")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("`d0`") && refused.contains("--split") && refused.contains("--documents"),
        "{refused}"
    );
    let place = LateJob::new("roberta-cls");
    place.write("corpus.jsonl", &documents(None));
    let refused = place.run(&split(), "title+late", "out").unwrap_err().to_string();
    assert!(refused.contains("means of its token vectors"), "{refused}");
}

#[test]
fn what_is_left_out_of_a_vector_is_part_of_what_has_changed() {
    let place = LateJob::new(MODEL);
    let line = |title: &str, text: &str| format!("{}\n", serde_json::json!({"_id": "d", "title": title, "text": text}));
    let vector = |text: &str| embed(&place.encoder, Tower::Answer, &[text.to_owned()]).remove(0);
    // Both have one title and text, joined.
    for (title, text, embedded) in [
        ("", "the king saw", "the king saw"),
        ("the king", "saw", "saw"),
        ("water", "", "water"),
    ] {
        place.write("corpus.jsonl", &line(title, text));
        place.run(&ReadOptions::default(), "none", "out").unwrap();
        let stored = place.stored("out").remove(0).1;
        assert!(cosine(&stored, &vector(embedded)) > 0.999_999, "{title}, {text}");
    }
}

#[test]
fn a_passage_that_no_window_holds_is_told() {
    let place = LateJob::new(MODEL);
    let most = place.encoder.info().max_tokens;
    let text = format!("The king. {} The queen.", "water ".repeat(2 * most));
    place.write(
        "corpus.jsonl",
        &format!("{}\n", serde_json::json!({"_id": "d", "text": text})),
    );
    let read = ReadOptions {
        split: Some(Split::new(4 * most, 0).unwrap()),
        ..ReadOptions::default()
    };
    let EmbedOutcome::Embedded(report) = place.run(&read, "late", "out").unwrap() else {
        panic!("it is new")
    };
    assert_eq!((report.summary.rows, report.documents_truncated), (1, 1));
}

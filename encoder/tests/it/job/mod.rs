//! The embedding job in process.
//!
//! | file | what |
//! |---|---|
//! | `output.rs` | what it stores, reports and refuses |
//! | `resume.rs` | what it keeps of an earlier job, and what it embeds again |

use std::fmt::Write as _;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsReader, VectorType};
use dyad_corpus::{PassageContext, ReadOptions};
use dyad_encoder::embed::{EmbedJob, EmbedOutcome, EmbedReport, JobError};
use dyad_encoder::tokenize::Budget;
use dyad_encoder::{Model, Tower};
use dyad_files::space::boundless;
use tempfile::TempDir;

use crate::fixture::{embed, open, tiny, worst};

mod output;
mod resume;

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

//! 64 pairs, tiny models, settings, the binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use dyad_corpus::examples::{Passage, TrainingExample};
use dyad_encoder::data::{PairOptions, PairsBuilder, TokenizedPairs};
use dyad_encoder::model::VectorLength;
use dyad_encoder::model::{Model, create, create_over};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::train::Config;
use dyad_encoder::train::config::Stage;
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use dyad_encoder::{Compute, Tower};
use tempfile::TempDir;

use crate::fixture::tiny;

pub(super) const PAIRS: usize = 64;

/// Letters that are tokens of the tiny models.
const LETTERS: [char; 16] = [
    'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'q', 'r', 's', 't', 'u', 'v', 'w', 'x',
];

/// Question and answer `number`: no two are alike, and they have no letter in common.
pub(super) fn pair(number: usize) -> (String, String) {
    let letters = [number / 8, number % 8].map(|at| (LETTERS[at], LETTERS[8 + at]));
    let [(a, x), (b, y)] = letters;
    (format!("what {a} of {b} {b}"), format!("{y} {y} the {x}"))
}

pub(super) fn example(number: usize) -> TrainingExample {
    let (question, answer) = pair(number);
    TrainingExample {
        question,
        positives: vec![Passage::from_text(answer)],
        ..TrainingExample::default()
    }
}

/// All of them as JSON lines.
pub(super) fn lines() -> String {
    let line = |number| {
        let (question, answer) = pair(number);
        format!("{}\n", serde_json::json!({"question": question, "answer": answer}))
    };
    (0..PAIRS).map(line).collect()
}

/// The same as a BEIR folder with one split, `dev`.
pub(super) fn beir(folder: &Path) {
    fs_err::create_dir_all(folder.join("qrels")).unwrap();
    let of = |line: &dyn Fn(usize) -> String| (0..PAIRS).map(line).collect::<String>();
    let corpus = of(&|number| {
        format!(
            "{}\n",
            serde_json::json!({"_id": format!("a{number}"), "title": "", "text": pair(number).1})
        )
    });
    let queries = of(&|number| {
        format!(
            "{}\n",
            serde_json::json!({"_id": format!("q{number}"), "text": pair(number).0})
        )
    });
    let qrels = format!(
        "query-id\tcorpus-id\tscore\n{}",
        of(&|number| format!("q{number}\ta{number}\t1\n"))
    );
    fs_err::write(folder.join("corpus.jsonl"), corpus).unwrap();
    fs_err::write(folder.join("queries.jsonl"), queries).unwrap();
    fs_err::write(folder.join("qrels/dev.tsv"), qrels).unwrap();
}

pub(super) fn one_thread() -> Compute {
    Compute {
        threads: Some(1),
        ..Compute::default()
    }
}

/// A new model over a tiny model.
pub(super) fn model_dir(from: &str, sharing: &str, dim: usize) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create(
        &tiny(from),
        &to,
        &Creation {
            sharing: sharing.parse().unwrap(),
            dim,
            seed: 1,
        },
    )
    .unwrap();
    (folder, to)
}

/// A new model with a Transformer of one randomly initialised layer: it learns fast.
pub(super) fn small(sharing: &str, dim: usize) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let creation = Creation {
        sharing: sharing.parse().unwrap(),
        dim,
        seed: 1,
    };
    let encoder = NewEncoder::Transformer { layers: 1 };
    create_over(&tiny("classic-mean"), &to, &creation, encoder, Aggregation::Mean).unwrap();
    (folder, to)
}

pub(super) fn pairs(learned: &Model) -> Arc<TokenizedPairs> {
    let mut builder = PairsBuilder::new(learned.tokenizer(), PairOptions::default());
    builder
        .extend((0..PAIRS).map(|number| Ok::<_, std::convert::Infallible>(example(number))))
        .unwrap();
    Arc::new(builder.finish().unwrap())
}

/// The only stage of some settings.
pub(super) fn stage(settings: &str) -> Stage {
    Config::parse(settings).unwrap().stages.remove(0)
}

/// The share of the 64 questions whose own answer has the largest cosine.
pub(super) fn precision(learned: &Model) -> f64 {
    let texts = |tower: Tower| {
        let text = |number| {
            if tower == Tower::Question {
                pair(number).0
            } else {
                pair(number).1
            }
        };
        let tokens: Vec<Tokens> = (0..PAIRS)
            .map(|number| learned.tokenizer().encode(tower, &text(number)).unwrap())
            .collect();
        let states = learned
            .forward(tower, &tokens.iter().collect::<Vec<_>>(), VectorLength::Unit)
            .unwrap();
        states.vectors().detach()
    };
    let best = texts(Tower::Question)
        .matmul(&texts(Tower::Answer).transpose(0, 1))
        .argmax(1, false);
    let own = tch::Tensor::arange(PAIRS as i64, (tch::Kind::Int64, tch::Device::Cpu));
    best.eq_tensor(&own).sum(tch::Kind::Int64).int64_value(&[]) as f64 / PAIRS as f64
}

/// A folder with the pairs, a BEIR folder, and settings that train on them.
pub(super) struct Place {
    folder: TempDir,
}

impl Place {
    pub(super) fn new(settings: &str) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        fs_err::write(place.path("pairs.jsonl"), lines()).unwrap();
        beir(&place.path("beir"));
        place.settings(settings);
        place
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes `settings.toml`; the model, its sharing and the pairs are given.
    pub(super) fn settings(&self, settings: &str) {
        let model = tiny("classic-mean").display().to_string();
        let head = format!(
            "threads = 1\n[model]\npath = {model:?}\nsharing = \"ade-spl\"\ndim = 16\nencoder = \"transformer\"\nlayers = 1\n\
             [data]\npaths = [\"pairs.jsonl\"]\n"
        );
        fs_err::write(self.path("settings.toml"), format!("{head}{settings}")).unwrap();
    }

    /// `train` into a directory.
    pub(super) fn train(&self, out: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        command
            .args(["train", "--config", "settings.toml", "--out", out])
            .current_dir(self.folder.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Trains to the end; gives standard output.
    pub(super) fn trained(&self, out: &str) -> String {
        let output = self.train(out).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The last line of standard error of a run that must fail.
    pub(super) fn refusal(&self, out: &str) -> String {
        let output = self.train(out).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        message.lines().last().unwrap_or_default().to_owned()
    }
}

/// All weights of a model, file by file.
pub(super) fn weights(model_dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(model_dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() {
            found.extend(
                weights(&entry)
                    .into_iter()
                    .map(|(path, bytes)| (entry.join(path), bytes)),
            );
        } else if entry.extension().is_some_and(|extension| extension == "safetensors") {
            let bytes = fs_err::read(&entry).unwrap();
            found.push((PathBuf::from(entry.file_name().unwrap()), bytes));
        }
    }
    let relative = |path: &Path| path.strip_prefix(model_dir).unwrap_or(path).to_owned();
    let mut found: Vec<_> = found
        .into_iter()
        .map(|(path, bytes)| (relative(&path), bytes))
        .collect();
    found.sort();
    found
}

//! Answers that are read in their documents: a step against the formula, whole runs, what is refused.

use std::fmt::Write as _;
use std::process::Command;
use std::sync::Arc;

use dyad_corpus::examples::{Passage, TrainingExample};
use dyad_corpus::{CorpusReader, Document, PassageSpan, WholeDocuments};
use dyad_encoder::data::{
    DataError, ExampleContext, Last, PairOptions, PairsBuilder, Sampler, SamplerOptions, TokenizedPairs, TrainBatch,
    collate,
};
use dyad_encoder::{Model, Tower};
use tempfile::TempDir;

use super::fixture::{PAIRS, Place, example, model_dir, pair, weights};
use super::step::{apart, step};
use crate::fixture::{cosine, embed, open, tiny};
use crate::late::by_formula;

/// Passages of a document.
const OF_A_DOCUMENT: usize = 4;
const CONTEXT: &str = "late:0.5";

/// Where answer `number` stands.
fn span(number: usize) -> PassageSpan {
    let first = number / OF_A_DOCUMENT * OF_A_DOCUMENT;
    let before: usize = (first..number).map(|other| pair(other).1.chars().count() + 2).sum();
    let document = format!("d{}", number / OF_A_DOCUMENT);
    PassageSpan {
        document,
        start: before,
        end: before + pair(number).1.chars().count(),
    }
}

/// Each with four answers.
fn documents() -> String {
    let mut lines = String::new();
    for number in 0..PAIRS / OF_A_DOCUMENT {
        let answers = (0..OF_A_DOCUMENT).map(|at| pair(number * OF_A_DOCUMENT + at).1);
        let text = answers.collect::<Vec<_>>().join(". ");
        writeln!(
            lines,
            "{}",
            serde_json::json!({"_id": format!("d{number}"), "text": text})
        )
        .unwrap();
    }
    lines
}

/// Answer `number`, which says where it stands.
fn passage(number: usize) -> Passage {
    Passage {
        span: Some(span(number)),
        ..Passage::from_text(pair(number).1)
    }
}

struct Documents {
    folder: TempDir,
}

impl Documents {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs_err::write(folder.path().join("documents.jsonl"), documents()).unwrap();
        Self { folder }
    }

    fn context(&self) -> Option<Arc<ExampleContext>> {
        let file = self.folder.path().join("documents.jsonl");
        ExampleContext::open(CONTEXT.parse().unwrap(), &file)
            .unwrap()
            .map(Arc::new)
    }

    fn whole(&self) -> WholeDocuments {
        CorpusReader::whole_documents(&self.folder.path().join("documents.jsonl")).unwrap()
    }

    fn built(&self, model: &Model, examples: Vec<TrainingExample>) -> Result<TokenizedPairs, DataError> {
        let mut builder = PairsBuilder::new(model.tokenizer(), PairOptions::default()).in_context(self.context());
        builder.extend(examples.into_iter().map(Ok::<_, std::convert::Infallible>))?;
        builder.finish()
    }
}

/// Of 64 questions, each with a negative of its answer's document.
fn batch(documents: &Documents, model: &Model) -> TrainBatch {
    let examples = (0..PAIRS).map(|number| {
        let other = number / OF_A_DOCUMENT * OF_A_DOCUMENT + (number + 1) % OF_A_DOCUMENT;
        TrainingExample {
            positives: vec![passage(number)],
            negatives: vec![passage(other)],
            ..example(number)
        }
    });
    let pairs = documents.built(model, examples.collect()).unwrap();
    let options = SamplerOptions {
        seed: 3,
        batch: 24,
        negatives: 1,
        last: Last::Drop,
    };
    collate(&mut Sampler::new(Arc::new(pairs), options).unwrap())
}

/// The cross entropy of the cosines by the formula, of all answers of a batch for each of its questions.
fn loss_by_formula(documents: &Documents, encoder: &Model, batch: &TrainBatch) -> f64 {
    let whole = documents.whole();
    let answer_of = |tokens: &dyad_encoder::tokenize::Tokens| {
        let encoded = |number: &usize| encoder.tokenizer().encode(Tower::Answer, &pair(*number).1).unwrap();
        (0..PAIRS).find(|number| encoded(number).ids == tokens.ids).unwrap()
    };
    let numbers: Vec<usize> = batch.answers.iter().map(answer_of).collect();
    let document = |number: &usize| {
        let text = pair(*number).1;
        let place = whole.place_of(&span(*number), &text).unwrap();
        Document {
            key: String::new(),
            title: String::new(),
            text,
            metadata: None,
            place: Some(place),
        }
    };
    let passages: Vec<Document> = numbers.iter().map(document).collect();
    let answers = by_formula(encoder, &passages, CONTEXT.parse().unwrap());
    let columns = answers.len();
    let mut sum = 0.0;
    for (row, number) in numbers.iter().take(batch.questions.len()).enumerate() {
        let question = embed(encoder, Tower::Question, &[pair(*number).0]).remove(0);
        let score = |column: usize| cosine(&question, &answers[column]) / 0.05;
        let kept = (0..columns).filter(|column| !batch.excluded[row * columns + column]);
        let all: f64 = kept.map(|column| score(column).exp()).sum();
        sum -= score(row) - all.ln();
    }
    sum / batch.questions.len() as f64
}

#[test]
fn a_step_learns_from_the_vectors_of_the_formula_in_parts_too() {
    let documents = Documents::new();
    let (_folder, directory) = model_dir("classic-mean", "sde", 12);
    let encoder = open(&directory);
    let batch = batch(&documents, &encoder);
    assert_eq!((batch.answers.len(), batch.contexts.len()), (48, 48));
    let data =
        format!("[data]\ncontext = \"{CONTEXT}\"\ndocuments = \"documents.jsonl\"\n[loss]\ntemperature = 0.05\n");
    let batches = std::slice::from_ref(&batch);
    let (whole, expected) = step(&directory, &data, batches);
    let by_formula = loss_by_formula(&documents, &encoder, &batch);
    assert!(
        (whole.loss - by_formula).abs() < 1e-4 * by_formula,
        "{} {by_formula}",
        whole.loss
    );
    // Windows are read once, whichever answers stand in them.
    let read_once: std::collections::BTreeSet<&[u32]> = batch.contexts.iter().map(|window| &*window.ids).collect();
    let read = batch
        .questions
        .iter()
        .chain(&batch.answers)
        .map(|text| text.ids.len())
        .sum::<usize>();
    assert_eq!(
        whole.tokens,
        read + read_once.into_iter().map(<[u32]>::len).sum::<usize>()
    );
    for chunk in [1, 5, 48] {
        let (cached, updates) = step(&directory, &format!("[batch]\nchunk = {chunk}\n{data}"), batches);
        assert!((cached.loss - whole.loss).abs() < 1e-5 * whole.loss, "{chunk}");
        let apart = apart(&expected, &updates);
        assert!(apart < 1e-3, "{chunk}: {apart}");
    }
    // By themselves answers have other vectors, so that the comparison means something.
    let (alone, other) = step(&directory, "[loss]\ntemperature = 0.05\n", batches);
    assert!(
        (alone.loss - whole.loss).abs() > 1e-3 * whole.loss,
        "{} {}",
        alone.loss,
        whole.loss
    );
    assert!(apart(&expected, &other) > 0.01);
}

#[test]
fn one_text_in_two_documents_is_two_answers_that_are_alike() {
    let documents = Documents::new();
    let model = open(&tiny("classic-mean"));
    let text = pair(0).1;
    let with = |question: usize, document: &str| {
        let span = Some(PassageSpan {
            document: document.to_owned(),
            ..span(0)
        });
        TrainingExample {
            positives: vec![Passage {
                span,
                ..Passage::from_text(text.clone())
            }],
            ..example(question)
        }
    };
    // A second document that begins as the first one does.
    let file = documents.folder.path().join("documents.jsonl");
    let more = serde_json::json!({"_id": "e", "text": format!("{text}. and no more")});
    fs_err::write(&file, format!("{}{more}\n", fs_err::read_to_string(&file).unwrap())).unwrap();
    let pairs = documents
        .built(&model, vec![with(0, "d0"), with(1, "e"), with(2, "d0")])
        .unwrap();
    assert_eq!((pairs.texts(), pairs.windows().0), ((3, 2), 2));
    let answers: Vec<u32> = (0..3)
        .map(|example| pairs.answer(pairs.positives(example).start))
        .collect();
    assert_eq!(answers, [0, 1, 0]);
    assert_eq!(pairs.class(0), pairs.class(1));
    assert_eq!(pairs.answer_tokens(0), pairs.answer_tokens(1));
    assert_ne!(pairs.context_tokens(0), pairs.context_tokens(1));
    let same = documents
        .built(&model, vec![with(0, "d0"), with(1, "d0"), with(2, "d0")])
        .unwrap();
    assert_ne!(pairs.digest(), same.digest());
    let alone = PairsBuilder::new(model.tokenizer(), PairOptions::default());
    assert!(alone.finish().is_err());
}

/// Examples as JSON lines.
fn lines() -> String {
    let line = |number: usize| {
        let (question, answer) = pair(number);
        let PassageSpan { document, start, end } = span(number);
        let line = serde_json::json!({"question": question, "answer": answer, "document": document, "start": start, "end": end});
        format!("{line}\n")
    };
    (0..PAIRS).map(line).collect()
}

fn place(settings: &str) -> Place {
    let place = Place::new(settings);
    fs_err::write(place.path("pairs.jsonl"), lines()).unwrap();
    fs_err::write(place.path("documents.jsonl"), documents()).unwrap();
    // The corpus that is searched says where its passages stand, too.
    let mut corpus = String::new();
    for number in 0..PAIRS {
        let PassageSpan { document, start, end } = span(number);
        let metadata = serde_json::json!({"document": document, "start": start, "end": end});
        let line = serde_json::json!({"_id": format!("a{number}"), "text": pair(number).1, "metadata": metadata});
        writeln!(corpus, "{line}").unwrap();
    }
    fs_err::write(place.path("beir/corpus.jsonl"), corpus).unwrap();
    place
}

const LEARNING: &str = "context = \"late:0.5\"\ndocuments = \"documents.jsonl\"\n[batch]\nsize = 32\nnegatives = 1\n\
                        [mine]\nrank-end = 20\ncount = 2\n[optimizer]\nkind = \"adamw\"\nlearning-rate = 0.02\n\
                        [training]\nsteps = 60\n[evaluation]\ndata = \"beir\"\ncontext = \"late:0.5\"\n\
                        documents = \"documents.jsonl\"\n[log]\nevery = 5\n";

#[test]
fn a_model_is_trained_mined_and_evaluated_in_context() {
    let place = place(LEARNING);
    let said = place.trained("out");
    assert!(said.contains("best recip_rank"), "{said}");
    // What was mined says where it stands, so that the stage could read it in its documents.
    let mined = fs_err::read_to_string(place.path("out/mined/train.jsonl")).unwrap();
    let examples: Vec<serde_json::Value> = mined.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for passages in ["positive_passages", "negative_passages"] {
        let all: Vec<_> = examples
            .iter()
            .flat_map(|example| example[passages].as_array().unwrap())
            .collect();
        assert!(all.len() > PAIRS / 4, "{passages}: {mined}");
        assert!(
            all.iter()
                .all(|passage| passage["document"].is_string() && passage["end"].is_u64()),
            "{mined}"
        );
    }
    let evaluate = |model: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        command
            .args(["evaluate", "--model", model, "--data", "beir", "--split", "dev"])
            .args(more);
        let output = command.current_dir(place.path("")).output().unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let late = ["--context", "late:0.5", "--documents", "documents.jsonl"];
    let value = |model: &str, more: &[&str]| -> f64 {
        let (printed, said) = evaluate(model, more);
        let line = printed
            .lines()
            .find(|line| line.starts_with("recip_rank"))
            .unwrap_or_else(|| panic!("{said}"));
        line.split_whitespace().last().unwrap().parse().unwrap()
    };
    let (learned, start) = (value("out/final", &late), value("out/start", &late));
    assert!(learned > 0.9 && learned > start + 0.3, "{start} {learned}");
    // So it was judged on the way.
    let metrics = fs_err::read_to_string(place.path("out/metrics.jsonl")).unwrap();
    let before = metrics
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let before = before.into_iter().find(|line| line["what"] == "before").unwrap();
    assert!(
        (before["recip_rank"].as_f64().unwrap() - start).abs() < 1e-4,
        "{before} {start}"
    );
    // By themselves the same answers teach something else.
    place.settings(&LEARNING[LEARNING.find("[batch]").unwrap()..]);
    place.trained("alone");
    assert_ne!(weights(&place.path("out/final")), weights(&place.path("alone/final")));
    let (_, said) = evaluate("out/final", &["--context", "late:0.5"]);
    assert!(
        said.contains("document `a0` is no passage of another one") && said.contains("late:0.5"),
        "{said}"
    );
    let cls = tiny("roberta-cls");
    let (_, said) = evaluate(cls.to_str().unwrap(), &late);
    assert!(said.contains("means of its token vectors"), "{said}");
}

#[test]
fn what_has_no_document_is_refused_by_name() {
    for (settings, told) in [
        (
            "[evaluation]\ndata = \"beir\"\ncontext = \"late\"\n",
            "`evaluation.documents` must be a file",
        ),
        ("context = \"late\"\n", "`stages.train.data.documents` must be a file"),
        (
            "documents = \"documents.jsonl\"\n",
            "`stages.train.data.context` must be late or title+late",
        ),
        (
            "context = \"title\"\ndocuments = \"documents.jsonl\"\n",
            "`stages.train.data.context` must be late or title+late",
        ),
        (
            "context = \"title\"\ntitles = false\n",
            "must be none or late with data.titles = false",
        ),
        (
            "context = \"late\"\ndocuments = \"documents.jsonl\"\n[loss]\nsimilarity = \"inner-product\"\n",
            "must be none or title with loss.similarity",
        ),
        ("context = \"late\"\ndocuments = \"missing.jsonl\"\n", "missing.jsonl"),
    ] {
        let said = place(&format!("{settings}[training]\nsteps = 1\n")).refusal("out");
        assert!(said.contains(told), "{settings}: {said}");
    }
    let late = "context = \"late\"\ndocuments = \"documents.jsonl\"\n[training]\nsteps = 1\n";
    for (line, told) in [
        (
            r#"{"question": "b", "answer": "the king"}"#,
            "does not say where it stands",
        ),
        (
            r#"{"question": "b", "answer": "the king", "document": "d0", "start": 0, "end": 4}"#,
            "got `",
        ),
        (
            r#"{"question": "b", "answer": "the king", "document": "none", "start": 0, "end": 4}"#,
            "got `none`",
        ),
    ] {
        let place = place(late);
        fs_err::write(place.path("pairs.jsonl"), format!("{}{line}\n", lines())).unwrap();
        let said = place.refusal("out");
        assert!(said.contains("the king") && said.contains(told), "{line}: {said}");
    }
}

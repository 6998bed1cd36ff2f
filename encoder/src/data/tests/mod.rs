//! Pairs, batches and search against versions that are written straight from their definitions.

mod batches;
mod pairs;
mod prefetch;
mod search;

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use dyad_corpus::examples::{Passage, TrainingExample};

use super::*;
use crate::device::Compute;
use crate::model::Model;
use crate::tokenize::Tokenizer;

/// The tokenizer of a tiny model, whose words are letters.
fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    let open = || {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny/plain");
        Model::open(
            &model,
            &Compute {
                threads: Some(1),
                ..Compute::default()
            },
        )
        .unwrap()
        .tokenizer()
    };
    Arc::clone(TOKENIZER.get_or_init(open))
}

/// A text of its own for each number: its digits as words.
fn text(number: usize) -> String {
    let words: Vec<String> = number
        .to_string()
        .bytes()
        .map(|digit| char::from(digit - b'0' + b'b').to_string())
        .collect();
    words.join(" ")
}

fn example(question: usize, positives: &[usize], negatives: &[usize]) -> TrainingExample {
    let passages = |numbers: &[usize]| numbers.iter().map(|&number| Passage::from_text(text(number))).collect();
    TrainingExample {
        key: None,
        question: text(question),
        positives: passages(positives),
        negatives: passages(negatives),
    }
}

fn built(examples: Vec<TrainingExample>) -> Arc<TokenizedPairs> {
    let mut builder = PairsBuilder::new(tokenizer(), PairOptions::default());
    builder.extend(examples.into_iter().map(Ok::<_, Infallible>)).unwrap();
    Arc::new(builder.finish().unwrap())
}

/// `count` examples with a question, an answer and two negatives of their own.
fn distinct(count: usize) -> Arc<TokenizedPairs> {
    built(
        (0..count)
            .map(|number| example(number, &[number + 100], &[number + 300, number + 500]))
            .collect(),
    )
}

fn options(batch: usize) -> SamplerOptions {
    SamplerOptions {
        seed: 7,
        batch,
        negatives: 0,
        last: Last::Drop,
    }
}

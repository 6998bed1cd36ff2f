//! Hard negatives by exact search: what a model ranks high for a question, and nothing known to answer it.

use std::collections::HashMap;

use dyad_corpus::examples::{Passage, TrainingExample};
use dyad_files::Cancel;
use rayon::prelude::*;

use super::context::ExampleContext;
use super::error::DataError;
use super::exact::best_answers;
use super::negatives::{MineOptions, Mined, add_negatives};
use super::texts::halves;
use crate::config::Tower;
use crate::device::Compute;
use crate::error::Error;
use crate::model::{Model, VectorLength};
use crate::tokenize::{Budget, Tokens, add_contexts};

/// Examples that are embedded and searched at a time.
const WINDOW: usize = 1024;

/// Candidates, and what of them is known to answer which question.
pub trait Finder {
    /// Remembers what answers the question of an example: candidates with the key or the text of a positive. Every
    /// example is given before mining, because another example of the same question may have other positives.
    fn add_known(&mut self, example: &TrainingExample);

    /// Scores the positives of some examples, and gives each its negatives, counted in `mined`.
    fn find(
        &self,
        window: &mut [TrainingExample],
        options: &MineOptions,
        cancel: &dyn Cancel,
        mined: &mut Mined,
    ) -> Result<(), DataError>;
}

/// What embeds questions and passages while negatives are mined.
#[derive(Debug, Clone, Copy)]
pub struct MiningEncoder<'a> {
    /// The model that embeds questions and passages.
    pub model: &'a Model,
    /// Tokens of a batch.
    pub budget: Budget,
    /// Whether a passage's title stands before its text.
    pub titles: bool,
    /// The documents in which passages are read; they are read by themselves where there are none.
    pub context: Option<&'a ExampleContext>,
}

impl MiningEncoder<'_> {
    /// Vectors of the questions of examples, row-major.
    fn embed_questions(self, examples: &[TrainingExample], cancel: &dyn Cancel) -> Result<Vec<f32>, DataError> {
        self.embed_texts(
            Tower::Question,
            examples.iter().map(|example| example.question.trim().to_owned()),
            cancel,
        )
    }

    /// Vectors of passages, row-major.
    fn embed_passages(self, passages: &[&Passage], cancel: &dyn Cancel) -> Result<Vec<f32>, DataError> {
        let texts = passages
            .iter()
            .map(|passage| passage.read_with(self.titles).into_owned());
        let mut vectors = self.embed_texts(Tower::Answer, texts, cancel)?;
        if let Some(context) = self.context {
            let tokens = context.tokens(&self.model.tokenizer(), passages)?;
            let late = self.embed_tokens(Tower::Answer, &tokens.contexts, cancel)?;
            add_contexts(
                &mut vectors,
                &late,
                &tokens.rows,
                self.model.info().dim,
                context.weight(),
            );
        }
        Ok(vectors)
    }

    fn embed_texts(
        self,
        tower: Tower,
        texts: impl Iterator<Item = String>,
        cancel: &dyn Cancel,
    ) -> Result<Vec<f32>, DataError> {
        let (tokenizer, texts) = (self.model.tokenizer(), texts.collect::<Vec<String>>());
        let tokens: Result<Vec<Tokens>, Error> = texts.par_iter().map(|text| tokenizer.encode(tower, text)).collect();
        self.embed_tokens(tower, &tokens?, cancel)
    }

    fn embed_tokens(self, tower: Tower, tokens: &[Tokens], cancel: &dyn Cancel) -> Result<Vec<f32>, DataError> {
        let vectors = self
            .model
            .embed_until(tower, tokens, VectorLength::Unit, self.budget, cancel)?;
        vectors.ok_or(DataError::Interrupted)
    }
}

/// Candidates with their vectors, searched exactly.
#[derive(Debug)]
pub struct NegativeMiner<'a> {
    encoder: MiningEncoder<'a>,
    candidates: &'a [Passage],
    vectors: Vec<f32>,
    by_key: HashMap<&'a str, Vec<u32>>,
    by_text: HashMap<(u64, u64), Vec<u32>>,
    /// The candidates that are known to answer a question, by the question's text.
    known: HashMap<(u64, u64), Vec<u32>>,
}

impl<'a> NegativeMiner<'a> {
    /// Embeds the candidates; `cancel` is polled between batches.
    pub fn new(encoder: MiningEncoder<'a>, candidates: &'a [Passage], cancel: &dyn Cancel) -> Result<Self, DataError> {
        if candidates.is_empty() {
            return Err(DataError::Empty);
        }
        if candidates.len() > u32::MAX as usize {
            return Err(DataError::TooLarge { limit: u32::MAX });
        }
        let (mut by_key, mut by_text) = (HashMap::<&str, Vec<u32>>::new(), HashMap::<_, Vec<u32>>::new());
        for (number, passage) in (0u32..).zip(candidates) {
            if let Some(key) = passage.key.as_deref().filter(|key| !key.is_empty()) {
                by_key.entry(key).or_default().push(number);
            }
            by_text
                .entry(halves(passage.passage().as_bytes()))
                .or_default()
                .push(number);
        }
        let vectors = Vec::with_capacity(candidates.len() * encoder.model.info().dim);
        let mut miner = Self {
            encoder,
            candidates,
            vectors,
            by_key,
            by_text,
            known: HashMap::new(),
        };
        for window in candidates.chunks(8 * WINDOW) {
            miner
                .vectors
                .extend(encoder.embed_passages(&window.iter().collect::<Vec<_>>(), cancel)?);
        }
        Ok(miner)
    }
}

impl Finder for NegativeMiner<'_> {
    fn add_known(&mut self, example: &TrainingExample) {
        let known = self.known.entry(question_key(example)).or_default();
        for positive in &example.positives {
            let by_key = positive.key.as_deref().and_then(|key| self.by_key.get(key));
            let by_text = self.by_text.get(&halves(positive.passage().as_bytes()));
            known.extend(by_key.into_iter().chain(by_text).flatten());
        }
        known.sort_unstable();
        known.dedup();
    }

    fn find(
        &self,
        window: &mut [TrainingExample],
        options: &MineOptions,
        cancel: &dyn Cancel,
        mined: &mut Mined,
    ) -> Result<(), DataError> {
        let info = self.encoder.model.info();
        let questions = score_positives(self.encoder, window, cancel)?;
        let known = |example: &TrainingExample| self.known.get(&question_key(example)).map_or(&[][..], Vec::as_slice);
        let deepest = window.iter().map(|example| known(example).len()).max().unwrap_or(0);
        let device = Compute {
            device: info.device,
            ..Compute::default()
        }
        .torch_device();
        let best = best_answers(&questions, &self.vectors, info.dim, options.rank_end + deepest, device)?;
        for (example, best) in window.iter_mut().zip(&best) {
            let known = known(example);
            add_negatives(example, self.candidates, best, known, options, mined);
        }
        Ok(())
    }
}

/// Finds negatives for each example, and gives the examples in their order to `sink`, with the model's cosine as the
/// score of every positive and every negative that was found. A window of examples is held at a time; `cancel` is
/// polled between batches.
pub fn mine<E>(
    finder: &dyn Finder,
    examples: impl IntoIterator<Item = Result<TrainingExample, E>>,
    options: &MineOptions,
    cancel: &dyn Cancel,
    mut sink: impl FnMut(TrainingExample) -> Result<(), DataError>,
) -> Result<Mined, DataError>
where
    DataError: From<E>,
{
    options.check()?;
    let mut examples = examples.into_iter();
    let mut mined = Mined::default();
    loop {
        let mut window = examples
            .by_ref()
            .take(WINDOW)
            .collect::<Result<Vec<TrainingExample>, E>>()?;
        if window.is_empty() {
            return Ok(mined);
        }
        finder.find(&mut window, options, cancel, &mut mined)?;
        window.into_iter().try_for_each(&mut sink)?;
    }
}

/// Gives every positive the cosine of its question; the vectors of the questions, row-major.
pub(super) fn score_positives(
    encoder: MiningEncoder<'_>,
    window: &mut [TrainingExample],
    cancel: &dyn Cancel,
) -> Result<Vec<f32>, DataError> {
    let dim = encoder.model.info().dim;
    let questions = encoder.embed_questions(window, cancel)?;
    let positives: Vec<&Passage> = window.iter().flat_map(|example| &example.positives).collect();
    let positives = encoder.embed_passages(&positives, cancel)?;
    let mut positives = positives.chunks_exact(dim);
    for (example, question) in window.iter_mut().zip(questions.chunks_exact(dim)) {
        for positive in &mut example.positives {
            positive.score = positives.next().map(|vector| dot(question, vector));
        }
    }
    Ok(questions)
}

pub(super) fn question_key(example: &TrainingExample) -> (u64, u64) {
    halves(example.question.trim().as_bytes())
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

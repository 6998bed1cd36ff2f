//! Which examples make a batch, with which positive and which negatives: a function of the pairs, the options and a
//! cursor.

use std::sync::Arc;

use crate::random::Random;
use serde::{Deserialize, Serialize};

use super::error::DataError;
use super::pairs::TokenizedPairs;
use super::plan::{EpochPlan, plan};
use super::repair::SampledExample;

/// Streams of random numbers of one example in one epoch.
const POSITIVE: u64 = 2;
const NEGATIVES: u64 = 3;

/// Position of a run: the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cursor {
    /// The number of the epoch, from 0.
    pub epoch: u64,
    /// The batch within it, from 0.
    pub position: u64,
}

/// Handling of the examples that do not fill a last batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Last {
    /// They are dropped in this epoch; which ones changes from epoch to epoch.
    #[default]
    Drop,
    /// They form a smaller batch.
    Keep,
}

/// How batches are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerOptions {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Examples of a batch.
    pub batch: usize,
    /// Hard negatives of each question; fewer where an example has fewer.
    pub negatives: usize,
    /// Handling of an incomplete last batch.
    pub last: Last,
}

/// The state of a sampler in a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplerState {
    /// [`TokenizedPairs::digest`].
    pub data: String,
    /// The options of the sampler.
    pub options: SamplerOptions,
    /// The position of the next batch.
    pub cursor: Cursor,
}

/// One example of a batch: places among the members of the pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw {
    /// The number of the example.
    pub example: u32,
    /// The place of the example's positive in this epoch.
    pub positive: u32,
    /// The places of the example's negatives in this epoch.
    pub negatives: Vec<u32>,
}

/// Draws batches without end.
#[derive(Debug, Clone)]
pub struct Sampler {
    pairs: Arc<TokenizedPairs>,
    options: SamplerOptions,
    cursor: Cursor,
    plan: Option<(u64, Arc<EpochPlan>)>,
}

impl Sampler {
    /// A sampler at the first batch.
    pub fn new(pairs: Arc<TokenizedPairs>, options: SamplerOptions) -> Result<Self, DataError> {
        if options.batch == 0 {
            return Err(DataError::NoBatch);
        }
        if options.batch > pairs.len() {
            return Err(DataError::BatchSize {
                batch: options.batch,
                examples: pairs.len(),
            });
        }
        Ok(Self {
            pairs,
            options,
            cursor: Cursor::default(),
            plan: None,
        })
    }

    /// A sampler that goes on where another stood, over the same pairs.
    pub fn restore(pairs: Arc<TokenizedPairs>, state: &SamplerState) -> Result<Self, DataError> {
        if pairs.digest() != state.data {
            return Err(DataError::OtherData {
                expected: state.data.clone(),
                got: pairs.digest().to_owned(),
            });
        }
        Self::new(pairs, state.options)?.seek(state.cursor)
    }

    /// The same sampler at another batch.
    pub fn seek(mut self, cursor: Cursor) -> Result<Self, DataError> {
        let Cursor { epoch, position } = cursor;
        let batches = self.batches();
        if position > batches {
            return Err(DataError::Cursor {
                epoch,
                position,
                batches,
            });
        }
        self.cursor = if position == batches {
            Cursor {
                epoch: epoch + 1,
                position: 0,
            }
        } else {
            cursor
        };
        Ok(self)
    }

    /// The state that a checkpoint stores.
    pub fn state(&self) -> SamplerState {
        SamplerState {
            data: self.pairs.digest().to_owned(),
            options: self.options,
            cursor: self.cursor,
        }
    }

    /// The examples.
    pub fn pairs(&self) -> &Arc<TokenizedPairs> {
        &self.pairs
    }

    /// The next batch.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Batches of an epoch.
    pub fn batches(&self) -> u64 {
        let batches = match self.options.last {
            Last::Drop => self.pairs.len() / self.options.batch,
            Last::Keep => self.pairs.len().div_ceil(self.options.batch),
        };
        batches as u64
    }

    /// Examples of the cursor's epoch, at most, that stand in a batch into which they do not fit, so that the mask is
    /// needed.
    pub fn forced(&mut self) -> usize {
        self.plan().forced
    }

    /// Draws the batch at the cursor and goes on.
    pub fn draw(&mut self) -> Vec<Draw> {
        let (plan, Cursor { epoch, position }) = (self.plan(), self.cursor);
        let start = position as usize * self.options.batch;
        let end = (start + self.options.batch).min(plan.order.len());
        let sampled =
            plan.order
                .get(start..end)
                .unwrap_or_default()
                .iter()
                .map(|&SampledExample { example, positive }| {
                    let negatives = self.negatives(epoch, example);
                    Draw {
                        example,
                        positive,
                        negatives,
                    }
                });
        let sampled = sampled.collect();
        let next = position + 1;
        self.cursor = if next < self.batches() {
            Cursor { epoch, position: next }
        } else {
            Cursor {
                epoch: epoch + 1,
                position: 0,
            }
        };
        sampled
    }

    fn plan(&mut self) -> Arc<EpochPlan> {
        let (epoch, seed) = (self.cursor.epoch, self.options.seed);
        if let Some((of, plan)) = &self.plan
            && *of == epoch
        {
            return Arc::clone(plan);
        }
        let positive = |example: u32| {
            let places = self.pairs.positives(example);
            let mut random = Random::of(&[seed, epoch, POSITIVE, u64::from(example)]);
            places.start + random.below(places.len()) as u32
        };
        let plan = Arc::new(plan(&self.pairs, self.options.batch, seed, epoch, positive));
        self.plan = Some((epoch, Arc::clone(&plan)));
        plan
    }

    /// The negatives of an example in an epoch, each at most once.
    fn negatives(&self, epoch: u64, example: u32) -> Vec<u32> {
        let mut places: Vec<u32> = self.pairs.negatives(example).collect();
        let wanted = self.options.negatives.min(places.len());
        let mut random = Random::of(&[self.options.seed, epoch, NEGATIVES, u64::from(example)]);
        for at in 0..wanted {
            let other = at + random.below(places.len() - at);
            places.swap(at, other);
        }
        places.truncate(wanted);
        places
    }
}

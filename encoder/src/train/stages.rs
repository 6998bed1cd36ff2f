//! Preparation of a stage: examples, mined negatives, batches.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_corpus::examples::{ExampleFormat, ExampleReader};
use dyad_files::Cancel;

use super::TrainError;
use super::config::{DataConfig, MineConfig, Stage};
use super::objective::Objective;
use crate::config::Tower;
use crate::data::{
    DataError, ExampleContext, MiningEncoder, NegativeCandidates, PairsBuilder, Sampler, SamplerOptions, SamplerState,
    TokenizedPairs, mine_file,
};
use crate::device::Compute;
use crate::model::{Model, OpenMode};
use crate::tokenize::{Budget, Tokenizer};

/// Refuses what a stage cannot be run with, before any is, so that a long one is not followed by a mistake: its
/// settings, and where it is `later` than the first its examples, which else are read at once.
pub(super) fn check_stage(stage: &Stage, later: bool) -> Result<(), TrainError> {
    Objective::new(&stage.loss, &Compute::default())?;
    stage.optimizer.check()?;
    stage.clipping.clipping().check()?;
    stage.training.groups().check_values()?;
    if let Some(mine) = &stage.mine {
        mine.options(0).check()?;
    }
    if !later {
        return Ok(());
    }
    let (mut examples, mut with_negatives) = (0, 0);
    for reader in open_readers(&stage.data, None)? {
        for example in reader {
            with_negatives += usize::from(!example.map_err(DataError::from)?.negatives.is_empty());
            examples += 1;
        }
    }
    if stage.mine.is_none() {
        check_negatives(stage, with_negatives, examples)?;
    }
    if stage.batch.size > examples {
        return Err(DataError::BatchSize {
            batch: stage.batch.size,
            examples,
        }
        .into());
    }
    Ok(())
}

/// Refuses examples that lack what the stage is to learn from: hard negatives, a teacher's scores.
pub(super) fn check_examples(stage: &Stage, pairs: &TokenizedPairs) -> Result<(), DataError> {
    if stage.loss.distillation.is_some() && !pairs.has_scores() {
        let expected = "scored by a teacher where `loss.distillation` is to learn from it".to_owned();
        let what = "the examples of the stage";
        return Err(DataError::Option {
            what,
            expected,
            got: "no score".to_owned(),
        });
    }
    check_negatives(stage, pairs.with_negatives(), pairs.len())
}

/// Requested negatives must exist: otherwise the stage would silently train without them.
fn check_negatives(stage: &Stage, with_negatives: usize, examples: usize) -> Result<(), DataError> {
    let wanted = stage.batch.negatives;
    if wanted == 0 || with_negatives > 0 {
        return Ok(());
    }
    Err(DataError::NoNegatives {
        stage: stage.name.clone(),
        wanted,
        examples,
    })
}

/// The documents in which the passages of a stage stand, where its vectors know these.
pub(super) fn open_context(data: &DataConfig, model: &Model) -> Result<Option<Arc<ExampleContext>>, TrainError> {
    let Some((context, documents)) = data.context.zip(data.documents.as_ref()) else {
        return Ok(None);
    };
    if context.late_weight().is_some() && !model.pools_means(Tower::Answer) {
        return Err(TrainError::Setting {
            setting: "data.context".to_owned(),
            expected: "none or title with a model whose vectors are not the means of its token vectors".to_owned(),
            got: context.to_string(),
        });
    }
    Ok(ExampleContext::open(context, documents)?.map(Arc::new))
}

/// Reads the examples of a stage; of files that were mined where `mined` names one.
pub(super) fn read_pairs(
    data: &DataConfig,
    context: Option<Arc<ExampleContext>>,
    tokenizer: Arc<Tokenizer>,
    mined: Option<&Path>,
) -> Result<Arc<TokenizedPairs>, TrainError> {
    let mut builder = PairsBuilder::new(tokenizer, data.pairs()).in_context(context);
    for mut reader in open_readers(data, mined)? {
        builder.extend(reader.by_ref())?;
        let skipped = reader.skipped();
        if skipped.total() > 0 {
            let first = skipped.first.as_deref().unwrap_or("by design of the format");
            tracing::warn!(
                records = skipped.total(),
                first,
                "skipped records that cannot be trained on"
            );
        }
    }
    let pairs = builder.finish()?;
    let ((questions, answers), (long_questions, long_answers)) = (pairs.texts(), pairs.truncated());
    let (windows, _) = pairs.windows();
    tracing::info!(
        examples = pairs.len(),
        questions,
        answers,
        windows,
        long_questions,
        long_answers,
        with_negatives = pairs.with_negatives(),
        false_negatives = pairs.false_negatives(),
        "read training examples; long ones were cut"
    );
    Ok(Arc::new(pairs))
}

fn open_readers(data: &DataConfig, mined: Option<&Path>) -> Result<Vec<ExampleReader>, DataError> {
    let mut options = data.read();
    if let Some(mined) = mined {
        options.format = ExampleFormat::Tevatron;
        return Ok(vec![ExampleReader::open(mined, &options)?]);
    }
    data.paths
        .iter()
        .map(|path| {
            ExampleReader::open(path, &options).map_err(|source| DataError::Setting {
                key: "data.paths",
                source: Box::new(source),
            })
        })
        .collect()
}

/// Batches of a stage: from the first, or where a checkpoint stands.
pub(super) fn open_sampler(
    stage: &Stage,
    number: usize,
    seed: u64,
    pairs: Arc<TokenizedPairs>,
    saved: Option<&SamplerState>,
) -> Result<Sampler, DataError> {
    // Another order in every stage, over the same data too.
    let seed = seed.wrapping_add((number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let options = SamplerOptions {
        seed,
        batch: stage.batch.size,
        negatives: stage.batch.negatives,
        last: stage.batch.last,
    };
    match saved {
        Some(saved) => Sampler::restore(pairs, saved),
        None => Sampler::new(pairs, options),
    }
}

/// A model in the middle of its training, and where it came from.
#[derive(Debug)]
pub(super) struct StageMiner<'a> {
    pub(super) model: &'a Model,
    /// Directory of the model that the run began from.
    pub(super) directory: &'a Path,
    pub(super) compute: &'a Compute,
    /// The documents in which passages are read.
    pub(super) context: Option<&'a ExampleContext>,
    /// Directory of the run.
    pub(super) out: &'a Path,
    /// Seed of the run.
    pub(super) seed: u64,
}

impl StageMiner<'_> {
    /// The file of a stage's examples with negatives that the model finds; made where it is not there yet.
    pub(super) fn mine(&self, stage: &Stage, config: &MineConfig, cancel: &dyn Cancel) -> Result<PathBuf, TrainError> {
        let folder = self.out.join("mined");
        let file = folder.join(format!("{}.jsonl", stage.name));
        if file.is_file() {
            return Ok(file);
        }
        fs_err::create_dir_all(&folder)?;
        // What mines is what would be served: the weights as they are now, opened for inference.
        let model = Model::from_checkpoint(
            &self.model.checkpoint(self.directory)?,
            self.compute,
            OpenMode::Inference,
        )?;
        let options = config.options(self.seed);
        let budget = Budget::of(self.compute.device, self.compute.dtype);
        let titles = stage.data.pairs().titles;
        let encoder = MiningEncoder {
            model: &model,
            budget,
            titles,
            context: self.context,
        };
        let examples = || open_readers(&stage.data, None);
        let candidates = config
            .corpus
            .as_deref()
            .map_or(NegativeCandidates::Positives, NegativeCandidates::Corpus);
        let found = mine_file(encoder, &examples, candidates, &options, &file, cancel)?;
        tracing::info!(
            stage = stage.name,
            examples = found.mined.examples,
            negatives = found.mined.negatives,
            candidates = found.candidates.unwrap_or_default(),
            short = found.mined.short,
            "mined hard negatives"
        );
        Ok(file)
    }
}

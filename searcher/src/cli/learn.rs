//! `dyad-searcher learn`.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use dyad_command::{ProgressBar, UsageError};
use dyad_corpus::metrics::{Sampling, compare_values};
use dyad_corpus::{JudgedQuestions, qrels};
use dyad_index::snapshot::DocumentHit;
use dyad_index::storage::WriteLock;
use dyad_index::{FUSION_FILE, FusionRecord, LearnedFrom, RERANK_FILE, RerankRecord};
use dyad_proto::access::Caller;
use dyad_proto::v1;

use super::judged_answers::answers;
use super::learn_reranking::RerankMeasurement;
use super::tower::TowerOptions;
use crate::fusion::Fusion;
use crate::fusion::learn::{DOCUMENT_WEIGHTS, Example, FOLDS, Learned, Trials};
use crate::plan::DEFAULT_FUSION_DEPTH;
use crate::run::{AnswerHit, Engine, EngineConfig, IndexPath, no_gain};

/// Questions of one call.
const BATCH: usize = 128;
/// Fewest judged questions from which a weight is learned.
const FEWEST: usize = 25;
/// Bytes of the cache of the questions' vectors: many times those of one call.
const CACHE: usize = 64 << 20;

/// Learn how to fuse the two rankings of an index from judged questions.
#[derive(Debug, Args)]
pub(super) struct Learn {
    /// Directory of the index; `fusion.json` is written there.
    #[arg(long, env = "DYAD_INDEX")]
    index: PathBuf,
    #[command(flatten)]
    tower: TowerOptions,
    /// BEIR folder: queries.jsonl and `qrels/SPLIT.tsv` (plain, .gz, .zst).
    #[arg(long, value_name = "BEIR_DIR")]
    data: PathBuf,
    /// Which judgements; not those that the result is measured with.
    #[arg(long, default_value = "dev")]
    split: String,
    /// Leave out hits whose key is the question's own, as where questions are documents of the corpus.
    #[arg(long)]
    drop_identical_ids: bool,
    /// Hits of each question that the cross encoder of `--reranker` scores: what it brings is measured by the same
    /// questions, and written to `rerank.json`.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rerank_depth: u32,
    /// Show what would be learned, and write nothing.
    #[arg(long)]
    dry_run: bool,
}

impl Learn {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let judged = JudgedQuestions::read(&self.data, &self.split)?;
        let questions = judged.questions.len();
        if questions < FEWEST {
            let folder = self.data.display();
            bail!(
                "`{folder}`, split `{}`: expected at least {FEWEST} judged questions, got {questions}",
                self.split
            );
        }
        let engine = self.open_engine().await?;
        self.check_judged(&engine, &judged)?;
        let snapshot = engine.index("", &Caller::default())?.snapshot();
        let (has_documents, default) = (snapshot.has_documents()?, Fusion::default_of(snapshot.manifest()));
        let trials = self.trials(&engine, &judged, has_documents, default).await?;
        let learned = tokio::task::spawn_blocking(move || trials.learned()).await?;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let found = LearnedFrom {
            data: folder_name(&self.data),
            split: self.split.clone(),
            questions,
            dense: mean(&learned.dense),
            bm25: mean(&learned.bm25),
            default: mean(&learned.default),
            learned: mean(if learned.fusion == default {
                &learned.default
            } else {
                &learned.cross_validated
            }),
        };
        print_learned(&learned, &found, default, has_documents)?;
        let fingerprint = engine
            .index("", &Caller::default())?
            .snapshot()
            .manifest()
            .model
            .space();
        let Fusion {
            method,
            dense_weight,
            document_weight,
            ..
        } = learned.fusion;
        let reranking = self
            .reranking(&engine, &judged, learned.fusion, &found, &fingerprint)
            .await?;
        if self.dry_run {
            return Ok(ExitCode::SUCCESS);
        }
        let lock = WriteLock::acquire(&self.index)?;
        let record = FusionRecord::new(fingerprint, method, dense_weight, found);
        let document_weight = has_documents.then_some(document_weight);
        FusionRecord {
            document_weight,
            ..record
        }
        .save(&self.index, &lock)?;
        let mut files = format!("`{}`", self.index.join(FUSION_FILE).display());
        if let Some(reranking) = reranking {
            reranking.save(&self.index, &lock)?;
            files = format!("{files} and `{}`", self.index.join(RERANK_FILE).display());
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "Written to {files}. A running searcher uses it after `dyad-searcher admin reload`"
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Opens the index with the question tower, and with the cross encoder where one is named.
    async fn open_engine(&self) -> anyhow::Result<Engine> {
        let towers = self.tower.open().await?;
        if towers.iter().len() == 0 {
            let expected = "--question-tower: expected a directory or a URL, got `none`: judged questions are texts";
            return Err(UsageError(expected.to_owned()).into());
        }
        // Each question is asked several times.
        let config = EngineConfig {
            question_cache: CACHE,
            ..EngineConfig::default()
        };
        let engine = Engine::open_all(vec![IndexPath::new(&self.index)], towers, config)?;
        Ok(engine.with_reranker(self.tower.open_reranker().await?))
    }

    /// Tries fusions, and where the index has documents, each with several weights of theirs.
    async fn trials(
        &self,
        engine: &Engine,
        judged: &JudgedQuestions,
        has_documents: bool,
        default: Fusion,
    ) -> anyhow::Result<Trials> {
        let mut trials = Trials::new(default);
        let tried = if has_documents { DOCUMENT_WEIGHTS.len() } else { 1 };
        for weight in DOCUMENT_WEIGHTS.into_iter().take(tried) {
            let examples = self.examples(engine, judged, weight).await?;
            if examples
                .iter()
                .all(|example| example.dense.is_empty() && example.bm25.is_empty())
            {
                bail!(
                    "`{}` gave no hit for any of the {} questions: is it the index of this set?",
                    self.index.display(),
                    judged.questions.len()
                );
            }
            trials = tokio::task::spawn_blocking(move || {
                trials.add(weight, &examples);
                trials
            })
            .await?;
        }
        Ok(trials)
    }

    /// Measures what the cross encoder brings, where one is named.
    async fn reranking(
        &self,
        engine: &Engine,
        judged: &JudgedQuestions,
        fusion: Fusion,
        found: &LearnedFrom,
        fingerprint: &str,
    ) -> anyhow::Result<Option<RerankRecord>> {
        let Some(reranker) = engine.reranker() else {
            return Ok(None);
        };
        let measurement = RerankMeasurement {
            engine,
            judged,
            fusion,
            depth: self.rerank_depth,
            drop_identical_ids: self.drop_identical_ids,
            data: found.data.clone(),
            split: found.split.clone(),
            fingerprint: fingerprint.to_owned(),
        };
        let measured = measurement.run(reranker).await?;
        if measured.gain() <= 0.0 {
            writeln!(std::io::stdout().lock(), "WARNING  {}", no_gain(&measured))?;
        }
        Ok(Some(measured))
    }

    /// Refuses judgements of other documents than the index's, by which every fusion would have 0.
    fn check_judged(&self, engine: &Engine, judged: &JudgedQuestions) -> anyhow::Result<()> {
        let index = engine.index("", &Caller::default())?;
        let relevant = qrels::relevant(&judged.qrels);
        let mut missing = Vec::new();
        for key in &relevant {
            if index.snapshot().find(key)?.is_none() {
                missing.push(*key);
            }
        }
        match qrels::check_missing(&relevant, &missing, |key| {
            matches!(index.snapshot().find(key), Ok(Some(_)))
        }) {
            Ok(None) => {}
            Ok(Some(note)) => tracing::warn!("{note}"),
            Err(reason) => bail!("`{}`, split `{}`: {reason}", self.data.display(), self.split),
        }
        Ok(())
    }

    /// Both rankings of every judged question, as deep as a fusion looks, and the bounded scores of all their
    /// documents.
    async fn examples(
        &self,
        engine: &Engine,
        judged: &JudgedQuestions,
        document_weight: f64,
    ) -> anyhow::Result<Vec<Example>> {
        let depth = DEFAULT_FUSION_DEPTH as u32;
        let mut examples = Vec::with_capacity(judged.questions.len());
        let progress = ProgressBar::new(
            "questions",
            Some(judged.questions.len() as u64),
            "{prefix} {wide_bar} {pos}/{len}",
        );
        for questions in judged.questions.chunks(BATCH) {
            let request = v1::SearchRequest {
                mode: v1::Mode::Compare.into(),
                k: depth,
                keys_only: true,
                document_weight: Some(document_weight),
                ..v1::SearchRequest::default()
            };
            let compared = answers(engine, questions, &request).await?;
            // With all the weight on one score, the sum is that score, and documents of either ranking have it.
            let bounded = |dense_weight| v1::SearchRequest {
                mode: v1::Mode::Hybrid.into(),
                k: 2 * depth,
                fusion_depth: depth,
                fusion: v1::Fusion::MinMax.into(),
                dense_weight: Some(dense_weight),
                ..request.clone()
            };
            let bounded_dense = answers(engine, questions, &bounded(1.0)).await?;
            let bounded_bm25 = answers(engine, questions, &bounded(0.0)).await?;
            let bounded = bounded_dense.into_iter().zip(bounded_bm25);
            for ((compared, bounded), question) in compared.into_iter().zip(bounded).zip(questions) {
                let (compared, exactness) = (compared.compared.unwrap_or_default(), compared.exactness);
                let exactness_of: HashMap<(usize, u32), f32> = compared
                    .bm25
                    .iter()
                    .map(|hit| (hit.shard, hit.node))
                    .zip(exactness)
                    .collect();
                let mut example = Example {
                    left_out: self.drop_identical_ids.then(|| question.key.clone()),
                    judgements: judged.qrels.get(&question.key).cloned().unwrap_or_default(),
                    ..Example::default()
                };
                let mut hits = |from: Vec<AnswerHit>| -> Vec<DocumentHit> {
                    let hit = |AnswerHit { hit, shard, node, .. }| {
                        example.keys.insert((shard, node), hit.key);
                        DocumentHit {
                            score: hit.score,
                            shard,
                            node,
                        }
                    };
                    from.into_iter().map(hit).collect()
                };
                let (dense, bm25) = (hits(compared.dense), hits(compared.bm25));
                let (bounded_dense, bounded_bm25) = (hits(bounded.0.hits), hits(bounded.1.hits));
                // Next to nothing for a document that a hundred others are before in BM25.
                let exactness = |hits: &[DocumentHit]| -> Vec<f32> {
                    let of_hit =
                        |hit: &DocumentHit| exactness_of.get(&(hit.shard, hit.node)).copied().unwrap_or_default();
                    hits.iter().map(of_hit).collect()
                };
                examples.push(Example {
                    exactness: exactness(&bm25),
                    bounded_exactness: exactness(&bounded_bm25),
                    dense,
                    bm25,
                    bounded_dense,
                    bounded_bm25,
                    ..example
                });
            }
            progress.advance(questions.len() as u64);
        }
        Ok(examples)
    }
}

/// Prints what the rankings and their fusions reach on the judged questions.
fn print_learned(learned: &Learned, found: &LearnedFrom, default: Fusion, has_documents: bool) -> anyhow::Result<()> {
    let compared = compare_values(&learned.default, &learned.cross_validated, Sampling::default())?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "nDCG@10 of {} questions of {} ({})",
        found.questions, found.data, found.split
    )?;
    writeln!(out, "dense    {:.4}", found.dense)?;
    writeln!(out, "BM25     {:.4}", found.bm25)?;
    writeln!(out, "default  {:.4}  {}", found.default, named(&default, has_documents))?;
    writeln!(
        out,
        "learned  {:.4}  by {FOLDS}-fold cross-validation; {:+.4} against the default, p = {:.3} (paired randomisation test)",
        compared.second, compared.difference, compared.p_randomisation
    )?;
    let best = named(&learned.fusion, has_documents);
    if learned.fusion == default {
        writeln!(out, "The default is as good: {best}")?;
    } else {
        writeln!(out, "On all questions the best is: {best}")?;
    }
    Ok(())
}

/// The last part of a folder's path, for people.
fn folder_name(folder: &std::path::Path) -> String {
    folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn named(fusion: &Fusion, has_documents: bool) -> String {
    let method = fusion.method.label();
    let Fusion {
        dense_weight,
        document_weight,
        ..
    } = fusion;
    let of_documents = if has_documents {
        format!(", document weight {document_weight}")
    } else {
        String::new()
    };
    format!("{method}, dense weight {dense_weight}{of_documents}")
}

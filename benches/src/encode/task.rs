//! What engines are asked, what is checked (the same number of tokens and vectors from each, and vectors like the first
//! one's), and the figures. What the machine can do is a large matrix product with the same threads, between the passes
//! of the engines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::model::ModelFolder;
use super::protocol::{EncodeDetails, EncodeRequest, EncodeShape, EncodedTexts, PreparedTexts, TunedReply};
use super::texts::TokenCounter;
use crate::dataset::{Matrix, npy};
use crate::error::BenchResult;
use crate::harness::{
    BenchTask, EngineRun, FigureFormat, ShownColumn, TaskJob, TaskSession, WorkerProcess, extremes, median, write_lines,
};

/// An engine at a shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EncodePoint {
    /// The settings that it chose, in words.
    pub(super) tuned: String,
    /// Tokens that its linear layers saw, padding counted; where it knows.
    pub(super) computed_tokens: Option<u64>,
    /// Smallest cosine between its vectors and those of the first engine; of scores their correlation.
    pub smallest_cosine: f64,
}

/// Texts to vectors, at one shape.
#[derive(Debug, Default)]
pub struct EncodeTask {
    pub(super) texts: usize,
    /// Tokens of all texts, special tokens counted.
    pub(super) tokens: u64,
    /// Longest input of the model as it was opened.
    pub(super) max_tokens: usize,
    /// Floating-point operations of all texts without padding.
    pub(super) flops: f64,
    /// GFLOP/s of a large matrix product per number type, one value per pass.
    pub(super) limits: BTreeMap<&'static str, Vec<f64>>,
    /// The model directory that engines open.
    pub(super) model: PathBuf,
    pub(super) scratch: PathBuf,
    /// The vectors of the first engine, with which those of the others are compared.
    pub(super) first: Option<Matrix>,
    /// The worker that multiplies; `None` also once it has failed.
    pub(super) limit: Option<WorkerProcess>,
    pub(super) limit_failed: bool,
}

impl BenchTask for EncodeTask {
    type Shape = EncodeShape;
    type Details = EncodeDetails;
    type Point = EncodePoint;
    const TABLE: &'static [ShownColumn<'static>] = &[
        ShownColumn::new("texts_per_s", "texts/s", FigureFormat::Decimals(1)),
        ShownColumn::new("tokens_per_s", "tokens/s", FigureFormat::Decimals(0)),
        ShownColumn::new("padding_share", "padding", FigureFormat::Percent),
        ShownColumn::new("peak_bytes", "peak MB", FigureFormat::Megabytes),
        ShownColumn::new("smallest_cosine", "cosine", FigureFormat::Decimals(6)),
        ShownColumn::new("gflops", "GFLOP/s", FigureFormat::Decimals(1)),
        ShownColumn::new("share_of_matmul", "of limit", FigureFormat::Percent),
        ShownColumn::new("dyad_over", "dyad over", FigureFormat::Times),
        ShownColumn::new("tuned", "", FigureFormat::Note),
    ];
    /// The peers' engine that multiplies, and embeds nothing.
    const MACHINE: &'static str = "matmul";
    const LEGEND: &'static str = "Tokens and GFLOP/s without padding; peak memory less what the process had before it opened the \
        model; cosine: the smallest to the first engine's vectors, of scores their correlation; of limit: GFLOP/s over a large matrix product's.";

    fn prepare(job: &TaskJob<'_, EncodeShape>, shape: &EncodeShape, scratch: &Path) -> BenchResult<Self> {
        let model = ModelFolder::read(&job.workload.model)?;
        let counter = TokenCounter::open(&model.dir, model.prompt.clone())?;
        let max_tokens = shape.tokens.unwrap_or(0).max(model.max_tokens);
        let opened = model.reading(max_tokens, &job.settings.cache)?;
        let texts = counter.read(shape)?;
        let lengths: Vec<u64> = texts
            .iter()
            .map(|text| Ok(counter.count_all(text)?.min(max_tokens) as u64))
            .collect::<BenchResult<_>>()?;
        write_lines(&scratch.join("texts.jsonl"), &texts)?;
        Ok(Self {
            texts: texts.len(),
            tokens: lengths.iter().sum(),
            max_tokens,
            flops: lengths.iter().map(|&length| model.size.flops(length)).sum(),
            model: opened,
            scratch: scratch.to_owned(),
            ..Self::default()
        })
    }

    fn describe(&self) -> String {
        let each = self.tokens as f64 / self.texts.max(1) as f64;
        format!(
            "{} texts, {each:.1} tokens each, at most {}",
            self.texts, self.max_tokens
        )
    }

    fn open(&self, job: &TaskJob<'_, EncodeShape>) -> Value {
        let (model, device, cache) = (self.model.clone(), job.device.clone(), job.settings.cache.clone());
        json!(EncodeRequest::Open {
            model,
            device,
            threads: job.workload.threads,
            cache
        })
    }

    fn load(&self, session: &mut TaskSession<Self>) -> BenchResult<()> {
        let prepared: PreparedTexts = session.worker.ask(&EncodeRequest::Prepare {
            texts: self.scratch.join("texts.jsonl"),
        })?;
        session.worker.require(
            "prepare",
            format!("{} texts", self.texts),
            format!("{} texts", prepared.texts),
        )
    }

    fn warm_up(&mut self, session: &mut TaskSession<Self>) -> BenchResult<()> {
        let tuned: TunedReply = session.worker.ask(&EncodeRequest::Tune)?;
        session.run.point.tuned = tuned.settings;
        let out = self.scratch.join(format!("{}.npy", session.engine()));
        self.encode(session, Some(out.clone()))?;
        let vectors = npy::read_vectors(&out)?;
        fs_err::remove_file(&out)?;
        // Also the first engine's own vectors have to be vectors.
        let first = self.first.as_ref().unwrap_or(&vectors);
        let words = |rows: usize, matrix: &Matrix| format!("{rows} vectors of {} values", matrix.dim());
        session
            .worker
            .require("encode", words(self.texts, first), words(vectors.len(), &vectors))?;
        session.run.point.smallest_cosine = nearness(first, &vectors);
        self.first.get_or_insert(vectors);
        Ok(())
    }

    fn pass(&self, session: &mut TaskSession<Self>) -> BenchResult<f64> {
        let encoded = self.encode(session, None)?;
        session.run.point.computed_tokens = encoded.computed_tokens;
        Ok(encoded.seconds)
    }

    fn measure_machine(&mut self, job: &TaskJob<'_, EncodeShape>, sessions: &[TaskSession<Self>]) -> BenchResult<()> {
        if self.limit_failed {
            return Ok(());
        }
        self.multiply(job, sessions).inspect_err(|_| {
            // Without the limit a run has no shares, and all else.
            (self.limit_failed, self.limit, self.limits) = (true, None, BTreeMap::new());
        })
    }

    fn close(&mut self) {
        if let Some(limit) = self.limit.take() {
            limit.quit();
        }
    }

    fn figures(&self, run: &EngineRun<Self>, _first: &EngineRun<Self>) -> Value {
        let (seconds, limited_by) = (run.median_s(), run.described.more.limited_by());
        let (fastest, slowest) = extremes(&run.seconds);
        // Counted per real token.
        let gflops = self.flops / seconds / 1e9;
        let limit = self.limits.get(limited_by).and_then(|limits| median(limits));
        json!({
            "texts": self.texts,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "flops": self.flops,
            "dtype": run.described.more.dtype,
            "tuned": run.point.tuned,
            "texts_per_s": self.texts as f64 / seconds,
            "texts_per_s_lowest": self.texts as f64 / slowest,
            "texts_per_s_highest": self.texts as f64 / fastest,
            "tokens_per_s": self.tokens as f64 / seconds,
            "padding_share": run.point.computed_tokens.and_then(|computed| self.padding_share(computed)),
            "smallest_cosine": run.point.smallest_cosine,
            "gflops": gflops,
            "matmul_gflops": limit,
            "share_of_matmul": limit.map(|limit| gflops / limit),
        })
    }
}

impl EncodeTask {
    fn encode(&self, session: &mut TaskSession<Self>, out: Option<PathBuf>) -> BenchResult<EncodedTexts> {
        let encoded: EncodedTexts = session.worker.ask(&EncodeRequest::Encode { out })?;
        session.worker.above_zero("encode", "a time above 0", encoded.seconds)?;
        // An engine that cuts texts shorter, or reads none of the prompt, does less work.
        let tokens = encoded.tokens.unwrap_or(self.tokens);
        session
            .worker
            .require("encode", format!("{} tokens", self.tokens), format!("{tokens} tokens"))?;
        Ok(encoded)
    }

    /// Measures one more product of each number type that limits an engine.
    fn multiply(&mut self, job: &TaskJob<'_, EncodeShape>, sessions: &[TaskSession<Self>]) -> BenchResult<()> {
        let worker = match &mut self.limit {
            Some(worker) => worker,
            none => none.insert(job.start(Self::MACHINE)?),
        };
        for limited_by in ["bf16", "f32"] {
            if sessions
                .iter()
                .any(|session| session.run.described.more.limited_by() == limited_by)
            {
                let (dtype, device, threads) = (limited_by.to_owned(), job.device.clone(), job.workload.threads);
                let multiplied: Value = worker.ask(&EncodeRequest::Matmul { dtype, device, threads })?;
                let gflops = multiplied["gflops"].as_f64().unwrap_or(f64::NAN);
                let gflops = worker.above_zero("matmul", "`gflops` above 0", gflops)?;
                self.limits.entry(limited_by).or_default().push(gflops);
            }
        }
        Ok(())
    }

    /// Share of padding in what the linear layers saw.
    fn padding_share(&self, computed: u64) -> Option<f64> {
        let is_counted = computed >= self.tokens && computed > 0;
        is_counted.then(|| (computed - self.tokens) as f64 / computed as f64)
    }
}

/// How near the vectors of an engine are to those of the first one: their smallest cosine; of scores, vectors of one
/// value, the cosine of what all of them are above their mean (Pearson's correlation).
fn nearness(first: &Matrix, other: &Matrix) -> f64 {
    if first.dim() > 1 {
        return smallest_cosine(first, other);
    }
    smallest_cosine(&without_mean(first), &without_mean(other))
}

/// Scores, less their mean, as one vector.
fn without_mean(scores: &Matrix) -> Matrix {
    let mean = scores.rows().flatten().sum::<f32>() / scores.len().max(1) as f32;
    Matrix::new(
        scores.len(),
        scores.rows().flatten().map(|score| score - mean).collect(),
    )
}

/// The smallest cosine between rows of the same number. Rows of no length, and values that are not finite, count as -1.
pub(super) fn smallest_cosine(first: &Matrix, other: &Matrix) -> f64 {
    first
        .rows()
        .zip(other.rows())
        .map(|(left, right)| cosine(left, right))
        .fold(1.0, f64::min)
}

fn cosine(left: &[f32], right: &[f32]) -> f64 {
    let cosine = dot(left, right) / (dot(left, left).sqrt() * dot(right, right).sqrt());
    if cosine.is_finite() {
        cosine.clamp(-1.0, 1.0)
    } else {
        -1.0
    }
}

fn dot(left: &[f32], right: &[f32]) -> f64 {
    let products = left.iter().zip(right).map(|(a, b)| f64::from(*a) * f64::from(*b));
    products.sum()
}

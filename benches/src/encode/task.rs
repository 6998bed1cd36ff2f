//! What engines are asked, and what is checked: the same number of tokens and vectors from each, and vectors like the first one's.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Workload;
use super::measured::{Encode, Gflops, LIMIT, Limit, Point};
use super::model::Model;
use super::protocol::{Encoded, More, Prepared, Request, Tuned};
use super::report;
use super::texts::{Counter, Texts};
use super::workload::Shape;
use crate::dataset::{Matrix, npy};
use crate::harness::{Column, Job, Limited, Measured, Result, Session, Task, write_lines};

/// What is read once: the model, and its tokenizer.
#[derive(Debug)]
pub struct Context {
    model: Model,
    counter: Counter,
}

impl Task for Encode {
    type Shape = Shape;
    type Context = Context;
    type More = More;
    type Point = Point;
    const COLUMNS: &'static [Column<Self>] = report::COLUMNS;
    const TABLE: &'static [Column<Self>] = report::TABLE;
    const LEGEND: &'static str = report::LEGEND;

    fn context(workload: &Workload) -> Result<Context> {
        let model = Model::read(&workload.model)?;
        let counter = Counter::open(&model.dir, model.prompt.clone())?;
        Ok(Context { model, counter })
    }

    fn prepare(
        job: &Job<'_, Shape>,
        Context { model, counter }: &Context,
        shape: &Shape,
        scratch: &Path,
    ) -> Result<Self> {
        let max_tokens = shape.tokens.unwrap_or(0).max(model.max_tokens);
        let opened = model.reading(max_tokens, &job.cache)?;
        let Texts { texts, lengths } = Texts::read(shape, counter, max_tokens)?;
        write_lines(&scratch.join("texts.jsonl"), &texts)?;
        Ok(Self {
            size: model.size,
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
        format!("{} texts, {each:.1} tokens each, at most {}", self.texts, self.max_tokens)
    }

    fn open(&self, job: &Job<'_, Shape>) -> Value {
        let (model, device, cache) = (self.model.clone(), job.device.clone(), job.cache.clone());
        json!(Request::Open { model, device, threads: job.threads, cache })
    }

    fn load(&self, session: &mut Session<Self>) -> Result<()> {
        let prepared: Prepared = session.ask(&Request::Prepare { texts: self.scratch.join("texts.jsonl") })?;
        if prepared.texts == self.texts {
            return Ok(());
        }
        Err(session.worker.unexpected("prepare", format!("{} texts", self.texts), prepared.texts))
    }

    fn warm_up(&mut self, session: &mut Session<Self>) -> Result<()> {
        let tuned: Tuned = session.ask(&Request::Tune)?;
        session.run.point.tuned = tuned.settings;
        let out = self.scratch.join(format!("{}.npy", session.worker.engine()));
        self.encode(session, Some(out.clone()))?;
        let vectors = npy::read_vectors(&out)?;
        fs_err::remove_file(&out)?;
        let unexpected = |expected: String, got: String| Err(session.worker.unexpected("encode", expected, got));
        if vectors.len() != self.texts {
            return unexpected(format!("{} vectors", self.texts), vectors.len().to_string());
        }
        // Also the first engine's own vectors have to be vectors.
        let first = self.first.as_ref().unwrap_or(&vectors);
        let shape = |matrix: &Matrix| format!("{} vectors of {} values", matrix.len(), matrix.dim());
        if first.dim() != vectors.dim() {
            return unexpected(shape(first), shape(&vectors));
        }
        session.run.point.smallest_cosine = smallest_cosine(first, &vectors);
        self.first.get_or_insert(vectors);
        Ok(())
    }

    fn pass(&self, session: &mut Session<Self>) -> Result<f64> {
        let encoded = self.encode(session, None)?;
        session.run.point.computed_tokens = encoded.computed_tokens;
        Ok(encoded.seconds)
    }

    fn start_limit(&mut self, job: &Job<'_, Shape>, sessions: &[Session<Self>]) -> Limited {
        let of = |session: &Session<Self>| session.run.described.more.limited_by().to_owned();
        let mut dtypes: Vec<String> = sessions.iter().map(of).collect();
        dtypes.sort();
        dtypes.dedup();
        let worker = job.start(LIMIT).map_err(|error| (LIMIT, error))?;
        let (device, threads, deadline) = (job.device.clone(), job.threads, job.deadline);
        self.limit = Some(Limit { worker, device, threads, deadline, dtypes });
        Ok(())
    }

    fn measure_limit(&mut self) -> Limited {
        let Some(limit) = &mut self.limit else { return Ok(()) };
        limit.measure(&mut self.limits).map_err(|error| {
            // Without the limit a run has no shares, and all else.
            (self.limit, self.limits) = (None, Gflops::new());
            (LIMIT, error)
        })
    }

    fn end_limit(&mut self) {
        if let Some(limit) = self.limit.take() {
            limit.worker.quit();
        }
    }

    fn heading(measured: &Measured<Self>) -> String {
        report::heading(measured)
    }

    fn summary(measured: &Measured<Self>) -> Value {
        report::summary(measured)
    }
}

impl Encode {
    fn encode(&self, session: &mut Session<Self>, out: Option<PathBuf>) -> Result<Encoded> {
        let encoded: Encoded = session.ask(&Request::Encode { out })?;
        session.worker.above_zero("encode", "a time above 0", encoded.seconds)?;
        // An engine that cuts texts shorter, or reads none of the prompt, does less work.
        if let Some(tokens) = encoded.tokens.filter(|&tokens| tokens != self.tokens) {
            return Err(session.worker.unexpected("encode", format!("{} tokens", self.tokens), tokens));
        }
        Ok(encoded)
    }
}

/// The smallest cosine between rows of the same number. Rows of no length, and values that are not finite, count as -1.
pub(super) fn smallest_cosine(first: &Matrix, other: &Matrix) -> f64 {
    let cosine = |left: &[f32], right: &[f32]| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
        let cosine = dot(left, right) / (dot(left, left).sqrt() * dot(right, right).sqrt());
        if cosine.is_finite() { cosine.clamp(-1.0, 1.0) } else { -1.0 }
    };
    first.rows().zip(other.rows()).map(|(left, right)| cosine(left, right)).fold(1.0, f64::min)
}

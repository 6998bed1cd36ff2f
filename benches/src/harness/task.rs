//! A comparison of engines that open a model: shape by shape, open, warm up, interleaved passes, memory; then record,
//! summary and table. What differs between tasks is in [`BenchTask`].
//!
//! Every engine is in a process of its own at every shape. An engine that fails leaves its shape with its error; the
//! others go on.

use std::fmt::Debug;
use std::io::{self, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::files::in_scratch;
use super::measurement::Measurement;
use super::process::OURS;
use super::run_info::{MachineInfo, RunConditions, RunInfo};
use super::runner::{EngineRunner, EngineSession};
use super::serve::{EngineDescription, OpenedReply, WorkerMemory};
use super::statistics::median;
use super::table::{FigureRow, ShownColumn, TextTable, by_name, join_figures};
use super::workload::{TaskJob, TaskShape, TaskWorkload};
use crate::error::BenchResult;

/// What is measured; a value is what all engines at one shape share.
pub trait BenchTask: Sized + Debug + 'static {
    /// A shape of its workloads.
    type Shape: TaskShape;
    /// What an engine says of itself beyond name, version and settings.
    type Details: Debug + DeserializeOwned;
    /// What is known of an engine at a shape beyond times and memory.
    type Point: Debug + Default;
    /// The table for people.
    const TABLE: &'static [ShownColumn<'static>];
    /// Explains the table.
    const LEGEND: &'static str;
    /// The worker that measures the machine.
    const MACHINE: &'static str = "";

    /// Prepares a shape; files go to `scratch`.
    fn prepare(job: &TaskJob<'_, Self::Shape>, shape: &Self::Shape, scratch: &Path) -> BenchResult<Self>;
    /// The inputs in words.
    fn describe(&self) -> String;
    /// The request that opens the model.
    fn open(&self, job: &TaskJob<'_, Self::Shape>) -> Value;
    /// Has an engine load the inputs.
    fn load(&self, session: &mut TaskSession<Self>) -> BenchResult<()>;
    /// One untimed pass, whose result is compared with the first engine's.
    fn warm_up(&mut self, session: &mut TaskSession<Self>) -> BenchResult<()>;
    /// One pass; its seconds.
    fn pass(&self, session: &mut TaskSession<Self>) -> BenchResult<f64>;
    /// Measures what the machine can do, before each timed pass.
    fn measure_machine(&mut self, _: &TaskJob<'_, Self::Shape>, _: &[TaskSession<Self>]) -> BenchResult<()> {
        Ok(())
    }
    /// Ends what is not a session's, after the last pass.
    fn close(&mut self) {}
    /// The figures of an engine, as a JSON object, beyond those that all tasks have; `first` is the engine that others
    /// are compared with.
    fn figures(&self, run: &EngineRun<Self>, first: &EngineRun<Self>) -> Value;
}

/// One engine at one shape.
#[derive(Debug)]
pub struct EngineRun<T: BenchTask> {
    /// Itself in words.
    pub described: EngineDescription<T::Details>,
    pub(crate) open_ms: f64,
    /// Seconds of each timed pass.
    pub(crate) seconds: Vec<f64>,
    /// Memory before `open`, when the libraries are loaded.
    pub(crate) baseline: WorkerMemory,
    /// Memory after the timed passes; its peak is that of these passes alone.
    pub(crate) served: WorkerMemory,
    /// What the task knows of it.
    pub point: T::Point,
}

impl<T: BenchTask> EngineRun<T> {
    /// Seconds of the median pass.
    pub(crate) fn median_s(&self) -> f64 {
        median(&self.seconds).unwrap_or(f64::NAN)
    }
}

/// An engine with an open model and loaded inputs.
pub type TaskSession<T> = EngineSession<EngineRun<T>>;

/// Starts an engine, opens the model and loads the inputs.
fn open_session<T: BenchTask>(job: &TaskJob<'_, T::Shape>, task: &T, engine: &str) -> BenchResult<TaskSession<T>> {
    let mut worker = job.start(engine)?;
    let described = worker.describe()?;
    let baseline = worker.memory(true)?;
    let OpenedReply { open_ms } = worker.ask(&task.open(job))?;
    let (served, point) = (baseline, T::Point::default());
    let run = EngineRun {
        described,
        open_ms,
        seconds: Vec::new(),
        baseline,
        served,
        point,
    };
    let mut session = EngineSession { worker, run };
    task.load(&mut session)?;
    Ok(session)
}

/// One shape.
#[derive(Debug)]
pub struct ShapeRun<T: BenchTask> {
    pub(crate) name: String,
    pub(crate) task: T,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineRun<T>>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
}

impl<T: BenchTask> ShapeRun<T> {
    /// One engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineRun<T>> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Why an engine failed.
    fn error(&self, name: &str) -> Option<Value> {
        let (_, error) = self.failures.iter().find(|(engine, _)| engine == name)?;
        Some(json!(error))
    }

    /// Speed of one engine over another's: the time of the other's median pass over its own.
    fn speed_ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.engine(peer)?.median_s() / self.engine(ours)?.median_s())
    }
}

/// A run.
#[derive(Debug)]
pub struct TaskMeasurement<T: BenchTask> {
    pub(crate) conditions: RunConditions,
    /// All shapes in the workload's order.
    pub shapes: Vec<ShapeRun<T>>,
}

/// Runs a workload; `note` hears what is being done.
pub fn run<T: BenchTask>(job: &TaskJob<'_, T::Shape>, note: &dyn Fn(&str)) -> BenchResult<TaskMeasurement<T>> {
    let TaskWorkload {
        name,
        model,
        repeats,
        threads,
        shapes,
        ..
    } = job.workload;
    let shapes = in_scratch(&job.settings.cache, |scratch| {
        let mut runs = Vec::new();
        for shape in shapes {
            let task = T::prepare(job, shape, scratch)?;
            note(&format!("{}: {}", shape.name(), task.describe()));
            runs.push(measure(job, shape.name(), task, note)?);
        }
        Ok(runs)
    })?;
    let model = fs_err::canonicalize(model)?;
    let conditions = RunConditions {
        workload: name.clone(),
        model: model
            .file_name()
            .unwrap_or(model.as_os_str())
            .to_string_lossy()
            .into_owned(),
        device: job.device.clone(),
        threads: *threads,
        repeats: *repeats,
        asked: job.settings.engines.clone(),
        machine: MachineInfo::this(),
        stamp: RunInfo::now(),
    };
    Ok(TaskMeasurement { conditions, shapes })
}

fn measure<T: BenchTask>(
    job: &TaskJob<'_, T::Shape>,
    name: &str,
    mut task: T,
    note: &dyn Fn(&str),
) -> BenchResult<ShapeRun<T>> {
    let (mut runner, repeats) = (EngineRunner::new(note), job.workload.repeats);
    for engine in &job.settings.engines {
        runner.admit(engine, open_session(job, &task, engine))?;
    }
    runner.each(0, |session| {
        note(&format!("{}: warming up", session.engine()));
        task.warm_up(session)?;
        // A new peak of memory begins.
        session.worker.memory(true).map(drop)
    })?;
    for pass in 0..repeats {
        note(&format!("pass {} of {repeats}", pass + 1));
        task.measure_machine(job, &runner.sessions)
            .or_else(|error| runner.fail(T::MACHINE, error))?;
        runner.each(pass, |session| {
            let seconds = task.pass(session)?;
            session.run.seconds.push(seconds);
            Ok(())
        })?;
    }
    task.close();
    runner.each(0, |session| {
        session.run.served = session.worker.memory(false)?;
        Ok(())
    })?;
    let (engines, failures) = runner.close();
    Ok(ShapeRun {
        name: name.to_owned(),
        task,
        engines,
        failures,
    })
}

impl<T: BenchTask> TaskMeasurement<T> {
    /// A row of `points.csv`: the figures that every task has, with the task's own between them.
    fn row(&self, shape: &ShapeRun<T>, run: &EngineRun<T>) -> FigureRow {
        let RunConditions {
            workload,
            model,
            device,
            threads,
            machine,
            stamp,
            ..
        } = &self.conditions;
        let EngineRun {
            described,
            open_ms,
            seconds,
            baseline,
            served,
            ..
        } = run;
        let engine = &described.engine;
        let conditions = json!({
            "date": stamp.date,
            "revision": stamp.revision,
            "workload": workload,
            "model": model,
            "device": device,
            "threads": threads,
            "shape": shape.name,
            "engine": engine,
            "version": described.version,
            "settings": described.settings,
        });
        let common = json!({
            "dyad_over": shape.speed_ratio(OURS, engine).filter(|_| engine != OURS),
            // Of the passes, less what the process had before `open`.
            "peak_bytes": served.peak_bytes.saturating_sub(baseline.rss_bytes),
            "baseline_bytes": baseline.rss_bytes,
            "open_ms": open_ms,
            "repeats": seconds.len(),
            "machine": machine.cpu,
            "seconds": seconds,
        });
        let first = shape.engines.first().unwrap_or(run);
        join_figures([conditions, shape.task.figures(run, first), common])
    }

    /// A figure of each shape that has it, by the names of the shapes.
    fn per_shape(&self, figure: impl Fn(&ShapeRun<T>) -> Option<Value>) -> Value {
        by_name(
            self.shapes
                .iter()
                .filter_map(|shape| Some((shape.name.clone(), figure(shape)?))),
        )
    }
}

/// The figures of engines by their names; those without any figure are left out.
fn per_engine<'a>(names: impl IntoIterator<Item = &'a String>, figures: impl Fn(&str) -> Value) -> Value {
    let all = names.into_iter().map(|name| (name.clone(), figures(name)));
    by_name(all.filter(|(_, figures)| *figures != json!({})))
}

impl<T: BenchTask> Measurement for TaskMeasurement<T> {
    fn record_name(&self) -> String {
        self.conditions.stamp.record(&self.conditions.workload)
    }

    /// The conditions; `ratios`, which are speeds of each engine of ours over each peer's, medians over the passes, by
    /// shape; all figures of each engine by shape; and failures.
    fn summary(&self) -> Value {
        let asked = &self.conditions.asked;
        let is_own = |name: &&String| T::Shape::OWN.contains(&name.as_str());
        let (ours, peers): (Vec<&String>, Vec<&String>) = asked.iter().partition(is_own);
        let failed = self
            .shapes
            .iter()
            .flat_map(|shape| &shape.failures)
            .map(|(name, _)| name);
        let mut summary = json!(self.conditions);
        summary["ratios"] = per_engine(ours, |ours| {
            per_engine(peers.iter().copied(), |peer| {
                self.per_shape(|shape| shape.speed_ratio(ours, peer).map(Value::from))
            })
        });
        summary["engines"] = per_engine(asked, |name| {
            self.per_shape(|shape| Some(self.row(shape, shape.engine(name)?).into()))
        });
        summary["failures"] = per_engine(failed, |name| self.per_shape(|shape| shape.error(name)));
        summary
    }

    /// `points.csv`: a row per shape and engine.
    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)> {
        let mut rows = Vec::new();
        for shape in &self.shapes {
            rows.extend(shape.engines.iter().map(|run| self.row(shape, run)));
        }
        vec![("points.csv", rows)]
    }

    /// A table per shape.
    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let RunConditions {
            workload,
            model,
            device,
            threads,
            repeats,
            machine,
            ..
        } = &self.conditions;
        writeln!(
            out,
            "{workload}: {model} on {device}, {threads} threads, {repeats} repeats, {}",
            machine.cpu
        )?;
        for shape in &self.shapes {
            writeln!(out, "\n{}: {}", shape.name, shape.task.describe())?;
            let mut table = TextTable::of_columns("", T::TABLE);
            for run in &shape.engines {
                table.push_row(&run.described.engine, T::TABLE, &self.row(shape, run));
            }
            table.write(out)?;
            shape
                .failures
                .iter()
                .try_for_each(|(engine, error)| writeln!(out, "{engine} failed: {error}"))?;
        }
        writeln!(out, "\nMedians; dyad over: speed, above 1 is faster. {}", T::LEGEND)
    }

    /// Engines as `engine at shape`.
    fn failed(&self) -> Vec<String> {
        let mut failed = Vec::new();
        for shape in &self.shapes {
            let asked = shape
                .failures
                .iter()
                .filter(|(engine, _)| self.conditions.asked.contains(engine));
            failed.extend(asked.map(|(engine, _)| format!("{engine} at {}", shape.name)));
        }
        failed
    }
}

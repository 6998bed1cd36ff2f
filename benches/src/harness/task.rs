//! A comparison of engines that open a model: shape by shape, open, warm up, interleaved passes, memory; then record, summary and
//! table. What differs between tasks is in [`Task`].
//!
//! Every engine is in a process of its own at every shape. An engine that fails leaves its shape with its error; the others go on.

use std::fmt::Debug;
use std::io::{self, Write};
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::files::in_scratch;
use super::output::{Row, Show, median, row, write_line};
use super::process::{OURS, Worker};
use super::run_info::{Conditions, Machine, RunInfo};
use super::runner::{EngineSession, Runner};
use super::serve::{Described, Memory, Opened};
use super::workload::{Job, Shape, Workload};
use crate::error::Result;

/// A figure of an engine at a shape: its name in records, and its value.
pub type Column<T> = (&'static str, fn(&At<'_, T>) -> Value);

/// What is measured; a value is what all engines at one shape share.
pub trait Task: Sized + Debug + 'static {
    /// A shape of its workloads.
    type Shape: Shape;
    /// What an engine says of itself beyond name, version and settings.
    type More: Debug + DeserializeOwned;
    /// What is known of an engine at a shape beyond times and memory.
    type Point: Debug + Default;
    /// Figures beyond those that all tasks have.
    const COLUMNS: &'static [Column<Self>];
    /// The table for people: headings, columns, and how each is shown.
    const TABLE: &'static [(&'static str, &'static str, Show)];
    /// Explains the table.
    const LEGEND: &'static str;
    /// The worker that measures the machine.
    const MACHINE: &'static str = "";

    /// Prepares a shape; files go to `scratch`.
    fn prepare(job: &Job<'_, Self::Shape>, shape: &Self::Shape, scratch: &Path) -> Result<Self>;
    /// The inputs in words.
    fn describe(&self) -> String;
    /// The request that opens the model.
    fn open(&self, job: &Job<'_, Self::Shape>) -> Value;
    /// Has an engine load the inputs.
    fn load(&self, session: &mut Session<Self>) -> Result<()>;
    /// One untimed pass, whose result is compared with the first engine's.
    fn warm_up(&mut self, session: &mut Session<Self>) -> Result<()>;
    /// One pass; its seconds.
    fn pass(&self, session: &mut Session<Self>) -> Result<f64>;
    /// Measures what the machine can do, before each timed pass.
    fn measure_machine(&mut self, _: &Job<'_, Self::Shape>, _: &[Session<Self>]) -> Result<()> {
        Ok(())
    }
    /// After the last pass.
    fn close(&mut self) {}
}

/// One engine at one shape.
#[derive(Debug)]
pub struct EngineRun<T: Task> {
    /// Itself in words.
    pub described: Described<T::More>,
    pub(crate) open_ms: f64,
    /// Seconds of each timed pass.
    pub(crate) seconds: Vec<f64>,
    /// Before `open`, libraries loaded.
    pub(crate) baseline: Memory,
    /// After the timed passes; its peak is that of these passes alone.
    pub(crate) served: Memory,
    /// What the task knows of it.
    pub point: T::Point,
}

impl<T: Task> EngineRun<T> {
    /// Seconds of the median pass.
    pub(crate) fn median_s(&self) -> f64 {
        median(&self.seconds).unwrap_or(f64::NAN)
    }
}

/// An engine with an open model and loaded inputs.
#[derive(Debug)]
pub struct Session<T: Task> {
    pub(crate) worker: Worker,
    pub(crate) run: EngineRun<T>,
}

impl<T: Task> EngineSession for Session<T> {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl<T: Task> Session<T> {
    fn start(job: &Job<'_, T::Shape>, task: &T, engine: &str) -> Result<Self> {
        let mut worker = job.start(engine)?;
        let described = worker.describe()?;
        let baseline = worker.memory(true)?;
        let Opened { open_ms } = worker.ask(&task.open(job))?;
        let (served, point) = (baseline, T::Point::default());
        let run = EngineRun { described, open_ms, seconds: Vec::new(), baseline, served, point };
        let mut session = Self { worker, run };
        task.load(&mut session)?;
        Ok(session)
    }
}

/// One shape.
#[derive(Debug)]
pub struct ShapeRun<T: Task> {
    pub(crate) name: String,
    pub(crate) task: T,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineRun<T>>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
}

impl<T: Task> ShapeRun<T> {
    /// One engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineRun<T>> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Speed of one engine over another's: the time of the other's median pass over its own.
    fn speed_ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.engine(peer)?.median_s() / self.engine(ours)?.median_s())
    }
}

/// A run.
#[derive(Debug)]
pub struct Measured<T: Task> {
    pub(crate) conditions: Conditions,
    /// In the workload's order.
    pub shapes: Vec<ShapeRun<T>>,
}

/// One engine at one shape of a run: what a row is made of.
#[derive(Debug)]
pub struct At<'a, T: Task> {
    pub(crate) conditions: &'a Conditions,
    pub(crate) shape: &'a ShapeRun<T>,
    pub(crate) run: &'a EngineRun<T>,
}

/// All columns: those that every task has, with the task's own between them.
fn columns<T: Task>() -> Vec<Column<T>> {
    let before: [Column<T>; 10] = [
        ("date", |at| json!(at.conditions.stamp.date)),
        ("revision", |at| json!(at.conditions.stamp.revision)),
        ("workload", |at| json!(at.conditions.workload)),
        ("model", |at| json!(at.conditions.model)),
        ("device", |at| json!(at.conditions.device)),
        ("threads", |at| json!(at.conditions.threads)),
        ("shape", |at| json!(at.shape.name)),
        ("engine", |at| json!(at.run.described.engine)),
        ("version", |at| json!(at.run.described.version)),
        ("settings", |at| json!(at.run.described.settings)),
    ];
    let after: [Column<T>; 7] = [
        ("dyad_over", |at| {
            let engine = &at.run.described.engine;
            json!(at.shape.speed_ratio(OURS, engine).filter(|_| engine != OURS))
        }),
        // Of the passes, less what the process had before `open`.
        ("peak_bytes", |at| json!(at.run.served.peak_bytes.saturating_sub(at.run.baseline.rss_bytes))),
        ("baseline_bytes", |at| json!(at.run.baseline.rss_bytes)),
        ("open_ms", |at| json!(at.run.open_ms)),
        ("repeats", |at| json!(at.run.seconds.len())),
        ("machine", |at| json!(at.conditions.machine.cpu)),
        ("seconds", |at| json!(at.run.seconds)),
    ];
    before.into_iter().chain(T::COLUMNS.iter().copied()).chain(after).collect()
}

/// Runs a workload; `note` hears what is being done.
pub fn run<T: Task>(job: &Job<'_, T::Shape>, note: &dyn Fn(&str)) -> Result<Measured<T>> {
    let Workload { name, model, repeats, threads, shapes, .. } = job.workload;
    let shapes = in_scratch(&job.cache, |scratch| {
        let one = |shape: &T::Shape| {
            let task = T::prepare(job, shape, scratch)?;
            note(&format!("{}: {}", shape.name(), task.describe()));
            measure(job, shape.name(), task, note)
        };
        shapes.iter().map(one).collect::<Result<_>>()
    })?;
    let model = fs_err::canonicalize(model)?;
    let conditions = Conditions {
        workload: name.clone(),
        model: model.file_name().unwrap_or(model.as_os_str()).to_string_lossy().into_owned(),
        device: job.device.clone(),
        threads: *threads,
        repeats: *repeats,
        asked: job.engines.clone(),
        machine: Machine::this(),
        stamp: RunInfo::now(),
    };
    Ok(Measured { conditions, shapes })
}

fn measure<T: Task>(job: &Job<'_, T::Shape>, name: &str, mut task: T, note: &dyn Fn(&str)) -> Result<ShapeRun<T>> {
    let (mut runner, repeats) = (Runner::new(note), job.workload.repeats);
    for engine in &job.engines {
        runner.admit(engine, Session::start(job, &task, engine))?;
    }
    runner.each(0, |session| {
        note(&format!("{}: warming up", session.worker.engine()));
        task.warm_up(session)?;
        // A new peak of memory begins.
        session.worker.memory(true).map(drop)
    })?;
    for pass in 0..repeats {
        note(&format!("pass {} of {repeats}", pass + 1));
        task.measure_machine(job, &runner.sessions).or_else(|error| runner.fail(T::MACHINE, error))?;
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
    let (engines, failures) = runner.close(|session| {
        session.worker.quit();
        session.run
    });
    Ok(ShapeRun { name: name.to_owned(), task, engines, failures })
}

impl<T: Task> Measured<T> {
    fn row(&self, shape: &ShapeRun<T>, run: &EngineRun<T>) -> Row {
        row(&columns::<T>(), &At { conditions: &self.conditions, shape, run })
    }

    /// `points.csv`: a row per shape and engine, for later runs to be compared with.
    pub(crate) fn points(&self) -> Vec<Row> {
        self.shapes.iter().flat_map(|shape| shape.engines.iter().map(|run| self.row(shape, run))).collect()
    }

    /// `summary.json`: the conditions; `ratios`, which are speeds of each engine of ours over each peer's, medians over the passes,
    /// by shape; all figures of each engine by shape; and failures.
    pub fn summary(&self) -> Value {
        let per_shape = |figure: &dyn Fn(&ShapeRun<T>) -> Option<Value>| -> Value {
            self.shapes
                .iter()
                .filter_map(|shape| Some((shape.name.clone(), figure(shape)?)))
                .collect::<Map<_, _>>()
                .into()
        };
        let named = |names: &[&String], value: &dyn Fn(&str) -> Value| -> Value {
            let filled =
                names.iter().map(|name| ((*name).clone(), value(name))).filter(|(_, value)| *value != json!({}));
            filled.collect::<Map<_, _>>().into()
        };
        let (ours, peers): (Vec<&String>, Vec<&String>) =
            self.conditions.asked.iter().partition(|name| T::Shape::OWN.contains(&name.as_str()));
        let over =
            |ours: &str| named(&peers, &|peer| per_shape(&|shape| shape.speed_ratio(ours, peer).map(Value::from)));
        let failures: Vec<&String> =
            self.shapes.iter().flat_map(|shape| &shape.failures).map(|(name, _)| name).collect();
        let error =
            |name: &str| per_shape(&|shape| Some(json!(shape.failures.iter().find(|(engine, _)| engine == name)?.1)));
        let mut summary = json!(self.conditions);
        summary["ratios"] = named(&ours, &over);
        summary["engines"] = named(&self.conditions.asked.iter().collect::<Vec<_>>(), &|name| {
            per_shape(&|shape| Some(self.row(shape, shape.engine(name)?).into()))
        });
        summary["failures"] = named(&failures, &error);
        summary
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`.
    pub fn failed(&self) -> Vec<String> {
        let of = |shape: &ShapeRun<T>| {
            let asked = shape.failures.iter().filter(|(engine, _)| self.conditions.asked.contains(engine));
            asked.map(|(engine, _)| format!("{engine} at {}", shape.name)).collect::<Vec<_>>()
        };
        self.shapes.iter().flat_map(of).collect()
    }

    /// Writes the figures for people: a table per shape.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let Conditions { workload, model, device, threads, repeats, machine, asked, .. } = &self.conditions;
        let width = asked.iter().map(String::len).max().unwrap_or(0) + 2;
        writeln!(out, "{workload}: {model} on {device}, {threads} threads, {repeats} repeats, {}", machine.cpu)?;
        for shape in &self.shapes {
            writeln!(out, "\n{}: {}", shape.name, shape.task.describe())?;
            write_line(out, width, "", T::TABLE.iter().map(|(heading, ..)| *heading))?;
            for run in &shape.engines {
                let row = self.row(shape, run);
                let figure = |column: &str| row.get(column).unwrap_or(&Value::Null);
                let figures = T::TABLE.iter().map(|(_, column, show)| show.text(figure(column)));
                write_line(out, width, &run.described.engine, figures)?;
            }
            shape.failures.iter().try_for_each(|(engine, error)| writeln!(out, "{engine} failed: {error}"))?;
        }
        writeln!(out, "\nMedians; dyad over: speed, above 1 is faster. {}", T::LEGEND)
    }
}

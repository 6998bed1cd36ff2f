//! A comparison of engines that open a model: shape by shape, open, warm up, interleaved passes, memory; then record, summary and
//! table. What differs between tasks is in [`Task`].
//!
//! Every engine is in a process of its own at every shape. An engine that fails leaves its shape with its error; the others go on.

use std::fmt::Debug;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::error::{Error, Result};
use super::files::in_scratch;
use super::output::{extremes, median, write_csv, write_row};
use super::process::{OURS, Worker};
use super::run_info::Conditions;
use super::runner::{EngineSession, Runner};
use super::serve::{Described, Memory, Opened};
use super::workload::{Job, Shape, Workload};

/// A column of a record or a table: its heading, and its text for one engine at one shape.
pub type Column<T> = (&'static str, fn(&At<'_, T>) -> String);

/// What is measured; a value is what all engines at one shape share.
pub trait Task: Sized + Debug + 'static {
    /// A shape of its workloads.
    type Shape: Shape;
    /// What is read once, before the first shape.
    type Context: Debug;
    /// What an engine says of itself beyond name, version and settings.
    type More: Debug + DeserializeOwned;
    /// What is known of an engine at a shape beyond times and memory.
    type Point: Debug + Default;
    /// Columns of `points.csv` after those of the run.
    const COLUMNS: &'static [Column<Self>];
    /// Columns of the table for people.
    const TABLE: &'static [Column<Self>];
    /// Explains the table.
    const LEGEND: &'static str;

    /// Reads what all shapes share.
    fn context(workload: &Workload<Self::Shape>) -> Result<Self::Context>;
    /// Prepares a shape; files go to `scratch`.
    fn prepare(
        job: &Job<'_, Self::Shape>,
        context: &Self::Context,
        shape: &Self::Shape,
        scratch: &Path,
    ) -> Result<Self>;
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
    /// Before the first timed pass: a worker that is measured before each pass, and no engine of its own.
    fn start_limit(&mut self, _: &Job<'_, Self::Shape>, _: &[Session<Self>]) -> Limited {
        Ok(())
    }
    /// Before each timed pass.
    fn measure_limit(&mut self) -> Limited {
        Ok(())
    }
    /// After the last one.
    fn end_limit(&mut self) {}
    /// What follows the conditions in the first line of the table.
    fn heading(_: &Measured<Self>) -> String {
        String::new()
    }
    /// The keys of `summary.json` beyond those of the conditions.
    fn summary(measured: &Measured<Self>) -> Value;
}

/// Done, or which worker could not and why.
pub type Limited = Result<(), (&'static str, Error)>;

/// Time and memory of an engine that opens a model and makes passes over its inputs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Passes {
    pub(crate) open_ms: f64,
    /// Seconds of each timed pass.
    pub(crate) seconds: Vec<f64>,
    /// Before `open`, libraries loaded.
    pub(crate) baseline: Memory,
    /// After the timed passes; its peak is that of these passes alone.
    pub(crate) served: Memory,
}

impl Passes {
    /// Seconds of the median pass.
    pub(crate) fn median_s(&self) -> f64 {
        median(&self.seconds).unwrap_or(f64::NAN)
    }

    /// Seconds of the fastest and of the slowest pass.
    pub(crate) fn extremes(&self) -> (f64, f64) {
        extremes(&self.seconds)
    }

    /// Peak memory of the passes less what the process had before `open`.
    pub(crate) fn peak_bytes(&self) -> u64 {
        self.served.peak_bytes.saturating_sub(self.baseline.rss_bytes)
    }
}

/// One engine at one shape.
#[derive(Debug)]
pub struct EngineRun<T: Task> {
    /// Itself in words.
    pub described: Described<T::More>,
    pub(crate) passes: Passes,
    /// What the task knows of it.
    pub point: T::Point,
}

/// An engine with an open model and loaded inputs.
#[derive(Debug)]
pub struct Session<T: Task> {
    pub(crate) worker: Worker,
    pub(crate) deadline: Duration,
    pub(crate) run: EngineRun<T>,
}

impl<T: Task> EngineSession for Session<T> {
    fn engine(&self) -> &str {
        self.worker.engine()
    }
}

impl<T: Task> Session<T> {
    fn start(job: &Job<'_, T::Shape>, task: &T, engine: &str) -> Result<Self> {
        let (mut worker, deadline) = (job.start(engine)?, job.deadline);
        let described = worker.describe(deadline)?;
        let baseline = worker.memory(true, deadline)?;
        let Opened { open_ms } = worker.ask(&task.open(job), deadline)?;
        let passes = Passes { open_ms, seconds: Vec::new(), baseline, served: baseline };
        let mut session = Self { worker, deadline, run: EngineRun { described, passes, point: T::Point::default() } };
        task.load(&mut session)?;
        Ok(session)
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask<R: DeserializeOwned>(&mut self, request: &impl Serialize) -> Result<R> {
        self.worker.ask(request, self.deadline)
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

    /// Time of one engine's median pass over another's.
    pub(crate) fn time_ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.engine(ours)?.passes.median_s() / self.engine(peer)?.passes.median_s())
    }

    /// Names and errors of the engines that failed, as JSON.
    pub(crate) fn failed(&self) -> Value {
        self.failures.iter().map(|(name, error)| (name.clone(), json!(error))).collect::<Map<_, _>>().into()
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

impl<T: Task> At<'_, T> {
    /// Time of our median pass over this engine's; `None` for ourselves.
    pub(crate) fn peer_ratio(&self) -> Option<f64> {
        let name = &self.run.described.engine;
        self.shape.time_ratio(OURS, name).filter(|_| name != OURS)
    }
}

/// Columns of the run at the beginning of a record.
const OF_RUN: [&str; 6] = ["date", "revision", "workload", "model", "device", "threads"];

/// Runs a workload; `note` hears what is being done.
pub fn run<T: Task>(job: &Job<'_, T::Shape>, note: &dyn Fn(&str)) -> Result<Measured<T>> {
    let context = T::context(job.workload)?;
    let shapes = in_scratch(&job.cache, |scratch| {
        let one = |shape: &T::Shape| {
            let task = T::prepare(job, &context, shape, scratch)?;
            note(&format!("{}: {}", shape.name(), task.describe()));
            measure(job, shape.name(), task, note)
        };
        job.workload.shapes.iter().map(one).collect::<Result<_>>()
    })?;
    Ok(Measured { conditions: job.conditions()?, shapes })
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
        session.worker.memory(true, session.deadline).map(drop)
    })?;
    if let Err((engine, error)) = task.start_limit(job, &runner.sessions) {
        runner.fail(engine, error)?;
    }
    for pass in 0..repeats {
        note(&format!("pass {} of {repeats}", pass + 1));
        if let Err((engine, error)) = task.measure_limit() {
            runner.fail(engine, error)?;
        }
        runner.each(pass, |session| {
            let seconds = task.pass(session)?;
            session.run.passes.seconds.push(seconds);
            Ok(())
        })?;
    }
    task.end_limit();
    runner.each(0, |session| {
        session.run.passes.served = session.worker.memory(false, session.deadline)?;
        Ok(())
    })?;
    let (engines, failures) = runner.close(|session| {
        session.worker.quit();
        session.run
    });
    Ok(ShapeRun { name: name.to_owned(), task, engines, failures })
}

impl<T: Task> Measured<T> {
    /// Every engine at every shape.
    fn rows(&self) -> impl Iterator<Item = At<'_, T>> {
        self.shapes.iter().flat_map(|shape| shape.engines.iter().map(|run| self.at(shape, run)))
    }

    /// An engine at a shape.
    pub(crate) fn at<'a>(&'a self, shape: &'a ShapeRun<T>, run: &'a EngineRun<T>) -> At<'a, T> {
        At { conditions: &self.conditions, shape, run }
    }

    /// Peers among the engines asked for, and ours; ours begin with the one that `ratios` speaks of.
    pub(crate) fn sides(&self) -> (Vec<&str>, Vec<&str>) {
        let asked = self.conditions.asked.iter().map(String::as_str);
        let (mut ours, peers): (Vec<&str>, Vec<&str>) = asked.partition(|name| T::Shape::OWN.contains(name));
        ours.sort_by_key(|name| *name != OURS);
        (ours, peers)
    }

    /// For each peer and shape a figure of the two.
    pub(crate) fn per_peer(&self, figure: impl Fn(&ShapeRun<T>, &str) -> Option<f64>) -> Map<String, Value> {
        let of_peer = |peer: &str| -> Value { self.per_shape(|shape| figure(shape, peer).map(Value::from)).into() };
        self.sides().1.into_iter().map(|peer| (peer.to_owned(), of_peer(peer))).collect()
    }

    /// For each shape what is to be said of it.
    pub(crate) fn per_shape(&self, figure: impl Fn(&ShapeRun<T>) -> Option<Value>) -> Map<String, Value> {
        self.shapes.iter().filter_map(|shape| Some((shape.name.clone(), figure(shape)?))).collect()
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`.
    pub fn failed(&self) -> Vec<String> {
        let of_shape = |shape: &ShapeRun<T>| {
            let asked =
                shape.failures.iter().map(|(engine, _)| engine).filter(|name| self.conditions.asked.contains(name));
            asked.map(|engine| format!("{engine} at {}", shape.name)).collect::<Vec<_>>()
        };
        self.shapes.iter().flat_map(of_shape).collect()
    }

    /// The name of its record.
    pub(crate) fn record(&self) -> String {
        self.conditions.stamp.record(&self.conditions.workload)
    }
}

/// `summary.json`: the ratios, and all that is needed to know what they are ratios of.
pub fn summary<T: Task>(measured: &Measured<T>) -> Value {
    let mut all = T::summary(measured);
    if let (Value::Object(all), Value::Object(conditions)) = (&mut all, json!(measured.conditions)) {
        all.extend(conditions);
    }
    all
}

/// `points.csv`: one run as rows that later runs can be compared with, one per engine and shape.
pub fn write_points<T: Task>(out: &mut impl Write, measured: &Measured<T>) -> io::Result<()> {
    let Conditions { stamp, workload, model, device, threads, .. } = &measured.conditions;
    let run = [&stamp.date, &stamp.revision, workload, model, device, &threads.to_string()].map(String::clone);
    let headings = OF_RUN.into_iter().chain(T::COLUMNS.iter().map(|(heading, _)| *heading));
    write_csv(
        out,
        headings,
        measured.rows().map(|at| run.iter().cloned().chain(T::COLUMNS.iter().map(|(_, text)| text(&at))).collect()),
    )
}

/// The figures for people: a table per shape.
pub fn write_table<T: Task>(out: &mut impl Write, measured: &Measured<T>) -> io::Result<()> {
    let (conditions, width) = (&measured.conditions, measured.conditions.width());
    writeln!(out, "{}{}", conditions.heading(), T::heading(measured))?;
    for shape in &measured.shapes {
        writeln!(out, "\n{}: {}", shape.name, shape.task.describe())?;
        write_row(out, width, "", T::TABLE.iter().map(|(heading, _)| *heading))?;
        for run in &shape.engines {
            let at = measured.at(shape, run);
            write_row(out, width, &run.described.engine, T::TABLE.iter().map(|(_, text)| text(&at)))?;
        }
        shape.failures.iter().try_for_each(|(engine, error)| writeln!(out, "{engine} failed: {error}"))?;
    }
    writeln!(out, "\nMedians. {}", T::LEGEND)
}

//! Progress of a run: a bar, lines of JSON, event files for TensorBoard.
//!
//! | file | what |
//! |---|---|
//! | `bar.rs` | loss, rate, examples per second, time left |
//! | `lines.rs` | one JSON object per line |
//! | `events.rs` | TensorBoard's files: records and their checksums |

mod bar;
mod events;
mod lines;

use std::path::Path;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::TrainError;
use super::config::{LogConfig, Stage};
use super::step::StepReport;
use bar::Bar;
use events::Events;
use lines::Lines;
pub(super) use lines::METRICS_FILE;

/// Steps since the last line.
#[derive(Debug, Default, Clone, Copy)]
struct LogWindow {
    steps: u64,
    loss: f64,
    examples: usize,
    tokens: usize,
    skipped: u64,
}

/// The log of a run.
#[derive(Debug)]
pub(super) struct RunLog {
    every: u64,
    lines: Lines,
    events: Option<Events>,
    bar: Bar,
    stage: String,
    window: LogWindow,
    since: Instant,
    started: Instant,
}

impl RunLog {
    /// Opens the files of a run that goes on after `step` steps: later lines are taken out, and all where none was
    /// saved.
    pub(super) fn open(out: &Path, config: LogConfig, step: Option<u64>) -> Result<Self, TrainError> {
        let now = Instant::now();
        Ok(Self {
            every: config.every,
            lines: Lines::open(&out.join(METRICS_FILE), step)?,
            events: if config.tensorboard {
                Some(Events::create(&out.join("tensorboard"), step.unwrap_or(0))?)
            } else {
                None
            },
            bar: Bar::default(),
            stage: String::new(),
            window: LogWindow::default(),
            since: now,
            started: now,
        })
    }

    /// A stage begins, or resumes after `taken` of its steps.
    pub(super) fn begin(&mut self, stage: &Stage, taken: u64, steps: u64) {
        self.stage.clone_from(&stage.name);
        (self.window, self.since) = (LogWindow::default(), Instant::now());
        self.bar.begin(&stage.name, taken, steps);
    }

    /// Adds the `step`-th step of the run, at `epoch` of its stage. A line is written for several steps at a time.
    pub(super) fn write_step(&mut self, step: u64, epoch: f64, report: &StepReport) -> Result<(), TrainError> {
        self.window.steps += 1;
        self.window.loss += report.loss;
        self.window.examples += report.examples;
        self.window.tokens += report.tokens;
        self.window.skipped += u64::from(report.norm.is_none());
        let seconds = self.since.elapsed().as_secs_f64().max(1e-9);
        let rate = report.rate;
        let mean = self.window.loss / self.window.steps as f64;
        self.bar
            .step(report.step, mean, rate, self.window.examples as f64 / seconds);
        if !step.is_multiple_of(self.every) {
            return Ok(());
        }
        let mut fields = Map::new();
        let mut put = |name: &str, value: f64| fields.insert(name.to_owned(), json!(value));
        put("loss", mean);
        for (name, value) in &report.parts {
            put(&format!("loss-{name}"), *value);
        }
        for (name, value) in &report.measures {
            put(name, *value);
        }
        put("rate", rate);
        put("epoch", epoch);
        put("temperature", report.temperature);
        put("norm", report.norm.unwrap_or(f64::NAN));
        put("skipped", self.window.skipped as f64);
        put("examples-per-second", self.window.examples as f64 / seconds);
        put("tokens-per-second", self.window.tokens as f64 / seconds);
        (self.window, self.since) = (LogWindow::default(), Instant::now());
        self.write("train", step, fields)
    }

    /// The evaluation of the model that the run begins from.
    pub(super) fn write_before(&mut self, values: &[(String, f64)]) -> Result<(), TrainError> {
        self.write_metrics("before", 0, values, "before training")
    }

    /// An evaluation after `step` steps of the run.
    pub(super) fn write_evaluation(
        &mut self,
        step: u64,
        values: &[(String, f64)],
        best: bool,
    ) -> Result<(), TrainError> {
        self.write_metrics(
            "evaluation",
            step,
            values,
            &format!("step {step}{}", if best { " (best)" } else { "" }),
        )
    }

    fn write_metrics(
        &mut self,
        what: &str,
        step: u64,
        values: &[(String, f64)],
        title: &str,
    ) -> Result<(), TrainError> {
        let fields = values
            .iter()
            .map(|(name, value)| (name.clone(), json!(value)))
            .collect();
        let shown: Vec<String> = values
            .iter()
            .map(|(name, value)| format!("{name} {value:.4}"))
            .collect();
        self.bar.say(&format!("{title}: {}", shown.join(", ")));
        // The time of an evaluation is no part of the speed of steps.
        self.since = Instant::now();
        (self.window.examples, self.window.tokens) = (0, 0);
        self.write(what, step, fields)
    }

    fn write(&mut self, what: &str, step: u64, fields: Map<String, Value>) -> Result<(), TrainError> {
        if let Some(events) = &mut self.events {
            let scalars: Vec<(String, f32)> = fields
                .iter()
                .filter_map(|(name, value)| Some((format!("{what}/{name}"), value.as_f64()? as f32)))
                .collect();
            events.scalars(step, &scalars)?;
        }
        let seconds = self.started.elapsed().as_secs_f64();
        let head = [
            ("step", json!(step)),
            ("stage", json!(self.stage)),
            ("what", json!(what)),
        ];
        let mut line: Map<String, Value> = head.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        line.extend(fields);
        line.insert("seconds".into(), json!(seconds));
        Ok(self.lines.write(&Value::Object(line))?)
    }
}

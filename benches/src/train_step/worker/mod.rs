//! A worker of our own: the other end of [`super::protocol`].
//!
//! | file | what lives there |
//! |---|---|
//! | `trainer.rs` | what an opened trainer can do |
//! | `dyad.rs` | our trainer's step: **the one place to change when its interface does** |

#[cfg(feature = "torch")]
mod dyad;
mod trainer;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::trainer::{Steps, Trainer};
use super::protocol::{Described, Memory, Opened, Prepared, Request, Stepped};
use crate::harness::{self, read_lines};

/// Engines that this binary holds.
pub const ENGINES: [&str; 1] = ["dyad"];

/// Serves requests until `quit` or the end of `input`.
pub fn serve(engine: &str, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    if !ENGINES.contains(&engine) {
        bail!("no engine `{engine}` in this binary; there is {}", ENGINES.join(", "));
    }
    let mut worker = Worker { engine, trainer: None };
    harness::serve(input, output, |request| worker.answer(request))
}

struct Worker<'a> {
    engine: &'a str,
    trainer: Option<Box<dyn Trainer>>,
}

impl Worker<'_> {
    fn answer(&mut self, request: Request) -> anyhow::Result<Value> {
        Ok(match request {
            Request::Describe => serde_json::to_value(Described {
                engine: self.engine.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                settings: "dyad_encoder::train::Step, in-batch loss, clipping to norm 1, AdamW, f32".to_owned(),
            })?,
            Request::Open { model, device, threads, learning_rate, temperature } => {
                let started = Instant::now();
                self.trainer = Some(open(&model, &device, threads, [learning_rate, temperature])?);
                serde_json::to_value(Opened::since(started))?
            }
            Request::Prepare { pairs, batch } => {
                let pairs = read_lines(&pairs)?;
                let batches = self.trainer()?.prepare(&pairs, batch)?;
                serde_json::to_value(Prepared { pairs: pairs.len(), batches })?
            }
            Request::Steps => {
                let trainer = self.trainer()?;
                let started = Instant::now();
                let Steps { losses, tokens } = trainer.steps()?;
                let seconds = started.elapsed().as_secs_f64();
                serde_json::to_value(Stepped { seconds, losses, tokens, computed_tokens: tokens })?
            }
            Request::Memory { settle } => serde_json::to_value(Memory::own(settle)?)?,
            Request::Quit => json!({}),
        })
    }

    fn trainer(&mut self) -> anyhow::Result<&mut Box<dyn Trainer>> {
        self.trainer.as_mut().context("nothing is open: `open` comes first")
    }
}

#[cfg(feature = "torch")]
fn open(model: &Path, device: &str, threads: usize, numbers: [f64; 2]) -> anyhow::Result<Box<dyn Trainer>> {
    Ok(Box::new(dyad::Dyad::open(model, device, threads, numbers)?))
}

#[cfg(not(feature = "torch"))]
fn open(_: &Path, _: &str, _: usize, _: [f64; 2]) -> anyhow::Result<Box<dyn Trainer>> {
    bail!("this dyad-bench was built without feature `torch`, which holds our trainer. Build it with default features")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::test_worker;

    #[test]
    fn a_worker_says_who_it_is_and_what_is_wrong() {
        let [described, stepped] = test_worker("steps", |input, output| serve("dyad", input, output));
        assert_eq!(described["engine"], "dyad");
        assert_eq!(stepped, json!({ "error": "nothing is open: `open` comes first" }));
        assert!(serve("other", &b""[..], Vec::new()).unwrap_err().to_string().contains("`other`"));
    }
}

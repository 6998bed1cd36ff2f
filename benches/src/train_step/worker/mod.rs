//! A worker of our own: the other end of [`super::protocol`].
//!
//! | file | what lives there |
//! |---|---|
//! | `dyad.rs` | our trainer's step: **the one place to change when its interface does** |

#[cfg(feature = "torch")]
mod dyad;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::protocol::{Described, Memory, Opened, Prepared, Request, Stepped};
use crate::harness::{self, own_bytes};

/// Engines that this binary holds.
pub const ENGINES: [&str; 1] = ["dyad"];

/// What a step of training is asked of.
trait Trainer {
    /// Tokenizes pairs and keeps them as batches; how many.
    fn prepare(&mut self, pairs: &[(String, String)], batch: usize) -> anyhow::Result<usize>;
    /// One step with each batch.
    fn steps(&mut self) -> anyhow::Result<Steps>;
}

/// What the steps did.
#[derive(Debug)]
struct Steps {
    losses: Vec<f64>,
    /// Nothing is padded.
    tokens: u64,
}

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
                serde_json::to_value(Opened { open_ms: started.elapsed().as_secs_f64() * 1e3 })?
            }
            Request::Prepare { pairs, batch } => {
                let lines = fs_err::read_to_string(&pairs)?;
                let pairs: Vec<(String, String)> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
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
            Request::Memory { settle } => {
                if settle {
                    // Sets the peak back to what is resident now (man 5 proc).
                    fs_err::write("/proc/self/clear_refs", "5")?;
                }
                serde_json::to_value(Memory { rss_bytes: own_bytes("VmRSS")?, peak_bytes: own_bytes("VmHWM")? })?
            }
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

    #[test]
    fn a_worker_says_who_it_is_and_what_is_wrong() {
        let lines = "{\"op\":\"describe\"}\n{\"op\":\"steps\"}\nnonsense\n{\"op\":\"memory\",\"settle\":true}\n{\"op\":\"quit\"}\n{\"op\":\"describe\"}\n";
        let mut output = Vec::new();
        serve("dyad", lines.as_bytes(), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        let replies: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(replies.len(), 5, "nothing is answered after `quit`");
        assert_eq!(replies[0]["engine"], "dyad");
        assert_eq!(replies[1], json!({ "error": "nothing is open: `open` comes first" }));
        assert!(replies[2]["error"].as_str().unwrap().starts_with("not a request of the protocol"));
        assert!(replies[3]["peak_bytes"].as_u64() >= replies[3]["rss_bytes"].as_u64());
        assert!(serve("other", &b""[..], Vec::new()).unwrap_err().to_string().contains("`other`"));
    }
}

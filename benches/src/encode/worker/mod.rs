//! A worker of our own: the other end of [`super::protocol`].
//!
//! | file | what lives there |
//! |---|---|
//! | `embedder.rs` | what an opened model can do |
//! | `dyad.rs` | our encoder: **the one place to change when its interface does** |

#[cfg(feature = "torch")]
mod dyad;
mod embedder;

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use self::embedder::Embedder;
use super::protocol::{Described, Encoded, Memory, Opened, Prepared, Request, Tuned};
use crate::dataset::{Matrix, npy};
use crate::harness::{self, read_lines};

/// Engines that this binary holds: our encoder in each number type that it may know.
pub const ENGINES: [&str; 4] = ["dyad", "dyad-bf16", "dyad-f16", "dyad-int8"];

/// Serves requests until `quit` or the end of `input`.
pub fn serve(engine: &str, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    if !ENGINES.contains(&engine) {
        bail!("no engine `{engine}` in this binary; there are {}", ENGINES.join(", "));
    }
    let dtype = engine.split_once('-').map_or("f32", |(_, dtype)| dtype);
    let mut worker = Worker { engine, dtype, model: None, texts: Vec::new() };
    harness::serve(input, output, |request| worker.answer(request))
}

struct Worker<'a> {
    engine: &'a str,
    dtype: &'a str,
    model: Option<Box<dyn Embedder>>,
    texts: Vec<String>,
}

impl Worker<'_> {
    fn answer(&mut self, request: Request) -> anyhow::Result<Value> {
        Ok(match request {
            Request::Describe => serde_json::to_value(self.describe())?,
            Request::Open { model, device, threads, .. } => {
                let started = Instant::now();
                self.model = Some(open(&model, &device, self.dtype, threads)?);
                serde_json::to_value(Opened::since(started))?
            }
            Request::Prepare { texts } => {
                self.texts = read_lines(&texts)?;
                serde_json::to_value(Prepared { texts: self.texts.len() })?
            }
            // The encoder chooses its batches itself.
            Request::Tune => serde_json::to_value(Tuned { settings: String::new() })?,
            Request::Encode { out } => serde_json::to_value(self.encode(out.as_deref())?)?,
            Request::Memory { settle } => serde_json::to_value(Memory::own(settle)?)?,
            Request::Matmul { .. } => bail!("{} multiplies no matrices of its own", self.engine),
            Request::Quit => json!({}),
        })
    }

    fn describe(&self) -> Described {
        Described {
            engine: self.engine.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dtype: self.dtype.to_owned(),
            settings: format!("dyad_encoder::Model, {}, its own batches", self.dtype),
        }
    }

    fn encode(&self, out: Option<&Path>) -> anyhow::Result<Encoded> {
        let model = self.model.as_deref().context("`encode` before `open`")?;
        let started = Instant::now();
        let embedded = model.embed(&self.texts)?;
        let seconds = started.elapsed().as_secs_f64();
        if let Some(out) = out {
            npy::write_vectors(out, &Matrix::new(embedded.dim, embedded.vectors))?;
        }
        Ok(Encoded { seconds, tokens: Some(embedded.tokens), computed_tokens: embedded.computed_tokens })
    }
}

#[cfg(feature = "torch")]
fn open(model: &Path, device: &str, dtype: &str, threads: usize) -> anyhow::Result<Box<dyn Embedder>> {
    Ok(Box::new(dyad::Dyad::open(model, device, dtype, threads)?))
}

#[cfg(not(feature = "torch"))]
fn open(_: &Path, _: &str, _: &str, _: usize) -> anyhow::Result<Box<dyn Embedder>> {
    bail!("this dyad-bench was built without feature `torch`, which holds our encoder. Build it with default features")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::test_worker;

    #[test]
    fn a_worker_says_who_it_is_and_what_is_wrong() {
        let [described, encoded] = test_worker("encode", |input, output| serve("dyad-int8", input, output));
        assert_eq!((&described["engine"], &described["dtype"]), (&json!("dyad-int8"), &json!("int8")));
        assert_eq!(encoded, json!({ "error": "`encode` before `open`" }));
        assert!(serve("other", &b""[..], Vec::new()).unwrap_err().to_string().contains("`other`"));
    }
}

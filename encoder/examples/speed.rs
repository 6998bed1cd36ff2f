//! The speed of a model in this process: its tokenizer and its network, without a service around them.
//!
//! ```text
//! cargo run --release -p dyad-encoder --example speed -- MODEL_DIR TOWER < texts    # JSON strings, one on a line
//! {"one_by_one":41000.0,"together":88000.0}                                         # texts a second
//! ```
//!
//! Two threads; each figure is of the second pass over the texts. `benches/peers/static_models.py speed` runs it next
//! to the libraries in Python.
#![expect(clippy::print_stdout, reason = "the figures are its output")]

use std::io::BufRead;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use dyad_encoder::tokenize::{Budget, Tokenizer, Tokens};
use dyad_encoder::{Compute, Error, Model, Tower};
use rayon::prelude::*;
use serde_json::json;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory: PathBuf = arguments.next().context("expected a model's directory")?.into();
    let tower = arguments.next().context("expected `question` or `answer`")?;
    let tower: Tower = tower.parse().map_err(|refusal: String| anyhow!(refusal))?;
    let lines = std::io::stdin().lock().lines();
    let texts = lines.map(|line| Ok(serde_json::from_str(&line?)?));
    let texts: Vec<String> = texts.collect::<anyhow::Result<_>>()?;
    let compute = Compute {
        threads: Some(2),
        ..Compute::default()
    };
    let budget = Budget::of(compute.device, compute.dtype);
    let model = Model::open(&directory, &compute)?;
    let tokenizer = model.tokenizer();
    let one_by_one = || texts.iter().try_for_each(|text| one(&model, &tokenizer, tower, text));
    let together = || all(&model, &tokenizer, tower, &texts, budget);
    // The first pass warms up.
    let [one_by_one, together] = [&one_by_one as &dyn Fn() -> Result<(), Error>, &together].map(|pass| {
        pass()?;
        let started = Instant::now();
        pass()?;
        Ok(texts.len() as f64 / started.elapsed().as_secs_f64())
    });
    let figures = [one_by_one, together]
        .into_iter()
        .collect::<Result<Vec<f64>, Error>>()?;
    println!("{}", json!({"one_by_one": figures[0], "together": figures[1]}));
    Ok(())
}

/// A text in a call of its own.
fn one(model: &Model, tokenizer: &Tokenizer, tower: Tower, text: &str) -> Result<(), Error> {
    let tokens = tokenizer.encode(tower, text)?;
    model.embed(tower, &[&tokens]).map(drop)
}

/// All texts in one call.
fn all(model: &Model, tokenizer: &Tokenizer, tower: Tower, texts: &[String], budget: Budget) -> Result<(), Error> {
    let tokens = texts.par_iter().map(|text| tokenizer.encode(tower, text));
    let tokens = tokens.collect::<Result<Vec<Tokens>, Error>>()?;
    model.embed_all(tower, &tokens, budget).map(drop)
}

//! `dyad-encoder encode`: a few texts to JSON lines, for looking into a model.

use std::io::{BufRead, BufReader, Write};

use anyhow::{Context, ensure};
use clap::Args;
use serde_json::json;

use super::model::ModelOptions;
use crate::config::{PromptOptions, Tower};
use crate::model::Model;
use crate::tokenize::Tokens;

#[derive(Debug, Args)]
pub(crate) struct EncodeArguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    /// question or answer
    #[arg(long, default_value_t = Tower::Question)]
    tower: Tower,
    /// Texts; without any, one per line of standard input
    texts: Vec<String>,
}

pub(crate) fn run(options: &EncodeArguments) -> anyhow::Result<()> {
    let texts = if options.texts.is_empty() {
        BufReader::new(std::io::stdin())
            .lines()
            .collect::<Result<_, _>>()
            .context("cannot read standard input")?
    } else {
        options.texts.clone()
    };
    for (number, text) in texts.iter().enumerate() {
        ensure!(!text.trim().is_empty(), "text {} is empty", number + 1);
    }
    let encoder = Model::open_with(&options.model.model, &options.model.compute(), &options.prompts)?;
    let tokenizer = encoder.tokenizer();
    let tokens: Vec<Tokens> = texts
        .iter()
        .map(|text| tokenizer.encode(options.tower, text))
        .collect::<Result<_, _>>()?;
    let vectors = encoder.embed_all(options.tower, &tokens, options.model.budget())?;
    let mut output = std::io::stdout().lock();
    for ((text, tokens), vector) in texts.iter().zip(&tokens).zip(vectors.chunks_exact(encoder.info().dim)) {
        let line = json!({
            "text": text, "tower": options.tower.name(), "tokens": tokens.ids.len(),
            "truncated": tokens.truncated, "fingerprint": encoder.info().fingerprint, "vector": vector,
        });
        writeln!(output, "{line}")?;
    }
    Ok(())
}

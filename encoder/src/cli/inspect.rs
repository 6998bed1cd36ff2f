//! `dyad-encoder inspect`: what a model is made of.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::config::{PromptOptions, Tower, settings_table};
use crate::device::Compute;
use crate::model::{Contents, CrossEncoder, Model, ModelInfo, ModelKind};

#[derive(Debug, Args)]
pub(crate) struct InspectOptions {
    /// Directory of the model
    #[arg(value_name = "DIR", required_unless_present = "settings")]
    model: Option<PathBuf>,
    /// Print every setting of a model's files that is known, and what is done with it, as a table
    #[arg(long, conflicts_with = "model")]
    settings: bool,
    #[command(flatten)]
    prompts: PromptOptions,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Bytes of a value in each number type.
const DTYPES: [(&str, u64); 3] = [("f32", 4), ("bf16", 2), ("f16", 2)];

pub(crate) fn run(options: &InspectOptions) -> anyhow::Result<()> {
    let Some(directory) = &options.model else {
        write!(std::io::stdout().lock(), "{}", settings_table())?;
        return Ok(());
    };
    let compute = Compute::default();
    if CrossEncoder::is_at(directory)? {
        let model = CrossEncoder::open_with(directory, &compute, &options.prompts)?;
        return print(options, model.info(), model.contents(), None);
    }
    let model = Model::open_with(directory, &compute, &options.prompts)?;
    print(options, model.info(), model.contents(), model.reproduce_golden()?)
}

fn print(options: &InspectOptions, info: &ModelInfo, contents: &Contents, golden: Option<f64>) -> anyhow::Result<()> {
    let scores = info.kind == ModelKind::CrossEncoder;
    let mut output = std::io::stdout().lock();
    if options.json {
        let modules: Vec<_> = contents
            .modules
            .iter()
            .map(|module| {
                json!({"id": module.id, "class": module.class, "towers": module.towers, "tensors": module.tensors,
                       "parameters": module.parameters})
            })
            .collect();
        let ties: Vec<_> = contents
            .shared_tensors
            .iter()
            .map(|(tensor, modules)| json!({"tensor": tensor, "modules": modules}))
            .collect();
        let bytes: serde_json::Map<_, _> = DTYPES
            .map(|(name, bytes)| (name.to_owned(), json!(contents.parameters * bytes)))
            .into_iter()
            .collect();
        let value = json!({
            "name": info.name, "kind": if scores { "cross-encoder" } else { "dual-encoder" },
            "fingerprint": info.fingerprint, "dim": (!scores).then_some(info.dim), "max_tokens": info.max_tokens,
            "max_question_tokens": info.max_question_tokens, "normalizes": info.normalizes,
            "two_towers": info.has_two_towers,
            "prompts": {"question": info.prompts[0], "answer": info.prompts[1]},
            "named_prompts": info.named_prompts.iter().collect::<BTreeMap<_, _>>(),
            "sharing": contents.sharing.map(|sharing| sharing.to_string()), "modules": modules, "shared_tensors": ties,
            "parameters": contents.parameters, "bytes": bytes, "golden_cosine": golden,
        });
        writeln!(output, "{value:#}")?;
        return Ok(());
    }
    writeln!(output, "{}, fingerprint {}", info.name, info.fingerprint)?;
    if scores {
        writeln!(
            output,
            "cross encoder: a score for each pair of texts, longest pair {} tokens",
            info.max_tokens
        )?;
    } else {
        writeln!(
            output,
            "{} values, unit length {}, longest question {} tokens, longest answer {}",
            info.dim,
            if info.normalizes { "by the model" } else { "made here" },
            info.max_question_tokens,
            info.max_tokens
        )?;
    }
    for (tower, prompt) in Tower::BOTH
        .iter()
        .zip(&info.prompts)
        .filter(|(_, prompt)| !prompt.is_empty())
    {
        writeln!(output, "prompt of the {tower} tower: {prompt:?}")?;
    }
    for (name, prompt) in info.named_prompts.iter().filter(|(_, prompt)| !prompt.is_empty()) {
        writeln!(output, "prompt {name}: {prompt:?}")?;
    }
    if let Some(sharing) = contents.sharing {
        writeln!(output, "sharing {sharing}")?;
    }
    writeln!(output)?;
    for module in &contents.modules {
        let (id, towers) = (
            if module.id.is_empty() { "." } else { &module.id },
            module.towers.join(", "),
        );
        let class = module.class;
        writeln!(
            output,
            "{id:<26} {class:<17} {towers:<17} {:>4} tensors {:>12}",
            module.tensors, module.parameters
        )?;
    }
    for (tensor, modules) in &contents.shared_tensors {
        writeln!(output, "{tensor} is one tensor in {}", modules.join(", "))?;
    }
    let sizes =
        DTYPES.map(|(name, bytes)| format!("{name} {:.1} MiB", (contents.parameters * bytes) as f64 / 1_048_576.0));
    writeln!(output, "\n{} parameters: {}", contents.parameters, sizes.join(", "))?;
    match golden {
        Some(cosine) => writeln!(output, "golden vectors reproduced: smallest cosine {cosine:.7}")?,
        None if scores => {}
        None => writeln!(output, "no golden vectors: not written by dyad")?,
    }
    Ok(())
}

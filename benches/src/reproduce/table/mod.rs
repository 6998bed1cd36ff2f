//! A table: which models are trained under which settings and on what they are measured. Unknown keys are refused.

use std::path::{Path, PathBuf};

use dyad_corpus::PassageContext;
use dyad_encoder::Dtype;
use dyad_encoder::loss::Similarity;
use dyad_encoder::train::DEPTH;
use dyad_encoder::train::config::MineConfig;
use serde::{Deserialize, Serialize};

use crate::error::BenchResult;
use crate::harness::{plain_names, read_toml};

/// What a table shows. `benches/reproduce/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ReproduceTable {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) baseline: String,
    #[serde(default)]
    pub(crate) train: toml::Table,
    #[serde(rename = "evaluation")]
    pub(crate) evaluations: Vec<TableEvaluation>,
    pub(crate) probe: Option<ProbeConfig>,
    #[serde(rename = "part", default)]
    pub(crate) parts: Vec<ExamplePart>,
    #[serde(default)]
    pub(crate) examples: Vec<DerivedExamples>,
    #[serde(rename = "variant")]
    pub(crate) variants: Vec<TableVariant>,
}

/// A share of some examples: which ones depends on their answers alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ExamplePart {
    pub(crate) name: String,
    /// Examples that it is a part of.
    pub(crate) of: String,
    /// Their split, where they are a BEIR folder; `train` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) split: Option<String>,
    /// First place among all answers in a random order, from 0 to 1.
    pub(crate) from: f64,
    /// The place after the last one.
    pub(crate) to: f64,
    /// The part is searched, not trained on.
    #[serde(default)]
    pub(crate) judged: bool,
}

/// Examples that are made before the first variant that is trained on them.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct DerivedExamples {
    pub(crate) name: String,
    /// Examples that they are made from.
    pub(crate) of: String,
    /// The variant whose model makes them.
    pub(crate) by: String,
    /// How negatives are mined; without it the examples are scored.
    pub(crate) mine: Option<MineConfig>,
}

/// What a model is measured on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct TableEvaluation {
    pub(crate) name: String,
    pub(crate) data: String,
    #[serde(default = "test_split")]
    pub(crate) split: String,
    #[serde(default = "cosine")]
    pub(crate) similarity: Similarity,
    /// What of its document reaches a passage's vector.
    #[serde(default)]
    pub(crate) context: PassageContext,
    /// File of the documents that the passages were cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) documents: Option<String>,
}

defaults! {
    test_split: String = "test".to_owned();
    cosine: Similarity = Similarity::Cosine;
}

/// What the towers are looked at with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ProbeConfig {
    pub(crate) data: String,
    #[serde(default = "test_split")]
    pub(crate) split: String,
    pub(crate) pairs: usize,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct TableVariant {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) train: toml::Table,
    pub(crate) against: Option<String>,
    #[serde(default)]
    pub(crate) untrained: bool,
    pub(crate) rerank: Option<RerankSettings>,
}

/// The model's best hits in the order of a cross encoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct RerankSettings {
    /// The variant that is the cross encoder.
    pub(crate) by: String,
    /// How many hits.
    pub(crate) depth: usize,
    /// Number type of the cross encoder; that of the settings where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dtype: Option<Dtype>,
}

/// A text of a table that stands for what another part of it makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableReference<'a> {
    /// `$VARIANTS/NAME`: the final model of a variant.
    Variant(&'a str),
    /// `$EXAMPLES/NAME`: the file of made examples.
    Examples(&'a str),
}

impl<'a> TableReference<'a> {
    /// What a whole text stands for.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let variant = text.strip_prefix("$VARIANTS/").map(Self::Variant);
        variant.or_else(|| text.strip_prefix("$EXAMPLES/").map(Self::Examples))
    }

    /// All in the texts of a value.
    fn all_of(value: &'a toml::Value) -> Vec<Self> {
        match value {
            toml::Value::String(text) => Self::parse(text).into_iter().collect(),
            toml::Value::Array(values) => values.iter().flat_map(Self::all_of).collect(),
            toml::Value::Table(table) => table.values().flat_map(Self::all_of).collect(),
            _ => Vec::new(),
        }
    }
}

impl TableVariant {
    /// What it is trained on and from, and what reranks its hits, in so far as the table makes it.
    pub(super) fn references<'a>(&'a self, table: &'a ReproduceTable) -> Vec<TableReference<'a>> {
        let of_settings = table
            .train
            .values()
            .chain(self.train.values())
            .flat_map(TableReference::all_of);
        of_settings
            .chain(self.rerank.iter().map(|rerank| TableReference::Variant(&rerank.by)))
            .collect()
    }
}

/// What the texts of a table that begin with `$` stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TablePlaces {
    /// `$DATA`: the folder of all data.
    pub(crate) data: PathBuf,
    /// `$MODEL`: the directory of the pretrained model.
    pub(crate) model: PathBuf,
    /// The folder of the trials, and so of `$VARIANTS`, `$EXAMPLES` and `$PARTS`.
    pub(crate) out: PathBuf,
}

impl TablePlaces {
    /// The folder of a trial.
    pub(super) fn trial(&self, variant: &str, seed: u64) -> PathBuf {
        self.out.join(format!("{variant}-seed{seed}"))
    }

    /// The final model of a trial.
    pub(super) fn model_of(&self, variant: &str, seed: u64) -> PathBuf {
        self.trial(variant, seed).join("run").join("final")
    }

    /// The file of made examples.
    pub(super) fn examples(&self, name: &str, seed: u64) -> PathBuf {
        self.out
            .join(format!("examples-seed{seed}"))
            .join(format!("{name}.jsonl"))
    }

    /// The folder of parts.
    pub(super) fn parts(&self) -> PathBuf {
        self.out.join("parts")
    }

    /// A path, or any text, with the places in it, in a trial of a seed.
    pub(crate) fn fill(&self, text: &str, seed: u64) -> String {
        match TableReference::parse(text) {
            Some(TableReference::Variant(name)) => self.model_of(name, seed).to_string_lossy().into_owned(),
            Some(TableReference::Examples(name)) => self.examples(name, seed).to_string_lossy().into_owned(),
            None => text
                .replace("$DATA", &self.data.to_string_lossy())
                .replace("$MODEL", &self.model.to_string_lossy())
                .replace("$PARTS", &self.parts().to_string_lossy()),
        }
    }

    /// Fills in every text of a value.
    pub(super) fn fill_all(&self, value: &mut toml::Value, seed: u64) {
        match value {
            toml::Value::String(text) => *text = self.fill(text, seed),
            toml::Value::Array(values) => values.iter_mut().for_each(|value| self.fill_all(value, seed)),
            toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| self.fill_all(value, seed)),
            _ => {}
        }
    }
}

impl ExamplePart {
    fn check(&self) -> Result<(), String> {
        let Self { name, from, to, .. } = self;
        if *from >= 0.0 && from < to && *to <= 1.0 {
            return Ok(());
        }
        Err(format!(
            "part `{name}`: expected 0 <= from < to <= 1, got {from} and {to}"
        ))
    }
}

impl TableEvaluation {
    /// Refuses a context that reads documents and cannot.
    fn check(&self) -> Result<(), String> {
        let Self {
            name,
            similarity,
            context,
            documents,
            ..
        } = self;
        if context.late_weight().is_none() {
            return Ok(());
        }
        if *similarity != Similarity::Cosine {
            return Err(format!(
                "evaluation `{name}`: context `{context}` is of vectors of unit length: expected similarity cosine"
            ));
        }
        if documents.is_none() {
            return Err(format!(
                "evaluation `{name}`: expected `documents`, a file, with context `{context}`"
            ));
        }
        Ok(())
    }
}

impl ReproduceTable {
    /// Reads and checks a table.
    pub(crate) fn read(path: &Path) -> BenchResult<Self> {
        read_toml(path, |table: &mut Self| table.check())
    }

    fn check(&self) -> Result<(), String> {
        plain_names("name", [self.name.as_str()])?;
        plain_names(
            "variant.name",
            self.variants.iter().map(|variant| variant.name.as_str()),
        )?;
        plain_names(
            "evaluation.name",
            self.evaluations.iter().map(|evaluation| evaluation.name.as_str()),
        )?;
        self.evaluations.iter().try_for_each(TableEvaluation::check)?;
        let against = self.variants.iter().filter_map(|variant| variant.against.as_ref());
        for name in against.chain([&self.baseline]) {
            if self.variant(name).is_none() {
                return Err(format!(
                    "`baseline` and `against`: expected names of variants, got `{name}`"
                ));
            }
        }
        if !self.parts.is_empty() {
            plain_names("part.name", self.parts.iter().map(|part| part.name.as_str()))?;
            self.parts.iter().try_for_each(ExamplePart::check)?;
        }
        if !self.examples.is_empty() {
            plain_names(
                "examples.name",
                self.examples.iter().map(|examples| examples.name.as_str()),
            )?;
        }
        for (at, examples) in self.examples.iter().enumerate() {
            if self.variant(&examples.by).is_none_or(|variant| variant.untrained) {
                return Err(format!(
                    "`examples.by`: expected the name of a trained variant, got `{}`",
                    examples.by
                ));
            }
            if let Some(TableReference::Examples(of)) = TableReference::parse(&examples.of)
                && !self.examples.iter().take(at).any(|earlier| earlier.name == of)
            {
                return Err(format!(
                    "`examples.of`: expected $EXAMPLES/NAME of earlier examples, got `{}`",
                    examples.of
                ));
            }
        }
        for (at, variant) in self.variants.iter().enumerate() {
            let earlier = |name: &str| {
                self.variants
                    .iter()
                    .take(at)
                    .any(|earlier| earlier.name == name && !earlier.untrained)
            };
            for needed in variant.references(self) {
                let wrong = match needed {
                    TableReference::Variant(name) if !earlier(name) => format!("$VARIANTS/{name}"),
                    TableReference::Examples(name) if !self.made_from(name).iter().all(|made| earlier(&made.by)) => {
                        format!("$EXAMPLES/{name}, which a later variant makes")
                    }
                    TableReference::Examples(name) if self.made_from(name).is_empty() => format!("$EXAMPLES/{name}"),
                    TableReference::Variant(_) | TableReference::Examples(_) => continue,
                };
                return Err(format!(
                    "variant `{}`: expected what earlier trained variants make, got {wrong}",
                    variant.name
                ));
            }
            if variant
                .rerank
                .as_ref()
                .is_some_and(|rerank| !(1..=DEPTH).contains(&rerank.depth))
            {
                return Err(format!(
                    "variant `{}`: `rerank.depth`: expected 1 to {DEPTH}",
                    variant.name
                ));
            }
        }
        Ok(())
    }

    /// What has to be made for examples of a name: those that they are made from first, and themselves last. Nothing
    /// where the table makes none of that name.
    pub(super) fn made_from(&self, name: &str) -> Vec<&DerivedExamples> {
        let Some(last) = self.examples.iter().find(|examples| examples.name == name) else {
            return Vec::new();
        };
        // Each is made from earlier ones, so this ends.
        let mut made = match TableReference::parse(&last.of) {
            Some(TableReference::Examples(of)) => self.made_from(of),
            _ => Vec::new(),
        };
        made.push(last);
        made
    }

    /// A variant by name.
    pub(crate) fn variant(&self, name: &str) -> Option<&TableVariant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// What a variant is compared with; `None` for a variant that would be compared with itself.
    pub(crate) fn baseline_of<'a>(&'a self, variant: &'a TableVariant) -> Option<&'a str> {
        let name = variant.against.as_deref().unwrap_or(&self.baseline);
        (name != variant.name).then_some(name)
    }
}

#[cfg(test)]
mod tests;

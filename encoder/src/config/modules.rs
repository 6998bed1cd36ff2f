//! The modules of a model, and the settings of those that follow the transformer: `N_Pooling/config.json` and
//! `N_MultiHopAttention/config.json`.

use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Value, json};

use super::TensorSpec;
use super::architecture::Architecture;
use super::dense::DenseConfig;
use super::json::JsonFile;
use super::transformer::TransformerConfig;
use crate::error::Error;

/// Packages whose classes are known by their last name.
const PACKAGES: [&str; 2] = ["sentence_transformers.", "dyad."];

/// The settings in a module's folder.
fn module_settings(folder: &Path) -> Result<JsonFile, Error> {
    JsonFile::required(&folder.join("config.json"))
}

/// A module and its settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Module {
    Transformer(Box<TransformerConfig>),
    Pooling(PoolingConfig),
    MultiHop(MultiHopConfig),
    Dense(DenseConfig),
    Normalize,
}

impl Module {
    /// Name of its class, without the package.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Transformer(config) if config.static_table().is_some() => "StaticEmbedding",
            Self::Transformer(_) => "Transformer",
            Self::Pooling(_) => "Pooling",
            Self::MultiHop(_) => "MultiHopAttention",
            Self::Dense(_) => "Dense",
            Self::Normalize => "Normalize",
        }
    }

    /// Names and shapes of its tensors.
    pub(crate) fn tensors(&self) -> Box<dyn Iterator<Item = TensorSpec> + '_> {
        match self {
            Self::Transformer(config) => config.architecture.tensors(),
            Self::MultiHop(config) => Box::new(config.tensors().into_iter()),
            Self::Dense(config) => Box::new(config.tensors()),
            Self::Pooling(_) | Self::Normalize => Box::new(std::iter::empty()),
        }
    }

    /// The name that the module gives to a stored tensor.
    pub(crate) fn tensor_name(&self, stored: &str) -> String {
        match self {
            Self::Transformer(config) => config.architecture.tensor_name(stored),
            _ => stored.to_owned(),
        }
    }

    /// The number types that a tensor of it may be stored in.
    pub(crate) fn number_types(&self, tensor: &str) -> &'static [Dtype] {
        match self {
            Self::Transformer(config)
                if config
                    .static_table()
                    .is_some_and(|table| table.takes_any_number(tensor)) =>
            {
                &[
                    Dtype::F32,
                    Dtype::F16,
                    Dtype::BF16,
                    Dtype::F64,
                    Dtype::I8,
                    Dtype::I32,
                    Dtype::I64,
                ]
            }
            _ => &[Dtype::F32, Dtype::F16, Dtype::BF16],
        }
    }

    /// Whether a checkpoint may contain a tensor of this name that the module does not use.
    pub(crate) fn may_hold(&self, name: &str) -> bool {
        matches!(self, Self::Transformer(_)) && Architecture::is_unused(name)
    }

    /// Nothing where the class is none of sentence-transformers' or ours: code in a model's own package may do
    /// anything.
    pub(super) fn read(class: &str, folder: &Path) -> Result<Option<Self>, Error> {
        if !PACKAGES.iter().any(|package| class.starts_with(package)) {
            return Ok(None);
        }
        Ok(Some(match class.rsplit('.').next().unwrap_or(class) {
            "Transformer" => Self::Transformer(Box::new(TransformerConfig::read(folder, true)?)),
            "StaticEmbedding" => Self::Transformer(Box::new(TransformerConfig::read_static_embedding(folder)?)),
            "Pooling" => Self::Pooling(PoolingConfig::read(folder)?),
            "MultiHopAttention" => Self::MultiHop(MultiHopConfig::read(folder)?),
            "Dense" => Self::Dense(DenseConfig::read(folder)?),
            "Normalize" => Self::Normalize,
            _ => return Ok(None),
        }))
    }
}

/// A module, and where its settings lie.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed {
    /// The folder of the module, below the model's; empty for the model's own.
    pub(crate) id: String,
    /// Folder of its settings and its tokenizer.
    pub(crate) folder: PathBuf,
    pub(crate) module: Module,
}

impl Placed {
    /// Refuses a module that was made for other input than the `given` values.
    pub(super) fn takes(&self, in_features: usize, given: usize) -> Result<(), Error> {
        if in_features == given {
            return Ok(());
        }
        Err(Error::Field {
            path: self.folder.join("config.json"),
            field: "in_features",
            expected: format!("the {given} values that the module before gives"),
            got: in_features.to_string(),
        })
    }
}

/// How token vectors become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PoolingMode {
    /// The first token's vector.
    Cls,
    /// The largest value per dimension.
    Max,
    /// The mean over the tokens.
    Mean,
    /// The sum over the tokens, divided by the square root of their number.
    MeanSqrtLength,
    /// The mean with the place of each token, from 1, as its weight.
    WeightedMean,
    /// The last token's vector.
    LastToken,
}

impl PoolingMode {
    const ALL: [Self; 6] = [
        Self::Cls,
        Self::Max,
        Self::Mean,
        Self::MeanSqrtLength,
        Self::WeightedMean,
        Self::LastToken,
    ];

    /// Its name in the files of sentence-transformers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Cls => "cls",
            Self::Max => "max",
            Self::Mean => "mean",
            Self::MeanSqrtLength => "mean_sqrt_len_tokens",
            Self::WeightedMean => "weightedmean",
            Self::LastToken => "lasttoken",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// The flags of the classic form, in the order in which their vectors are concatenated.
const CLASSIC_FLAGS: [(&str, &str); 6] = [
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
];

/// Settings of a `Pooling` module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolingConfig {
    /// The vectors of several modes are concatenated in this order.
    pub(crate) modes: Vec<PoolingMode>,
    /// Whether the tokens of the prompt are pooled too.
    pub(crate) include_prompt: bool,
}

impl PoolingConfig {
    /// The pooling of a model without a pooling module.
    pub(crate) fn mean() -> Self {
        Self {
            modes: vec![PoolingMode::Mean],
            include_prompt: true,
        }
    }

    /// DPR's pooling.
    pub(crate) fn cls() -> Self {
        Self {
            modes: vec![PoolingMode::Cls],
            ..Self::mean()
        }
    }

    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let settings = module_settings(folder)?;
        let names: Vec<&str> = match settings.get("pooling_mode") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) if !names.is_empty() => names
                .iter()
                .map(|name| {
                    name.as_str()
                        .ok_or_else(|| settings.wrong("pooling_mode", "a name or a list of names"))
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(settings.wrong("pooling_mode", "a name or a list of names")),
            None => {
                let mut names = Vec::new();
                for (flag, name) in CLASSIC_FLAGS {
                    if settings.flag(flag)?.unwrap_or(false) {
                        names.push(name);
                    }
                }
                if names.is_empty() { vec!["mean"] } else { names }
            }
        };
        let modes = names
            .into_iter()
            .map(|name| {
                PoolingMode::from_name(name).ok_or_else(|| {
                    let supported = "`cls`, `max`, `mean`, `mean_sqrt_len_tokens`, `weightedmean` and `lasttoken`";
                    settings.unsupported("pooling", supported, name)
                })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            modes,
            include_prompt: settings.flag("include_prompt")?.unwrap_or(true),
        })
    }

    /// `config.json` in the classic form; `hidden` values per token.
    pub(crate) fn classic(&self, hidden: usize) -> Value {
        let mut fields = serde_json::Map::new();
        fields.insert("word_embedding_dimension".to_owned(), json!(hidden));
        for (flag, name) in CLASSIC_FLAGS {
            fields.insert(
                flag.to_owned(),
                json!(self.modes.iter().any(|mode| mode.name() == name)),
            );
        }
        fields.insert("include_prompt".to_owned(), json!(self.include_prompt));
        Value::Object(fields)
    }

    pub(crate) fn fact(&self) -> Value {
        let names: Vec<&str> = self.modes.iter().map(|mode| mode.name()).collect();
        json!({ "pooling": names, "include_prompt": self.include_prompt })
    }
}

/// Settings of a `dyad.models.MultiHopAttention`, which stands where a `Pooling` does (Lin et al. 2017, "A Structured
/// Self-attentive Sentence Embedding"). The class is ours: sentence-transformers cannot read a model that has one.
///
/// ```json
/// {"in_features": 384, "inner": 350, "hops": 4, "include_prompt": true}
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MultiHopConfig {
    /// Values of a token vector.
    pub(crate) in_features: usize,
    /// Values between the two maps.
    pub(crate) inner: usize,
    /// Weighted means, which stand side by side.
    pub(crate) hops: usize,
    /// Whether the tokens of the prompt are pooled too.
    pub(crate) include_prompt: bool,
}

impl MultiHopConfig {
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let settings = module_settings(folder)?;
        Ok(Self {
            in_features: settings.positive("in_features")?,
            inner: settings.positive("inner")?,
            hops: settings.positive("hops")?,
            include_prompt: settings.flag("include_prompt")?.unwrap_or(true),
        })
    }

    /// `config.json`.
    pub(crate) fn classic(&self) -> Value {
        json!({
            "in_features": self.in_features,
            "inner": self.inner,
            "hops": self.hops,
            "include_prompt": self.include_prompt,
        })
    }

    fn tensors(&self) -> [TensorSpec; 2] {
        let Self {
            in_features,
            inner,
            hops,
            ..
        } = *self;
        [
            ("w1.weight".to_owned(), vec![inner, in_features]),
            ("w2.weight".to_owned(), vec![hops, inner]),
        ]
    }

    pub(crate) fn fact(&self) -> Value {
        json!({ "multihop": self.classic() })
    }
}

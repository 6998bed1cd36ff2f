//! A model whose encoder is randomly initialised over the token vectors and the tokenizer of a pretrained model (ENDX's
//! small encoders, Wang et al. 2021): LSTM, GRU, RNN, or a Transformer in BERT's form; and one of which all is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use serde_json::{Value, json};

use super::cast::name_type;
use super::dpr;
use super::initialize::{self, BERT_RANGE, TensorInit};
use super::transformer::transformer_files;
use crate::checkpoint::{Checkpoint, Content, TensorData, WEIGHTS, WeightFile};
use crate::config::{
    Architecture, JsonFile, Layout, Module, Placed, PoolingConfig, RecurrentCell, RecurrentConfig, TokenizerSource,
    Tower, TransformerConfig,
};
use crate::error::Error;

/// Most values of a token vector under a new encoder.
const WIDEST: usize = 65_536;
/// Most heads, and fewest values of one.
const HEADS: usize = 12;
const HEAD_SIZE: usize = 32;

/// A randomly initialised encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewEncoder {
    /// Torch's own cells, all values uniform within one over the square root of `hidden`, as torch has them. Token
    /// vectors get a root mean square of one, which such cells are made for: those of BERT models, which normalise
    /// them, have 0.06, and a cell that sees so little of its input hardly learns.
    Recurrent {
        /// LSTM, GRU or RNN.
        cell: RecurrentCell,
        /// The number of layers, one above the other.
        layers: usize,
        /// Values of a state, in each direction.
        hidden: usize,
        /// Whether a second network reads from the end.
        bidirectional: bool,
    },
    /// Post-normalised layers with learned positions, as wide as the token vectors; linear maps uniform within one over
    /// the square root of their input. sentence-transformers reads it as a BERT.
    Transformer {
        /// The number of layers, one above the other.
        layers: usize,
    },
}

/// Source of the token vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenVectors {
    Pretrained,
    Random,
}

/// A plain model of one tower: `encoder` over the token vectors and the tokenizer of the question tower of `from`, and
/// the mean over tokens. Without an `encoder` it is the transformer that `config.json` describes, and all of it is
/// random.
pub(crate) fn new_encoder(
    from: &Checkpoint,
    encoder: Option<NewEncoder>,
    tokens: TokenVectors,
    seed: u64,
) -> Result<Checkpoint, Error> {
    let (at, placed, config) = from.layout.transformer(Tower::Question)?;
    if config.static_table().is_some() {
        return Err(Error::Unsupported {
            path: placed.folder.clone(),
            what: "a new encoder over a static model",
            supported: "one over the token vectors of a transformer, whose tokenizer puts special tokens around a text",
            got: "a static model: make towers of it as it is".to_owned(),
        });
    }
    let max_tokens = config.max_tokens();
    let mut files: BTreeMap<PathBuf, Content> = BTreeMap::new();
    for (path, content) in transformer_files(from, Path::new(&placed.id)) {
        let name = path.file_name().unwrap_or_default();
        if !name.to_string_lossy().contains(".safetensors") {
            files.insert(PathBuf::from(name), content.clone());
        }
    }
    let (json, architecture, tensors) = if let Some(encoder) = encoder {
        let json = config
            .tokenizer
            .named(encoder.json(config, max_tokens, &placed.folder)?);
        let path = placed.folder.join("config.json");
        let architecture = Architecture::from_json(&JsonFile::new(path, json.clone())?)?;
        let source = NewEncoderSource {
            from,
            at,
            table: config.architecture.token_table(),
            tokens,
            seed,
        };
        let tensors = source.tensors(encoder, &architecture, &placed.folder)?;
        (json, architecture, tensors)
    } else {
        let content = files
            .get(Path::new("config.json"))
            .map(Content::json)
            .transpose()?
            .flatten();
        let mut json = dpr::bert_json(config.tokenizer.named(content.unwrap_or_default()));
        // What is random is f32, whatever the pretrained weights are.
        name_type(&mut json, Dtype::F32);
        let architecture = dpr::as_bert(config).architecture;
        let tensors = initialize::transformer(&architecture, &placed.folder, seed)?;
        (json, architecture, tensors)
    };
    let mut settings = json!({"max_seq_length": max_tokens, "do_lower_case": config.lower_case});
    if !config.tokenizer.processor_kwargs.is_empty() {
        settings["processor_kwargs"] = json!(config.tokenizer.processor_kwargs);
    }
    let weights = PathBuf::from(WEIGHTS);
    files.insert("config.json".into(), Content::Json(json));
    files.insert("sentence_bert_config.json".into(), Content::Json(settings));
    files.insert(
        weights.clone(),
        Content::Weights(WeightFile {
            path: weights.clone(),
            metadata: None,
            tensors,
        }),
    );
    let tokenizer = TokenizerSource {
        config_kwargs: serde_json::Map::new(),
        ..config.tokenizer.clone()
    };
    let transformer = TransformerConfig {
        architecture,
        max_seq_length: Some(max_tokens),
        tokenizer,
        ..config.clone()
    };
    let modules = [
        Module::Transformer(Box::new(transformer)),
        Module::Pooling(PoolingConfig::mean()),
    ];
    let modules = modules.map(|module| Placed {
        id: String::new(),
        folder: placed.folder.clone(),
        module,
    });
    let layout = Layout {
        modules: modules.into(),
        routes: [vec![0, 1], vec![0, 1]],
        ..from.layout.clone()
    };
    Ok(Checkpoint {
        layout,
        files,
        weights: vec![vec![weights], Vec::new()],
        manifest: None,
    })
}

impl NewEncoder {
    /// Its `config.json`, over the table of `config` and for at most `max_tokens` tokens.
    fn json(self, config: &TransformerConfig, max_tokens: usize, folder: &Path) -> Result<Value, Error> {
        let (rows, width) = (config.architecture.vocab_size(), config.architecture.table_width());
        if width > WIDEST {
            return Err(Error::Unsupported {
                path: folder.join("config.json"),
                what: "a new encoder over token vectors of this size",
                supported: "up to 65,536 values",
                got: width.to_string(),
            });
        }
        Ok(match self {
            Self::Recurrent {
                cell,
                layers,
                hidden,
                bidirectional,
            } => {
                let (vocab_size, embedding_size, hidden_size) = (rows, width, hidden);
                RecurrentConfig {
                    cell,
                    vocab_size,
                    embedding_size,
                    hidden_size,
                    layers,
                    bidirectional,
                }
                .fact()
            }
            Self::Transformer { layers } => bert(rows, width, layers, max_tokens),
        })
    }

    /// How a tensor of it that is not the token table begins.
    fn init(self, name: &str, shape: &[usize], width: usize) -> TensorInit {
        match self {
            Self::Recurrent { hidden, .. } => TensorInit::uniform(hidden),
            Self::Transformer { .. } if name.ends_with("LayerNorm.weight") => TensorInit::Constant(1.0),
            Self::Transformer { .. } if name.ends_with("LayerNorm.bias") || name.contains("token_type") => {
                TensorInit::Constant(0.0)
            }
            // A bias as the map that it belongs to.
            Self::Transformer { .. } if name.ends_with(".output.dense.bias") && !name.contains("attention") => {
                TensorInit::uniform(4 * width)
            }
            Self::Transformer { .. } => TensorInit::uniform(shape.get(1).copied().unwrap_or(width)),
        }
    }
}

/// Source of the values of a new encoder.
struct NewEncoderSource<'a> {
    from: &'a Checkpoint,
    /// The pretrained transformer's place among the modules.
    at: usize,
    /// The name of the pretrained transformer's table of token vectors.
    table: &'a str,
    tokens: TokenVectors,
    seed: u64,
}

impl NewEncoderSource<'_> {
    fn tensors(
        &self,
        encoder: NewEncoder,
        architecture: &Architecture,
        folder: &Path,
    ) -> Result<Vec<(String, TensorData)>, Error> {
        let width = architecture.table_width();
        let mut tensors = Vec::new();
        for (name, shape) in initialize::specs(architecture, &folder.join("config.json"))? {
            let tensor = if name == architecture.token_table() {
                self.token_vectors(encoder, &shape)?
            } else {
                encoder
                    .init(&name, &shape, width)
                    .tensor(self.seed, &format!("encoder/{name}"), &shape)
            };
            tensors.push((name, tensor));
        }
        Ok(tensors)
    }

    fn token_vectors(&self, encoder: NewEncoder, shape: &[usize]) -> Result<TensorData, Error> {
        let recurrent = matches!(encoder, NewEncoder::Recurrent { .. });
        let table = match self.tokens {
            TokenVectors::Pretrained => self.from.tensors(self.at)?.get(self.table)?.clone(),
            TokenVectors::Random => {
                let deviation = if recurrent { 1.0 } else { BERT_RANGE };
                TensorInit::Normal(deviation).tensor(self.seed, "token vectors", shape)
            }
        };
        Ok(TensorData::floats(shape.to_vec(), move || {
            let mut values = table.to_floats()?;
            if recurrent {
                to_size_one(&mut values);
            }
            Ok(values)
        }))
    }
}

/// Multiplies values so that their root mean square is one; zeros stay.
fn to_size_one(values: &mut [f32]) {
    let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
    let size = (squares / values.len().max(1) as f64).sqrt();
    if size > 0.0 {
        for value in values {
            *value = (f64::from(*value) / size) as f32;
        }
    }
}

/// `config.json` of a small BERT.
fn bert(rows: usize, width: usize, layers: usize, positions: usize) -> Value {
    let fits = |heads: &usize| width.is_multiple_of(*heads) && width / heads >= HEAD_SIZE;
    json!({
        "model_type": "bert",
        "architectures": ["BertModel"],
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": (1..=HEADS).rev().find(fits).unwrap_or(1),
        "intermediate_size": 4 * width,
        "max_position_embeddings": positions,
        "type_vocab_size": 1,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
    })
}

//! A bundle whose encoder is drawn anew over the token vectors and the tokenizer of a pretrained model (ENDX's small
//! encoders, Wang et al. 2021): LSTM, GRU, RNN, or a Transformer in BERT's form; and one of which all is drawn.

use std::path::Path;

use serde_json::{Value, json};

use super::create::{Aggregation, Creation, assemble, belongs, write};
use super::drawn::{self, Drawn, uniform};
use super::random::Random;
use crate::bundle::stored::{self, TokenTable};
use crate::bundle::{
    Architecture, BERT_RANGE, Cell, Layout, Module, Partial, RecurrentConfig, configured, initial, moved, sound,
    tensors_of, with_type,
};
use crate::error::Error;

/// Keeps the values of an encoder apart from those of a projection of the same seed.
const ENCODER_STREAM: u64 = 0x656e_636f_6465_7221;
/// Longest input where neither settings nor positions of the pretrained model give one.
const UNLIMITED_TOKENS: usize = 512;
/// Most values of a token vector under a new encoder.
const WIDEST: usize = 65_536;
/// Most heads, and fewest values of one.
const HEADS: usize = 12;
const HEAD_SIZE: usize = 32;

/// An encoder to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewEncoder {
    /// Torch's own cells, all values uniform within one over the square root of `hidden`, as torch draws them. Token vectors get a root
    /// mean square of one, which such cells are made for: those of BERT models, which normalise them, have 0.06, and a cell that sees
    /// so little of its input hardly learns.
    Recurrent {
        /// LSTM, GRU or RNN.
        cell: Cell,
        /// One above the other.
        layers: usize,
        /// Values of a state, in each direction.
        hidden: usize,
        /// Whether a second network reads from the end.
        bidirectional: bool,
    },
    /// Post-normalised layers with learned positions, as wide as the token vectors; linear maps uniform within one over the
    /// square root of their input. sentence-transformers reads it as a BERT.
    Transformer {
        /// One above the other.
        layers: usize,
    },
}

/// Whether token vectors are those of the pretrained model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenVectors {
    Pretrained,
    Drawn,
}

/// As [`super::create_with`], with a new encoder over the token vectors of `from`; where its pooling is kept, it is the mean. Both
/// towers start from the same values.
pub fn create_over(
    from: &Path,
    to: &Path,
    creation: &Creation,
    encoder: NewEncoder,
    aggregation: Aggregation,
) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    let source = Source { from, layout: &sound(from)?, tokens: TokenVectors::Pretrained, seed: creation.seed };
    source.make(Some(encoder), to, creation, aggregation.module().as_ref())
}

/// As [`create_over`], with token vectors that are drawn too, for training from nothing: no weights of `from` are read, and none need
/// to be there beside its tokenizer and settings. Without an `encoder` it is the transformer that `config.json` describes (of two
/// towers: the question tower's), drawn as its authors do: maps and tables of BERT's family normal with `initializer_range`, those
/// of T5 by their fan-in. Its pooling can be kept then; multi-hop attention is drawn anew.
pub fn create_drawn(
    from: &Path,
    to: &Path,
    creation: &Creation,
    encoder: Option<NewEncoder>,
    aggregation: Aggregation,
) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    let layout = configured(from)?;
    let pooling = layout.routes[0].get(1).and_then(|&at| layout.modules.get(at));
    let kept = pooling.filter(|_| encoder.is_none()).map(|placed| placed.module.clone());
    let source = Source { from, layout: &layout, tokens: TokenVectors::Drawn, seed: creation.seed };
    source.make(encoder, to, creation, aggregation.module().or(kept).as_ref())
}

/// What a new encoder is made from.
struct Source<'a> {
    from: &'a Path,
    layout: &'a Layout,
    tokens: TokenVectors,
    seed: u64,
}

impl Source<'_> {
    fn make(
        &self,
        encoder: Option<NewEncoder>,
        to: &Path,
        creation: &Creation,
        aggregator: Option<&Module>,
    ) -> Result<(), Error> {
        // A plain model beside its place, which the bundle is made from.
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(".encoder");
        // Never finished: it goes when the bundle is there.
        let plain = Partial::beside(&to.with_file_name(name))?;
        self.write(encoder, plain.path())?;
        assemble(plain.path(), &Layout::read(plain.path())?, to, creation, aggregator)
    }

    fn write(&self, encoder: Option<NewEncoder>, to: &Path) -> Result<(), Error> {
        let Self { from, layout, .. } = *self;
        let first = layout.routes[0].first().and_then(|&at| layout.modules.get(at));
        let Some((placed, Module::Transformer(settings))) = first.map(|placed| (placed, &placed.module)) else {
            let fix = "A tower begins with a transformer";
            return Err(Error::MissingFile { path: from.join("config.json"), fix });
        };
        for entry in fs_err::read_dir(&placed.folder)? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))?;
            let replaced = name == "config.json" || name.contains(".safetensors");
            if path.is_file() && belongs(&name) && !replaced {
                fs_err::copy(&path, to.join(name))?;
            }
        }
        let prompts = from.join("config_sentence_transformers.json");
        if prompts.is_file() {
            fs_err::copy(&prompts, to.join("config_sentence_transformers.json"))?;
        }
        let table = stored::token_table(&placed.folder)?;
        let longest = settings.max_tokens.unwrap_or(usize::MAX).min(table.max_positions);
        let longest = if longest == usize::MAX { UNLIMITED_TOKENS } else { longest };
        let settings = json!({"max_seq_length": longest, "do_lower_case": settings.lower_case});
        write(&to.join("sentence_bert_config.json"), &settings)?;
        let mut random = Random::new(self.seed ^ ENCODER_STREAM);
        if let Some(encoder) = encoder {
            return self.new_encoder(&mut random, encoder, &placed.folder, longest, to);
        }
        let tensors = initial(&placed.folder)?;
        moved::config(&placed.folder, to)?;
        let config = to.join("config.json");
        // What is drawn is f32, whatever the pretrained weights are.
        if let Some(renamed) = with_type(&config, tch::Kind::Float)? {
            write(&config, &renamed)?;
        }
        drawn::write(to, tensors.into_iter().map(|tensor| drawn::tensor(&mut random, tensor)).collect())
    }

    /// Configuration and weights of an encoder over the table of `folder`, for at most `longest` tokens.
    fn new_encoder(
        &self,
        random: &mut Random,
        encoder: NewEncoder,
        folder: &Path,
        longest: usize,
        to: &Path,
    ) -> Result<(), Error> {
        let TokenTable { rows, width, .. } = stored::token_table(folder)?;
        let source = folder.join("config.json");
        if width > WIDEST {
            return Err(Error::Unsupported {
                path: source,
                what: "a new encoder over token vectors of this size",
                supported: "up to 65,536 values",
                got: width.to_string(),
            });
        }
        let (config, deviation) = match encoder {
            NewEncoder::Recurrent { cell, layers, hidden, bidirectional } => {
                let (vocab_size, embedding_size, hidden_size) = (rows, width, hidden);
                let config = RecurrentConfig { cell, vocab_size, embedding_size, hidden_size, layers, bidirectional };
                (config.fact(), 1.0)
            }
            NewEncoder::Transformer { layers } => (bert(rows, width, layers, longest), BERT_RANGE),
        };
        let file = to.join("config.json");
        write(&file, &config)?;
        let architecture = Architecture::read(&file)?;
        // Before anything of that size is drawn.
        tensors_of(&architecture, &source)?;
        let (NewEncoder::Recurrent { layers, .. } | NewEncoder::Transformer { layers }) = encoder;
        let mut tensors = if let Architecture::Recurrent(config) = &architecture {
            let tensors = config.tensors();
            tensors.iter().map(|(name, shape)| uniform(random, name, shape, config.hidden_size)).collect()
        } else {
            bert_tensors(random, width, layers, longest)
        };
        let mut values = match self.tokens {
            TokenVectors::Pretrained => stored::token_vectors(folder)?,
            TokenVectors::Drawn => (0..rows * width).map(|_| random.cut_normal(deviation) as f32).collect(),
        };
        if let NewEncoder::Recurrent { .. } = encoder {
            to_size_one(&mut values);
        }
        tensors.push((architecture.token_table().to_owned(), vec![rows, width], values));
        drawn::write(to, tensors)
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

/// All of its tensors but the token table.
fn bert_tensors(random: &mut Random, width: usize, layers: usize, positions: usize) -> Vec<Drawn> {
    let norm = |name: String| -> [Drawn; 2] {
        [
            (format!("{name}.weight"), vec![width], vec![1.0; width]),
            (format!("{name}.bias"), vec![width], vec![0.0; width]),
        ]
    };
    let mut tensors: Vec<Drawn> = norm("embeddings.LayerNorm".to_owned()).into();
    tensors.push(uniform(random, "embeddings.position_embeddings.weight", &[positions, width], width));
    tensors.push(("embeddings.token_type_embeddings.weight".to_owned(), vec![1, width], vec![0.0; width]));
    for layer in 0..layers {
        for (part, input, output) in [
            ("attention.self.query", width, width),
            ("attention.self.key", width, width),
            ("attention.self.value", width, width),
            ("attention.output.dense", width, width),
            ("intermediate.dense", width, 4 * width),
            ("output.dense", 4 * width, width),
        ] {
            let name = format!("encoder.layer.{layer}.{part}");
            tensors.push(uniform(random, &format!("{name}.weight"), &[output, input], input));
            tensors.push(uniform(random, &format!("{name}.bias"), &[output], input));
        }
        for part in ["attention.output.LayerNorm", "output.LayerNorm"] {
            tensors.extend(norm(format!("encoder.layer.{layer}.{part}")));
        }
    }
    tensors
}

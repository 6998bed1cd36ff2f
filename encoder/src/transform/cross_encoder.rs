//! A cross encoder from a pretrained encoder: its transformer, and the head that scores a pair, with the form and the
//! names of Hugging Face's `...ForSequenceClassification`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::dpr;
use super::initialize::{BERT_RANGE, TensorInit};
use super::transformer::transformer_files;
use crate::checkpoint::{Checkpoint, Content, TensorData, WEIGHTS, WeightFile};
use crate::config::{
    Architecture, BertConfig, Layout, Module, Placed, PoolingConfig, Prompts, TokenizerSource, Tower, TransformerConfig,
};
use crate::error::Error;

/// The transformer of the answer tower of `from` with a head: a pooler that it has is kept, the rest is normal with
/// BERT's deviation, from the seed, with biases of 0 (Nogueira and Cho 2019). Its input is as long as there are
/// positions; its score is the logit: it is trained by a softmax over the candidates of a question (Gao et al. 2021),
/// and a sigmoid would make the best ones equal in f32.
pub(crate) fn cross_encoder(from: &Checkpoint, seed: u64) -> Result<Checkpoint, Error> {
    let (at, placed, config) = from.layout.transformer(Tower::Answer)?;
    let path = placed.folder.join("config.json");
    let Some(Architecture::Bert(bert)) = dpr::as_bert(config).architecture.with_score() else {
        let supported = "an encoder of BERT's family";
        let got = config.architecture.fact()["model_type"].to_string();
        return Err(Error::Unsupported {
            path,
            what: "model to make a cross encoder from",
            supported,
            got,
        });
    };
    let (class, prefix) = class(&bert);
    let mut files = BTreeMap::new();
    for (path, content) in transformer_files(from, Path::new(&placed.id)) {
        let Some(name) = path.file_name() else { continue };
        let json = || Ok::<_, Error>(content.json()?.unwrap_or_default());
        let content = match &*name.to_string_lossy() {
            "config.json" => Content::Json(config_json(config.tokenizer.named(json()?), class)),
            "tokenizer_config.json" => {
                let fields = tokenizer_json(json()?, &config.tokenizer.processor_kwargs, bert.max_positions());
                Content::Json(fields)
            }
            name if name.contains(".safetensors") => continue,
            _ => content.clone(),
        };
        files.insert(PathBuf::from(name), content);
    }
    files.entry("tokenizer_config.json".into()).or_insert_with(|| {
        Content::Json(tokenizer_json(
            json!({}),
            &config.tokenizer.processor_kwargs,
            bert.max_positions(),
        ))
    });
    let weights = PathBuf::from(WEIGHTS);
    let tensors = stored_tensors(from, at, &bert, prefix, seed)?;
    files.insert(
        weights.clone(),
        Content::Weights(WeightFile {
            path: weights.clone(),
            metadata: None,
            tensors,
        }),
    );
    let (max_seq_length, lower_case) = (Some(bert.max_positions()), false);
    // What `sentence_bert_config.json` said of the tokenizer stands in its own files now.
    let tokenizer = TokenizerSource {
        processor_kwargs: Map::new(),
        config_kwargs: Map::new(),
        ..config.tokenizer.clone()
    };
    let config = TransformerConfig {
        architecture: Architecture::Bert(bert),
        max_seq_length,
        lower_case,
        tokenizer,
    };
    let placed = |module| Placed {
        id: String::new(),
        folder: placed.folder.clone(),
        module,
    };
    let layout = Layout {
        root: from.layout.root.clone(),
        modules: vec![
            placed(Module::Transformer(Box::new(config))),
            placed(Module::Pooling(PoolingConfig::cls())),
        ],
        routes: [vec![0, 1], vec![0, 1]],
        prompts: Prompts::default(),
        truncate_dim: None,
        similarity: None,
        unknown: Vec::new(),
    };
    Ok(Checkpoint {
        layout,
        files,
        weights: vec![vec![weights], Vec::new()],
        manifest: None,
    })
}

/// Name of the class, and what its encoder's tensors begin with.
fn class(bert: &BertConfig) -> (&'static str, &'static str) {
    match bert.model_type.as_str() {
        "roberta" => ("RobertaForSequenceClassification", "roberta."),
        "xlm-roberta" => ("XLMRobertaForSequenceClassification", "roberta."),
        "camembert" => ("CamembertForSequenceClassification", "roberta."),
        "distilbert" => ("DistilBertForSequenceClassification", "distilbert."),
        "mpnet" => ("MPNetForSequenceClassification", "mpnet."),
        _ => ("BertForSequenceClassification", "bert."),
    }
}

fn config_json(config: Value, class: &str) -> Value {
    let mut config = dpr::bert_json(config);
    if let Some(fields) = config.as_object_mut() {
        fields.insert("architectures".to_owned(), json!([class]));
        fields.insert("id2label".to_owned(), json!({"0": "LABEL_0"}));
        fields.insert("label2id".to_owned(), json!({"LABEL_0": 0}));
        let activation = json!({"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"});
        fields.insert("sentence_transformers".to_owned(), activation);
    }
    config
}

fn tokenizer_json(mut settings: Value, overrides: &Map<String, Value>, longest: usize) -> Value {
    if let Some(fields) = settings.as_object_mut() {
        fields.extend(overrides.clone());
        fields.insert("model_max_length".to_owned(), json!(longest));
    }
    settings
}

/// The tensors by their stored names.
fn stored_tensors(
    from: &Checkpoint,
    at: usize,
    bert: &BertConfig,
    prefix: &str,
    seed: u64,
) -> Result<Vec<(String, TensorData)>, Error> {
    let known = from.tensors(at)?;
    let architecture = Architecture::Bert(bert.clone());
    let head = architecture.head();
    let mut tensors = Vec::new();
    for (name, shape) in architecture.tensors() {
        let is_head = head.iter().any(|map| map.holds(&name));
        let stored = if is_head && !name.starts_with("pooler.") {
            name.clone()
        } else {
            format!("{prefix}{name}")
        };
        let kept = known
            .get(&name)
            .ok()
            .filter(|tensor| tensor.shape() == shape.as_slice());
        let data = match kept {
            Some(tensor) if !is_head || name.starts_with("pooler.") => tensor.clone(),
            _ if !is_head => known.get(&name)?.clone(),
            _ if shape.len() == 1 => TensorInit::Constant(0.0).tensor(seed, &format!("head/{name}"), &shape),
            _ => TensorInit::Normal(BERT_RANGE).tensor(seed, &format!("head/{name}"), &shape),
        };
        tensors.push((stored, data));
    }
    Ok(tensors)
}

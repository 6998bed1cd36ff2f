//! `config.json` of each family, as transformers 5 reads it: newer names of settings, and those of the models' own
//! code.

use serde_json::{Map, Value};

use super::config::{AttentionReach, RotaryConfig, RotaryLayerConfig};
use super::family::RotaryFamily;
use super::frequencies::{RopeFrequencies, RopeSettings};
use super::head::ScoreHead;
use crate::config::activation::HiddenActivation;
use crate::config::cross_encoder::has_classifier;
use crate::config::json::JsonFile;
use crate::error::Error;

/// Kinds of layers in `layer_types`.
const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// More layers than any encoder has.
const MOST_LAYERS: usize = 1_000;

impl RotaryConfig {
    /// From the content of a `config.json` of this family.
    pub(in crate::config) fn read(file: &JsonFile, family: RotaryFamily) -> Result<Self, Error> {
        let config = match family {
            RotaryFamily::ModernBert => modern_bert(file),
            RotaryFamily::Gte => gte(file),
            RotaryFamily::NomicBert => nomic_bert(file),
            RotaryFamily::Qwen3 => qwen3(file),
            RotaryFamily::Gemma3 => gemma3(file),
        }?;
        // A mask of the other kind is another model (`create_bidirectional_mask` and `create_causal_mask` of
        // transformers).
        let is_causal = config.layers.iter().all(|layer| layer.reach.after == 0);
        if file.flag("is_causal")?.is_some_and(|stated| stated != is_causal) {
            return Err(file.wrong("is_causal", &format!("{is_causal}, as its other settings have it")));
        }
        if !config.head_size.is_multiple_of(2) {
            return Err(file.wrong("head_dim", "an even number: RoPE rotates pairs of values"));
        }
        if config.key_heads == 0 || !config.heads.is_multiple_of(config.key_heads) {
            return Err(file.wrong("num_key_value_heads", "a divisor of `num_attention_heads`"));
        }
        Ok(config)
    }
}

/// Names of the sizes, which models' own code may call otherwise.
struct SizeNames {
    hidden: &'static str,
    layers: &'static str,
    heads: &'static str,
    intermediate: &'static str,
    positions: &'static str,
}

const SIZES: SizeNames = SizeNames {
    hidden: "hidden_size",
    layers: "num_hidden_layers",
    heads: "num_attention_heads",
    intermediate: "intermediate_size",
    positions: "max_position_embeddings",
};

/// Those of `nomic-ai/nomic-bert-2048`.
const NOMIC_SIZES: SizeNames = SizeNames {
    hidden: "n_embd",
    layers: "n_layer",
    heads: "n_head",
    intermediate: "n_inner",
    positions: "n_positions",
};

/// Sizes that every family has, with the rest as most of them have it.
fn sizes(file: &JsonFile, family: RotaryFamily, names: &SizeNames) -> Result<RotaryConfig, Error> {
    let hidden_size = file.positive(names.hidden)?;
    let heads = file.positive(names.heads)?;
    let layers = file.positive(names.layers)?;
    if layers > MOST_LAYERS {
        return Err(file.wrong(names.layers, "at most 1000"));
    }
    let head_size = match file.count("head_dim")? {
        Some(size) if size > 0 => size,
        _ if hidden_size.is_multiple_of(heads) => hidden_size / heads,
        _ => return Err(file.wrong(names.heads, "a divisor of the hidden size")),
    };
    let layer = RotaryLayerConfig {
        reach: AttentionReach::ALL,
        frequencies: RopeFrequencies {
            theta: 10_000.0,
            factor: 1.0,
        },
    };
    Ok(RotaryConfig {
        family,
        vocab_size: file.positive("vocab_size")?,
        hidden_size,
        heads,
        key_heads: heads,
        head_size,
        intermediate_size: file.positive(names.intermediate)?,
        max_positions: file.positive(names.positions)?,
        type_rows: 0,
        epsilon: 1e-12,
        activation: HiddenActivation::Gelu,
        scale: 1.0 / (head_size as f64).sqrt(),
        attention_bias: false,
        feed_forward_bias: [false, false],
        norm_bias: false,
        layers: vec![layer; layers],
        score_head: None,
        scores: false,
    })
}

fn modern_bert(file: &JsonFile) -> Result<RotaryConfig, Error> {
    let config = sizes(file, RotaryFamily::ModernBert, &SIZES)?;
    let mlp_bias = file.flag("mlp_bias")?.unwrap_or(false);
    let every = file.count("global_attn_every_n_layers")?.unwrap_or(3).max(1);
    let is_sliding = |number: usize| !number.is_multiple_of(every);
    let rope = NestedRope {
        full: file.number("global_rope_theta")?.unwrap_or(160_000.0),
        sliding: file.number("local_rope_theta")?.unwrap_or(10_000.0),
        scales_sliding: true,
    };
    let reach = AttentionReach::around(file.count("local_attention")?.unwrap_or(128) / 2);
    let config = RotaryConfig {
        layers: nested_layers(file, &config, is_sliding, reach, AttentionReach::ALL, &rope)?,
        epsilon: file.number("norm_eps")?.unwrap_or(1e-5),
        activation: HiddenActivation::read(file, "hidden_activation", "gelu")?,
        attention_bias: file.flag("attention_bias")?.unwrap_or(false),
        feed_forward_bias: [mlp_bias, mlp_bias],
        norm_bias: file.flag("norm_bias")?.unwrap_or(false),
        ..config
    };
    // Other models have settings of such a head too, and do not use them.
    let score_head = if has_classifier(file) {
        Some(ScoreHead::modern_bert(
            file,
            config.hidden_size,
            config.epsilon,
            config.norm_bias,
        )?)
    } else {
        None
    };
    Ok(RotaryConfig { score_head, ..config })
}

fn gte(file: &JsonFile) -> Result<RotaryConfig, Error> {
    let config = sizes(file, RotaryFamily::Gte, &SIZES)?;
    let own_code = file.text("model_type")? == Some("new");
    // The configuration class of the models' own code, and transformers', have these.
    let (theta, types) = if own_code { (10_000.0, 0) } else { (160_000.0, 1) };
    Ok(RotaryConfig {
        score_head: Some(ScoreHead::gte(config.hidden_size)),
        type_rows: file.count("type_vocab_size")?.unwrap_or(types),
        epsilon: file.number("layer_norm_eps")?.unwrap_or(1e-12),
        activation: HiddenActivation::read(file, "hidden_act", "gelu")?,
        attention_bias: true,
        feed_forward_bias: [false, true],
        norm_bias: true,
        layers: uniform_layers(file, &config, theta, own_code)?,
        ..config
    })
}

fn nomic_bert(file: &JsonFile) -> Result<RotaryConfig, Error> {
    // transformers' own class has the usual names.
    let own_code = file.get("hidden_size").is_none();
    let names = if own_code { &NOMIC_SIZES } else { &SIZES };
    let config = sizes(file, RotaryFamily::NomicBert, names)?;
    let activation = if own_code {
        match file.text("activation_function")?.unwrap_or("gelu") {
            "swiglu" => HiddenActivation::Silu,
            "geglu" => HiddenActivation::Gelu,
            other => return Err(file.unsupported("hidden activation of NomicBERT", "`swiglu` and `geglu`", other)),
        }
    } else {
        HiddenActivation::read(file, "hidden_act", "silu")?
    };
    // Beyond the longest text of its training the models' own code stretches positions by the longest text of a batch.
    let stretched = file.number("rotary_scaling_factor")?.is_some();
    let trained = file.count("max_trained_positions")?.filter(|_| stretched);
    let epsilon = if own_code {
        "layer_norm_epsilon"
    } else {
        "layer_norm_eps"
    };
    let theta = file.number("rotary_emb_base")?.filter(|_| own_code).unwrap_or(1_000.0);
    Ok(RotaryConfig {
        max_positions: trained.map_or(config.max_positions, |trained| trained.min(config.max_positions)),
        type_rows: file.count("type_vocab_size")?.unwrap_or(2),
        epsilon: file.number(epsilon)?.unwrap_or(1e-12),
        activation,
        norm_bias: true,
        layers: uniform_layers(file, &config, theta, false)?,
        ..config
    })
}

fn qwen3(file: &JsonFile) -> Result<RotaryConfig, Error> {
    let config = sizes(file, RotaryFamily::Qwen3, &SIZES)?;
    let config = RotaryConfig {
        key_heads: file.count("num_key_value_heads")?.unwrap_or(config.heads),
        head_size: file.count("head_dim")?.unwrap_or(128),
        ..config
    };
    let window = file
        .count("sliding_window")?
        .filter(|_| file.flag("use_sliding_window").ok().flatten() == Some(true));
    let from = file.count("max_window_layers")?.unwrap_or(28);
    let is_sliding = layer_types(file, &config, |number| window.is_some() && number >= from)?;
    let mut layers = uniform_layers(file, &config, 10_000.0, false)?;
    for (layer, is_sliding) in layers.iter_mut().zip(is_sliding) {
        layer.reach = match window.filter(|_| is_sliding) {
            Some(window) => AttentionReach::causal(window.saturating_sub(1)),
            None => AttentionReach::causal(usize::MAX),
        };
    }
    Ok(RotaryConfig {
        epsilon: file.number("rms_norm_eps")?.unwrap_or(1e-6),
        activation: HiddenActivation::read(file, "hidden_act", "silu")?,
        scale: 1.0 / (config.head_size as f64).sqrt(),
        attention_bias: file.flag("attention_bias")?.unwrap_or(false),
        layers,
        ..config
    })
}

fn gemma3(file: &JsonFile) -> Result<RotaryConfig, Error> {
    let config = sizes(file, RotaryFamily::Gemma3, &SIZES)?;
    let config = RotaryConfig {
        key_heads: file.count("num_key_value_heads")?.unwrap_or(4),
        head_size: file.count("head_dim")?.unwrap_or(256),
        ..config
    };
    let both_ways = file.flag("use_bidirectional_attention")?.unwrap_or(false);
    let window = file.count("sliding_window")?.unwrap_or(4096);
    // Of the stated window, half lies on each side (`Gemma3TextConfig.__post_init__`, `_bidirectional_window_overlay`).
    let (reach, full) = if both_ways {
        (AttentionReach::around(window / 2), AttentionReach::ALL)
    } else {
        (
            AttentionReach::causal(window.saturating_sub(1)),
            AttentionReach::causal(usize::MAX),
        )
    };
    let pattern = match file.count("sliding_window_pattern")? {
        Some(pattern) => pattern,
        None => file.count("_sliding_window_pattern")?.unwrap_or(6),
    };
    let is_sliding = |number: usize| !(number + 1).is_multiple_of(pattern.max(1));
    let rope = NestedRope {
        full: file.number("rope_theta")?.unwrap_or(1_000_000.0),
        sliding: file.number("rope_local_base_freq")?.unwrap_or(10_000.0),
        scales_sliding: false,
    };
    let scalar = match file.number("query_pre_attn_scalar")?.unwrap_or(256.0) {
        scalar if scalar > 0.0 => scalar,
        _ => return Err(file.wrong("query_pre_attn_scalar", "a number above 0")),
    };
    Ok(RotaryConfig {
        layers: nested_layers(file, &config, is_sliding, reach, full, &rope)?,
        epsilon: file.number("rms_norm_eps")?.unwrap_or(1e-6),
        activation: HiddenActivation::read(file, "hidden_activation", "gelu_pytorch_tanh")?,
        scale: 1.0 / scalar.sqrt(),
        attention_bias: file.flag("attention_bias")?.unwrap_or(false),
        ..config
    })
}

/// Which layers have a sliding window: as `layer_types` says, or by `otherwise`.
fn layer_types(file: &JsonFile, config: &RotaryConfig, otherwise: impl Fn(usize) -> bool) -> Result<Vec<bool>, Error> {
    let count = config.layers.len();
    let Some(given) = file.get("layer_types") else {
        return Ok((0..count).map(otherwise).collect());
    };
    let expected = || file.wrong("layer_types", "`full_attention` or `sliding_attention` for each layer");
    let kinds = given
        .as_array()
        .filter(|kinds| kinds.len() == count)
        .ok_or_else(expected)?;
    let is_sliding = |kind: &Value| match kind.as_str() {
        Some(FULL) => Ok(false),
        Some(SLIDING) => Ok(true),
        _ => Err(expected()),
    };
    kinds.iter().map(is_sliding).collect()
}

/// Layers of one kind of rotation: `rope_parameters`, or the older `rope_scaling` and `rope_theta`.
fn uniform_layers(
    file: &JsonFile,
    config: &RotaryConfig,
    theta: f64,
    has_ntk: bool,
) -> Result<Vec<RotaryLayerConfig>, Error> {
    let fields = rope_object(file)?;
    let settings = RopeSettings {
        fields: fields.as_ref(),
        theta: file.number("rope_theta")?.unwrap_or(theta),
        head_size: config.head_size,
        has_ntk,
    };
    let layer = RotaryLayerConfig {
        reach: AttentionReach::ALL,
        frequencies: RopeFrequencies::read(file, settings)?,
    };
    Ok(vec![layer; config.layers.len()])
}

/// Thetas of both kinds of layers, where `rope_parameters` do not say them.
struct NestedRope {
    full: f64,
    sliding: f64,
    /// Whether the older `rope_scaling` is also that of layers with a sliding window.
    scales_sliding: bool,
}

/// Layers of two kinds, each with its rotation.
fn nested_layers(
    file: &JsonFile,
    config: &RotaryConfig,
    is_sliding: impl Fn(usize) -> bool,
    sliding: AttentionReach,
    full: AttentionReach,
    rope: &NestedRope,
) -> Result<Vec<RotaryLayerConfig>, Error> {
    let nested = file.object("rope_parameters")?;
    let older = file.object("rope_scaling")?;
    if let Some(name) = nested.keys().find(|name| ![FULL, SLIDING].contains(&name.as_str())) {
        let supported = "`full_attention` and `sliding_attention`";
        return Err(file.unsupported("field of `rope_parameters`", supported, name));
    }
    let frequencies = |kind: &str, theta: f64, scaled: bool| {
        let mut fields = match nested.get(kind) {
            // What `rope_scaling` calls `type` says nothing next to this.
            None if nested.is_empty() => Map::from_iter([("rope_type".to_owned(), Value::from("default"))]),
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields.clone(),
            Some(other) => {
                return Err(file.wrong_inside("rope_parameters", "an object for each kind of layers", other));
            }
        };
        if scaled {
            fields.extend(older.clone());
        }
        let settings = RopeSettings {
            fields: Some(&fields),
            theta,
            head_size: config.head_size,
            has_ntk: false,
        };
        RopeFrequencies::read(file, settings)
    };
    let of_full = RotaryLayerConfig {
        reach: full,
        frequencies: frequencies(FULL, rope.full, true)?,
    };
    let of_sliding = RotaryLayerConfig {
        reach: sliding,
        frequencies: frequencies(SLIDING, rope.sliding, rope.scales_sliding)?,
    };
    let kinds = layer_types(file, config, is_sliding)?;
    let layer = |is_sliding: bool| if is_sliding { of_sliding } else { of_full };
    Ok(kinds.into_iter().map(layer).collect())
}

/// `rope_scaling`, which goes before `rope_parameters` (`PreTrainedConfig.convert_rope_params_to_dict`).
fn rope_object(file: &JsonFile) -> Result<Option<Map<String, Value>>, Error> {
    for name in ["rope_scaling", "rope_parameters"] {
        let fields = file.object(name)?;
        if !fields.is_empty() {
            return Ok(Some(fields));
        }
    }
    Ok(None)
}

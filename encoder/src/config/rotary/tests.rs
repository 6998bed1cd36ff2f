//! `config.json` of published models, as they have it.

use serde_json::{Value, json};

use super::{AttentionReach, RotaryConfig, RotaryFamily};
use crate::config::json::JsonFile;

fn read(fields: Value) -> Result<RotaryConfig, String> {
    let file = JsonFile::new("config.json".into(), fields).unwrap();
    let family = RotaryFamily::of(file.text("model_type").unwrap().unwrap()).unwrap();
    RotaryConfig::read(&file, family).map_err(|error| error.to_string())
}

fn with(mut fields: Value, name: &str, value: Value) -> Value {
    fields[name] = value;
    fields
}

/// `Alibaba-NLP/gte-base-en-v1.5`.
fn gte() -> Value {
    json!({
        "model_type": "new", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 8192, "num_attention_heads": 12,
        "num_hidden_layers": 12, "pack_qkv": true, "position_embedding_type": "rope",
        "rope_scaling": {"factor": 2.0, "type": "ntk"}, "rope_theta": 500_000, "type_vocab_size": 0,
        "vocab_size": 30_528,
    })
}

/// `nomic-ai/nomic-embed-text-v1.5`.
fn nomic() -> Value {
    json!({
        "model_type": "nomic_bert", "activation_function": "swiglu", "layer_norm_epsilon": 1e-12,
        "max_trained_positions": 2048, "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12,
        "n_positions": 8192, "rotary_emb_base": 1000, "rotary_scaling_factor": null, "type_vocab_size": 2,
        "vocab_size": 30_528,
    })
}

/// `google/embeddinggemma-300m`, with fewer layers.
fn gemma() -> Value {
    json!({
        "model_type": "gemma3_text", "vocab_size": 262_144, "hidden_size": 768, "intermediate_size": 1152,
        "num_hidden_layers": 7, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 256,
        "max_position_embeddings": 2048, "query_pre_attn_scalar": 256, "sliding_window": 512,
        "use_bidirectional_attention": true, "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0,
        "_sliding_window_pattern": 6, "hidden_activation": "gelu_pytorch_tanh",
    })
}

#[test]
fn the_rotations_of_gte_are_those_of_its_own_code() {
    let config = read(gte()).unwrap();
    let layer = config.layers[0];
    assert_eq!((config.type_rows, config.head_size, config.layers.len()), (0, 64, 12));
    assert!((layer.frequencies.theta - 1e6).abs() < 1e-3, "{layer:?}");
    assert!(
        (layer.frequencies.factor - 2.0_f64.powf(2.0 / 64.0)).abs() < 1e-12,
        "{layer:?}"
    );
    let message = read(with(gte(), "model_type", json!("gte"))).unwrap_err();
    assert!(
        message.contains("kind of rotary positions") && message.contains("ntk"),
        "{message}"
    );
}

#[test]
fn nomic_bert_has_names_of_its_own() {
    let config = read(nomic()).unwrap();
    assert_eq!(
        (config.hidden_size, config.layers.len(), config.max_positions),
        (768, 12, 8192)
    );
    assert!((config.layers[3].frequencies.theta - 1000.0).abs() < 1e-9);
    let stretched = read(with(nomic(), "rotary_scaling_factor", json!(2))).unwrap();
    assert_eq!(stretched.max_positions, 2048);
    let message = read(with(nomic(), "activation_function", json!("glu"))).unwrap_err();
    assert!(message.contains("swiglu"), "{message}");
}

#[test]
fn layers_reach_as_far_as_their_kind() {
    let gemma_layers = read(gemma()).unwrap().layers;
    let reaches: Vec<AttentionReach> = gemma_layers.iter().map(|layer| layer.reach).collect();
    let near = AttentionReach::around(256);
    assert_eq!(reaches, [near, near, near, near, near, AttentionReach::ALL, near]);
    let thetas: Vec<f64> = gemma_layers.iter().map(|layer| layer.frequencies.theta).collect();
    assert_eq!(thetas[4..6], [1e4, 1e6]);
    let causal = read(with(gemma(), "use_bidirectional_attention", json!(false))).unwrap();
    assert_eq!(causal.layers[0].reach, AttentionReach::causal(511));

    let sizes = json!({
        "model_type": "modernbert", "vocab_size": 50_368, "hidden_size": 768, "intermediate_size": 1152,
        "num_hidden_layers": 4, "num_attention_heads": 12, "max_position_embeddings": 8192,
        "global_attn_every_n_layers": 3, "local_attention": 128, "global_rope_theta": 160_000.0,
        "local_rope_theta": 10_000.0,
    });
    let modern: Vec<AttentionReach> = read(sizes.clone())
        .unwrap()
        .layers
        .iter()
        .map(|layer| layer.reach)
        .collect();
    let near = AttentionReach::around(64);
    assert_eq!(modern, [AttentionReach::ALL, near, near, AttentionReach::ALL]);
    // Where thetas are the older settings, so is the name of the kind, and it says nothing next to the default.
    for (name, factor) in [("type", 1.0), ("rope_type", 4.0)] {
        let scaled = read(with(
            sizes.clone(),
            "rope_scaling",
            json!({name: "linear", "factor": 4.0}),
        ))
        .unwrap();
        assert!(
            scaled
                .layers
                .iter()
                .all(|layer| (layer.frequencies.factor - factor).abs() < 1e-9),
            "{name}"
        );
    }
    let message = read(with(sizes, "layer_types", json!(["full_attention"]))).unwrap_err();
    assert!(message.contains("layer_types"), "{message}");

    let qwen = json!({
        "model_type": "qwen3", "vocab_size": 151_669, "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "max_position_embeddings": 32_768, "rope_theta": 1_000_000, "rope_scaling": null, "use_sliding_window": false,
        "sliding_window": null,
    });
    let config = read(qwen.clone()).unwrap();
    assert_eq!(config.layers[27].reach, AttentionReach::causal(usize::MAX));
    assert_eq!((config.query_size(), config.key_size()), (2048, 1024));
    let message = read(with(qwen.clone(), "is_causal", json!(false))).unwrap_err();
    assert!(message.contains("`is_causal` must be true"), "{message}");
    let message = read(with(gte(), "is_causal", json!(true))).unwrap_err();
    assert!(message.contains("`is_causal` must be false"), "{message}");
    let message = read(with(qwen, "num_key_value_heads", json!(5))).unwrap_err();
    assert!(message.contains("num_key_value_heads"), "{message}");
}

#[test]
fn what_is_not_known_of_rotations_is_refused() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0});
    let message = read(with(gte(), "rope_scaling", yarn)).unwrap_err();
    assert!(message.contains("yarn"), "{message}");
    let unknown = json!({"type": "ntk", "factor": 2.0, "mixed_b": 0.5});
    let message = read(with(gte(), "rope_scaling", unknown)).unwrap_err();
    assert!(message.contains("mixed_b"), "{message}");
    let message = read(with(gte(), "rope_scaling", json!({"type": "ntk"}))).unwrap_err();
    assert!(message.contains("factor"), "{message}");
    let nested = json!({"full_attention": {"rope_type": "default"}, "rope_type": "default"});
    let message = read(with(gemma(), "rope_parameters", nested)).unwrap_err();
    assert!(message.contains("rope_parameters"), "{message}");
}

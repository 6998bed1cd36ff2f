//! Broken and foreign model directories: refused by name, with what to do.

use std::collections::HashMap;
use std::path::Path;

use dyad_encoder::{Compute, Error, Model, Tower};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde_json::json;

use crate::fixture::{copy, edit, open, refusal, tiny};

#[track_caller]
fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

/// Name to number type, shape and bytes.
pub(crate) type Tensors = HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

/// Rewrites a weights file through a change of its tensors.
pub(crate) fn rewrite(path: &Path, change: impl FnOnce(&mut Tensors)) {
    let bytes = fs_err::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors = file
        .iter()
        .map(|(name, view)| {
            (
                name.to_owned(),
                (view.dtype(), view.shape().to_vec(), view.data().to_vec()),
            )
        })
        .collect();
    change(&mut tensors);
    let views: Vec<(&String, TensorView<'_>)> = tensors
        .iter()
        .map(|(name, (dtype, shape, data))| (name, TensorView::new(*dtype, shape.clone(), data).unwrap()))
        .collect();
    fs_err::write(path, serialize(views, None).unwrap()).unwrap();
}

#[test]
fn missing_files_are_named_with_the_fix() {
    assert_says(
        &refusal(Path::new("/no/such/model")),
        &["`/no/such/model`", "deploy/model.sh"],
    );
    for (file, parts) in [
        ("config.json", ["config.json` is missing", "Fetch"]),
        (
            "model.safetensors",
            ["model.safetensors` is missing", "deploy/model.sh"],
        ),
        ("tokenizer.json", ["tokenizer.json` is missing", "vocab.txt"]),
        ("1_Pooling/config.json", ["1_Pooling/config.json` is missing", "Fetch"]),
    ] {
        let folder = copy("classic-mean");
        fs_err::remove_file(folder.path().join(file)).unwrap();
        assert_says(&refusal(folder.path()), &parts);
    }
    let folder = copy("classic-mean");
    let weights = folder.path().join("model.safetensors");
    fs_err::rename(&weights, folder.path().join("pytorch_model.bin")).unwrap();
    assert_says(&refusal(folder.path()), &["pytorch_model.bin", "safe_serialization"]);
    for other in ["spiece.model", "sentencepiece.bpe.model", "vocab.json"] {
        let folder = copy("plain");
        fs_err::rename(folder.path().join("tokenizer.json"), folder.path().join(other)).unwrap();
        assert_says(
            &refusal(folder.path()),
            &["tokenizer.json` is missing", "is not read", "save_pretrained"],
        );
    }
    fs_err::write(folder.path().join("model.safetensors.index.json"), "{}").unwrap();
    assert_says(
        &refusal(folder.path()),
        &["model.safetensors.index.json", "`weight_map`"],
    );
}

#[test]
fn weights_cut_short_anywhere_are_refused() {
    let folder = copy("classic-mean");
    let path = folder.path().join("model.safetensors");
    let whole = fs_err::read(&path).unwrap();
    for length in [0, 1, 7, 8, 9, 100, 1000, 5000, whole.len() - 1] {
        fs_err::write(&path, &whole[..length]).unwrap();
        assert_says(
            &refusal(folder.path()),
            &["model.safetensors`", "not a complete safetensors file", "again"],
        );
    }
    fs_err::write(&path, [whole.as_slice(), b"x"].concat()).unwrap();
    assert_says(&refusal(folder.path()), &["not a complete safetensors file"]);
}

#[test]
fn a_flipped_byte_in_the_header_never_panics() {
    let folder = copy("classic-mean");
    let path = folder.path().join("model.safetensors");
    let whole = fs_err::read(&path).unwrap();
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let name = open(folder.path()).info().fingerprint.clone();
    for place in (0..header).step_by(7) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x04;
        fs_err::write(&path, bytes).unwrap();
        // A byte of the metadata or of the padding may be changed without harm; then the model is still the same.
        if let Ok(encoder) = Model::open(folder.path(), &Compute::default()) {
            assert_eq!(encoder.info().fingerprint, name, "byte {place}");
        }
    }
}

#[test]
fn weights_of_another_architecture_are_refused_tensor_by_tensor() {
    let weights = |change: fn(&mut Tensors)| {
        let folder = copy("classic-mean");
        rewrite(&folder.path().join("model.safetensors"), change);
        refusal(folder.path())
    };
    let missing = weights(|tensors| drop(tensors.remove("encoder.layer.1.output.dense.bias")));
    assert_says(
        &missing,
        &["lacks tensor `encoder.layer.1.output.dense.bias`", "config.json"],
    );
    let unexpected = weights(|tensors| {
        let tensor = tensors["encoder.layer.0.output.dense.bias"].clone();
        drop(tensors.insert("encoder.layer.2.output.dense.bias".into(), tensor));
    });
    assert_says(&unexpected, &["does not use", "`encoder.layer.2.output.dense.bias`"]);
    let shape = weights(|tensors| tensors.get_mut("embeddings.LayerNorm.bias").unwrap().1 = vec![3, 4]);
    assert_says(&shape, &["`embeddings.LayerNorm.bias`", "shape [12]", "got: [3, 4]"]);
    let dtype = weights(|tensors| tensors.get_mut("embeddings.LayerNorm.bias").unwrap().0 = Dtype::I32);
    assert_says(&dtype, &["`embeddings.LayerNorm.bias`", "F32, F16 or BF16", "got: I32"]);
}

#[test]
fn what_an_encoder_does_not_use_may_be_there() {
    let name = open(&tiny("classic-mean")).info().fingerprint.clone();
    let folder = copy("classic-mean");
    rewrite(&folder.path().join("model.safetensors"), |tensors| {
        assert!(
            tensors.contains_key("pooler.dense.weight"),
            "the checkpoint has a pooler"
        );
        tensors.insert("embeddings.position_ids".into(), (Dtype::I64, vec![1, 2], vec![0; 16]));
        let head = (Dtype::F32, vec![1], vec![0; 4]);
        tensors.insert("cls.predictions.bias".into(), head);
        // As checkpoints with a head, converted from TensorFlow, name their tensors.
        let renamed = std::mem::take(tensors)
            .into_iter()
            .map(|(name, tensor)| {
                let name = name
                    .replace("LayerNorm.weight", "LayerNorm.gamma")
                    .replace("LayerNorm.bias", "LayerNorm.beta");
                (
                    if name.starts_with("cls.") {
                        name
                    } else {
                        format!("bert.{name}")
                    },
                    tensor,
                )
            })
            .collect::<Tensors>();
        *tensors = renamed;
    });
    assert_eq!(open(folder.path()).info().fingerprint, name);
}

#[test]
fn modules_that_are_not_known_are_refused_by_class() {
    let with_class = |class: &str| {
        let folder = copy("classic-mean");
        edit(&folder.path().join("modules.json"), |modules| {
            modules[2]["type"] = json!(class);
            modules[2]["path"] = json!("1_Pooling");
        });
        refusal(folder.path())
    };
    for class in [
        "sentence_transformers.models.LayerNorm",
        "custom.package.MyModule",
        "Transformer",
    ] {
        assert_says(&with_class(class), &["modules.json", "module is not supported", class]);
    }
    assert_says(
        &with_class("sentence_transformers.models.Pooling"),
        &["one `Pooling` or `MultiHopAttention` second"],
    );
    let folder = copy("classic-mean");
    edit(&folder.path().join("modules.json"), |modules| {
        modules[1]["path"] = json!("../elsewhere");
    });
    assert_says(&refusal(folder.path()), &["`path`", "inside the model directory"]);
    edit(&folder.path().join("modules.json"), |modules| *modules = json!({}));
    assert_says(&refusal(folder.path()), &["a list of modules"]);
}

/// A file, a field, a value it must not have, and what the message says.
type Wrong = (&'static str, &'static str, serde_json::Value, &'static str);

#[test]
fn settings_that_cannot_be_are_refused_by_field() {
    let wrong: [Wrong; 14] = [
        (
            "config.json",
            "model_type",
            json!("gpt2"),
            "model type is not supported",
        ),
        (
            "config.json",
            "hidden_act",
            json!("mish"),
            "hidden activation is not supported",
        ),
        (
            "config.json",
            "position_embedding_type",
            json!("relative_key"),
            "`position_embedding_type` is not supported",
        ),
        (
            "config.json",
            "num_attention_heads",
            json!(5),
            "a divisor of `hidden_size`",
        ),
        (
            "config.json",
            "hidden_size",
            json!(-1),
            "field `hidden_size` must be a whole number",
        ),
        (
            "config.json",
            "num_hidden_layers",
            json!(0),
            "field `num_hidden_layers` must be a whole number from 1 to 1073741824",
        ),
        ("config.json", "vocab_size", json!("many"), "field `vocab_size`"),
        ("config.json", "vocab_size", json!(10), "the model's table has 10 rows"),
        (
            "1_Pooling/config.json",
            "pooling_mode",
            json!("median"),
            "pooling is not supported",
        ),
        (
            "1_Pooling/config.json",
            "pooling_mode",
            json!([]),
            "a name or a list of names",
        ),
        (
            "sentence_bert_config.json",
            "max_seq_length",
            json!(2),
            "leaves none for the text",
        ),
        (
            "config_sentence_transformers.json",
            "prompts",
            json!(["query"]),
            "field `prompts` must be an object",
        ),
        (
            "config_sentence_transformers.json",
            "default_prompt_name",
            json!("absent"),
            "one of the `prompts`",
        ),
        (
            "config_sentence_transformers.json",
            "prompts",
            json!({"query": "a ".repeat(30)}),
            "the question prompt fills",
        ),
    ];
    for (file, field, value, message) in wrong {
        let folder = copy("classic-mean");
        edit(&folder.path().join(file), |settings| settings[field] = value);
        assert_says(&refusal(folder.path()), &[message]);
    }
}

#[test]
fn dense_layers_are_checked() {
    let dense = |field: &str, value: serde_json::Value| {
        let folder = copy("newer-dense");
        edit(&folder.path().join("2_Dense/config.json"), |settings| {
            settings[field] = value;
        });
        refusal(folder.path())
    };
    assert_says(
        &dense("in_features", json!(35)),
        &["2_Dense/config.json", "`in_features`", "36 values", "got: 35"],
    );
    assert_says(
        &dense("activation_function", json!("evil.module.GELU")),
        &["activation is not supported", "evil"],
    );
    assert_says(
        &dense("activation_function", json!("torch.nn.modules.activation.Mish")),
        &["Mish"],
    );
    assert_says(
        &dense("use_residual", json!(true)),
        &["`use_residual` is not supported"],
    );
    assert_says(&dense("bias", json!(false)), &["does not use", "`linear.bias`"]);
}

#[test]
fn files_that_are_not_json_are_named() {
    for file in [
        "config.json",
        "modules.json",
        "tokenizer.json",
        "1_Pooling/config.json",
        "tokenizer_config.json",
    ] {
        let folder = copy("classic-mean");
        fs_err::write(folder.path().join(file), "{\"a\": ").unwrap();
        assert_says(&refusal(folder.path()), &[file, "not valid", "line 1"]);
    }
    let folder = copy("classic-mean");
    fs_err::write(folder.path().join("tokenizer.json"), "{}").unwrap();
    assert_says(&refusal(folder.path()), &["tokenizer.json", "`model`"]);
}

#[test]
fn a_model_that_overflows_says_so() {
    let folder = copy("classic-mean");
    rewrite(&folder.path().join("model.safetensors"), |tensors| {
        let bias = &mut tensors.get_mut("encoder.layer.1.output.LayerNorm.bias").unwrap().2;
        bias[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    let encoder = open(folder.path());
    let text = encoder.tokenizer().encode(Tower::Answer, "the river").unwrap();
    let error = encoder.embed(Tower::Answer, &[&text]).unwrap_err();
    assert!(matches!(error, Error::NotFinite), "{error}");
}

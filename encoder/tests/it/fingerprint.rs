//! Equal models have equal names, different models have different ones.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_encoder::{Compute, Dtype, Model, Tower};
use serde_json::{Value, json};

use crate::fixture::{copy, edit, embed, open, tiny, worst};

fn fingerprint(directory: &Path) -> String {
    open(directory).info().fingerprint.clone()
}

/// Rewrites a classic directory as sentence-transformers 5.4 and later write it.
fn modernise(root: &Path) {
    edit(&root.join("modules.json"), |modules| {
        for (module, class) in modules.as_array_mut().unwrap().iter_mut().zip([
            "sentence_transformers.base.modules.transformer.Transformer",
            "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
            "sentence_transformers.base.modules.normalize.Normalize",
        ]) {
            module["type"] = json!(class);
        }
    });
    edit(&root.join("1_Pooling/config.json"), |settings| {
        *settings = json!({"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": true});
    });
    edit(&root.join("sentence_bert_config.json"), |settings| {
        *settings = json!({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"});
    });
    edit(&root.join("tokenizer_config.json"), |settings| {
        settings["model_max_length"] = json!(24);
    });
    edit(&root.join("config_sentence_transformers.json"), |settings| {
        settings["prompts"] = json!({"query": "", "document": ""});
    });
}

#[test]
fn both_forms_of_one_model_have_one_name_and_one_vector() {
    let folder = copy("classic-mean");
    modernise(folder.path());
    assert_eq!(fingerprint(folder.path()), fingerprint(&tiny("classic-mean")));
    let texts = ["who was the king".to_owned()];
    let [ours, theirs] = [folder.path(), &tiny("classic-mean")].map(|path| embed(&open(path), Tower::Question, &texts));
    assert!(worst(&ours, &theirs) > 0.999_999_9);
}

#[test]
fn what_does_not_change_vectors_does_not_change_the_name() {
    let original = fingerprint(&tiny("classic-mean"));
    assert_eq!(original.len(), 64);
    assert!(
        original
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase())
    );
    let folder = copy("classic-mean");
    // Another user's truncation and padding, another order of keys, another place.
    edit(&folder.path().join("tokenizer.json"), |tokenizer| {
        tokenizer["truncation"] = json!(null);
        tokenizer["padding"] = json!(null);
        let Value::Object(fields) = tokenizer else {
            panic!("no object")
        };
        let reversed: Vec<_> = std::mem::take(fields).into_iter().rev().collect();
        fields.extend(reversed);
    });
    edit(&folder.path().join("config.json"), |config| {
        config["attention_probs_dropout_prob"] = json!(0.5);
    });
    assert_eq!(fingerprint(folder.path()), original);
    let compute = Compute {
        dtype: Dtype::Bf16,
        ..Compute::default()
    };
    assert_eq!(
        Model::open(folder.path(), &compute).unwrap().info().fingerprint,
        original
    );
}

/// A name and what it does to a copy of a model.
type Change = (&'static str, fn(&Path));

/// Everything that decides a vector, changed one at a time.
const CHANGES: [Change; 12] = [
    ("a weight", |root| {
        let path = root.join("model.safetensors");
        let mut bytes = fs_err::read(&path).unwrap();
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header] ^= 1;
        fs_err::write(&path, bytes).unwrap();
    }),
    ("a word", |root| {
        edit(&root.join("tokenizer.json"), |tokenizer| {
            let vocabulary = tokenizer["model"]["vocab"].as_object_mut().unwrap();
            let id = vocabulary.shift_remove("river").unwrap();
            vocabulary.insert("stream".into(), id);
        });
    }),
    ("case", |root| {
        edit(&root.join("tokenizer_config.json"), |settings| {
            settings["do_lower_case"] = json!(false);
        });
    }),
    ("lowercasing", |root| {
        edit(&root.join("sentence_bert_config.json"), |settings| {
            settings["do_lower_case"] = json!(true);
        });
    }),
    ("length", |root| {
        edit(&root.join("sentence_bert_config.json"), |settings| {
            settings["max_seq_length"] = json!(23);
        });
    }),
    ("activation", |root| {
        edit(&root.join("config.json"), |config| config["hidden_act"] = json!("relu"));
    }),
    ("epsilon", |root| {
        edit(&root.join("config.json"), |config| {
            config["layer_norm_eps"] = json!(1e-6);
        });
    }),
    ("pooling", |root| {
        edit(&root.join("1_Pooling/config.json"), |settings| {
            settings["pooling_mode_max_tokens"] = json!(true);
        });
    }),
    ("pooled prompt", |root| {
        edit(&root.join("1_Pooling/config.json"), |settings| {
            settings["include_prompt"] = json!(false);
        });
    }),
    ("normalising", |root| {
        edit(&root.join("modules.json"), |modules| {
            drop(modules.as_array_mut().unwrap().pop());
        });
    }),
    ("question prompt", |root| {
        edit(&root.join("config_sentence_transformers.json"), |settings| {
            settings["prompts"] = json!({"query": "a"});
        });
    }),
    ("answer prompt", |root| {
        edit(&root.join("config_sentence_transformers.json"), |settings| {
            settings["prompts"] = json!({"document": "a"});
        });
    }),
];

#[test]
fn whatever_decides_a_vector_changes_the_name() {
    let mut names = BTreeMap::from([(fingerprint(&tiny("classic-mean")), "nothing")]);
    for (what, change) in CHANGES {
        let folder = copy("classic-mean");
        change(folder.path());
        if let Some(other) = names.insert(fingerprint(folder.path()), what) {
            panic!("changing {what} gives the same name as changing {other}");
        }
    }
}

#[test]
fn a_dense_layer_is_part_of_the_name() {
    let original = fingerprint(&tiny("newer-dense"));
    let folder = copy("newer-dense");
    let settings = folder.path().join("3_Dense/config.json");
    edit(&settings, |settings| {
        settings["activation_function"] = json!("torch.nn.modules.activation.ReLU");
    });
    let relu = fingerprint(folder.path());
    assert_ne!(relu, original);
    let path = folder.path().join("3_Dense/model.safetensors");
    let mut bytes = fs_err::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs_err::write(&path, bytes).unwrap();
    assert_ne!(fingerprint(folder.path()), relu);
}

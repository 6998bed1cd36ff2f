//! Models that were changed: ties that do not hold, and the gate of golden vectors.

use dyad_encoder::Compute;
use dyad_encoder::config::Sharing;
use dyad_encoder::model::Model;
use serde_json::json;

use super::{DIM, TABLE, made};
use crate::fixture::{edit, open, read_json, refusal};

#[test]
fn ties_that_do_not_hold_are_refused() {
    let (_folder, model_dir) = made("ade-ste");
    let weights = model_dir.join("document_0_Transformer/model.safetensors");
    let mut bytes = fs_err::read(&weights).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let names: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header]).unwrap();
    let at = 8 + header + names[TABLE]["data_offsets"][0].as_u64().unwrap() as usize;
    bytes[at] ^= 1;
    fs_err::write(&weights, &bytes).unwrap();
    let message = refusal(&model_dir);
    assert!(
        message.contains(TABLE) && message.contains("must be the same"),
        "{message}"
    );
    assert!(
        message.contains("query_0_Transformer and document_0_Transformer"),
        "{message}"
    );

    let (_folder, model_dir) = made("ade-ste");
    edit(&model_dir.join("dyad.json"), |value| {
        value["shared_tensors"][0]["tensor"] = json!("nothing.weight");
        drop(value.as_object_mut().unwrap().remove("sharing_sha256"));
    });
    let message = refusal(&model_dir);
    assert!(
        message.contains("`nothing.weight`") && message.contains("0 of them"),
        "{message}"
    );
}

/// What a hand does to `dyad.json`.
type Edit = fn(&mut serde_json::Value);

#[test]
fn a_table_that_was_edited_by_hand_is_refused() {
    let (_folder, model_dir) = made("ade-ste");
    let path = model_dir.join("dyad.json");
    let whole = read_json(&path);
    let fingerprint = open(&model_dir).info().fingerprint.clone();
    let changes: [(&str, Edit); 5] = [
        ("another tie", |value| value["sharing"]["token"] = json!("frozen")),
        ("no sharing", |value| {
            drop(value.as_object_mut().unwrap().remove("sharing"));
        }),
        ("no ties", |value| {
            drop(value.as_object_mut().unwrap().remove("shared_tensors"));
        }),
        ("another tensor", |value| {
            value["shared_tensors"][0]["tensor"] = json!("embeddings.LayerNorm.weight");
        }),
        ("another digest", |value| value["sharing_sha256"] = json!("00")),
    ];
    for (what, change) in changes {
        edit(&path, |value| {
            *value = whole.clone();
            change(value);
        });
        let message = refusal(&model_dir);
        assert!(
            message.contains("`sharing` and `shared_tensors` were changed"),
            "{what}: {message}"
        );
        let learned = Model::open_for_training(&model_dir, &Compute::default());
        assert_eq!(learned.unwrap_err().to_string(), message, "{what}: nor is it trained");
    }
    // Whitespace and order of keys do not matter, and the model keeps its name.
    edit(&path, |value| {
        *value = whole
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .rev()
            .collect::<serde_json::Map<_, _>>()
            .into();
    });
    assert_eq!(open(&model_dir).info().fingerprint, fingerprint);
    // A model of before there was a digest.
    edit(&path, |value| {
        drop(value.as_object_mut().unwrap().remove("sharing_sha256"));
    });
    assert_eq!(open(&model_dir).contents().sharing, Some(Sharing::ADE_STE));
}

#[test]
fn a_model_that_is_not_what_it_was_is_refused() {
    let (_folder, model_dir) = made("ade-spl");
    let path = model_dir.join("dyad.json");
    let whole = read_json(&path);
    assert_eq!(whole["golden"].as_array().unwrap().len(), 12);
    let smallest = open(&model_dir).reproduce_golden().unwrap().unwrap();
    assert!(smallest > 0.999_999, "{smallest}");

    edit(&path, |value| value["golden"][3]["vector"][0] = json!(-3.0));
    let message = refusal(&model_dir);
    assert!(
        message.contains("does not reproduce its golden vector") && message.contains("question"),
        "{message}"
    );
    edit(&path, |value| value["golden"][3]["tower"] = json!("both"));
    assert!(refusal(&model_dir).contains("got: both"));
    edit(&path, |value| {
        *value = whole.clone();
        value["golden"]
            .as_array_mut()
            .unwrap()
            .retain(|golden| golden["tower"] == "question");
    });
    assert!(refusal(&model_dir).contains("a golden vector of the answer tower"));
    edit(&path, |value| {
        *value = whole.clone();
        value["format"] = json!(2);
    });
    assert!(refusal(&model_dir).contains("`format`"));
    edit(&path, |value| {
        *value = whole.clone();
        value["more"] = json!(2);
    });
    assert!(refusal(&model_dir).contains("`more`"));

    edit(&path, |value| *value = whole.clone());
    edit(&model_dir.join("config_sentence_transformers.json"), |value| {
        value["prompts"]["query"] = json!("ask: ");
    });
    let message = refusal(&model_dir);
    assert!(
        message.contains("fingerprint") && message.contains("was changed"),
        "{message}"
    );
    let learned = Model::open_for_training(&model_dir, &Compute::default());
    assert_eq!(learned.unwrap_err().to_string(), message, "nor is it trained");
}

#[test]
fn weights_that_are_no_numbers_are_refused() {
    let (_folder, model_dir) = made("sde");
    let weights = model_dir.join("2_Dense/model.safetensors");
    let mut bytes = fs_err::read(&weights).unwrap();
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs_err::write(&weights, bytes).unwrap();
    assert!(refusal(&model_dir).contains("fingerprint"), "any change is seen");
    // A model that was written with them.
    edit(&model_dir.join("dyad.json"), |value| value["golden"] = json!([]));
    let fingerprint = refusal(&model_dir).rsplit_once("got: ").unwrap().1[..64].to_owned();
    edit(&model_dir.join("dyad.json"), |value| {
        value["fingerprint"] = json!(fingerprint);
        value["golden"] = json!(
            ["question", "answer"].map(|tower| json!({"tower": tower, "text": "the king", "vector": vec![0.4; DIM]}))
        );
    });
    let message = refusal(&model_dir);
    assert!(message.contains("not finite"), "{message}");
}

//! Checkpoints made of checkpoints, written and read again: without a network.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::Dtype;
use serde_json::json;

use super::*;
use crate::checkpoint::{Checkpoint, TensorData, WEIGHTS, WeightFile};
use crate::config::{Architecture, JsonFile, Sharing, Tie};

const TABLE: &str = "embeddings.word_embeddings.weight";

/// A plain BERT of two heads and one layer.
fn tiny(folder: &Path) -> Checkpoint {
    let config = json!({
        "model_type": "bert", "vocab_size": 7, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2, "hidden_act": "gelu",
    });
    let path = folder.join("config.json");
    fs_err::write(&path, config.to_string()).unwrap();
    fs_err::write(folder.join("vocab.txt"), "[PAD]\n").unwrap();
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let (count, seed) = (shape.iter().product::<usize>(), name.len() as f32);
        (
            name,
            TensorData::floats(shape, move || {
                Ok((0..count).map(|at| (at as f32 + seed).sin()).collect())
            }),
        )
    };
    let tensors = Architecture::from_json(&JsonFile::required(&path).unwrap())
        .unwrap()
        .tensors()
        .map(tensor)
        .collect();
    let path = folder.join(WEIGHTS);
    WeightFile {
        path: path.clone(),
        metadata: None,
        tensors,
    }
    .write(&path)
    .unwrap();
    Checkpoint::read(folder).unwrap()
}

/// The digests of all tensors, by module and name.
fn digests(checkpoint: &Checkpoint) -> BTreeMap<String, String> {
    let mut digests = BTreeMap::new();
    for (at, records) in checkpoint.records().unwrap() {
        let id = &checkpoint.layout.modules[at].id;
        digests.extend(
            records
                .into_iter()
                .map(|record| (format!("{id}/{}", record.name), record.sha256)),
        );
    }
    digests
}

fn made(source: &Checkpoint, sharing: Sharing, seed: u64) -> Checkpoint {
    towers(source, &Creation { sharing, dim: 3, seed }, None).unwrap()
}

#[test]
fn every_sharing_is_read_as_it_was_made() {
    let folder = tempfile::tempdir().unwrap();
    let source = tiny(folder.path());
    for sharing in [
        Sharing::SDE,
        Sharing::ADE,
        Sharing::ADE_STE,
        Sharing::ADE_FTE,
        Sharing::ADE_SPL,
    ] {
        let made = made(&source, sharing, 5);
        let to = tempfile::tempdir().unwrap();
        made.write(to.path()).unwrap();
        let read = Checkpoint {
            manifest: made.manifest.clone(),
            ..Checkpoint::read(to.path()).unwrap()
        };
        assert_eq!(digests(&read), digests(&made), "{sharing}");
        assert_eq!(read.layout.towers().unwrap().map(|route| route.dim), [3, 3]);
        assert_eq!(read.layout.is_siamese(), sharing == Sharing::SDE);
        let ties = &read.manifest.as_ref().unwrap().shared_tensors;
        let expected = if sharing == Sharing::ADE_STE {
            vec![TABLE]
        } else {
            Vec::new()
        };
        assert_eq!(
            ties.iter().map(|tie| tie.tensor.as_str()).collect::<Vec<_>>(),
            expected,
            "{sharing}"
        );
        let projections = digests(&read)
            .into_iter()
            .filter(|(name, _)| name.ends_with("linear.weight"));
        let projections: std::collections::BTreeSet<String> = projections.map(|(_, digest)| digest).collect();
        assert_eq!(
            projections.len(),
            if sharing.projection == Tie::Shared { 1 } else { 2 },
            "{sharing}"
        );
    }
}

#[test]
fn a_seed_gives_the_same_model_and_another_one_another() {
    let folder = tempfile::tempdir().unwrap();
    let source = tiny(folder.path());
    let of = |seed| digests(&made(&source, Sharing::ADE, seed));
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn tied_tensors_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = made(&tiny(folder.path()), Sharing::ADE_STE, 5);
    for content in made.files.values_mut() {
        if let crate::checkpoint::Content::Weights(file) = content
            && let Some((_, table)) = file.tensors.iter_mut().find(|(name, _)| name == TABLE)
        {
            *table = TensorData::floats(vec![7, 4], || Ok(vec![0.5; 28]));
            break;
        }
    }
    let message = made.records().unwrap_err().to_string();
    assert!(
        message.contains(TABLE) && message.contains("query_0_Transformer"),
        "{message}"
    );
}

#[test]
fn values_find_their_tensors_and_those_that_are_tied_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let made = made(&tiny(folder.path()), Sharing::ADE_STE, 5);
    let ones = || TensorData::floats(vec![7, 4], || Ok(vec![1.0; 28]));
    let of = |name: &str| BTreeMap::from([(name.to_owned(), ones())]);
    let trained = with_values(made.clone(), &of(&format!("query_0_Transformer/{TABLE}"))).unwrap();
    let (before, after) = (digests(&made), digests(&trained));
    let changed: Vec<&String> = before.keys().filter(|name| before[*name] != after[*name]).collect();
    assert_eq!(
        changed,
        [
            &format!("document_0_Transformer/{TABLE}"),
            &format!("query_0_Transformer/{TABLE}")
        ]
    );
    let message = with_values(made.clone(), &of("nowhere/w")).unwrap_err().to_string();
    assert!(message.contains("nowhere/w"), "{message}");
    let message = with_values(made, &of("query_2_Dense/linear.weight"))
        .unwrap_err()
        .to_string();
    assert!(message.contains("[3, 4]") && message.contains("[7, 4]"), "{message}");
}

#[test]
fn half_precision_is_half_the_bytes_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let made = made(&tiny(folder.path()), Sharing::SDE, 5);
    let half = cast(made.clone(), Dtype::BF16).unwrap();
    let bytes = |checkpoint: &Checkpoint| -> usize {
        let tensors = (0..checkpoint.layout.modules.len()).map(|at| checkpoint.tensors(at).unwrap());
        tensors
            .flat_map(|module| module.tensors.values().map(|tensor| tensor.size()).collect::<Vec<_>>())
            .sum()
    };
    assert_eq!(bytes(&half) * 2, bytes(&made));
    assert_eq!(
        digests(&cast(cast(half.clone(), Dtype::F32).unwrap(), Dtype::BF16).unwrap()),
        digests(&half)
    );
}

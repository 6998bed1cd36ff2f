//! Multi-hop attention as a module: created in every sharing, learned, saved, loaded and refused. Its equations are
//! tested next to its code.

use std::path::{Path, PathBuf};

use dyad_encoder::model::{Model, create, create_with};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::{Aggregation, Creation};
use dyad_encoder::{Compute, Tower};
use serde_json::json;

use crate::fixture::{edit, embed, open, read_json, refusal, rows, tiny, tokens, worst};

const HOPS: usize = 3;
const INNER: usize = 5;
/// Values of a token vector of the tiny model.
const H: usize = 12;
const DIM: usize = 6;

fn creation(sharing: &str) -> Creation {
    Creation {
        sharing: sharing.parse().unwrap(),
        dim: DIM,
        seed: 1,
    }
}

fn made(from: &Path, sharing: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create_with(
        from,
        &to,
        &creation(sharing),
        Aggregation::MultiHop {
            inner: INNER,
            hops: HOPS,
        },
    )
    .unwrap();
    (folder, to)
}

fn texts() -> Vec<String> {
    [
        "the river",
        "who was the king of the city",
        "a light",
        "water and light in the city",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn every_sharing_holds_its_aggregators() {
    for (sharing, aggregators, frozen) in [
        ("sde", 1, false),
        ("ade", 2, false),
        ("ade-ste", 2, false),
        ("ade-fte", 2, false),
        ("ade-spl", 2, false),
        ("token=separate,transformer=shared,projection=separate", 1, false),
        ("token=shared,transformer=frozen,projection=separate", 2, true),
    ] {
        let (_folder, model_dir) = made(&tiny("classic-mean"), sharing);
        let encoder = open(&model_dir);
        let modules = encoder
            .contents()
            .modules
            .iter()
            .filter(|module| module.class == "MultiHopAttention");
        let counts: Vec<(usize, u64)> = modules.map(|module| (module.tensors, module.parameters)).collect();
        assert_eq!(
            counts,
            vec![(2, (INNER * H + HOPS * INNER) as u64); aggregators],
            "{sharing}"
        );
        assert!(encoder.reproduce_golden().unwrap().unwrap() > 0.999_999, "{sharing}");

        let learned = Model::open_for_training(
            &model_dir,
            &Compute {
                threads: Some(1),
                ..Compute::default()
            },
        )
        .unwrap();
        let maps: Vec<_> = learned
            .parameters()
            .iter()
            .filter(|p| p.name.contains("MultiHopAttention/w"))
            .collect();
        assert_eq!(maps.len(), 2 * aggregators, "{sharing}");
        assert!(maps.iter().all(|map| map.frozen == frozen), "{sharing}");
        let mut sums = Vec::new();
        for tower in [Tower::Question, Tower::Answer] {
            let tokens = tokens(&encoder, tower, &texts());
            let vectors = learned.vectors(tower, &tokens.iter().collect::<Vec<_>>()).unwrap();
            let ours = Vec::<Vec<f32>>::try_from(vectors.detach()).unwrap();
            assert!(
                worst(&ours, &embed(&encoder, tower, &texts())) > 0.999_999,
                "{sharing}, {tower}"
            );
            sums.push(vectors.select(1, 0).sum(None));
        }
        tch::Tensor::stack(&sums, 0).sum(None).backward();
        for map in maps.iter().filter(|map| !frozen && map.tensor.requires_grad()) {
            let gradient = map.tensor.grad();
            assert!(
                gradient.defined() && gradient.abs().max().double_value(&[]) > 0.0,
                "{sharing}: {}",
                map.name
            );
        }
    }
}

#[test]
fn a_vector_does_not_depend_on_its_batch() {
    let (_folder, model_dir) = made(&tiny("classic-prompt-left-out"), "ade-spl");
    let encoder = open(&model_dir);
    for tower in [Tower::Question, Tower::Answer] {
        let tokens = tokens(&encoder, tower, &texts());
        let all: Vec<&Tokens> = tokens.iter().collect();
        let together = rows(&encoder.embed(tower, &all).unwrap(), DIM);
        let alone: Vec<Vec<f32>> = all.iter().map(|text| encoder.embed(tower, &[*text]).unwrap()).collect();
        assert!(worst(&together, &alone) > 0.999_999, "{tower}");
    }
}

#[test]
fn the_module_is_read_as_it_is_written() {
    let (folder, model_dir) = made(&tiny("classic-mean"), "sde");
    let module = &read_json(&model_dir.join("modules.json"))[1];
    assert_eq!(
        (&module["type"], &module["path"]),
        (&json!("dyad.models.MultiHopAttention"), &json!("1_MultiHopAttention"))
    );
    // A model of it keeps its values.
    let again = folder.path().join("again");
    create(&model_dir, &again, &creation("sde")).unwrap();
    assert_eq!(open(&again).info().fingerprint, open(&model_dir).info().fingerprint);
    // With the mean again it is another model, of other input to the projection.
    let mean = folder.path().join("mean");
    create_with(&model_dir, &mean, &creation("sde"), Aggregation::Mean).unwrap();
    assert_eq!(read_json(&mean.join("2_Dense/config.json"))["in_features"], json!(H));

    // Its settings are part of the fingerprint, and have to fit.
    let config = model_dir.join("1_MultiHopAttention/config.json");
    edit(&config, |value| value["include_prompt"] = json!(false));
    assert!(refusal(&model_dir).contains("fingerprint"));
    edit(&config, |value| value["in_features"] = json!(H + 1));
    let message = refusal(&model_dir);
    assert!(
        message.contains("`in_features`") && message.contains("the 12 values"),
        "{message}"
    );
    edit(&config, |value| {
        value["in_features"] = json!(H);
        value["hops"] = json!(0);
    });
    assert!(refusal(&model_dir).contains("`hops`"));
    edit(&config, |value| value["hops"] = json!(HOPS + 1));
    let message = refusal(&model_dir);
    assert!(
        message.contains("`in_features`") && message.contains("the 48 values"),
        "{message}"
    );
}

//! The sharings: which tensors are one, which learn, which stay equal; models that keep it all; the gate of golden
//! vectors.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_encoder::config::Sharing;
use dyad_encoder::model::{Model, create};
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::transform::Creation;
use dyad_encoder::{Compute, Tower};
use serde_json::json;
use tch::Tensor;

use crate::fixture::{edit, embed, open, path_of, read_json, refusal, tiny, worst};

const DIM: usize = 6;
const VARIANTS: [&str; 5] = ["sde", "ade", "ade-ste", "ade-fte", "ade-spl"];
/// Not one of the five: one transformer, two projections.
const FREE: &str = "token=shared,transformer=shared,projection=separate";
const TABLE: &str = "embeddings.word_embeddings.weight";

fn made(sharing: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create(
        &tiny("classic-mean"),
        &to,
        &Creation {
            sharing: sharing.parse().unwrap(),
            dim: DIM,
            seed: 1,
        },
    )
    .unwrap();
    (folder, to)
}

fn learned(model_dir: &Path) -> Model {
    Model::open_for_training(
        model_dir,
        &Compute {
            threads: Some(1),
            ..Compute::default()
        },
    )
    .unwrap()
}

/// Values of the table, of the other tensors of a transformer, and of a projection.
fn sizes() -> [usize; 3] {
    let (_folder, model_dir) = made("ade");
    let mut sizes = [0; 3];
    for parameter in learned(&model_dir)
        .parameters()
        .iter()
        .filter(|parameter| parameter.name.starts_with("query"))
    {
        let part = match parameter.name.split_once('/').unwrap() {
            (_, TABLE) => 0,
            (module, _) if module.ends_with("Transformer") => 1,
            _ => 2,
        };
        sizes[part] += parameter.tensor.numel();
    }
    assert!(sizes.iter().all(|size| *size > 0));
    sizes
}

/// By their modules, or by their prompts.
#[test]
fn models_say_whether_questions_are_embedded_otherwise() {
    for sharing in VARIANTS.iter().copied().chain([FREE]) {
        let (_folder, model_dir) = made(sharing);
        assert_eq!(open(&model_dir).info().has_two_towers, sharing != "sde", "{sharing}");
    }
    for (name, expected) in [
        ("classic-mean", false),
        ("classic-prompt-left-out", true),
        ("newer-dense", true),
    ] {
        assert_eq!(open(&tiny(name)).info().has_two_towers, expected, "{name}");
    }
}

#[test]
fn each_sharing_has_its_number_of_parameters() {
    let [table, others, projection] = sizes();
    for (sharing, tables, transformers, projections) in [
        ("sde", 1, 1, 1),
        ("ade", 2, 2, 2),
        ("ade-ste", 1, 2, 2),
        ("ade-fte", 2, 2, 2),
        ("ade-spl", 2, 2, 1),
        (FREE, 1, 1, 2),
    ] {
        let (_folder, model_dir) = made(sharing);
        let expected = tables * table + transformers * others + projections * projection;
        let learned = learned(&model_dir);
        let values: usize = learned
            .parameters()
            .iter()
            .map(|parameter| parameter.tensor.numel())
            .sum();
        assert_eq!(values, expected, "{sharing}");
        let encoder = open(&model_dir);
        assert_eq!(encoder.contents().parameters, expected as u64, "{sharing}");
        assert_eq!(
            (encoder.contents().sharing, learned.sharing()),
            (sharing.parse().ok(), sharing.parse().ok())
        );
        let frozen: Vec<&str> = learned
            .parameters()
            .iter()
            .filter(|p| p.frozen)
            .map(|p| p.name.split_once('/').unwrap().1)
            .collect();
        assert_eq!(
            frozen,
            if sharing == "ade-fte" { vec![TABLE; 2] } else { vec![] },
            "{sharing}"
        );
        assert!(
            learned
                .parameters()
                .iter()
                .all(|parameter| parameter.tensor.requires_grad() != parameter.frozen)
        );
        let places: std::collections::HashSet<_> = learned.parameters().iter().map(|p| p.tensor.data_ptr()).collect();
        assert_eq!(
            places.len(),
            learned.parameters().len(),
            "{sharing}: a tensor is named twice"
        );
    }
}

/// Ten steps down a loss in which both towers take part.
fn ten_steps(learned: &Model) {
    let tokenizer = learned.tokenizer();
    let tokens = |tower, texts: [&str; 3]| texts.map(|text| tokenizer.encode(tower, text).unwrap());
    let questions = tokens(
        Tower::Question,
        ["who was the king", "the river", "a light in the city"],
    );
    let answers = tokens(
        Tower::Answer,
        ["the queen of light", "water", "the king was in the city of the river"],
    );
    for _ in 0..10 {
        let vectors = |tower, texts: &[Tokens; 3]| learned.vectors(tower, &texts.each_ref()).unwrap();
        let scores = vectors(Tower::Question, &questions).matmul(&vectors(Tower::Answer, &answers).transpose(0, 1));
        let labels = Tensor::from_slice(&[0i64, 1, 2]);
        (scores * 5.0).cross_entropy_for_logits(&labels).backward();
        for parameter in learned
            .parameters()
            .iter()
            .filter(|parameter| parameter.tensor.requires_grad())
        {
            let mut tensor = parameter.tensor.shallow_clone();
            let mut gradient = tensor.grad();
            assert!(gradient.defined(), "{} learns nothing", parameter.name);
            tch::no_grad(|| {
                let _ = tensor.f_sub_(&(&gradient * 0.5)).unwrap();
            });
            let _ = gradient.zero_();
        }
        assert!(
            learned
                .parameters()
                .iter()
                .filter(|p| p.frozen)
                .all(|p| !p.tensor.grad().defined())
        );
    }
}

#[test]
fn ten_steps_move_what_learns_and_part_what_is_separate() {
    for (sharing, table_parts, transformer_parts, projection_parts) in [
        ("sde", false, false, false),
        ("ade", true, true, true),
        ("ade-ste", false, true, true),
        ("ade-fte", false, true, true),
        ("ade-spl", true, true, false),
    ] {
        let (_folder, model_dir) = made(sharing);
        let learned = learned(&model_dir);
        let before: HashMap<&str, Tensor> = learned
            .parameters()
            .iter()
            .map(|p| (p.name.as_str(), p.tensor.detach().copy()))
            .collect();
        ten_steps(&learned);
        let after: HashMap<&str, &Tensor> = learned
            .parameters()
            .iter()
            .map(|p| (p.name.as_str(), &p.tensor))
            .collect();
        for parameter in learned.parameters() {
            let moved = parameter.tensor.detach() != before[parameter.name.as_str()];
            // Keys' biases cancel in the softmax, and some rows of tables are in no text: others must move.
            if parameter.frozen || parameter.name.ends_with("query.weight") {
                assert_eq!(moved, !parameter.frozen, "{sharing}: {}", parameter.name);
            }
        }
        // A tensor of the question tower and that of the answer tower; one tensor has no other name.
        let parted = |suffix: &str| {
            let pairs = after
                .iter()
                .filter(|(name, _)| name.starts_with("query") && name.ends_with(suffix));
            let mut twins = pairs.filter_map(|(name, tensor)| {
                Some((tensor, after.get(name.replacen("query", "document", 1).as_str())?))
            });
            twins.any(|(question, answer)| question.detach() != answer.detach())
        };
        assert_eq!(parted(TABLE), table_parts, "{sharing}");
        assert_eq!(parted("query.weight"), transformer_parts, "{sharing}");
        assert_eq!(parted("Dense/linear.weight"), projection_parts, "{sharing}");
    }
}

#[test]
fn learning_and_serving_give_the_same_vectors() {
    let texts: Vec<String> = ["the river", "who was the king of the city", "a"]
        .map(str::to_owned)
        .to_vec();
    for sharing in VARIANTS.into_iter().chain([FREE]) {
        let (_folder, model_dir) = made(sharing);
        let (encoder, learned) = (open(&model_dir), learned(&model_dir));
        for tower in [Tower::Question, Tower::Answer] {
            let tokens: Vec<Tokens> = texts
                .iter()
                .map(|text| encoder.tokenizer().encode(tower, text).unwrap())
                .collect();
            let vectors = learned
                .vectors(tower, &tokens.iter().collect::<Vec<_>>())
                .unwrap()
                .detach();
            let rows = Vec::<Vec<f32>>::try_from(vectors).unwrap();
            assert!(
                worst(&rows, &embed(&encoder, tower, &texts)) > 0.999_999,
                "{sharing}, {tower}"
            );
        }
        // Both towers start from the same encoder: only their projections may differ.
        let [question, answer] = [Tower::Question, Tower::Answer].map(|tower| embed(&encoder, tower, &texts));
        let sharing: Sharing = sharing.parse().unwrap();
        let one = sharing.projection == dyad_encoder::config::Tie::Shared;
        assert_eq!(worst(&question, &answer) > 0.999_999, one, "{sharing}");
    }
}

#[test]
fn a_model_is_the_same_each_time_and_another_with_another_seed() {
    let fingerprint = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        create(
            &tiny("classic-mean"),
            &to,
            &Creation {
                sharing: Sharing::ADE_SPL,
                dim: DIM,
                seed,
            },
        )
        .unwrap();
        open(&to).info().fingerprint.clone()
    };
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_ne!(fingerprint(1), fingerprint(2));
    let (_folder, model_dir) = made("sde");
    let again = create(
        &tiny("classic-mean"),
        &model_dir,
        &Creation {
            sharing: Sharing::SDE,
            dim: 3,
            seed: 0,
        },
    );
    assert!(again.unwrap_err().to_string().contains("already exists"));
}

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
            drop(value.as_object_mut().unwrap().remove("sharing"))
        }),
        ("no ties", |value| {
            drop(value.as_object_mut().unwrap().remove("shared_tensors"))
        }),
        ("another tensor", |value| {
            value["shared_tensors"][0]["tensor"] = json!("embeddings.LayerNorm.weight")
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
        drop(value.as_object_mut().unwrap().remove("sharing_sha256"))
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
        value["prompts"]["query"] = json!("ask: ")
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

/// What we write is what sentence-transformers reads: `encode_query` and `encode_document` give our golden vectors.
#[test]
fn sentence_transformers_reads_our_models() {
    let test = "sentence_transformers_reads_our_models";
    let (Some(python), Some(checkpoints)) = (path_of("DYAD_PYTHON", test), path_of("DYAD_ST_CHECKPOINTS", test)) else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let folder = tempfile::tempdir().unwrap();
    let made = [
        ("bert", "sde", DIM),
        ("t5-gated", "ade", DIM),
        ("distilbert", "ade-spl", DIM),
        ("t5-relu", "ade-ste", DIM),
        ("dpr", "ade-ste", DIM),
        ("dpr-projected", "ade", 10),
        ("dpr-projected", "ade-spl", 10),
    ];
    let model_dirs = made.map(|(from, sharing, dim)| {
        let model_dir = folder.path().join(format!("{from}-{sharing}"));
        create(
            &checkpoints.join(from),
            &model_dir,
            &Creation {
                sharing: sharing.parse().unwrap(),
                dim,
                seed: 3,
            },
        )
        .unwrap();
        model_dir
    });
    // One process for all: Python takes long to read its modules.
    let output = Command::new(&python)
        .arg(&script)
        .args(&model_dirs)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let results: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), model_dirs.len(), "{text}");
    for (model_dir, result) in model_dirs.iter().zip(&results) {
        assert_eq!(
            (result["model"].as_str(), &result["vectors"]),
            (model_dir.to_str(), &12.into()),
            "{result}"
        );
        assert!(result["smallest_cosine"].as_f64().unwrap() >= 0.999_99, "{result}");
    }
}

#[test]
fn inspect_prints_modules_ties_and_sizes() {
    let (_folder, model_dir) = made("ade-ste");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        let output = command.arg("inspect").arg(&model_dir).args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    for part in [
        "sharing ade-ste",
        "query_2_Dense",
        "is one tensor in query_0_Transformer, document_0_Transformer",
        "golden vectors reproduced",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let value: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let [table, others, projection] = sizes();
    let parameters = (table + 2 * (others + projection)) as u64;
    assert_eq!(
        (value["parameters"].as_u64(), value["bytes"]["bf16"].as_u64()),
        (Some(parameters), Some(2 * parameters))
    );
    assert_eq!(value["modules"].as_array().unwrap().len(), 7);
}

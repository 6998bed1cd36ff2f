//! Static models against the libraries that made them: sentence-transformers, Model2Vec and WordLlama.
//!
//! Made by `benches/peers/static_models.py tiny --out encoder/tests/golden/static`.

use std::path::{Path, PathBuf};

use dyad_encoder::model::{create, create_over, create_with, export};
use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::transform::{Aggregation, Creation, NewEncoder};
use dyad_encoder::{Compute, Dtype, Model, Tower};
use serde_json::{Value, json};

use crate::fixture::{copy_folder, edit, embed, golden, npy, open, path_of, read_json, refusal, rows, tokens, worst};

/// How near each value of a vector of unit length must come.
const NEAR: f32 = 1e-5;
const MODELS: [&str; 6] = [
    "embedding",
    "router",
    "model2vec",
    "model2vec-modules",
    "model2vec-quantised",
    "wordllama",
];

fn directory(name: &str) -> PathBuf {
    golden().join("static").join(name)
}

fn copy(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&directory(name), copy.path());
    copy
}

fn texts(name: &str) -> Vec<String> {
    serde_json::from_value(read_json(&directory(name).join("vectors.json"))["texts"].clone()).unwrap()
}

fn reference(name: &str, tower: Tower) -> Vec<Vec<f32>> {
    serde_json::from_value(read_json(&directory(name).join("vectors.json"))[tower.name()].clone()).unwrap()
}

/// The largest difference of two values of the same place.
fn apart(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> f32 {
    assert_eq!((ours.len(), ours[0].len()), (theirs.len(), theirs[0].len()));
    let pairs = ours.iter().flatten().zip(theirs.iter().flatten());
    pairs.map(|(ours, theirs)| (ours - theirs).abs()).fold(0.0, f32::max)
}

fn creation(sharing: &str) -> Creation {
    Creation {
        sharing: sharing.parse().unwrap(),
        dim: 5,
        seed: 1,
    }
}

#[test]
fn vectors_are_those_of_each_library() {
    for name in MODELS {
        let model = open(&directory(name));
        for tower in Tower::BOTH {
            let theirs = reference(name, tower);
            let apart = apart(&embed(&model, tower, &texts(name)), &theirs);
            assert!(apart < NEAR, "{name}, {tower}: {apart}");
        }
    }
}

#[test]
fn a_text_without_tokens_has_a_vector_of_zeros_and_a_long_one_is_cut() {
    let all: Vec<String> = ["", "\u{416}", "light", &"the river ".repeat(100)]
        .map(str::to_owned)
        .to_vec();
    // Of 7 tokens, and of 7 times the median length of a token in characters.
    let model = open(&directory("model2vec"));
    let cut = tokens(&model, Tower::Answer, &all);
    assert_eq!(
        cut.iter().map(|text| text.truncated).collect::<Vec<_>>(),
        [false, false, false, true]
    );
    let vectors = embed(&model, Tower::Answer, &all);
    assert!(
        vectors[..2].iter().flatten().all(|value| value.abs() < 1e-12),
        "{vectors:?}"
    );
    // sentence-transformers keeps an unknown token.
    let kept = embed(&open(&directory("embedding")), Tower::Answer, &all);
    assert!(kept[1].iter().any(|value| value.abs() > 0.1));
    assert_eq!(open(&directory("wordllama")).info().max_tokens, 32_768);
}

/// The mean in memory against operators of torch, which training runs.
#[test]
fn vectors_are_those_of_the_operators_that_learn() {
    for name in ["embedding", "router", "model2vec", "wordllama"] {
        let learned = Model::open_for_training(&directory(name), &Compute::default()).unwrap();
        let model = open(&directory(name));
        for tower in Tower::BOTH {
            let tokens = tokens(&model, tower, &texts(name));
            let all: Vec<&Tokens> = tokens.iter().collect();
            let expected = rows(&learned.embed(tower, &all).unwrap(), learned.info().dim);
            let together = rows(&model.embed(tower, &all).unwrap(), model.info().dim);
            let budget = Budget { tokens: 8, rows: 2 };
            let batches = rows(&model.embed_all(tower, &tokens, budget).unwrap(), model.info().dim);
            assert!(apart(&together, &expected) < 1e-6, "{name}, {tower}");
            assert!(apart(&batches, &expected) < 1e-6, "{name}, {tower}");
        }
    }
}

#[test]
fn half_precision_and_cut_dimensions_are_near() {
    for (dtype, floor) in [(Dtype::Bf16, 0.999), (Dtype::F16, 0.999_99)] {
        let compute = Compute {
            dtype,
            threads: Some(1),
            ..Compute::default()
        };
        // Texts without a token have no direction.
        let some: Vec<String> = texts("model2vec-quantised").into_iter().take(6).collect();
        let ours = embed(
            &Model::open(&directory("model2vec-quantised"), &compute).unwrap(),
            Tower::Question,
            &some,
        );
        let worst = worst(&ours, &reference("model2vec-quantised", Tower::Question)[..6]);
        assert!(worst > floor, "{dtype}: {worst}");
    }
    let folder = copy("model2vec-modules");
    let settings = json!({"truncate_dim": 3}).to_string();
    fs_err::write(folder.path().join("config_sentence_transformers.json"), settings).unwrap();
    let ours = embed(&open(folder.path()), Tower::Answer, &texts("model2vec-modules"));
    let cut: Vec<Vec<f32>> = reference("model2vec-modules", Tower::Answer)
        .iter()
        .map(|row| {
            let length = row[..3]
                .iter()
                .map(|value| value * value)
                .sum::<f32>()
                .sqrt()
                .max(1e-12);
            row[..3].iter().map(|value| value / length).collect()
        })
        .collect();
    assert!(apart(&ours, &cut) < NEAR);
}

/// Token vectors know nothing of their neighbours: a passage in its document has the vector that it has by itself.
#[test]
fn passages_have_their_own_vectors_in_their_document() {
    let document = "the king of the city. \u{416} the river and light, \u{416}\u{416} water! a mountain queen";
    let sentences: Vec<&str> = document.split_inclusive(['.', ',', '!']).collect();
    let begin = |sentence: &&str| sentence.as_ptr() as usize - document.as_ptr() as usize;
    let passages: Vec<_> = sentences
        .iter()
        .map(|sentence| begin(sentence)..begin(sentence) + sentence.len())
        .collect();
    for name in ["model2vec-quantised", "wordllama"] {
        let model = open(&directory(name));
        assert!(model.pools_means(Tower::Answer), "{name}");
        let windows = model.tokenizer().windows(Tower::Answer, document, &passages).unwrap();
        let texts: Vec<String> = sentences.iter().map(|sentence| (*sentence).to_owned()).collect();
        let alone = embed(&model, Tower::Answer, &texts);
        for window in &windows {
            let late = rows(
                &model.embed(Tower::Answer, &[&window.tokens]).unwrap(),
                model.info().dim,
            );
            let expected: Vec<Vec<f32>> = window.passages.iter().map(|passage| alone[*passage].clone()).collect();
            assert!(apart(&late, &expected) < NEAR, "{name}");
        }
    }
}

#[test]
fn a_model_is_exported_with_its_vectors() {
    for name in MODELS {
        let folder = tempfile::tempdir().unwrap();
        for (dtype, near) in [(Dtype::F32, NEAR), (Dtype::F16, 2e-3)] {
            let to = folder.path().join(dtype.to_string());
            export(&directory(name), &to, dtype).unwrap();
            let model = open(&to);
            let apart = apart(
                &embed(&model, Tower::Question, &texts(name)),
                &reference(name, Tower::Question),
            );
            assert!(apart < near, "{name}, {dtype}: {apart}");
            assert!(to.join("dyad.json").is_file() && model.reproduce_golden().unwrap().is_some());
        }
    }
}

#[test]
fn two_towers_are_made_of_a_static_model_and_learn() {
    for name in ["embedding", "model2vec", "wordllama"] {
        for sharing in ["sde", "ade", "ade-ste", "ade-fte", "ade-spl"] {
            let folder = tempfile::tempdir().unwrap();
            let [made, learned] = ["made", "learned"].map(|part| folder.path().join(part));
            create(&directory(name), &made, &creation(sharing)).unwrap();
            let model = Model::open_for_training(&made, &Compute::default()).unwrap();
            let classes: Vec<&str> = model.contents().modules.iter().map(|module| module.class).collect();
            assert!(
                classes.contains(&"StaticEmbedding") && !classes.contains(&"Transformer"),
                "{classes:?}"
            );
            let tables = model
                .parameters()
                .iter()
                .filter(|parameter| parameter.name.contains("embedding"));
            let frozen: Vec<bool> = tables.map(|table| table.frozen).collect();
            let expected = match sharing {
                "ade" => vec![false; 2],
                "ade-fte" => vec![true; 2],
                _ => vec![false],
            };
            assert!(
                frozen == expected || (sharing == "ade-spl" && frozen == [false; 2]),
                "{name}, {sharing}: {frozen:?}"
            );
            model.write(&made, &learned).unwrap();
            let [before, after] = [&made, &learned].map(|path| embed(&open(path), Tower::Question, &texts(name)));
            assert!(apart(&before, &after) < 1e-6, "{name}, {sharing}");
        }
    }
}

/// sentence-transformers reads what `create` makes of a static model.
#[test]
fn sentence_transformers_reads_the_towers() {
    let Some(python) = path_of("DYAD_PYTHON", "sentence_transformers_reads_the_towers") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let towers = ["sde", "ade-spl"].map(|sharing| {
        let to = folder.path().join(sharing);
        create(&directory("embedding"), &to, &creation(sharing)).unwrap();
        to
    });
    // One process, which takes long to read its modules.
    let program = "import sys, json\nfrom sentence_transformers import SentenceTransformer\n\
        models = [SentenceTransformer(path, device='cpu') for path in sys.argv[2:]]\n\
        print(json.dumps([model.encode_query(json.loads(sys.argv[1])).tolist() for model in models]))";
    let some: Vec<String> = texts("embedding").into_iter().filter(|text| !text.is_empty()).collect();
    let output = std::process::Command::new(&python)
        .args(["-c", program])
        .arg(json!(some).to_string())
        .args(&towers)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let theirs: Vec<Vec<Vec<f32>>> = serde_json::from_slice(&output.stdout).unwrap();
    for (tower, theirs) in towers.iter().zip(theirs) {
        let apart = apart(&embed(&open(tower), Tower::Question, &some), &theirs);
        assert!(apart < NEAR, "{}: {apart}", tower.display());
    }
}

#[test]
fn what_a_static_model_cannot_do_is_refused_by_name() {
    let compute = Compute {
        dtype: Dtype::Int8,
        ..Compute::default()
    };
    let message = Model::open(&directory("model2vec"), &compute).unwrap_err().to_string();
    assert!(message.contains("`int8` rounds the maps"), "{message}");
    // Of a transformer next to it, int8 rounds the maps.
    assert!(Model::open(&directory("router"), &compute).is_ok());
    let training = Model::open_for_training(&directory("model2vec-quantised"), &Compute::default());
    let message = training.unwrap_err().to_string();
    assert!(
        message.contains("`mapping`") && message.contains("from_model2vec"),
        "{message}"
    );

    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    let hops = Aggregation::MultiHop { inner: 4, hops: 2 };
    let message = create_with(&directory("embedding"), &to, &creation("sde"), hops)
        .unwrap_err()
        .to_string();
    assert!(message.contains("pooling of a static model"), "{message}");
    let layers = NewEncoder::Transformer { layers: 1 };
    let over = create_over(
        &directory("embedding"),
        &to,
        &creation("sde"),
        layers,
        Aggregation::Mean,
    );
    assert!(over.unwrap_err().to_string().contains("over a static model"));

    let pooled = copy("model2vec-modules");
    edit(&pooled.path().join("config.json"), |config| {
        config["pooling"] = json!("max");
    });
    assert!(refusal(pooled.path()).contains("pooling"));
    let lost = copy("wordllama");
    fs_err::copy(
        lost.path().join("tiny_8.safetensors"),
        lost.path().join("tiny_16.safetensors"),
    )
    .unwrap();
    assert!(refusal(lost.path()).contains("`tiny_16.safetensors`, `tiny_8.safetensors`"));
    let small = copy("model2vec");
    edit(&small.path().join("tokenizer.json"), |file| {
        let vocabulary = file["model"]["vocab"].as_object_mut().unwrap();
        vocabulary.insert("one-more".to_owned(), json!(vocabulary.len()));
    });
    assert!(refusal(small.path()).contains("the model's table has"));
}

/// Made by `benches/peers/static_models.py golden --models DIR --out encoder/tests/golden` of the weights that
/// tokenlearn-static-model 0.1.1 and wordllama 0.4.0.post1 bundle: `static_models.py fetch --out DIR`, and
/// `DYAD_STATIC=DIR`.
#[test]
fn real_models_give_the_vectors_of_their_libraries() {
    let Some(models) = path_of("DYAD_STATIC", "real_models_give_the_vectors_of_their_libraries") else {
        return;
    };
    for (name, dim) in [("model2vec", 64), ("wordllama", 256)] {
        compare(&models.join(name), &format!("{name}.npy"), dim);
    }
}

fn compare(model: &Path, reference: &str, dim: usize) {
    let texts: Vec<String> = fs_err::read_to_string(golden().join("all-MiniLM-L6-v2.jsonl"))
        .unwrap()
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    let model = open(model);
    assert_eq!(model.info().dim, dim);
    let apart = apart(&embed(&model, Tower::Answer, &texts), &npy(&golden().join(reference)));
    assert!(apart < NEAR, "{reference}: {apart}");
}

//! The question tower in this process, with the real model where `DYAD_MODEL` names one.

use std::path::Path;
use std::time::Duration;

use dyad_searcher::question::{LocalOptions, QuestionTower};

fn options() -> LocalOptions {
    LocalOptions { device: "cpu".into(), dtype: "f32".into(), threads: 1 }
}

#[tokio::test]
async fn questions_get_unit_vectors_and_like_questions_are_near() {
    let Some(model) = std::env::var_os("DYAD_MODEL") else {
        println!("skipped: DYAD_MODEL names no model directory");
        return;
    };
    let tower = QuestionTower::load(Path::new(&model), options()).await.unwrap();
    let dim = tower.model().dim;
    assert_eq!(tower.model().fingerprint.len(), 64);
    let questions =
        ["Who won Super Bowl 50?", "which team were the champions of super bowl 50", "How do plants make sugar?"];
    let embedded = tower.embed(questions.map(String::from).to_vec(), Duration::from_mins(1)).await.unwrap();
    let rows: Vec<&[f32]> = embedded.vectors.chunks_exact(dim).collect();
    let dot = |a: usize, b: usize| rows[a].iter().zip(rows[b]).map(|(x, y)| x * y).sum::<f32>();
    for row in 0..3 {
        assert!((dot(row, row) - 1.0).abs() < 1e-4);
    }
    assert!(dot(0, 1) > 0.7 && dot(0, 2) < 0.3, "{} {}", dot(0, 1), dot(0, 2));
}

#[tokio::test]
async fn a_model_that_is_not_there_and_an_unknown_device_are_named() {
    let error = QuestionTower::load(Path::new("no/such/model"), options()).await.unwrap_err().to_string();
    assert!(error.contains("no/such/model") && error.contains("deploy/model.sh"), "{error}");
    let odd = LocalOptions { device: "tpu".into(), ..options() };
    let error = QuestionTower::load(Path::new("no/such/model"), odd).await.unwrap_err().to_string();
    assert!(error.contains("device must be `cpu`") && error.contains("tpu"), "{error}");
}

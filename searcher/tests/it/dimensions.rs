//! An index of the first values of a model's vectors: its questions are cut alike, wherever they come from.

use std::path::Path;

use dyad_corpus::{Document, PassageContext};
use dyad_files::space::boundless;
use dyad_index::format::RowType;
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::{BuildParams, BuilderKind};
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{Corpus, RowSource};
use dyad_proto::client::Credentials;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::Engine;
use dyad_searcher::question::QuestionTower;
use dyad_searcher::run::EngineConfig;

use crate::encoder_service::encoder;
use crate::fixture::{DIM, US, documents, embed, keys, model, request, searcher_over};
use crate::leaves::answer;
use crate::leaves_fixture::roots;

/// Values that the index keeps.
const KEPT: usize = 9;

/// An index of three shards of the documents of these tests.
fn write(index: &Path) {
    let given = documents().into_iter().map(|(key, text)| Document {
        key,
        title: String::new(),
        text,
        ..Document::default()
    });
    let rows: Vec<Vec<f32>> = documents().iter().map(|(_, text)| embed(text)).collect();
    let mut source = RowSource::new(model("f00d"), PassageContext::default(), rows.into_iter());
    let config = BuildConfig {
        corpus: Corpus::Given(given.collect()),
        index: index.to_owned(),
        shards: 3,
        builder: BuilderKind::Native,
        params: BuildParams {
            m: 8,
            ef_construction: 40,
            seed: 1,
            threads: 1,
        },
        row_type: RowType::F32,
        dimensions: Some(KEPT),
        language: None,
        queries: None,
        target: None,
        new_model: false,
        allow_empty: false,
        memory: None,
        free_space: boundless,
    };
    build_index(&config, &mut source, JobControl::silent()).unwrap();
}

/// By the definition: the first values, divided by their length.
fn first(row: &[f32]) -> Vec<f32> {
    let length = row[..KEPT].iter().map(|value| value * value).sum::<f32>().sqrt();
    row[..KEPT].iter().map(|value| value / length).collect()
}

/// The score of a document by the first values.
fn score(question: &str, key: &str) -> f32 {
    let text = documents().into_iter().find(|(other, _)| other == key).unwrap().1;
    let (one, other) = (first(&embed(question)), first(&embed(&text)));
    one.iter().zip(&other).map(|(one, other)| one * other).sum()
}

fn with_vector(vector: Vec<f32>, k: u32) -> v1::SearchRequest {
    v1::SearchRequest {
        vector,
        fingerprint: "f00d".into(),
        ..request(Mode::Dense, "", k)
    }
}

#[tokio::test]
async fn texts_and_vectors_of_both_lengths_find_the_nearest_by_the_first_values() {
    let index = tempfile::tempdir().unwrap();
    write(index.path());
    let server = searcher_over(index, EngineConfig::default()).await;
    let text = "the bright planet number 20";
    let embedded = server.client.search(request(Mode::Dense, text, 60)).await.unwrap();
    assert_eq!(embedded.hits.len(), 60);
    for pair in embedded.hits.windows(2) {
        assert!(pair[0].score >= pair[1].score);
    }
    for hit in &embedded.hits {
        assert!((hit.score - score(text, &hit.key)).abs() < 1e-5, "{}", hit.key);
    }
    let (whole, cut) = (embed(text), first(&embed(text)));
    for vector in [whole, cut] {
        let given = server.client.search(with_vector(vector, 60)).await.unwrap();
        assert!(
            given
                .hits
                .iter()
                .zip(&embedded.hits)
                .all(|(one, other)| (one.score - other.score).abs() < 1e-6)
        );
    }
    for wrong in [KEPT - 1, KEPT + 1, DIM + 1] {
        let refused = server
            .client
            .search(with_vector(vec![1.0; wrong], 3))
            .await
            .unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains("InvalidArgument")
                && refused.contains(&format!(
                    "expected 24 or 9 values, as the vectors of the index have, got {wrong}"
                )),
            "{refused}"
        );
    }
    let mut nothing = vec![0.0; DIM];
    nothing[DIM - 1] = 1.0;
    let refused = server
        .client
        .search(with_vector(nothing, 3))
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("a direction in the first 9 values"), "{refused}");
    let status = server.admin().await.status(v1::StatusRequest::default()).await.unwrap();
    let (of_index, tower) = (status.index_model.unwrap(), status.question_model.unwrap());
    assert_eq!((of_index.dim, of_index.full_dim), (KEPT as u32, DIM as u32));
    assert_eq!((tower.dim, tower.full_dim), (DIM as u32, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_over_leaves_cuts_questions_too() {
    let index = tempfile::tempdir().unwrap();
    write(index.path());
    let all = roots(index.path(), 2, 1).await;
    for asked in [
        request(Mode::Dense, "golden bird number 7", 10),
        request(Mode::Hybrid, "golden bird number 7", 10),
        with_vector(embed("silent river"), 10),
    ] {
        let one = answer(&all.root, asked.clone(), &US).await;
        let other = answer(&all.whole, asked, &US).await;
        assert_eq!(keys(&one.hits), keys(&other.hits));
        assert_eq!(one.hits.len(), 10);
    }
}

#[tokio::test]
async fn a_tower_of_another_model_is_refused_with_what_the_index_keeps() {
    let index = tempfile::tempdir().unwrap();
    write(index.path());
    let other = encoder("beef").await;
    let tower = QuestionTower::connect(&other.url, Credentials::default())
        .await
        .unwrap();
    let error = Engine::open(index.path(), Some(tower), EngineConfig::default()).unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("fingerprint f00d, 9 of 24 values") && error.contains("fingerprint beef, 24 values"),
        "{error}"
    );
}

//! BM25 of passages with that of their documents, by every way to ask: against the formulas written out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dyad_index::{FusionRecord, LearnedFrom};
use dyad_proto::v1::{self, Fusion, Mode};
use dyad_searcher::run::EngineConfig;

use crate::command_line::run_beside;
use crate::fixture::{Searcher, keys, request, searcher_over, write_index_of};

const SUBJECTS: [&str; 8] = [
    "volcano", "glacier", "violin", "harbour", "comet", "orchard", "turbine", "lantern",
];
const WORDS: [&str; 5] = ["rises", "slowly", "old", "northern", "bright"];
const QUERY: &str = "bright volcano";
/// In the title of each passage, as the index is written.
const TITLE: &str = "title";

/// Five passages of each of eight documents, of which only the first names the subject.
fn passages() -> Vec<(String, String)> {
    let text = |document: usize, passage: usize| {
        let word = |step: usize| WORDS[(document * 3 + passage * 2 + step) % WORDS.len()];
        let subject = if passage == 0 { SUBJECTS[document] } else { "it" };
        format!(
            "{subject} {} {}{}",
            word(0),
            word(1),
            " again".repeat((document + passage) % 3)
        )
    };
    (0..40)
        .map(|number| {
            (
                format!("{}#{}", SUBJECTS[number / 5], number % 5),
                text(number / 5, number % 5),
            )
        })
        .collect()
}

async fn searcher_of_passages() -> Searcher {
    let index = tempfile::tempdir().unwrap();
    write_index_of(&passages(), index.path(), 1, "f00d");
    searcher_over(index, EngineConfig::default()).await
}

/// BM25 of texts. Words are as they are indexed, but for stop words and endings, which make no difference to those that
/// are asked for.
fn bm25(texts: &[Vec<String>]) -> Vec<f64> {
    let average = texts.iter().map(Vec::len).sum::<usize>() as f64 / texts.len() as f64;
    let of_word = |text: &Vec<String>, word: &str| {
        let tf = text.iter().filter(|other| *other == word).count() as f64;
        let df = texts
            .iter()
            .filter(|text| text.iter().any(|other| other == word))
            .count() as f64;
        let idf = (1.0 + (texts.len() as f64 - df + 0.5) / (df + 0.5)).ln();
        idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * text.len() as f64 / average))
    };
    texts
        .iter()
        .map(|text| QUERY.split(' ').map(|word| of_word(text, word)).sum())
        .collect()
}

/// The score of every passage itself, and of its document.
fn expected() -> BTreeMap<String, (f64, f64)> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(' ').filter(|word| *word != "it");
        std::iter::once(TITLE).chain(words).map(str::to_owned).collect()
    };
    let texts: Vec<Vec<String>> = passages().iter().map(|(_, text)| words(text)).collect();
    let (own, whole) = (
        bm25(&texts),
        bm25(&texts.chunks(5).map(<[_]>::concat).collect::<Vec<_>>()),
    );
    let scored = passages()
        .into_iter()
        .enumerate()
        .map(|(number, (key, _))| (key, (own[number], whole[number / 5])));
    scored.collect()
}

fn assert_scores(hits: &[v1::Hit], weight: f64) {
    let mut ranking: Vec<(f64, String)> = expected()
        .into_iter()
        .map(|(key, (own, whole))| (own + weight * whole, key))
        .collect();
    ranking.retain(|(score, _)| *score > 0.0);
    let scores: BTreeMap<&str, f64> = ranking.iter().map(|(score, key)| (key.as_str(), *score)).collect();
    assert_eq!(hits.len(), scores.len());
    for hit in hits {
        assert!(
            (f64::from(hit.score) - scores[hit.key.as_str()]).abs() < 1e-5,
            "{hit:?}, expected {scores:?}"
        );
    }
    assert!(hits.is_sorted_by(|a, b| a.score > b.score || (a.score.to_bits() == b.score.to_bits() && a.key < b.key)));
}

#[tokio::test]
async fn passages_are_found_through_their_documents() {
    let server = searcher_of_passages().await;
    for (asked, weight) in [(None, 1.0), (Some(0.0), 0.0), (Some(0.25), 0.25), (Some(10.0), 10.0)] {
        let search = v1::SearchRequest {
            document_weight: asked,
            ..request(Mode::Bm25, QUERY, 40)
        };
        let reply = server.client.search(search.clone()).await.unwrap();
        assert_eq!(reply.document_weight.to_bits(), f64::to_bits(weight));
        assert_scores(&reply.hits, weight);
        let batch = v1::SearchBatchRequest {
            requests: vec![search.clone(), search.clone()],
        };
        let batch = server.client.search_batch(batch).await.unwrap().responses;
        assert!(
            batch
                .iter()
                .all(|one| one.hits == reply.hits && one.document_weight.to_bits() == weight.to_bits())
        );
        let compared = v1::SearchRequest {
            mode: Mode::Compare.into(),
            ..search.clone()
        };
        let compared = server.client.search(compared).await.unwrap().comparison.unwrap();
        assert_eq!(keys(&compared.bm25), keys(&reply.hits));
        let grouped = Some(v1::GroupBy {
            field: "document".into(),
            hits: 5,
        });
        let grouped = server
            .client
            .search(v1::SearchRequest {
                group_by: grouped,
                ..search
            })
            .await
            .unwrap()
            .hits;
        assert_eq!(grouped[0].key, reply.hits[0].key);
    }
    let dense = server.client.search(request(Mode::Dense, QUERY, 5)).await.unwrap();
    assert_eq!(dense.document_weight.to_bits(), 0);
    let refused = v1::SearchRequest {
        document_weight: Some(11.0),
        ..request(Mode::Bm25, QUERY, 5)
    };
    let refused = server.client.search(refused).await.unwrap_err().to_string();
    assert!(
        refused.contains("`document_weight`: expected a number from 0 to 10, got 11"),
        "{refused}"
    );
}

#[tokio::test]
async fn an_explanation_tells_the_part_of_the_document() {
    let server = searcher_of_passages().await;
    for weight in [0.0, 0.5] {
        let search = v1::SearchRequest {
            document_weight: Some(weight),
            ..request(Mode::Bm25, QUERY, 40)
        };
        let hits = server.client.search(search.clone()).await.unwrap().hits;
        for (key, (_, whole)) in expected() {
            let explain = v1::ExplainRequest {
                key: key.clone(),
                search: Some(search.clone()),
            };
            let told = server.client.explain(explain).await.unwrap();
            let place = hits.iter().find(|hit| hit.key == key).and_then(|hit| hit.bm25);
            assert_eq!(told.bm25, place, "{key}");
            assert!(
                (f64::from(told.bm25_of_document) - weight * whole).abs() < 1e-5,
                "{key}: {told:?}"
            );
            let has_document = told.bm25_explanation_json.contains("0.5 times BM25 of the document");
            assert_eq!(
                has_document,
                weight > 0.0 && place.is_some(),
                "{key}: {}",
                told.bm25_explanation_json
            );
        }
    }
}

/// Both scores are shares of their bounds, which the documents' is part of.
#[tokio::test]
async fn fused_scores_are_within_their_bounds() {
    let server = searcher_of_passages().await;
    let min_max = |dense_weight| v1::SearchRequest {
        fusion: Fusion::MinMax.into(),
        dense_weight: Some(dense_weight),
        exact: true,
        ..request(Mode::Hybrid, QUERY, 40)
    };
    let by_words = server.client.search(min_max(0.0)).await.unwrap().hits;
    let idf = |texts: f64, df: f64| (1.0 + (texts - df + 0.5) / (df + 0.5)).ln();
    let holding = |word: &str| passages().iter().filter(|(_, text)| text.contains(word)).count() as f64;
    let documents = |word: &str| {
        passages()
            .chunks(5)
            .filter(|all| all.iter().any(|(_, text)| text.contains(word)))
            .count() as f64
    };
    let bound: f64 = QUERY
        .split(' ')
        .map(|word| 2.2 * (idf(40.0, holding(word)) + idf(8.0, documents(word))))
        .sum();
    let scores = expected();
    for hit in &by_words {
        let (own, whole) = scores[&hit.key];
        assert!((f64::from(hit.score) - (own + whole) / bound).abs() < 1e-5, "{hit:?}");
    }
    assert_eq!(by_words.len(), 40);
    let both = server.client.search(min_max(0.5)).await.unwrap().hits;
    assert!(both.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
}

/// An index without documents has none of it.
#[tokio::test]
async fn an_index_without_documents_is_searched_as_before() {
    let server = crate::fixture::searcher().await;
    let ask = async |document_weight| {
        let search = v1::SearchRequest {
            document_weight,
            ..request(Mode::Bm25, "northern metal number 46", 60)
        };
        server.client.search(search).await.unwrap()
    };
    let (by_default, without) = (ask(None).await, ask(Some(0.0)).await);
    assert_eq!(
        (by_default.document_weight.to_bits(), &by_default.hits),
        (0, &without.hits)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_learned_weight_is_used_and_a_request_goes_before_it() {
    let server = searcher_of_passages().await;
    let index = server.index.path().to_str().unwrap().to_owned();
    let folder = tempfile::tempdir().unwrap();
    // Answers are passages that do not name their subject.
    let questions = passages().into_iter().filter(|(key, _)| !key.ends_with("#0"));
    let (mut queries, mut qrels) = (String::new(), "query-id\tcorpus-id\tscore\n".to_owned());
    for (key, text) in questions {
        let (subject, word) = (key.split('#').next().unwrap(), text.split(' ').nth(1).unwrap());
        writeln!(queries, "{{\"_id\": \"q-{key}\", \"text\": \"{subject} {word}\"}}").unwrap();
        writeln!(qrels, "q-{key}\t{key}\t1").unwrap();
    }
    fs_err::create_dir(folder.path().join("qrels")).unwrap();
    fs_err::write(folder.path().join("queries.jsonl"), queries).unwrap();
    fs_err::write(folder.path().join("qrels/dev.tsv"), qrels).unwrap();
    let data = folder.path().to_str().unwrap();
    let learn = [
        "learn",
        "--index",
        &index,
        "--question-tower",
        &server.encoder.url,
        "--data",
        data,
    ];
    let (code, out, error) = run_beside(&learn).await;
    assert!(code == Some(0) && out.contains(", document weight 1\n"), "{out}{error}");
    let learned = FusionRecord::load(server.index.path(), "f00d").unwrap().unwrap();
    assert!(
        learned.document_weight.is_some_and(|weight| weight > 0.0),
        "{learned:?}"
    );

    let from = LearnedFrom {
        data: "d".into(),
        split: "dev".into(),
        questions: 32,
        ..learned.learned_from.clone()
    };
    let record = FusionRecord {
        document_weight: Some(0.3),
        learned_from: from,
        ..learned
    };
    let lock = dyad_index::storage::WriteLock::acquire(server.index.path()).unwrap();
    record.save(server.index.path(), &lock).unwrap();
    drop(lock);
    server.admin().await.reload(v1::ReloadRequest::default()).await.unwrap();
    let asked = async |document_weight, fusion: Fusion| {
        let fusion = fusion.into();
        let search = v1::SearchRequest {
            document_weight,
            fusion,
            ..request(Mode::Hybrid, QUERY, 40)
        };
        server.client.search(search).await.unwrap().document_weight
    };
    for fusion in [Fusion::Unspecified, Fusion::Rrf, Fusion::MinMax] {
        assert_eq!(asked(None, fusion).await.to_bits(), 0.3_f64.to_bits(), "{fusion:?}");
        assert_eq!(
            asked(Some(2.0), fusion).await.to_bits(),
            2.0_f64.to_bits(),
            "{fusion:?}"
        );
    }
}

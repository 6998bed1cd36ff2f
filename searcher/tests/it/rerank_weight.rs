//! How much a cross encoder's scores count next to fused ones: against the formula written out, as it was learned, and
//! where it cannot be.

use dyad_index::RerankRecord;
use dyad_index::storage::WriteLock;
use dyad_proto::client::{AdminClient, ClientConfig, ClientError};
use dyad_proto::v1::{self, Fusion, Mode};
use tonic::Code;

use crate::command_line::run_beside;
use crate::cross_encoder::{Running, bytes, searcher, searcher_over};
use crate::fixture::{documents, keys, request};
use crate::learn::beir_folder;
use crate::log_odds::write_scaled_index;

const QUERY: &str = "the silent river number 12";
const DEPTH: u32 = 12;

async fn scaled() -> Running {
    searcher_over(|index| write_scaled_index(index, &documents(), 22.6)).await
}

fn asked(rerank_weight: Option<f64>) -> v1::SearchRequest {
    v1::SearchRequest {
        rerank_depth: DEPTH,
        rerank_weight,
        ..request(Mode::Hybrid, QUERY, 20)
    }
}

/// The best hits by `(1 - w) score - w bytes`, of equal ones the better first; the others as they were.
fn by_formula(before: &[v1::Hit], weight: f64) -> Vec<v1::Hit> {
    let (scored, others) = before.split_at(DEPTH as usize);
    let sum = |hit: &v1::Hit| (1.0 - weight) * f64::from(hit.score) - weight * bytes(hit) as f64;
    let mut scored = scored.to_vec();
    scored.sort_by(|one, other| sum(other).total_cmp(&sum(one)));
    [&scored[..], others].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn logits_are_added_to_fused_scores() {
    let Running { served, index, .. } = &scaled().await;
    let plain = v1::SearchRequest {
        rerank_depth: 0,
        ..asked(None)
    };
    let before = served.client.search(plain).await.unwrap();
    assert_eq!((before.fusion(), before.rerank_weight.to_bits()), (Fusion::LogOdds, 0));
    let mut orders = Vec::new();
    for (weight, used) in [
        (None, 0.3),
        (Some(0.0), 0.0),
        (Some(0.1), 0.1),
        (Some(0.7), 0.7),
        (Some(1.0), 1.0),
    ] {
        let reply = served.client.search(asked(weight)).await.unwrap();
        assert_eq!(
            (reply.reranked, reply.rerank_weight.to_bits()),
            (DEPTH, f64::to_bits(used))
        );
        let expected = by_formula(&before.hits, used);
        assert_eq!(keys(&reply.hits), keys(&expected), "{weight:?}");
        for (at, (hit, was)) in reply.hits.iter().zip(&expected).enumerate() {
            let place = v1::Placement {
                rank: at as u32 + 1,
                score: -(bytes(was) as f32),
            };
            assert_eq!(hit.rerank, (at < DEPTH as usize).then_some(place));
            assert_eq!((hit.score, hit.dense), (was.score, was.dense));
        }
        orders.push(keys(&reply.hits).join(" "));
    }
    assert_eq!(orders[1], keys(&before.hits).join(" "));
    orders.dedup();
    assert!(orders.len() > 3, "the weights show nothing: {orders:?}");

    // What was measured for the index goes before the default, and the request before that.
    let measured_on = dyad_index::RerankMeasured {
        data: "d".to_owned(),
        split: "dev".to_owned(),
        questions: 40,
        before: 0.5,
        after: 0.6,
        p: 0.01,
    };
    let record = RerankRecord {
        format_version: RerankRecord::VERSION,
        fingerprint: "f00d".to_owned(),
        reranker_fingerprint: "c0de".to_owned(),
        reranker: "shortest".to_owned(),
        depth: 12,
        fusion: Some(dyad_index::FusionMethod::LogOdds),
        weight: 0.7,
        measured_on,
    };
    record
        .save(index.path(), &WriteLock::acquire(index.path()).unwrap())
        .unwrap();
    let admin = AdminClient::connect(&served.url, ClientConfig::default())
        .await
        .unwrap();
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    for (weight, used) in [(None, 0.7), (Some(0.2), 0.2)] {
        let reply = served.client.search(asked(weight)).await.unwrap();
        assert_eq!(reply.rerank_weight.to_bits(), f64::to_bits(used));
        assert_eq!(keys(&reply.hits), keys(&by_formula(&before.hits, used)));
    }
    // What was measured of another fusion, or by an earlier release, says nothing of this one; a loss is told of
    // searches at the weight that was measured.
    let mut earlier = RerankRecord {
        fusion: None,
        weight: 1.0,
        ..record.clone()
    };
    (earlier.measured_on.before, earlier.measured_on.after) = (0.6, 0.5);
    earlier
        .save(index.path(), &WriteLock::acquire(index.path()).unwrap())
        .unwrap();
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    for (weight, used, told) in [(None, 0.3, 0), (Some(1.0), 1.0, 1)] {
        let reply = served.client.search(asked(weight)).await.unwrap();
        assert_eq!(
            (reply.rerank_weight.to_bits(), reply.notes.len()),
            (f64::to_bits(used), told),
            "{:?}",
            reply.notes
        );
    }
    // Rankings in other units give way to the cross encoder.
    for other in [
        v1::SearchRequest {
            mode: Mode::Dense.into(),
            ..asked(None)
        },
        v1::SearchRequest {
            fusion: Fusion::WeightedSum.into(),
            ..asked(None)
        },
    ] {
        let reply = served.client.search(other).await.unwrap();
        let lengths: Vec<usize> = reply.hits.iter().take(DEPTH as usize).map(bytes).collect();
        assert_eq!(reply.rerank_weight.to_bits(), f64::to_bits(1.0));
        assert!(lengths.is_sorted(), "{lengths:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_weight_is_learned_with_what_it_brings() {
    let Running {
        url, encoder, index, ..
    } = &scaled().await;
    let (path, folder) = (index.path().to_str().unwrap(), beir_folder(40));
    let learn = [
        "learn",
        "--index",
        path,
        "--question-tower",
        &encoder.url,
        "--reranker",
        url,
        "--data",
    ];
    let data = folder.path().to_str().unwrap();
    let (code, out, error) = run_beside(&[&learn[..], &[data, "--rerank-depth", "8"]].concat()).await;
    assert!(code == Some(0) && out.contains("reranked "), "{out}{error}");
    let record = RerankRecord::load(index.path(), "f00d").unwrap().unwrap();
    assert!(out.contains(&format!("8 hits, weight {}", record.weight)), "{out}");
    // No weight is better than the default, which keeps every answer first; alone the shortest texts would be.
    assert_eq!(
        record.weight_of(dyad_index::FusionMethod::LogOdds).map(f64::to_bits),
        Some(f64::to_bits(0.3))
    );
    assert!(
        record.measured_on.before > 0.9 && record.gain().abs() < 0.05,
        "{record:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_weight_that_cannot_be_is_refused_with_the_field() {
    let Running { served, .. } = &scaled().await;
    let refused = async |change: fn(&mut v1::SearchRequest), reason: &str| {
        let mut request = asked(Some(0.5));
        change(&mut request);
        match served.client.search(request).await.unwrap_err() {
            ClientError::Refused {
                code: Code::InvalidArgument,
                message,
                ..
            } => {
                assert!(message.contains(reason), "{message}");
            }
            other => panic!("{other}"),
        }
    };
    let nan = |asked: &mut v1::SearchRequest| asked.rerank_weight = Some(f64::NAN);
    refused(nan, "`rerank_weight`: expected a number from 0 to 1, got NaN").await;
    refused(
        |asked| asked.rerank_weight = Some(1.5),
        "expected a number from 0 to 1, got 1.5",
    )
    .await;
    refused(
        |asked| asked.rerank_depth = 0,
        "`rerank_weight`: expected none without `rerank_depth`",
    )
    .await;
    refused(
        |asked| asked.set_mode(Mode::Bm25),
        "`rerank_weight`: expected 1 or none in MODE_BM25",
    )
    .await;
    refused(
        |asked| asked.set_fusion(Fusion::Rrf),
        "`rerank_weight`: expected 1 or none with FUSION_RRF",
    )
    .await;
    refused(
        |asked| asked.rrf_k = 10,
        "`rerank_weight`: expected 1 or none with `rrf_k`",
    )
    .await;
    // An index whose scores are in another unit.
    let Running { served, .. } = &searcher().await;
    let error = served.client.search(asked(Some(0.5))).await.unwrap_err();
    match error {
        ClientError::Refused {
            code: Code::FailedPrecondition,
            message,
            ..
        } => {
            assert!(
                message.contains("`rerank_weight`: expected 1 or none") && message.contains("weighted sum"),
                "{message}"
            );
        }
        other => panic!("{other}"),
    }
    assert_eq!(served.client.search(asked(Some(1.0))).await.unwrap().reranked, DEPTH);
}

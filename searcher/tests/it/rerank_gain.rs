//! What a cross encoder brings an index: measured on judged questions, written next to the index, and told.

use dyad_index::storage::WriteLock;
use dyad_index::{RERANK_FILE, RerankRecord};
use dyad_proto::client::{AdminClient, ClientConfig};
use dyad_proto::v1::{self, Mode};

use crate::command_line::run_beside;
use crate::cross_encoder::{Running, searcher};
use crate::fixture::request;
use crate::learn::beir_folder;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cross_encoder_brings_is_measured_and_told() {
    let Running {
        url,
        served,
        encoder,
        index,
        ..
    } = &searcher().await;
    let path = index.path().to_str().unwrap();
    let admin = AdminClient::connect(&served.url, ClientConfig::default())
        .await
        .unwrap();
    let status = async || admin.status(v1::StatusRequest::default()).await.unwrap();
    let reranked = v1::SearchRequest {
        rerank_depth: 8,
        ..request(Mode::Hybrid, "river number 7", 5)
    };
    assert_eq!(status().await.rerank_gain, None);
    assert!(served.client.search(reranked.clone()).await.unwrap().notes.is_empty());

    let folder = beir_folder(40);
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
    let (code, out, error) = run_beside(&[&learn[..], &[data, "--dry-run"]].concat()).await;
    assert!(
        code == Some(0) && out.contains("by shortest, 20 hits, weight 1"),
        "{out}{error}"
    );
    assert!(!index.path().join(RERANK_FILE).exists());
    let (code, out, error) = run_beside(&[&learn[..], &[data, "--rerank-depth", "8"]].concat()).await;
    assert!(
        code == Some(0) && out.contains(RERANK_FILE) && out.contains("does not help"),
        "{out}{error}"
    );
    let record = RerankRecord::load(index.path(), "f00d").unwrap().unwrap();
    assert_eq!(
        (record.depth, record.measured_on.questions, record.is_of("c0de")),
        (8, 40, true)
    );
    // The shortest texts come first, whatever was asked.
    assert!(record.gain() < -0.05 && record.measured_on.before > 0.5, "{record:?}");
    let report = dyad_indexer::inspect::inspect(index.path()).unwrap().to_string();
    assert!(report.contains("by shortest, 8 hits, weight 1: nDCG@10 "), "{report}");

    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    let gain = status().await.rerank_gain.unwrap();
    assert_eq!(
        (gain.depth, gain.questions, gain.after.to_bits()),
        (8, 40, record.measured_on.after.to_bits())
    );
    let notes = served.client.search(reranked.clone()).await.unwrap().notes;
    assert!(
        notes.len() == 1 && notes[0].contains("reranking has lowered nDCG@10 from"),
        "{notes:?}"
    );
    assert!(
        served
            .client
            .search(request(Mode::Hybrid, "river number 7", 5))
            .await
            .unwrap()
            .notes
            .is_empty()
    );
    let (_, out, error) = run_beside(&["admin", "--server", &served.url, "status"]).await;
    assert!(
        out.contains("reranking       nDCG@10 ") && out.contains("with 8 hits, weight 1"),
        "{out}{error}"
    );

    // One that helps has no note, and one that was not measured neither.
    let mut helps = record.clone();
    (helps.measured_on.before, helps.measured_on.after) = (0.5, 0.51);
    let other = RerankRecord {
        reranker_fingerprint: "beef".to_owned(),
        ..record
    };
    for (record, is_told) in [(helps, true), (other, false)] {
        record
            .save(index.path(), &WriteLock::acquire(index.path()).unwrap())
            .unwrap();
        admin.reload(v1::ReloadRequest::default()).await.unwrap();
        assert_eq!(status().await.rerank_gain.is_some(), is_told);
        assert!(served.client.search(reranked.clone()).await.unwrap().notes.is_empty());
    }
}

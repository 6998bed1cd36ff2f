//! A shard that lost bytes after it was written: replies say so, and which file it is.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dyad_index::format::SectionKind;
use dyad_index::shard::{DENSE_FILE, DenseShard};
use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::EngineConfig;

use crate::fixture::{Searcher, US, documents, embed, request, searcher_over, write_index};

fn dense_of(index: &Path) -> PathBuf {
    index.join("shards").join("g1-1").join(DENSE_FILE)
}

/// A searcher over an index of which one byte or word differs: at a place of a section of the second shard.
async fn over_damage(kind: SectionKind, place: impl Fn(u64) -> u64, change: impl Fn(&mut [u8])) -> Searcher {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let dense = dense_of(index.path());
    let (section, n) = {
        let shard = DenseShard::open(&dense).unwrap();
        (*shard.header().section(kind).unwrap(), shard.len() as u64)
    };
    let mut bytes = fs_err::read(&dense).unwrap();
    let at = (section.offset + place(n)) as usize;
    change(&mut bytes[at..at + 4]);
    fs_err::write(&dense, bytes).unwrap();
    searcher_over(index, EngineConfig::default()).await
}

fn assert_degraded(reply: &v1::SearchResponse, part: &str) {
    let reason = &reply.degraded_reason;
    let expected = v1::Coverage {
        documents: 60,
        shards: 2,
        damaged_shards: 1,
        intact_documents: 30,
        missing_shards: Vec::new(),
    };
    assert_eq!(reply.coverage, Some(expected));
    assert!(
        reply.degraded && reason.contains("shards/g1-1/dense.dyad`") && reason.contains(part),
        "{reason}"
    );
    assert!(
        reason.contains("hits may be missing") && reason.contains("`dyad-indexer verify`"),
        "{reason}"
    );
}

/// The lowest bit of a value: no search can tell, and the checksums do, soon after the index was opened.
#[tokio::test]
async fn what_only_a_checksum_tells_is_told_soon() {
    let server = over_damage(SectionKind::Vectors, |_| 0, |bytes| bytes[0] ^= 1).await;
    let late = Instant::now() + Duration::from_mins(1);
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let reply = loop {
            let reply = server.client.search(request(mode, "the old river", 3)).await.unwrap();
            if reply.degraded || Instant::now() > late {
                break reply;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_degraded(&reply, "VECTORS: expected checksum");
        assert_eq!(reply.hits.len(), 3);
    }
}

/// A value of the first document of the second shard is no number: the document has no dense score, and is not the
/// best.
#[tokio::test]
async fn a_damaged_vector_adds_nothing_to_a_bounded_score() {
    let server = over_damage(SectionKind::Vectors, |_| 0, |bytes| bytes.fill(0xFF)).await;
    let all = documents();
    let search = v1::SearchRequest {
        fusion: v1::Fusion::MinMax.into(),
        vector: embed(&all[40].1),
        fingerprint: "f00d".to_owned(),
        ..request(Mode::Hybrid, "old mountain", 60)
    };
    let reply = server.client.search(search.clone()).await.unwrap();
    assert_degraded(&reply, "VECTORS");
    let damaged = reply.hits.iter().find(|hit| hit.key == "doc-01").unwrap();
    assert!(
        damaged.bm25.is_some_and(|place| place.rank == 1) && (0.0..=0.3).contains(&damaged.score),
        "{damaged:?}"
    );
    assert!(
        reply.hits[0].key != "doc-01" && reply.hits.iter().all(|hit| hit.score <= 1.0),
        "{:?}",
        reply.hits
    );
    let explain = v1::ExplainRequest {
        key: "doc-01".to_owned(),
        search: Some(v1::SearchRequest {
            mode: Mode::Dense.into(),
            ..search
        }),
    };
    let told = server.client.explain(explain).await.unwrap();
    assert_eq!(
        (told.dense_exact, &*told.reasons[0]),
        (None, "dense: its vector is damaged"),
        "{told:?}"
    );
}

/// The first link of the entry point's slot.
#[tokio::test]
async fn a_link_that_leads_nowhere_is_told_at_once() {
    let links = |n: u64| 64 + (4 * n).next_multiple_of(64);
    let server = over_damage(SectionKind::Graph, links, |bytes| bytes.fill(0xFF)).await;
    let reply = server
        .client
        .search(request(Mode::Dense, "the old river", 5))
        .await
        .unwrap();
    assert_degraded(&reply, "GRAPH");
    assert_eq!(reply.hits.len(), 5);
}

/// Where the key of the second document starts: it and the first have none.
#[tokio::test]
async fn documents_without_keys_are_left_out_and_that_is_told() {
    let server = over_damage(SectionKind::Keys, |_| 8, |bytes| bytes.fill(0xFF)).await;
    let all = documents().len() as u32;
    let reply = server
        .client
        .search(request(Mode::Dense, "the old river", all))
        .await
        .unwrap();
    assert_degraded(&reply, "KEYS");
    assert_eq!(reply.hits.len() as u32, all - 2);
    assert!(reply.hits.iter().all(|hit| !hit.key.is_empty()));
    let lost: Vec<String> = documents().into_iter().map(|(key, _)| key).collect();
    let Err(error) = server
        .engine
        .documents(
            v1::GetDocumentsRequest {
                keys: lost,
                ..Default::default()
            },
            &US,
            None,
        )
        .await
    else {
        panic!("keys that are not in the file")
    };
    assert_eq!(tonic::Status::from(error).code(), tonic::Code::DataLoss);
}

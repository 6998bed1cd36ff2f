//! What stands around hits in the documents of which they are passages.

use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::lexical::{PlacesWriter, TextPlace};
use dyad_index::shard::DOCUMENTS_DIR;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::EngineConfig;
use tempfile::TempDir;

use crate::encoder_service::encoder;
use crate::fixture::{open, request, serve_with, write_index};
use crate::guarded::{equals, guarded};

/// Makes passages of the documents of an index that is not open: three after one another in a shard are one document.
/// The last ones are none.
pub(crate) fn write_places(index: &Path) {
    let snapshot = Snapshot::open(index).unwrap();
    for shard in snapshot.shards() {
        let dir = shard.dense.path().with_file_name(DOCUMENTS_DIR);
        let texts: Vec<String> = (0..shard.dense.len() as u32)
            .map(|node| shard.document(node).unwrap().text)
            .collect();
        let mut writer = PlacesWriter::new(dir);
        for (number, three) in texts.chunks(3).enumerate() {
            let whole = three.join(" ");
            let mut at = 0;
            for text in three {
                let place = TextPlace {
                    document: &whole,
                    digest: number as u128,
                    bytes: at..at + text.len(),
                };
                writer
                    .add(text, (3 * (number + 1) < texts.len()).then_some(&place))
                    .unwrap();
                at += text.len() + 1;
            }
        }
        writer.finish().unwrap();
    }
}

#[tokio::test]
async fn hits_are_shown_in_their_documents() {
    let folder = TempDir::new().unwrap();
    write_index(folder.path(), 1, "f00d");
    write_places(folder.path());
    let encoder = encoder("f00d").await;
    let engine = open(folder.path(), &encoder, EngineConfig::default()).await.unwrap();
    let server = serve_with(std::sync::Arc::new(engine), dyad_proto::service::Security::default()).await;
    let snapshot = Snapshot::open(folder.path()).unwrap();
    let text_of = |node: u32| snapshot.shards()[0].document(node).unwrap().text;
    let (key, before, text, after) = (
        snapshot.key(0, 4).unwrap().to_owned(),
        text_of(3),
        text_of(4),
        text_of(5),
    );
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        let asked = v1::SearchRequest {
            surrounding_bytes: 1000,
            keys_only: true,
            ..request(mode, &text, 5)
        };
        let reply = server.client.search(asked.clone()).await.unwrap();
        let lists = reply
            .comparison
            .map_or(vec![reply.hits], |all| vec![all.dense, all.bm25, all.hybrid]);
        for hits in lists {
            let hit = hits.iter().find(|hit| hit.key == key).unwrap();
            let around = hit.surrounding.as_ref().unwrap();
            assert_eq!(
                (around.before.trim(), around.after.trim()),
                (before.as_str(), after.as_str())
            );
            assert_eq!(around.start as usize, before.len() + 1);
            assert_eq!((around.end - around.start) as usize, text.len());
            assert_eq!(
                around.document_bytes as usize,
                before.len() + text.len() + after.len() + 2
            );
            assert!(hit.document.is_none(), "only what was asked for");
        }
        let short = server
            .client
            .search(v1::SearchRequest {
                surrounding_bytes: 16,
                ..asked.clone()
            })
            .await
            .unwrap();
        for hit in short.hits {
            let Some(around) = hit.surrounding else { continue };
            assert!(around.before.len() + around.after.len() <= 16, "{around:?}");
        }
        let without = v1::SearchRequest {
            surrounding_bytes: 0,
            ..asked
        };
        assert!(
            server
                .client
                .search(without)
                .await
                .unwrap()
                .hits
                .iter()
                .all(|hit| hit.surrounding.is_none())
        );
    }
    // No passage of another document.
    let last = snapshot.shards()[0].dense.len() as u32 - 1;
    let asked = v1::SearchRequest {
        surrounding_bytes: 100,
        ..request(Mode::Bm25, &text_of(last), 1)
    };
    let hits = server.client.search(asked).await.unwrap().hits;
    assert_eq!(
        (hits[0].key.as_str(), hits[0].surrounding.as_ref()),
        (snapshot.key(0, last).unwrap(), None)
    );
}

/// What stands around a tenant's passage is of its own passages alone.
#[tokio::test]
async fn passages_of_others_are_left_blank() {
    let server = guarded().await;
    let key = server
        .key(dyad_proto::access::Role::Read, &[], Some(equals("thing", "planet")))
        .await;
    let client = server.searcher(&key).await;
    let search = v1::SearchRequest {
        surrounding_bytes: 1000,
        ..request(Mode::Bm25, "planet", 60)
    };
    let hits = client.search(search.clone()).await.unwrap().hits;
    let shown: Vec<&v1::Surrounding> = hits.iter().filter_map(|hit| hit.surrounding.as_ref()).collect();
    assert!(!shown.is_empty());
    for around in shown {
        for side in [&around.before, &around.after] {
            assert!(side.trim().is_empty() || side.contains("planet"), "{around:?}");
        }
    }
    let all = server
        .searcher(&server.key(dyad_proto::access::Role::Read, &[], None).await)
        .await;
    let hits = all.search(search).await.unwrap().hits;
    let is_other = |side: &str| !side.trim().is_empty() && !side.contains("planet");
    assert!(
        hits.iter()
            .filter_map(|hit| hit.surrounding.as_ref())
            .any(|around| is_other(&around.before))
    );
}

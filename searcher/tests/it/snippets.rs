//! Snippets and coverage in replies.

use dyad_proto::v1;
use dyad_proto::v1::Mode;

use crate::fixture::{request, searcher};

fn highlighted(snippet: &v1::Snippet) -> Vec<&str> {
    snippet
        .highlights
        .iter()
        .map(|range| &snippet.text[range.start as usize..range.end as usize])
        .collect()
}

#[tokio::test]
async fn hits_come_with_the_question_s_words_in_their_texts() {
    let server = searcher().await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid, Mode::Compare] {
        let plain = v1::SearchRequest {
            keys_only: true,
            ..request(mode, "Golden birds", 3)
        };
        let reply = server
            .client
            .search(v1::SearchRequest {
                snippet_bytes: 16,
                ..plain.clone()
            })
            .await
            .unwrap();
        let lists = reply
            .comparison
            .map_or(vec![reply.hits], |all| vec![all.dense, all.bm25, all.hybrid]);
        for hits in lists {
            assert!(!hits.is_empty());
            for hit in hits {
                let snippet = hit.snippet.as_ref().unwrap();
                assert!(hit.document.is_none() && snippet.text.len() <= 16, "{hit:?}");
                if hit.key == "doc-59" {
                    assert_eq!(highlighted(snippet), ["golden", "bird"]);
                }
            }
        }
        let without = server.client.search(plain).await.unwrap();
        assert!(without.hits.iter().all(|hit| hit.snippet.is_none()));
    }
}

#[tokio::test]
async fn a_vector_with_a_question_chooses_snippets_by_the_question() {
    let server = searcher().await;
    let search = v1::SearchRequest {
        vector: crate::fixture::embed("the heavy metal number 28"),
        fingerprint: "f00d".to_owned(),
        snippet_bytes: 64,
        group_by: Some(v1::GroupBy {
            field: "thing".to_owned(),
            hits: 2,
        }),
        fields: vec!["thing".to_owned()],
        ..request(Mode::Dense, "of metals", 2)
    };
    let hits = server.client.search(search).await.unwrap().hits;
    let best = &hits[0];
    assert_eq!(
        (best.key.as_str(), best.document.as_ref().unwrap().text.as_str()),
        ("doc-28", "")
    );
    assert_eq!(highlighted(best.snippet.as_ref().unwrap()), ["metal"]);
    assert_eq!(
        highlighted(best.group.as_ref().unwrap().hits[0].snippet.as_ref().unwrap()),
        ["metal"]
    );
    assert!(hits[1].snippet.as_ref().unwrap().highlights.is_empty());
    assert!(hits[1].snippet.as_ref().unwrap().text.starts_with("the "));
}

#[tokio::test]
async fn replies_tell_what_was_searched() {
    let server = searcher().await;
    let reply = server.client.search(request(Mode::Bm25, "river", 1)).await.unwrap();
    let all = v1::Coverage {
        documents: 60,
        shards: 2,
        damaged_shards: 0,
        intact_documents: 60,
    };
    assert_eq!(reply.coverage, Some(all));
}

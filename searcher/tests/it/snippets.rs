//! Snippets, texts that are cut, and coverage in replies.

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_searcher::run::EngineConfig;
use serde_json::json;

use crate::command_line::run_beside;
use crate::fixture::{request, searcher, searcher_over, write_index_of};
use crate::http::over;

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

#[tokio::test(flavor = "multi_thread")]
async fn long_texts_are_cut_between_characters() {
    let index = tempfile::tempdir().unwrap();
    let documents =
        [("doc-00", "the river"), ("doc-01", "the river of árbolés")].map(|(key, text)| (key.into(), text.into()));
    write_index_of(&documents, index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    let search = |max_text_bytes| v1::SearchRequest {
        max_text_bytes,
        ..request(Mode::Bm25, "river", 2)
    };
    for (most, expected) in [
        (0, "the river of árbolés"),
        // The 20th byte is the first of the last accent.
        (20, "the river of árbol"),
        (21, "the river of árbolé"),
        (65_536, "the river of árbolés"),
    ] {
        let mut hits = server.client.search(search(most)).await.unwrap().hits;
        hits.sort_by(|one, other| one.key.cmp(&other.key));
        let texts: Vec<String> = hits.into_iter().map(|hit| hit.document.unwrap().text).collect();
        assert_eq!(texts, ["the river", expected], "{most}");
    }
    for most in [15, 65_537] {
        let error = server.client.search(search(most)).await.unwrap_err().to_string();
        assert!(
            error.contains("`max_text_bytes`: expected 0 for the whole, or 16 to 65536"),
            "{error}"
        );
    }
    let cut = |reply: &serde_json::Value| reply["hits"][0]["document"]["text"].as_str().map(str::len);
    let body = json!({"query": "árbolés", "mode": "MODE_BM25", "k": 1, "max_text_bytes": 20});
    assert_eq!(cut(&over(&server).await.post("/v1/search", &body).await.json), Some(19));
    let asked = [
        "query",
        "--server",
        &server.url,
        "--json",
        "--mode",
        "bm25",
        "--max-text-bytes",
        "20",
        "árbolés",
    ];
    let (_, out, error) = run_beside(&asked).await;
    assert_eq!(cut(&serde_json::from_str(&out).unwrap()), Some(19), "{error}");
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
        missing_shards: Vec::new(),
    };
    assert_eq!(reply.coverage, Some(all));
}

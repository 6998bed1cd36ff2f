//! Explanations against the searches that they are of.

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter::Condition;

use crate::fixture::{Searcher, documents, request, searcher};

const QUERY: &str = "northern metal number 46";

async fn explain(server: &Searcher, key: &str, search: v1::SearchRequest) -> v1::ExplainResponse {
    let request = v1::ExplainRequest {
        key: key.to_owned(),
        search: Some(search),
    };
    server.client.explain(request).await.unwrap()
}

fn without_keys(keys: &[&str]) -> v1::Filter {
    let keys = v1::FilterKeys {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
    };
    let keys = v1::Filter {
        condition: Some(Condition::Keys(keys)),
    };
    v1::Filter {
        condition: Some(Condition::Not(Box::new(keys))),
    }
}

fn by_thing(hits: u32) -> v1::GroupBy {
    v1::GroupBy {
        field: "thing".to_owned(),
        hits,
    }
}

fn of_group(best: &v1::Hit) -> impl Iterator<Item = (u32, &v1::Hit)> {
    let others = best.group.iter().flat_map(|group| &group.hits);
    std::iter::once(best).chain(others).map(|hit| (best.rank, hit))
}

/// Every document, for searches of every mode, pages, thresholds and filters: it is explained as a hit where it is one,
/// at its rank; else with a reason.
#[tokio::test]
async fn hits_are_told_from_others_for_every_plan() {
    let server = searcher().await;
    let filter = Some(without_keys(&["doc-46", "doc-03"]));
    let mut missed = 0;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let plain = request(mode, QUERY, 5);
        let whole = server
            .client
            .search(v1::SearchRequest { k: 30, ..plain.clone() })
            .await
            .unwrap()
            .hits;
        for search in [
            plain.clone(),
            v1::SearchRequest {
                exact: true,
                ..plain.clone()
            },
            v1::SearchRequest {
                offset: 3,
                fusion_depth: 9,
                ..plain.clone()
            },
            v1::SearchRequest {
                score_threshold: Some(whole[2].score),
                ..plain.clone()
            },
            v1::SearchRequest {
                filter: filter.clone(),
                ..plain.clone()
            },
            v1::SearchRequest {
                k: 2,
                offset: 1,
                group_by: Some(by_thing(2)),
                ..plain.clone()
            },
            v1::SearchRequest {
                group_by: Some(by_thing(1)),
                score_threshold: Some(whole[2].score),
                ..plain
            },
        ] {
            let hits = server.client.search(search.clone()).await.unwrap().hits;
            for (key, _) in documents() {
                let told = explain(&server, &key, search.clone()).await;
                // A document of a group is at the group's rank.
                let hit = hits.iter().flat_map(of_group).find(|(_, hit)| hit.key == key);
                let place = hit.map(|(rank, hit)| v1::Placement { rank, score: hit.score });
                assert_eq!(told.hit, place, "{mode:?} {key}: {search:?}");
                assert_eq!(told.reasons.is_empty(), hit.is_some(), "{mode:?} {key}: {told:?}");
                assert_eq!(
                    told.allowed,
                    search.filter.is_none() || !matches!(key.as_str(), "doc-46" | "doc-03")
                );
                assert!(told.allowed || told.reasons == ["the filter does not allow it"]);
                if let Some((_, hit)) = hit {
                    assert_eq!(
                        (told.dense, told.bm25.is_some()),
                        (hit.dense, hit.bm25.is_some() || told.bm25.is_some())
                    );
                }
                missed += usize::from(hit.is_none());
            }
        }
    }
    assert!(missed > 700);
}

#[tokio::test]
async fn exact_places_are_those_of_a_search_for_all_documents() {
    let server = searcher().await;
    for filter in [None, Some(without_keys(&["doc-46", "doc-41", "doc-45"]))] {
        let all = v1::SearchRequest {
            filter: filter.clone(),
            ..request(Mode::Dense, QUERY, 60)
        };
        let dense = server
            .client
            .search(v1::SearchRequest {
                exact: true,
                ..all.clone()
            })
            .await
            .unwrap();
        let bm25 = server
            .client
            .search(v1::SearchRequest {
                mode: Mode::Bm25.into(),
                ..all.clone()
            })
            .await
            .unwrap();
        for hit in &dense.hits {
            let told = explain(
                &server,
                &hit.key,
                v1::SearchRequest {
                    mode: Mode::Hybrid.into(),
                    k: 1,
                    ..all.clone()
                },
            )
            .await;
            assert_eq!(told.dense_exact, hit.dense);
            let place = bm25
                .hits
                .iter()
                .find(|other| other.key == hit.key)
                .and_then(|hit| hit.bm25);
            assert_eq!(told.bm25, place);
            assert_eq!(told.bm25_explanation_json.is_empty(), place.is_none());
            assert_eq!(told.terms, ["northern", "metal", "number", "46"]);
            assert_eq!((told.depth, told.ef), (100, 128));
        }
    }
}

#[tokio::test]
async fn a_reason_names_the_stage_and_what_would_help() {
    let server = searcher().await;
    let dense = server
        .client
        .search(request(Mode::Dense, QUERY, 60))
        .await
        .unwrap()
        .hits;
    let reasons = async |key: &str, search| explain(&server, key, search).await.reasons;
    let plain = |mode| request(mode, QUERY, 5);
    let seventh = &dense[6].key;
    let told = reasons(seventh, plain(Mode::Dense)).await;
    assert_eq!(
        told,
        ["dense: it is at rank 7 by inner product, and the ranking ends at 5"]
    );
    let told = reasons(
        seventh,
        v1::SearchRequest {
            score_threshold: Some(1.5),
            k: 7,
            ..plain(Mode::Dense)
        },
    )
    .await;
    assert_eq!(
        told,
        [format!("its score {} is below `score_threshold`, 1.5", dense[6].score)]
    );
    let told = reasons(
        &dense[0].key,
        v1::SearchRequest {
            offset: 2,
            ..plain(Mode::Dense)
        },
    )
    .await;
    assert_eq!(told, ["it is at rank 1, and the search asks for ranks 3 to 7"]);
    // None of its terms but "number", which every document has.
    let told = reasons("doc-46", request(Mode::Bm25, "zebra", 5)).await;
    assert_eq!(told, ["BM25: it has none of the question's terms"]);
    let last = &dense[59].key;
    let told = reasons(
        last,
        v1::SearchRequest {
            fusion_depth: 9,
            ..plain(Mode::Hybrid)
        },
    )
    .await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("dense: it is at rank 60") && told[1].starts_with("BM25: "),
        "{told:?}"
    );

    let absent = v1::ExplainRequest {
        key: "absent".into(),
        search: Some(plain(Mode::Dense)),
    };
    let error = server.client.explain(absent).await.unwrap_err().to_string();
    assert!(error.contains("no document with the key `absent`"), "{error}");
    let other = v1::SearchRequest {
        fingerprint: "beef".into(),
        ..plain(Mode::Dense)
    };
    let other = v1::ExplainRequest {
        key: "doc-46".into(),
        search: Some(other),
    };
    let error = server.client.explain(other).await.unwrap_err().to_string();
    assert!(error.contains("`search.fingerprint`: the index was made by"), "{error}");
}

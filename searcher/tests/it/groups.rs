//! Grouped hits against the same grouping of the whole ranking, made by the client.

use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::v1::filter_value::Value;
use dyad_searcher::run::EngineConfig;

use crate::fixture::{DOCUMENTS, request, searcher, searcher_over, write_index_of};

const QUERY: &str = "the deep bird number 17";

fn by(field: &str, hits: u32) -> v1::GroupBy {
    v1::GroupBy {
        field: field.to_owned(),
        hits,
    }
}

/// Key and score of a group's hits, best first.
type Members = Vec<(String, f32)>;

fn members(best: &v1::Hit) -> (Option<Value>, Members) {
    let group = best.group.as_ref().unwrap();
    let all = std::iter::once(best)
        .chain(&group.hits)
        .map(|hit| (hit.key.clone(), hit.score));
    assert!(
        group
            .hits
            .iter()
            .zip(2..)
            .all(|(hit, rank)| hit.rank == rank && hit.group.is_none())
    );
    (group.value.clone().and_then(|value| value.value), all.collect())
}

/// Groups of a ranking by a text of the hits' metadata.
fn grouped(ranking: &[v1::Hit], field: &str, most: usize) -> Vec<(Option<Value>, Members)> {
    let mut groups: Vec<(Option<Value>, Members)> = Vec::new();
    for hit in ranking {
        let metadata: serde_json::Value = serde_json::from_str(&hit.document.as_ref().unwrap().metadata_json).unwrap();
        let value = Some(Value::Text(metadata[field].as_str().unwrap().to_owned()));
        let member = (hit.key.clone(), hit.score);
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, members)) if members.len() < most => members.push(member),
            Some(_) => {}
            None => groups.push((value, vec![member])),
        }
    }
    groups
}

#[tokio::test]
async fn groups_are_those_of_the_whole_ranking_in_every_mode_and_on_every_page() {
    let server = searcher().await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let whole = v1::SearchRequest {
            fusion_depth: 100,
            ..request(mode, QUERY, DOCUMENTS as u32)
        };
        let whole = server.client.search(whole).await.unwrap().hits;
        for (hits, k, offset) in [(1, 6, 0), (0, 2, 0), (3, 2, 3), (100, 6, 0), (2, 10, 5), (1, 3, 6)] {
            let search = v1::SearchRequest {
                offset,
                group_by: Some(by("thing", hits)),
                ..request(mode, QUERY, k)
            };
            let reply = server.client.search(search).await.unwrap();
            let expected = grouped(&whole, "thing", hits.max(1) as usize);
            let expected: Vec<_> = expected.into_iter().skip(offset as usize).take(k as usize).collect();
            let got: Vec<_> = reply.hits.iter().map(members).collect();
            assert_eq!(got, expected, "{mode:?} {hits} {k} {offset}");
            assert!(reply.hits.iter().zip(offset + 1..).all(|(hit, rank)| hit.rank == rank));
            assert!(
                reply
                    .hits
                    .iter()
                    .all(|hit| hit.document.is_some() && hit.dense.is_some() != (mode == Mode::Bm25))
            );
        }
    }
}

/// 400 documents of four groups are nearer to the question than the one of the fifth.
#[tokio::test]
async fn rankings_are_read_as_deep_as_the_groups_need() {
    let text = |i: usize| {
        if i < 400 {
            "river".to_owned()
        } else {
            format!("river {}", "of stones ".repeat(9))
        }
    };
    let all: Vec<_> = (0..401).map(|i| (format!("doc-{i:03}"), text(i))).collect();
    let index = tempfile::tempdir().unwrap();
    write_index_of(&all, index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
        let search = v1::SearchRequest {
            group_by: Some(by("place.hundred", 1)),
            ..request(mode, "river", 5)
        };
        let reply = server.client.search(search.clone()).await.unwrap();
        let got: Vec<_> = reply.hits.iter().map(members).collect();
        let mut numbers: Vec<_> = got.iter().map(|(value, _)| value.clone()).collect();
        assert_eq!(got.len(), 5, "{mode:?}");
        assert_eq!(numbers.pop().unwrap(), Some(Value::Number(4.0)), "{mode:?}");
        // Equal scores are broken by key, in each of the searches of a graph that are read one after another.
        let best: Vec<&str> = reply.hits.iter().map(|hit| hit.key.as_str()).collect();
        let expected = ["doc-000", "doc-100", "doc-200", "doc-300", "doc-400"];
        assert!(mode == Mode::Dense || best == expected, "{mode:?}: {best:?}");
        assert!(
            reply
                .hits
                .iter()
                .zip(&reply.hits[1..4])
                .all(|(one, next)| one.score >= next.score),
            "{mode:?}"
        );
        let shallow = v1::SearchRequest {
            group_by: None,
            ..search.clone()
        };
        let shallow = server.client.search(shallow).await.unwrap();
        assert!(mode == Mode::Bm25 || reply.distance_computations > shallow.distance_computations);
        // More groups than there are: everything was read. Of a fused ranking that may change the order.
        let more = server
            .client
            .search(v1::SearchRequest {
                k: 50,
                ..search.clone()
            })
            .await
            .unwrap();
        let fused = usize::from(mode == Mode::Hybrid);
        assert_eq!((more.hits.len(), more.notes.len()), (5, fused), "{mode:?}");
        assert!(
            more.notes
                .iter()
                .all(|note| note.contains("hits of each ranking were read for these groups"))
        );
        assert!(mode == Mode::Bm25 || more.ef > 401, "{mode:?}: {}", more.ef);
        // In a batch, each question is read as deep as it needs.
        let plain = request(mode, "river", 5);
        let batch = v1::SearchBatchRequest {
            requests: vec![plain, search],
        };
        let batch = server.client.search_batch(batch).await.unwrap().responses;
        assert_eq!(batch[1].hits, reply.hits, "{mode:?}");
        assert!(batch[0].hits.iter().all(|hit| hit.group.is_none()));
    }
}

#[tokio::test]
async fn documents_without_the_field_are_groups_of_their_own() {
    let server = searcher().await;
    let plain = server.client.search(request(Mode::Dense, QUERY, 7)).await.unwrap();
    let search = v1::SearchRequest {
        group_by: Some(by("none", 3)),
        ..request(Mode::Dense, QUERY, 7)
    };
    let reply = server.client.search(search).await.unwrap();
    let alone = |hit: &v1::Hit| v1::Hit {
        group: Some(v1::Group::default()),
        ..hit.clone()
    };
    assert_eq!(reply.hits, plain.hits.iter().map(alone).collect::<Vec<_>>());
}

/// The groups of a whole ranking by any field, as a client would make them.
fn grouped_by(ranking: &[v1::Hit], pointer: &str, most: usize) -> Vec<Vec<String>> {
    let mut groups: Vec<(serde_json::Value, Vec<String>)> = Vec::new();
    for hit in ranking {
        let metadata: serde_json::Value = serde_json::from_str(&hit.document.as_ref().unwrap().metadata_json).unwrap();
        let value = metadata
            .pointer(pointer)
            .cloned()
            .unwrap_or_else(|| serde_json::Value::from(format!("{} alone", hit.key)));
        match groups.iter_mut().find(|(other, _)| *other == value) {
            Some((_, members)) if members.len() < most => members.push(hit.key.clone()),
            Some(_) => {}
            None => groups.push((value, vec![hit.key.clone()])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn number_from(min: f64, below: f64) -> v1::Filter {
    let value = |number| {
        Some(v1::FilterValue {
            value: Some(Value::Number(number)),
        })
    };
    let field = "place.number".to_owned();
    let range = v1::FieldRange {
        field,
        min: value(min),
        below: value(below),
        ..Default::default()
    };
    v1::Filter {
        condition: Some(v1::filter::Condition::Range(range)),
    }
}

/// Fields of one value, of some, of as many as there are documents, and of none; through filters, and where a ranking
/// has to be read deeper.
#[tokio::test]
async fn groups_by_any_field_are_those_of_the_whole_ranking() {
    const MANY: u32 = 700;
    let words = ["river", "deep", "bird", "stone", "old", "green", "metal"];
    let text = |i: usize| {
        (0..6)
            .map(|at| words[(i * (at + 3) + i / 7 * at) % 7])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all: Vec<_> = (0..MANY as usize).map(|i| (format!("doc-{i:03}"), text(i))).collect();
    let index = tempfile::tempdir().unwrap();
    write_index_of(&all, index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    let fields = [
        ("lang", "/lang"),
        ("thing", "/thing"),
        ("place.hundred", "/place/hundred"),
        ("metadata.place.number", "/place/number"),
        ("none", "/none"),
    ];
    let filters = [None, Some(number_from(0.0, 450.0)), Some(number_from(0.0, 3.0))];
    for (mode, filter) in [Mode::Dense, Mode::Bm25]
        .into_iter()
        .flat_map(|mode| filters.clone().map(|filter| (mode, filter)))
    {
        // The order of equal scores, which a graph search may leave out, is part of what is compared.
        let exact = mode == Mode::Dense;
        let search = v1::SearchRequest {
            filter,
            exact,
            ..request(mode, "deep river bird", MANY)
        };
        let whole = server.client.search(search.clone()).await.unwrap().hits;
        for ((field, pointer), (hits, k, offset)) in fields
            .into_iter()
            .flat_map(|field| [(1, 4, 0), (1, 60, 2), (3, 5, 1), (100, 9, 0)].map(|page| (field, page)))
        {
            let search = v1::SearchRequest {
                k,
                offset,
                group_by: Some(by(field, hits)),
                ..search.clone()
            };
            let reply = server.client.search(search).await.unwrap();
            let key = |hit: &v1::Hit| hit.key.clone();
            let members = |hit: &v1::Hit| {
                std::iter::once(hit)
                    .chain(&hit.group.as_ref().unwrap().hits)
                    .map(key)
                    .collect()
            };
            let got: Vec<Vec<String>> = reply.hits.iter().map(members).collect();
            let expected = grouped_by(&whole, pointer, hits as usize);
            let expected: Vec<_> = expected.into_iter().skip(offset as usize).take(k as usize).collect();
            assert_eq!(got, expected, "{mode:?} by {field}: {hits} {k} {offset}");
        }
    }
}

/// All documents have one value: no read that is deeper could bring another group.
#[tokio::test]
async fn a_ranking_is_not_read_deeper_for_groups_that_there_are_not() {
    let all: Vec<_> = (0..401).map(|i| (format!("doc-{i:03}"), "river".to_owned())).collect();
    let index = tempfile::tempdir().unwrap();
    write_index_of(&all, index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    for mode in [Mode::Dense, Mode::Hybrid] {
        let search = |field: &str| v1::SearchRequest {
            group_by: Some(by(field, 2)),
            ..request(mode, "river", 10)
        };
        // The first reads the column, the others have it.
        for _ in 0..3 {
            let reply = server.client.search(search("lang")).await.unwrap();
            assert_eq!(
                (reply.hits.len(), reply.ef, reply.notes.len()),
                (1, 128, 0),
                "{mode:?}: {:?}",
                reply.notes
            );
        }
        let some = v1::SearchRequest {
            filter: Some(number_from(50.0, 160.0)),
            ..search("place.hundred")
        };
        let reply = server.client.search(some).await.unwrap();
        assert_eq!(
            (reply.hits.len(), reply.ef),
            (2, 128),
            "{mode:?}: the filter allows no other group"
        );
        // Four other groups are there, below the first hundred hits.
        let reply = server.client.search(search("place.hundred")).await.unwrap();
        assert!(reply.hits.len() == 5 && reply.ef > 401, "{mode:?}: {}", reply.ef);
    }
}

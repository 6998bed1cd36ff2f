//! Pages of a dense search over a graph in which every search misses some of the nearest: together they are one
//! ranking.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use dyad_index::{Graph, GraphLayer};
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_proto::v1::{Filter, Mode};
use dyad_searcher::run::EngineConfig;
use tokio_stream::StreamExt as _;

use crate::fixture::{Searcher, certificate, request, searcher_over, write_linked_index};

const DOCUMENTS: usize = 600;
const PAGE: u32 = 5;
const PAGES: u32 = 24;
const QUESTIONS: u32 = 20;

/// Texts whose vectors are spread over all directions.
fn documents() -> Vec<(String, String)> {
    let word = |number: usize| format!("w{}", number * number % 997);
    let text = |at: usize| {
        (0..4)
            .map(|part| word(at * 13 + part * 7))
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..DOCUMENTS).map(|at| (format!("doc-{at:03}"), text(at))).collect()
}

/// Nodes in a ring, whatever their vectors: all are reachable, and few of the nearest are found by a narrow beam.
fn ring(nodes: usize) -> Graph {
    let near = [1, 2, 29, nodes - 1, nodes - 2, nodes - 29];
    let links = |node: usize| near.iter().map(|step| ((node + step) % nodes) as u32).collect();
    let lists: Vec<Vec<u32>> = (0..nodes).map(links).collect();
    Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..nodes as u32).collect(), &lists)],
    }
}

/// A searcher whose graph searches miss some of the nearest.
pub(crate) async fn sparse_searcher(config: EngineConfig) -> Searcher {
    let index = tempfile::tempdir().unwrap();
    write_linked_index(&documents(), index.path(), 1, "f00d", certificate, ring);
    searcher_over(index, config).await
}

/// One of its questions.
pub(crate) fn question(number: u32) -> String {
    let (key, text) = &documents()[number as usize * 23 % DOCUMENTS];
    format!("{text} {key}")
}

async fn ask(server: &Searcher, request: v1::SearchRequest) -> Vec<v1::Hit> {
    server.client.search(request).await.unwrap().hits
}

/// The pages of a search until one is empty, each as it is served.
async fn pages(server: &Searcher, search: &v1::SearchRequest) -> Vec<v1::Hit> {
    let mut all = Vec::new();
    for page in 0..PAGES {
        let hits = ask(
            server,
            v1::SearchRequest {
                offset: page * PAGE,
                ..search.clone()
            },
        )
        .await;
        assert!(
            hits.iter().zip(page * PAGE + 1..).all(|(hit, rank)| hit.rank == rank),
            "{hits:?}"
        );
        all.extend(hits);
    }
    all
}

fn keys(hits: &[v1::Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.key.as_str()).collect()
}

fn is_once(keys: &[&str]) -> bool {
    keys.iter().collect::<HashSet<_>>().len() == keys.len()
}

/// Half of the documents, by a field of their metadata.
fn half() -> Filter {
    let thing = |thing: &str| v1::FilterValue {
        value: Some(Value::Text(thing.to_owned())),
    };
    let values = ["river", "planet", "metal"].map(thing).to_vec();
    Filter {
        condition: Some(Condition::OneOf(v1::FieldOneOf {
            field: "thing".to_owned(),
            values,
        })),
    }
}

#[tokio::test]
async fn pages_hold_every_document_once_where_searches_differ() {
    let server = sparse_searcher(EngineConfig::default()).await;
    let mut cut = 0;
    for number in 0..QUESTIONS {
        let plain = v1::SearchRequest {
            keys_only: true,
            ..request(Mode::Dense, &question(number), PAGE)
        };
        let narrow = v1::SearchRequest { ef: 1, ..plain.clone() };
        for search in [
            narrow.clone(),
            plain.clone(),
            v1::SearchRequest {
                filter: Some(half()),
                ..narrow.clone()
            },
            v1::SearchRequest {
                target_recall: Some(0.9),
                ..plain.clone()
            },
            v1::SearchRequest {
                exact: true,
                ..plain.clone()
            },
        ] {
            let all = pages(&server, &search).await;
            let keys = keys(&all);
            assert!(is_once(&keys), "question {number}, {search:?}: {keys:?}");
            assert_eq!(all.len(), (PAGE * PAGES) as usize, "question {number}, {search:?}");
            // The first page is the search that is not paged, and the hits of a page do not depend on the pages asked
            // for before.
            assert_eq!(all[..PAGE as usize], ask(&server, search.clone()).await);
            let page = v1::SearchRequest { offset: 63, ..search };
            assert_eq!(all[63..68], ask(&server, page).await);
        }
        // Pages that were cut from searches of their own would repeat documents.
        let mut apart = Vec::new();
        for page in 0..PAGES {
            let whole = ask(
                &server,
                v1::SearchRequest {
                    k: (page + 1) * PAGE,
                    ..narrow.clone()
                },
            )
            .await;
            apart.extend(whole.into_iter().skip((page * PAGE) as usize));
        }
        cut += usize::from(!is_once(&keys(&apart)));
    }
    assert!(cut > 0, "the graph is too good for this test");
}

#[tokio::test]
async fn a_threshold_leaves_hits_out_of_the_pages_and_no_others() {
    let server = sparse_searcher(EngineConfig::default()).await;
    for number in 0..QUESTIONS {
        let search = v1::SearchRequest {
            ef: 1,
            keys_only: true,
            ..request(Mode::Dense, &question(number), PAGE)
        };
        let all = pages(&server, &search).await;
        let least = all[40].score;
        let mut above = Vec::new();
        for page in 0..PAGES {
            let threshold = Some(least);
            let offset = page * PAGE;
            above.extend(
                ask(
                    &server,
                    v1::SearchRequest {
                        offset,
                        score_threshold: threshold,
                        ..search.clone()
                    },
                )
                .await,
            );
        }
        let expected: Vec<&str> = all
            .iter()
            .filter(|hit| hit.score >= least)
            .map(|hit| hit.key.as_str())
            .collect();
        assert_eq!(keys(&above), expected, "question {number}");
    }
}

#[tokio::test]
async fn groups_and_streams_have_the_same_pages() {
    let server = sparse_searcher(EngineConfig::default()).await;
    for number in 0..QUESTIONS {
        let search = v1::SearchRequest {
            ef: 1,
            ..request(Mode::Dense, &question(number), PAGE)
        };
        let field = "place.number".to_owned();
        let grouped = v1::SearchRequest {
            group_by: Some(v1::GroupBy { field, hits: 1 }),
            ..search.clone()
        };
        let all = pages(&server, &grouped).await;
        assert!(
            all.len() == (PAGE * PAGES) as usize && is_once(&keys(&all)),
            "question {number}"
        );
        // A field of few values needs deeper searches, which go on from the shallower ones.
        let field = "thing".to_owned();
        let few = v1::SearchRequest {
            group_by: Some(v1::GroupBy { field, hits: 1 }),
            k: 2,
            ..search.clone()
        };
        let mut values = BTreeMap::new();
        for offset in [0, 2, 4, 6] {
            for hit in ask(&server, v1::SearchRequest { offset, ..few.clone() }).await {
                let value = format!("{:?}", hit.group.unwrap().value);
                assert_eq!(values.insert(value, hit.key), None, "question {number}: a group twice");
            }
        }
        assert_eq!(values.len(), 6, "question {number}");

        let single = pages(&server, &search).await;
        let requests = (0..PAGES).map(|page| v1::SearchRequest {
            offset: page * PAGE,
            ..search.clone()
        });
        let requests: Vec<v1::SearchRequest> = requests.collect();
        let time = Duration::from_mins(1);
        let mut stream = server
            .client
            .search_stream(tokio_stream::iter(requests.clone()), time)
            .await
            .unwrap();
        let mut streamed = Vec::new();
        while let Some(reply) = stream.next().await {
            streamed.extend(reply.unwrap().response.unwrap().hits);
        }
        assert_eq!(keys(&streamed), keys(&single));
        let batch = server
            .client
            .search_batch(v1::SearchBatchRequest { requests })
            .await
            .unwrap();
        let batch: Vec<v1::Hit> = batch.responses.into_iter().flat_map(|reply| reply.hits).collect();
        assert_eq!(keys(&batch), keys(&single));
    }
}

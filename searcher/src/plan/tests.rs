//! Requests, and the plans that become of them.

use super::*;

fn plan(change: impl FnOnce(&mut v1::SearchRequest)) -> SearchPlan {
    let mut request = v1::SearchRequest {
        query: "q".into(),
        k: 10,
        ..Default::default()
    };
    change(&mut request);
    SearchPlan::new(&request, Duration::from_secs(10), &[], Fusion::default())
}

#[test]
fn each_mode_runs_its_stages_and_no_other() {
    let stages = |mode: v1::Mode| {
        let plan = plan(|request| request.set_mode(mode));
        (
            plan.dense.map(|params| params.k),
            plan.text_depth,
            plan.tower_time.as_secs(),
        )
    };
    assert_eq!(stages(v1::Mode::Dense), (Some(10), None, 10));
    assert_eq!(stages(v1::Mode::Bm25), (None, Some(10), 10));
    assert_eq!(stages(v1::Mode::Hybrid), (Some(100), Some(100), 7));
    assert_eq!(stages(v1::Mode::Compare), (Some(100), Some(100), 7));
}

#[test]
fn the_beam_is_never_narrower_than_what_is_asked_of_it() {
    let ef = |k, ef, depth| {
        plan(|request| {
            request.set_mode(v1::Mode::Hybrid);
            (request.k, request.ef, request.fusion_depth) = (k, ef, depth);
        })
        .ef()
    };
    assert_eq!(ef(10, 0, 0), 128);
    assert_eq!(ef(10, 16, 0), 116);
    assert_eq!(ef(500, 16, 20), 516);
    assert_eq!(ef(10, 16, 20), 36);
    let page = plan(|request| (request.k, request.offset, request.ef) = (10, 290, 16));
    assert_eq!((page.dense.map(|params| params.k), page.ef()), (Some(300), 656));
}

#[test]
fn every_page_begins_with_the_searches_of_those_before() {
    let searches = |change: fn(&mut v1::SearchRequest)| -> Vec<(usize, usize)> {
        let plan = plan(change);
        let params = plan.dense_searches().iter();
        params
            .map(|params| (params.k, params.mode.ef().unwrap_or_default()))
            .collect()
    };
    assert_eq!(searches(|request| request.ef = 16), [(10, 26)]);
    assert_eq!(
        searches(|request| (request.ef, request.offset) = (16, 10)),
        [(10, 26), (40, 56)]
    );
    assert_eq!(
        searches(|request| (request.ef, request.offset) = (16, 30)),
        [(10, 26), (40, 56)]
    );
    assert_eq!(
        searches(|request| (request.ef, request.offset) = (16, 31)),
        [(10, 26), (40, 56), (160, 176)]
    );
    assert_eq!(
        searches(|request| request.offset = 9_990).last(),
        Some(&(10_000, 10_016))
    );
    // The first page of reranked hits is as deep as the cross encoder reads.
    assert_eq!(
        searches(|request| (request.offset, request.rerank_depth) = (30, 50)),
        [(50, 128)]
    );
    assert_eq!(
        searches(|request| (request.offset, request.exact) = (30, true)),
        [(40, 0)]
    );
    assert_eq!(
        searches(|request| (request.offset, request.mode) = (30, v1::Mode::Hybrid.into())),
        [(100, 128)]
    );
    // Groups that are read deeper are those of later pages.
    let grouped = |offset| {
        plan(|request| {
            request.offset = offset;
            request.group_by = Some(v1::GroupBy {
                field: "document".into(),
                hits: 0,
            });
        })
    };
    let (first, later) = (grouped(0), grouped(100));
    let deep = later.depth();
    assert!(first.depth() < deep && first.dense_searches().len() == 1, "{first:?}");
    assert_eq!(first.with_depth(deep).dense_searches(), later.dense_searches());
}

#[test]
fn grouped_hits_are_read_deeper_and_deeper() {
    let plan = plan(|request| {
        request.set_mode(v1::Mode::Hybrid);
        (request.k, request.ef) = (50, 16);
        request.group_by = Some(v1::GroupBy {
            field: "document".into(),
            hits: 0,
        });
    });
    assert_eq!(
        plan.group_by,
        Some(GroupBy {
            field: "document".into(),
            hits: 1
        })
    );
    assert_eq!((plan.depth(), plan.text_depth, plan.ef()), (200, Some(200), 216));
    let deeper = plan.with_depth(800);
    assert_eq!((deeper.depth(), deeper.text_depth, deeper.ef()), (800, Some(800), 816));
    assert_eq!(
        deeper.with_depth(200),
        SearchPlan {
            dense: deeper.with_depth(200).dense,
            ..plan
        }
    );
}

#[test]
fn what_is_ranked_again_is_paged_afterwards() {
    let plan = plan(|request| (request.k, request.offset, request.rerank_depth) = (10, 5, 20));
    let ranking: Vec<DocumentHit> = (0..50)
        .map(|node| DocumentHit {
            score: 1.0,
            shard: 0,
            node,
        })
        .collect();
    assert_eq!(
        (plan.max_hits(), plan.page(&ranking).count(), plan.depth()),
        (20, 20, 20)
    );
    let shallow = SearchPlan {
        rerank_depth: 3,
        ..plan.clone()
    };
    assert_eq!((shallow.max_hits(), shallow.page(&ranking).count()), (15, 15));
    let not = SearchPlan {
        rerank_depth: 0,
        ..plan
    };
    assert_eq!(
        not.page(&ranking).map(|hit| hit.node).collect::<Vec<_>>(),
        (5..15).collect::<Vec<u32>>()
    );
}

#[test]
fn exact_searches_no_graph() {
    let plan = plan(|request| {
        request.set_mode(v1::Mode::Dense);
        (request.exact, request.keys_only) = (true, true);
    });
    assert_eq!(plan.dense.unwrap().mode, SearchMode::Exact);
    assert_eq!((plan.ef(), plan.fields), (0, StoredFields::None));
}

#[test]
fn a_request_says_how_to_fuse_and_the_index_the_rest() {
    let own = Fusion {
        dense_weight: 0.85,
        ..Fusion::default()
    };
    let planned = |method: v1::Fusion, rrf_k, dense_weight, own| {
        let request = v1::SearchRequest {
            fusion: method.into(),
            rrf_k,
            dense_weight,
            k: 10,
            ..Default::default()
        };
        let Fusion {
            method,
            dense_weight,
            rrf_k,
            ..
        } = SearchPlan::new(&request, Duration::from_secs(1), &[], own).fusion;
        (method, dense_weight, rrf_k)
    };
    let (rrf, sum) = (FusionMethod::Rrf, FusionMethod::WeightedSum);
    let any = v1::Fusion::Unspecified;
    assert_eq!(planned(any, 0, None, Fusion::default()), (sum, 0.7, 60));
    assert_eq!(planned(any, 0, None, own), (sum, 0.85, 60));
    assert_eq!(planned(any, 0, Some(0.2), own), (sum, 0.2, 60));
    assert_eq!(planned(any, 5, None, own), (rrf, 0.5, 5));
    assert_eq!(planned(v1::Fusion::Rrf, 0, None, own), (rrf, 0.5, 60));
    assert_eq!(
        planned(
            v1::Fusion::Rrf,
            0,
            None,
            Fusion {
                dense_weight: 0.9,
                ..Fusion::with(rrf)
            }
        ),
        (rrf, 0.9, 60)
    );
    assert_eq!(
        planned(v1::Fusion::WeightedSum, 0, None, Fusion::with(rrf)),
        (sum, 0.7, 60)
    );
}

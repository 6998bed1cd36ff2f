//! Requests that are costly, and others.

use dyad_proto::v1;

use super::*;
use crate::fusion::Fusion;

const SIZE: IndexSize = IndexSize {
    shards: 1,
    documents: 60_000,
    dim: 64,
};

fn cost(change: impl FnOnce(&mut v1::SearchRequest)) -> SearchCost {
    let mut request = v1::SearchRequest {
        query: "what is a river".into(),
        k: 10,
        ..Default::default()
    };
    change(&mut request);
    let plan = SearchPlan::new(&request, Duration::from_secs(10), &[], Fusion::default());
    SearchCost::estimate(&plan, &request.query, SIZE, false)
}

fn is_costly(change: impl FnOnce(&mut v1::SearchRequest)) -> bool {
    SIZE.is_costly(cost(change).total())
}

#[test]
fn what_takes_many_times_as_long_as_an_ordinary_request_is_costly_whatever_makes_it_so() {
    let by = |hits| {
        Some(v1::GroupBy {
            field: "site".into(),
            hits,
        })
    };
    for mode in [v1::Mode::Dense, v1::Mode::Bm25, v1::Mode::Hybrid, v1::Mode::Compare] {
        assert!(!is_costly(|request| request.set_mode(mode)), "{mode:?}");
        assert!(
            !is_costly(|request| (request.group_by, request.mode) = (by(1), mode.into())),
            "{mode:?} grouped"
        );
        assert!(
            is_costly(|request| (request.k, request.mode) = (10_000, mode.into())),
            "{mode:?} of many hits"
        );
        assert!(is_costly(
            |request| (request.k, request.group_by, request.mode) = (100, by(100), mode.into())
        ));
    }
    assert!(!is_costly(|request| request.ef = 512));
    assert!(is_costly(|request| request.ef = 10_000));
    assert!(is_costly(|request| (request.offset, request.keys_only) = (9_990, true)));
    assert!(is_costly(|request| {
        request.set_mode(v1::Mode::Hybrid);
        request.fusion_depth = 10_000;
    }));
    assert!(is_costly(|request| request.rerank_depth = 1_000));
    assert!(is_costly(|request| (request.k, request.snippet_bytes) = (1_000, 200)));
    assert!(is_costly(|request| {
        request.set_mode(v1::Mode::Bm25);
        request.query = "river ".repeat(300);
    }));
    let many = v1::FieldOneOf {
        field: "site".into(),
        values: vec![v1::FilterValue::default(); 10_000],
    };
    let filter = v1::Filter {
        condition: Some(v1::filter::Condition::OneOf(many)),
    };
    // An empty value is none.
    assert!(!is_costly(|request| request.filter = Some(filter)));
    let keys = v1::FilterKeys {
        keys: (0..10_000).map(|key: u32| key.to_string()).collect(),
    };
    let filter = v1::Filter {
        condition: Some(v1::filter::Condition::Keys(keys)),
    };
    assert!(is_costly(|request| request.filter = Some(filter)));
}

#[test]
fn exact_search_is_costly_where_there_are_many_vectors() {
    let exact = |documents| {
        let size = IndexSize {
            documents,
            dim: 384,
            ..SIZE
        };
        let request = v1::SearchRequest {
            query: "q".into(),
            k: 10,
            exact: true,
            ..Default::default()
        };
        let plan = SearchPlan::new(&request, Duration::from_secs(10), &[], Fusion::default());
        size.is_costly(SearchCost::estimate(&plan, "q", size, false).total())
    };
    assert_eq!(
        [100, 10_000, 1_000_000, 100_000_000].map(exact),
        [false, false, true, true]
    );
}

#[test]
fn a_filter_that_is_known_costs_nothing_and_stages_add_up() {
    let exists = v1::filter::Condition::Exists(v1::FieldExists { field: "site".into() });
    let request = v1::SearchRequest {
        query: "q".into(),
        k: 10,
        mode: v1::Mode::Hybrid.into(),
        filter: Some(v1::Filter {
            condition: Some(exists),
        }),
        ..Default::default()
    };
    let plan = SearchPlan::new(&request, Duration::from_secs(10), &[], Fusion::default());
    let [unknown, known] = [false, true].map(|known| SearchCost::estimate(&plan, "q", SIZE, known));
    assert!(unknown.filter > Duration::ZERO);
    assert_eq!(
        known,
        SearchCost {
            filter: Duration::ZERO,
            ..unknown
        }
    );
    assert_eq!(unknown.early() + unknown.late(), unknown.total());
    let text = cost(|request| request.set_mode(v1::Mode::Bm25));
    assert_eq!(text.early(), text.total());
}

/// What a leaf is asked for costs there what it costs in one process.
#[test]
fn the_rankings_of_a_search_cost_what_they_do_in_its_estimate() {
    for mode in [v1::Mode::Dense, v1::Mode::Bm25, v1::Mode::Hybrid] {
        let request = v1::SearchRequest {
            query: "what is a river".into(),
            k: 10,
            exact: true,
            keys_only: true,
            mode: mode.into(),
            ..Default::default()
        };
        let plan = SearchPlan::new(&request, Duration::from_secs(10), &[], Fusion::default());
        let rankings = SIZE.rankings(&RankedParts {
            question: plan.text_depth.map(|_| request.query.as_str()),
            searches: plan.dense_searches(),
            depth: plan.depth(),
        });
        assert_eq!(rankings, SearchCost::estimate(&plan, &request.query, SIZE, false));
        let one_job = rankings.of_one_job();
        assert_eq!((one_job.late(), one_job.total()), (rankings.total(), rankings.total()));
    }
}

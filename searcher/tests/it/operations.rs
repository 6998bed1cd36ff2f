//! What operators and load balancers see: probes, metrics, health, live recall.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_proto::service::HttpConfig;
use dyad_proto::v1::{self, Mode};
use dyad_searcher::plan::ServedSearchDefaults;
use dyad_searcher::run::EngineConfig;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::fixture::{Searcher, keys, request, searcher, searcher_with};
use crate::http_client::{Http, over_with};
use crate::pages::{question, sparse_searcher};

async fn over(server: &Searcher) -> Http {
    over_with(Arc::clone(&server.engine), HttpConfig::default()).await
}

async fn text(http: &Http, path: &str) -> (u16, String) {
    http.text("GET", path).await
}

/// The value of a series, 0 where there is none.
fn value(scrape: &str, series: &str) -> u64 {
    let line = scrape
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// The series after the calls of the test below.
fn assert_series(scrape: &str, name: &str) {
    for (series, expected) in [
        (r#"requests_total{call="Searcher.Search",status="OK"}"#, 6),
        (r#"requests_total{call="Searcher.SearchBatch",status="OK"}"#, 1),
        (r#"requests_total{call="Searcher.Explain",status="NOT_FOUND"}"#, 1),
        (r#"requests_total{call="Searcher.Search",status="INVALID_ARGUMENT"}"#, 1),
        (r#"requests_total{call="none",status="NOT_FOUND"}"#, 1),
        (r#"requests_total{call="Admin.ListIndexes",status="OK"}"#, 1),
        (r#"requests_total{call="Encoder.Info",status="UNIMPLEMENTED"}"#, 1),
        (r#"request_seconds_count{call="Searcher.Search"}"#, 7),
        (r#"answers_total{mode="hybrid"}"#, 3),
        (r#"answers_total{mode="dense"}"#, 4),
        (r#"answers_total{mode="bm25"}"#, 1),
        (r#"cache_misses_total{cache="questions"}"#, 2),
        (r#"cache_hits_total{cache="questions"}"#, 5),
        (r#"cache_misses_total{cache="filters"}"#, 1),
        (r#"cache_hits_total{cache="filters"}"#, 1),
        (r#"requests_limit{class="single"}"#, 256),
        (r#"requests_under_way{class="single"}"#, 0),
        ("ready", 1),
        (&format!(r#"generation{{index="{name}"}}"#), 1),
        (&format!(r#"documents{{index="{name}"}}"#), 60),
        (&format!(r#"deleted_documents{{index="{name}"}}"#), 0),
        (r#"tower_up{model="words",fingerprint="f00d"}"#, 1),
    ] {
        assert_eq!(
            value(scrape, &format!("dyad_searcher_{series}")),
            expected,
            "{series}\n{scrape}"
        );
    }
    for series in [
        r#"stage_seconds_count{stage="dense"}"#,
        r#"memory_bytes{kind="anonymous"}"#,
        r#"cache_bytes{cache="questions"}"#,
        &format!(r#"index_bytes{{index="{name}",kind="hot"}}"#),
    ] {
        assert!(
            value(scrape, &format!("dyad_searcher_{series}")) > 0,
            "{series}\n{scrape}"
        );
    }
}

#[tokio::test]
async fn metrics_count_what_was_asked_and_tell_what_is_served() {
    let config = EngineConfig {
        question_cache: 1 << 20,
        filter_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let server = searcher_with(config).await;
    let http = over(&server).await;
    let (query, lang) = ("the deep river", "lang");
    for _ in 0..3 {
        server.client.search(request(Mode::Hybrid, query, 5)).await.unwrap();
    }
    server.client.search(request(Mode::Bm25, query, 5)).await.unwrap();
    let exists = v1::filter::Condition::Exists(v1::FieldExists { field: lang.into() });
    let filter = Some(v1::Filter {
        condition: Some(exists),
    });
    for _ in 0..2 {
        let filtered = v1::SearchRequest {
            filter: filter.clone(),
            ..request(Mode::Dense, query, 5)
        };
        server.client.search(filtered).await.unwrap();
    }
    let batch = v1::SearchBatchRequest {
        requests: vec![request(Mode::Dense, query, 2), request(Mode::Dense, "x", 2)],
    };
    server.client.search_batch(batch).await.unwrap();
    server
        .client
        .explain(v1::ExplainRequest {
            key: "none".into(),
            search: Some(request(Mode::Bm25, query, 5)),
        })
        .await
        .unwrap_err();
    // What no service saw: JSON that is none, a route that is none, and a method of another server.
    assert_eq!(http.post("/v1/search", &serde_json::json!(7)).await.status, 400);
    assert_eq!(text(&http, "/v1/nowhere").await.0, 404);
    assert_eq!(text(&http, "/v1/indexes").await.0, 200);
    let channel = tonic::transport::Endpoint::from_shared(server.url.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    v1::encoder_client::EncoderClient::new(channel)
        .info(v1::InfoRequest::default())
        .await
        .unwrap_err();
    let (status, scrape) = text(&http, "/metrics").await;
    assert_eq!(status, 200);
    assert!(scrape.ends_with("# EOF\n"), "{scrape}");
    let build = concat!(
        "dyad_searcher_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\",revision=\"unknown\"} 1"
    );
    assert!(scrape.lines().any(|line| line == build), "{scrape}");
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    assert_series(&scrape, &name);
    // A tower that fails.
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    let degraded = server
        .client
        .search(request(Mode::Hybrid, "another question", 5))
        .await
        .unwrap();
    assert!(degraded.degraded);
    let (_, scrape) = text(&http, "/metrics").await;
    assert_eq!(
        value(&scrape, r#"dyad_searcher_tower_up{model="words",fingerprint="f00d"}"#),
        0
    );
    assert_eq!(value(&scrape, "dyad_searcher_degraded_total"), 1);
}

#[tokio::test]
async fn what_a_request_leaves_open_is_what_the_operator_has_set() {
    let values = ["ef=200,dense-weight=0.25", "another:dense-weight=0.9"];
    let server = searcher_with(EngineConfig {
        search_defaults: ServedSearchDefaults::new(values.iter().map(|value| value.parse().unwrap())),
        ..EngineConfig::default()
    })
    .await;
    let asked = request(v1::Mode::Hybrid, "planet rings", 3);
    let reply = server.client.search(asked.clone()).await.unwrap();
    assert_eq!((reply.dense_weight, reply.ef), (0.25, 200), "{reply:?}");
    let own = v1::SearchRequest {
        dense_weight: Some(0.5),
        exact: true,
        ..asked
    };
    let reply = server.client.search(own).await.unwrap();
    assert_eq!((reply.dense_weight, reply.ef), (0.5, 0), "{reply:?}");
}

#[tokio::test]
async fn questions_of_a_warm_up_are_no_answers_and_reloads_are_counted() {
    let server = searcher_with(EngineConfig {
        live_recall_share: 1.0,
        ..EngineConfig::default()
    })
    .await;
    let http = over(&server).await;
    server.engine.warm_up().await;
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    let reloads = |outcome| format!("dyad_searcher_index_reloads_total{{index=\"{name}\",outcome=\"{outcome}\"}}");
    let (_, scrape) = text(&http, "/metrics").await;
    assert!(
        !scrape.contains("dyad_searcher_answers_total{") && scrape.contains(&reloads("failed")),
        "{scrape}"
    );
    server.engine.reload("").await.unwrap();
    fs_err::write(server.index.path().join("CURRENT"), "?").unwrap();
    server.engine.reload("").await.unwrap_err();
    let (_, scrape) = text(&http, "/metrics").await;
    assert_eq!(
        (
            value(&scrape, &reloads("taken over")),
            value(&scrape, &reloads("failed"))
        ),
        (1, 1)
    );
    assert!(!scrape.contains("dyad_searcher_recall_expected_total{"), "{scrape}");
}

#[tokio::test]
async fn readiness_falls_when_an_index_is_gone_or_the_tower_is_another_and_comes_back() {
    let server = searcher().await;
    let http = over(&server).await;
    let channel = tonic::transport::Endpoint::from_shared(server.url.clone())
        .unwrap()
        .connect()
        .await
        .unwrap();
    let mut health = HealthClient::new(channel);
    let mut told = health
        .watch(HealthCheckRequest { service: String::new() })
        .await
        .unwrap()
        .into_inner();
    let next = async |told: &mut tonic::Streaming<HealthCheckResponse>| {
        let told = tokio::time::timeout(Duration::from_secs(30), told.message());
        told.await.unwrap().unwrap().unwrap().status()
    };
    server.engine.check_readiness().await.unwrap();
    assert_eq!(text(&http, "/readyz").await, (200, "ok\n".to_owned()));
    assert_eq!(next(&mut told).await, ServingStatus::Serving);
    let current = server.index.path().join("CURRENT");
    let moved = server.index.path().join("moved");
    fs_err::rename(&current, &moved).unwrap();
    let reason = server.engine.check_readiness().await.unwrap_err();
    assert!(reason.contains("is no index any more"), "{reason}");
    let (status, body) = text(&http, "/readyz").await;
    assert!(status == 503 && body.contains("is no index any more"), "{body}");
    assert_eq!(next(&mut told).await, ServingStatus::NotServing);
    // What is served is answered all the same.
    let reply = server
        .client
        .search(request(Mode::Hybrid, "the deep river", 5))
        .await
        .unwrap();
    assert!(!reply.degraded && keys(&reply.hits).len() == 5);
    assert_eq!(text(&http, "/livez").await.0, 200);
    fs_err::rename(&moved, &current).unwrap();
    server.engine.check_readiness().await.unwrap();
    assert_eq!(next(&mut told).await, ServingStatus::Serving);
    // The golden question's vector.
    server.encoder.drifted.store(true, std::sync::atomic::Ordering::SeqCst);
    let reason = server.engine.check_readiness().await.unwrap_err();
    assert!(reason.contains("the golden question's vector has changed"), "{reason}");
    server.encoder.drifted.store(false, std::sync::atomic::Ordering::SeqCst);
    server.engine.check_readiness().await.unwrap();
    // A service that does not answer comes back by itself, and BM25 answers meanwhile.
    server.encoder.broken.store(true, std::sync::atomic::Ordering::SeqCst);
    server.engine.check_readiness().await.unwrap();
    let up = r#"dyad_searcher_tower_up{model="words",fingerprint="f00d"}"#;
    assert_eq!(value(&text(&http, "/metrics").await.1, up), 0);
    server.encoder.broken.store(false, std::sync::atomic::Ordering::SeqCst);
    server.engine.check_readiness().await.unwrap();
    assert_eq!(value(&text(&http, "/metrics").await.1, up), 1);
}

#[tokio::test]
async fn live_recall_is_that_of_the_searches_that_were_served() {
    // The fixture's graph is complete: what is found is all there is.
    let server = searcher_with(EngineConfig {
        live_recall_share: 1.0,
        ..EngineConfig::default()
    })
    .await;
    let http = over(&server).await;
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    let series =
        |what: &str| format!(r#"dyad_searcher_recall_{what}_total{{index="{name}",out_of_distribution="false"}}"#);
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        server
            .client
            .search(request(Mode::Dense, "the deep river number 12", 10))
            .await
            .unwrap();
        // These are not compared: one searches no graph, the other no vectors.
        let exact = v1::SearchRequest {
            exact: true,
            ..request(Mode::Dense, "the old bird", 10)
        };
        server.client.search(exact).await.unwrap();
        server
            .client
            .search(request(Mode::Bm25, "the old bird", 10))
            .await
            .unwrap();
        let (_, scrape) = text(&http, "/metrics").await;
        let (found, expected) = (value(&scrape, &series("found")), value(&scrape, &series("expected")));
        if expected >= 50 {
            assert_eq!(found, expected);
            break;
        }
        assert!(Instant::now() < deadline, "{scrape}");
    }
}

/// A hit counts where it is among as many of the nearest as were asked for, and not anywhere among ten.
#[tokio::test]
async fn live_recall_of_one_hit_is_that_of_the_nearest() {
    let server = sparse_searcher(EngineConfig {
        live_recall_share: 1.0,
        ..EngineConfig::default()
    })
    .await;
    let http = over(&server).await;
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    let series =
        |what: &str| format!(r#"dyad_searcher_recall_{what}_total{{index="{name}",out_of_distribution="false"}}"#);
    let scrape = async || {
        let (_, scrape) = text(&http, "/metrics").await;
        (value(&scrape, &series("found")), value(&scrape, &series("expected")))
    };
    // A question whose hit is another than the nearest, and among the nearest ten. The exact searches are not compared.
    let narrow = |number| v1::SearchRequest {
        ef: 1,
        ..request(Mode::Dense, &question(number), 1)
    };
    let mut missed = None;
    for number in 0..600 {
        let nearest = v1::SearchRequest {
            exact: true,
            ef: 0,
            k: 10,
            ..narrow(number)
        };
        let nearest = server.client.search(nearest).await.unwrap().hits;
        let hit = server.client.search(narrow(number)).await.unwrap().hits.remove(0).key;
        if nearest[1..].iter().any(|other| other.key == hit) {
            missed = Some(number);
            break;
        }
    }
    let number = missed.unwrap();
    // Until those before have been compared.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (found, expected) = scrape().await;
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        server.client.search(narrow(number)).await.unwrap();
        let (later, now) = scrape().await;
        if now >= expected + 5 {
            assert_eq!(later, found, "of {} hits none is the nearest", now - expected);
            break;
        }
        assert!(Instant::now() < deadline, "{now} hits were compared");
    }
}

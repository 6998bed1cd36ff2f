//! The page at `/`: its files with their headers.

use std::sync::Arc;

use serde_json::json;

use crate::fixture::searcher;
use crate::http_client::over_engine;

#[tokio::test]
async fn the_page_and_its_files_come_with_headers_that_forbid_all_else() {
    let server = searcher().await;
    let http = over_engine(Arc::clone(&server.engine)).await;
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/main.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let reply = http.send("GET", path, "", "").await;
        assert_eq!(reply.status, 200, "{path}");
        let policy = "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' \
                      https://indexer.example:7712; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
        for line in [
            policy,
            &format!("content-type: {kind}"),
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-opener-policy: same-origin",
            "cache-control: no-cache",
        ] {
            assert!(reply.head.contains(line), "{path}: {line}: {}", reply.head);
        }
        let tag = reply.head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
        let again = http.send("GET", path, &format!("If-None-Match: {tag}\r\n"), "").await;
        assert!(
            again.status == 304 && again.head.contains(tag),
            "{path}: {}",
            again.head
        );
        let other = http.send("GET", path, "If-None-Match: \"0\"\r\n", "").await;
        assert_eq!(other.status, 200, "{path}");
    }
    let places = http.send("GET", "/page/places.json", "", "").await.json;
    let indexers = json!({"main": "https://indexer.example:7712"});
    assert_eq!(places, json!({"grpc_port": 7700, "indexers": indexers}));
    for path in [
        "/page/",
        "/page/none.js",
        "/page/../Cargo.toml",
        "/page/pictures/search.png",
    ] {
        assert_eq!(http.send("GET", path, "", "").await.status, 404, "{path}");
    }
    assert_eq!(http.send("POST", "/", "", "").await.status, 405);
}

//! The Model Context Protocol on a real port: sessions and requests by themselves, and tools that give what the JSON
//! routes give.

use dyad_searcher::run::EngineConfig;
use serde_json::{Value, json};

use crate::fixture::{documents, searcher, searcher_over, write_index_of};
use crate::http::{missing, over, without_times};
use crate::mcp_client::{McpCaller, Spoken};

const BOTH: [Spoken; 2] = [Spoken::Requests, Spoken::Session];

#[tokio::test]
async fn a_session_is_agreed_on_and_nothing_of_it_is_kept() {
    let server = searcher().await;
    let http = over(&server).await;
    let client = McpCaller::new(&http, Spoken::Session);
    for (asked, agreed) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let params =
            json!({"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let message = json!({"jsonrpc": "2.0", "id": "first", "method": "initialize", "params": params});
        let reply = client.send("", &message.to_string()).await;
        assert_eq!(
            (reply.status, &reply.json["id"]),
            (200, &json!("first")),
            "{}",
            reply.json
        );
        let result = &reply.json["result"];
        assert_eq!(
            (&result["protocolVersion"], &result["capabilities"]),
            (&json!(agreed), &json!({"tools": {}}))
        );
        assert_eq!(result["serverInfo"]["name"], "dyad-searcher");
        assert!(result["instructions"].as_str().unwrap().contains("`search`"));
        assert!(!reply.head.contains("mcp-session-id"), "{}", reply.head);
    }
    let notified = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    let reply = client.send("MCP-Protocol-Version: 2025-11-25\r\n", &notified).await;
    assert_eq!((reply.status, &reply.json), (202, &Value::Null));
    assert!(reply.head.contains("content-length: 0"), "{}", reply.head);
    assert_eq!(
        client
            .send("MCP-Protocol-Version: 1999-01-01\r\n", &notified)
            .await
            .status,
        400
    );
    let reply = client.call("ping", json!({})).await;
    assert_eq!((reply.status, &reply.json["result"]), (200, &json!({})));
    for method in ["GET", "DELETE"] {
        let reply = http.send(method, "/mcp", "Accept: text/event-stream\r\n", "").await;
        assert!(
            reply.status == 405 && reply.head.contains("allow: post"),
            "{method}: {}",
            reply.head
        );
    }
}

#[tokio::test]
async fn a_client_without_a_session_discovers_what_there_is() {
    let server = searcher().await;
    let http = over(&server).await;
    let reply = McpCaller::new(&http, Spoken::Requests)
        .call("server/discover", json!({}))
        .await;
    let result = &reply.json["result"];
    assert_eq!(reply.status, 200, "{}", reply.json);
    assert_eq!(
        result["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18"])
    );
    assert_eq!(
        (&result["resultType"], &result["capabilities"]),
        (&json!("complete"), &json!({"tools": {}}))
    );
    assert!(result["ttlMs"].is_u64() && result["cacheScope"] == "public");
    let said = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
    assert_eq!(said["name"], "dyad-searcher");
    // Neither kind of client calls what belongs to the other.
    for (spoken, method, status) in [
        (Spoken::Requests, "initialize", 404),
        (Spoken::Requests, "ping", 404),
        (Spoken::Session, "server/discover", 200),
    ] {
        let reply = McpCaller::new(&http, spoken).call(method, json!({})).await;
        assert_eq!(
            (reply.status, &reply.json["error"]["code"]),
            (status, &json!(-32601)),
            "{method}"
        );
    }
}

#[tokio::test]
async fn the_list_has_schemas_to_which_results_conform() {
    let server = searcher().await;
    let http = over(&server).await;
    let name = server.engine.indexes().next().unwrap().name().to_owned();
    for spoken in BOTH {
        let client = McpCaller::new(&http, spoken);
        let list = client.call("tools/list", json!({})).await.json["result"].take();
        assert_eq!(list.get("ttlMs").is_some(), spoken == Spoken::Requests);
        let tools = list["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["search", "get", "explain"]);
        let search = json!({"query": "silent metal number 40", "k": 2});
        let mut found = 0;
        for (tool, arguments) in tools.iter().zip([
            search.clone(),
            json!({"keys": ["doc-07", "none"]}),
            json!({"key": "doc-40", "search": search}),
        ]) {
            let result = client.tool(tool["name"].as_str().unwrap(), arguments).await;
            let (schema, content) = (&tool["outputSchema"], &result["structuredContent"]);
            assert_eq!(missing(schema, schema, content, "result", &mut found), [""; 0]);
            for name in content.as_object().unwrap().keys() {
                assert!(schema["properties"].get(name).is_some(), "{name}");
            }
            assert_eq!(tool["annotations"]["readOnlyHint"], true);
        }
        assert!(found > 30, "{found}");
        let index = &tools[0]["inputSchema"]["properties"]["index"]["description"];
        assert!(
            index
                .as_str()
                .unwrap()
                .contains(&format!("Indexes: `{name}` (the default).")),
            "{index}"
        );
        let reply = client.call("tools/list", json!({"cursor": "2"})).await;
        assert_eq!(reply.json["error"]["code"], -32602);
    }
}

/// A reply without its times, and without what one call has left in a cache for the next.
fn comparable(reply: Value) -> Value {
    let mut reply = without_times(reply);
    if let Some(filter) = reply.get_mut("filter") {
        filter["cached"] = Value::Null;
    }
    reply
}

#[tokio::test]
async fn tools_give_what_the_routes_give_and_a_text_to_read() {
    let server = searcher().await;
    let http = over(&server).await;
    let search = json!({"query": "silent metal number 40", "mode": "MODE_HYBRID", "k": 3});
    let posted = async |path: &str, body: &Value| comparable(http.post(path, body).await.json);
    for spoken in BOTH {
        let client = McpCaller::new(&http, spoken);
        let explain = json!({"key": "doc-40", "search": search});
        for (tool, path, arguments) in [
            ("search", "/v1/search", search.clone()),
            (
                "search",
                "/v1/search",
                json!({"query": "river", "mode": "bm25", "filter": "key^=doc-0", "offset": 1}),
            ),
            (
                "search",
                "/v1/search",
                json!({"query": "silent metal number 40", "mode": "MODE_COMPARE"}),
            ),
            ("get", "/v1/documents", json!({"keys": ["doc-07", "none"]})),
            ("explain", "/v1/explain", explain),
        ] {
            let result = client.tool(tool, arguments.clone()).await;
            let (got, expected) = (
                comparable(result["structuredContent"].clone()),
                posted(path, &arguments).await,
            );
            assert_eq!((&result["isError"], got), (&json!(false), expected), "{arguments}");
        }
        let text = async |tool: &str, arguments: Value| {
            let result = client.tool(tool, arguments).await;
            result["content"][0]["text"].as_str().unwrap().to_owned()
        };
        let hits = text("search", search.clone()).await;
        let best = &posted("/v1/search", &search).await["hits"][0];
        let (passage, score) = (best["document"]["text"].as_str().unwrap(), &best["score"]);
        assert!(
            hits.starts_with("3 hits in index `") && hits.contains("\n1. [doc-40]"),
            "{hits}"
        );
        assert!(
            hits.contains(passage) && hits.contains(&format!("(score {score})")),
            "{hits}"
        );
        assert!(
            text("get", json!({"keys": ["none"]}))
                .await
                .contains("no document `none`")
        );
        let why = text("explain", json!({"key": "doc-40", "search": search})).await;
        assert!(why.starts_with("The document is hit 1 "), "{why}");
    }
}

#[tokio::test]
async fn texts_of_hits_end_unless_the_whole_is_asked_for() {
    let index = tempfile::tempdir().unwrap();
    let long = documents()
        .into_iter()
        .map(|(key, text)| (key, format!("{text}{}", " word".repeat(2000))));
    write_index_of(&long.collect::<Vec<_>>(), index.path(), 1, "f00d");
    let server = searcher_over(index, EngineConfig::default()).await;
    let http = over(&server).await;
    let client = McpCaller::new(&http, Spoken::Requests);
    let bytes = async |arguments: Value| {
        let result = client.tool("search", arguments).await;
        let text = &result["structuredContent"]["hits"][0]["document"]["text"];
        text.as_str().unwrap().len()
    };
    let search = json!({"query": "silent metal number 40", "mode": "bm25", "k": 1});
    assert_eq!(bytes(search.clone()).await, 4096);
    let mut not_given = search.clone();
    not_given["max_text_bytes"] = Value::Null;
    assert_eq!(bytes(not_given).await, 4096);
    for (asked, expected) in [(16, 16..17), (20_000, 10_000..20_000), (0, 10_000..20_000)] {
        let mut search = search.clone();
        search["max_text_bytes"] = json!(asked);
        let got = bytes(search).await;
        assert!(expected.contains(&got), "{asked}: {got}");
    }
}

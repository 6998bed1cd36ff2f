//! What the endpoint of the Model Context Protocol refuses: calls of tools, messages, and requests.

use dyad_proto::limits::MAX_SEARCH_BYTES;
use serde_json::{Value, json};

use crate::fixture::searcher;
use crate::http::over;
use crate::http_client::Reply;
use crate::mcp_client::{McpCaller, Spoken};

#[tokio::test]
async fn what_a_tool_is_refused_for_is_told_to_the_model() {
    let server = searcher().await;
    let http = over(&server).await;
    let deep = (0..200).fold(json!("a=1"), |filter, _| json!({"not": filter}));
    for spoken in [Spoken::Requests, Spoken::Session] {
        let client = McpCaller::new(&http, spoken);
        for (tool, arguments, part) in [
            (
                "search",
                json!({"query": "a", "k": 10_001}),
                "`k`: expected 1 to 10000, got 10001",
            ),
            (
                "search",
                json!({"query": "a", "mode": "fuzzy"}),
                "`mode`: expected one of",
            ),
            (
                "search",
                json!({"query": "a", "ef": 50}),
                "`arguments`: expected some of `query`",
            ),
            ("search", json!({"query": "a", "vector": [1]}), "got `vector`"),
            ("search", json!({"query": 7}), "the request's JSON"),
            ("search", json!({}), "`query`"),
            ("search", json!([]), "the request's JSON"),
            ("search", json!("a"), "the request's JSON"),
            ("search", json!({"query": "a", "index": "none"}), "`none`"),
            ("search", json!({"query": "a", "filter": deep}), "recursion limit"),
            ("get", json!({"keys": []}), "`keys`"),
            ("get", json!({"keys": ["a"], "ef": 1}), "ef"),
            ("explain", json!({"key": "none", "search": {"query": "a"}}), "none"),
            (
                "explain",
                json!({"key": "doc-40", "search": {"query": "a", "exact": true}}),
                "`search`: expected some of",
            ),
            ("explain", json!({"key": "doc-40"}), "`search`"),
        ] {
            let said = client.refused(tool, arguments.clone()).await;
            assert!(said.contains(part), "{tool} {arguments}: {said}");
        }
    }
}

#[tokio::test]
async fn a_call_ends_with_the_time_that_its_caller_gives() {
    let server = searcher().await;
    let http = over(&server).await;
    let mut client = McpCaller::new(&http, Spoken::Requests);
    client.headers = "X-Request-Timeout: 0.2\r\n".to_owned();
    // The stand-in for a model takes its time.
    let said = client
        .refused("search", json!({"query": "sleep number 4", "mode": "dense"}))
        .await;
    assert!(said.contains("no vector within"), "{said}");
}

#[tokio::test]
async fn what_is_no_call_of_a_tool_is_an_error_of_the_protocol() {
    let server = searcher().await;
    let http = over(&server).await;
    let (requests, session) = (
        McpCaller::new(&http, Spoken::Requests),
        McpCaller::new(&http, Spoken::Session),
    );
    for (method, params, code, statuses) in [
        ("resources/list", json!({}), -32601, [404, 200]),
        (
            "tools/call",
            json!({"name": "delete", "arguments": {}}),
            -32602,
            [400, 200],
        ),
        ("tools/call", json!({"arguments": {}}), -32602, [400, 200]),
    ] {
        for (client, status) in [&requests, &session].into_iter().zip(statuses) {
            let reply = client.call(method, params.clone()).await;
            assert_eq!(
                (reply.status, &reply.json["error"]["code"]),
                (status, &json!(code)),
                "{}",
                reply.json
            );
            assert_eq!(reply.json["id"], 7);
        }
    }
    let ping = r#"{"jsonrpc": "2.0", "id": 1, "method": "ping"}"#;
    let version = "MCP-Protocol-Version: 2025-11-25\r\n";
    let long = format!(
        r#"{{"jsonrpc": "2.0", "id": "{}", "method": "ping"}}"#,
        "i".repeat(1 << 20)
    );
    let wide = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": [{}{{}}]}}}}"#,
        "{},".repeat(1 << 17)
    );
    for (headers, body, status, code, part) in [
        (version, "{", 400, -32700, "EOF"),
        (version, &format!("[{ping}, {ping}]"), 400, -32600, "by itself"),
        (version, "\"ping\"", 400, -32600, "one object"),
        (version, &"[".repeat(1 << 20), 400, 400, "more than 65536"),
        (version, &long, 400, -32600, "at most 256 bytes"),
        (version, &wide, 400, 400, "more than 65536"),
        (
            version,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "method": "pong"}"#,
            400,
            -32600,
            "twice",
        ),
        ("", ping, 400, -32020, "got none"),
        (
            "MCP-Protocol-Version: 2025-03-26\r\n",
            ping,
            400,
            -32022,
            "expected one of 2026-07-28",
        ),
        ("Origin: https://evil.example\r\n", ping, 403, 403, "evil.example"),
    ] {
        let reply = requests.send(headers, body).await;
        assert_eq!(
            (reply.status, &reply.json["error"]["code"]),
            (status, &json!(code)),
            "{}",
            reply.json
        );
        let said = reply.json["error"]["message"].as_str().unwrap();
        assert!(said.contains(part), "{said}");
    }
    // The routes' own refusals have the form of the protocol here.
    let reply = http.send("POST", "/mcp", "Content-Type: text/plain\r\n", ping).await;
    assert_eq!(
        (reply.status, &reply.json["error"]["code"]),
        (415, &json!(415)),
        "{}",
        reply.json
    );
    assert_eq!(
        (&reply.json["jsonrpc"], &reply.json["id"]),
        (&json!("2.0"), &Value::Null)
    );
    let length = MAX_SEARCH_BYTES + 1;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n";
    let reply = http
        .raw(format!("{head}Content-Length: {length}\r\n\r\n").as_bytes())
        .await;
    assert_eq!(
        (reply.status, &reply.json["error"]["data"]["status"]),
        (413, &json!("OUT_OF_RANGE"))
    );
}

#[tokio::test]
async fn errors_repeat_the_beginning_of_a_long_name() {
    let server = searcher().await;
    let http = over(&server).await;
    let long = "n".repeat(5_000);
    let session = McpCaller::new(&http, Spoken::Session);
    let said = session
        .refused("search", json!({"query": "a", (long.as_str()): 1}))
        .await;
    assert!(said.contains("got `nnnn") && said.len() < 500, "{said}");
    let tool = json!({"name": long});
    for reply in [
        session.call(&long, json!({})).await,
        session.call("tools/call", tool).await,
    ] {
        let said = reply.json["error"]["message"].as_str().unwrap();
        assert!(said.contains("`nnnn") && said.len() < 500, "{said}");
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": long, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }}});
    let headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/list\r\n";
    let reply = session.send(headers, &body.to_string()).await;
    let said = reply.json["error"]["message"].as_str().unwrap();
    assert!(said.contains("expected `nnnn") && said.len() < 500, "{said}");
}

#[tokio::test]
async fn more_calls_than_fit_are_told_when_to_come_again() {
    let server = searcher().await;
    let http = over(&server).await;
    let client = McpCaller::new(&http, Spoken::Requests);
    let params = json!({"name": "search", "arguments": {"query": "sleep number 4", "mode": "dense"}});
    let replies = futures_util::future::join_all((0..12).map(|_| client.call("tools/call", params.clone()))).await;
    let refused: Vec<&Reply> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!(!refused.is_empty() && replies.iter().any(|reply| reply.status == 200));
    for reply in refused {
        assert!(
            reply.head.contains("retry-after: ") && reply.head.contains("retry-after-ms: "),
            "{}",
            reply.head
        );
        assert_eq!(reply.json["error"]["data"]["status"], "RESOURCE_EXHAUSTED");
    }
}

/// Series of `/metrics` whose call is a label.
async fn calls(http: &crate::http_client::Http) -> Vec<String> {
    let (_, text) = http.text("GET", "/metrics").await;
    let of = |line: &str| Some(line.split_once("call=\"")?.1.split('"').next()?.to_owned());
    let mut calls: Vec<String> = text.lines().filter_map(of).collect();
    calls.sort();
    calls.dedup();
    calls
}

#[tokio::test]
async fn calls_of_tools_count_as_those_of_their_methods_and_strangers_make_no_series() {
    let server = searcher().await;
    let http = over(&server).await;
    let client = McpCaller::new(&http, Spoken::Session);
    client.tool("search", json!({"query": "river"})).await;
    client.refused("search", json!({"query": "a", "k": 10_001})).await;
    client.tool("get", json!({"keys": ["doc-07"]})).await;
    client
        .tool("explain", json!({"key": "doc-07", "search": {"query": "river"}}))
        .await;
    for number in 0..20 {
        client.call(&format!("method/{number}"), json!({})).await;
        client
            .call("tools/call", json!({"name": format!("tool-{number}")}))
            .await;
        http.send("POST", &format!("/mcp/{number}"), "", "").await;
    }
    let expected = [
        "Mcp",
        "Searcher.Explain",
        "Searcher.GetDocuments",
        "Searcher.Search",
        "none",
    ];
    assert_eq!(calls(&http).await, expected);
    let (_, text) = http.text("GET", "/metrics").await;
    let counted = |status: &str| {
        let line = text.lines().find(|line| {
            line.contains("requests_total") && line.contains("Searcher.Search\"") && line.contains(status)
        });
        line.unwrap_or_else(|| panic!("{status}: {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        (counted("\"OK\""), counted("INVALID_ARGUMENT")),
        ("1".to_owned(), "1".to_owned())
    );
}

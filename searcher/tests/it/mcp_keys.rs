//! API keys at the endpoint of the Model Context Protocol: without one nothing is told, and with that of a tenant every
//! tool is of the tenant's documents and indexes.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use dyad_proto::access::Role;
use serde_json::{Value, json};

use crate::access::QUERY;
use crate::fixture::documents;
use crate::guarded::{equals, guarded};
use crate::mcp_client::{McpCaller, Spoken};

#[tokio::test]
async fn without_a_key_nothing_is_answered() {
    let server = guarded().await;
    let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}"#;
    for (headers, body) in [
        ("", list),
        ("Authorization: Bearer dyad_wrong\r\n", list),
        ("", "{"),
        ("", "[]"),
    ] {
        let client = McpCaller::new(&server.http, Spoken::Session);
        let reply = client
            .send(&format!("MCP-Protocol-Version: 2025-11-25\r\n{headers}"), body)
            .await;
        assert_eq!(
            (reply.status, &reply.json["error"]["code"]),
            (401, &json!(401)),
            "{}",
            reply.json
        );
        assert_eq!(reply.json["error"]["data"]["status"], "UNAUTHENTICATED");
        assert!(reply.head.contains("www-authenticate: bearer"), "{}", reply.head);
    }
}

#[tokio::test]
async fn pages_of_strangers_are_refused_with_a_key_too() {
    let server = guarded().await;
    let key = server.key(Role::Read, &[], None).await;
    for (origin, status) in [
        ("https://evil.example", 403),
        ("null", 403),
        ("https://app.example", 200),
        ("http://localhost", 200),
    ] {
        let mut client = McpCaller::with_key(&server.http, Spoken::Session, &key);
        let _ = write!(client.headers, "Origin: {origin}\r\n");
        let reply = client.call("ping", json!({})).await;
        assert_eq!(reply.status, status, "{origin}: {}", reply.json);
    }
}

fn keys_in(list: &Value) -> BTreeSet<String> {
    let of = |one: &Value| one["key"].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn a_tenant_sees_its_own_documents_by_every_tool() {
    let server = guarded().await;
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let all: Vec<String> = documents().into_iter().map(|(key, _)| key).collect();
    let mine = documents().into_iter().filter(|(_, text)| text.contains("planet"));
    let mine: BTreeSet<String> = mine.map(|(key, _)| key).collect();
    assert!(!mine.is_empty() && mine.len() < all.len());
    for spoken in [Spoken::Requests, Spoken::Session] {
        let client = McpCaller::with_key(&server.http, spoken, &key);
        for mode in ["dense", "bm25", "hybrid"] {
            let found = client
                .tool("search", json!({"query": QUERY, "mode": mode, "k": 60}))
                .await;
            assert_eq!(keys_in(&found["structuredContent"]["hits"]), mine, "{mode}");
            let text = found["content"][0]["text"].as_str().unwrap();
            let told = |key: &&String| text.contains(&format!("[{key}]"));
            assert_eq!(
                all.iter().filter(told).cloned().collect::<BTreeSet<_>>(),
                mine,
                "{mode}"
            );
        }
        let got = client.tool("get", json!({"keys": all})).await;
        assert_eq!(keys_in(&got["structuredContent"]["documents"]), mine);
        for key in &all {
            let arguments = json!({"key": key, "search": {"query": QUERY, "mode": "bm25"}});
            let explained = client.tool("explain", arguments).await;
            assert_eq!(explained["isError"], !mine.contains(key), "{key}: {explained}");
        }
        let list = client.call("tools/list", json!({})).await.json;
        let told = list.to_string();
        assert!(
            told.contains("Indexes: `all` (the default).") && !told.contains("others`"),
            "{told}"
        );
        let said = client
            .refused("search", json!({"query": QUERY, "index": "others"}))
            .await;
        assert!(said.contains("`others`"), "{said}");
    }
}

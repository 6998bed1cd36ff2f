//! The revisions of the protocol, and what each asks of a request.
//!
//! From 2026-07-28 on every request says its revision, in a header and in `_meta`, and headers repeat what the message
//! calls. Before, a client and a server agreed on a revision by `initialize`, and a header says it afterwards. That of
//! 2025-03-26 and earlier ones have lists of messages or a stream from the server, and are not spoken here.

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::message::{Params, RpcCall};
use super::rpc_error::{RpcError, beginning};

const OF_REQUESTS: &str = "2026-07-28";
/// Those of sessions, the newest first.
const OF_SESSIONS: [&str; 2] = ["2025-11-25", "2025-06-18"];
/// All that are spoken, the newest first.
pub(super) const ALL: [&str; 3] = [OF_REQUESTS, OF_SESSIONS[0], OF_SESSIONS[1]];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// How a request is to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// By itself.
    Request,
    /// As one of a session, which is agreed on by `initialize`. The server keeps nothing of it.
    Session,
}

/// The program, as results say it.
pub(super) fn server() -> Value {
    json!({"name": "dyad-searcher", "version": env!("CARGO_PKG_VERSION")})
}

impl Revision {
    /// The revision that `initialize` agrees on: the client's, or the newest that has sessions.
    pub(super) fn agreed(params: &Params) -> Result<&'static str, RpcError> {
        let asked = params.text("protocolVersion").ok_or_else(|| {
            let message = "`params.protocolVersion`: expected a revision of the protocol, got none";
            RpcError::invalid_params(message)
        })?;
        let known = OF_SESSIONS.into_iter().find(|known| *known == asked);
        Ok(known.unwrap_or(OF_SESSIONS[0]))
    }

    /// Members that every result has.
    pub(super) fn of_results(self) -> Map<String, Value> {
        let mut members = Map::new();
        if self == Self::Request {
            members.insert("resultType".to_owned(), json!("complete"));
            members.insert("_meta".to_owned(), json!({ SERVER_KEY: server() }));
        }
        members
    }
}

/// A header that should come once.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GivenHeader {
    None,
    Once(String),
    Several,
}

/// What the headers of a request say of its message.
#[derive(Debug)]
pub(super) struct GivenHeaders {
    version: GivenHeader,
    method: GivenHeader,
    name: GivenHeader,
}

impl GivenHeaders {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = |name: &str| {
            let mut values = headers.get_all(name).iter();
            let first = values.next().map(|value| String::from_utf8_lossy(value.as_bytes()));
            match (first, values.next()) {
                (None, _) => GivenHeader::None,
                (Some(value), None) => GivenHeader::Once(value.into_owned()),
                (Some(_), Some(_)) => GivenHeader::Several,
            }
        };
        Self {
            version: given("mcp-protocol-version"),
            method: given("mcp-method"),
            name: given("mcp-name"),
        }
    }

    /// Refuses a notification of a revision that is not spoken here; it may say none.
    pub(super) fn check_of_notification(&self) -> Result<(), RpcError> {
        match &self.version {
            GivenHeader::Once(version) if !ALL.contains(&version.as_str()) => Err(RpcError::revision(version, &ALL)),
            GivenHeader::Several => Err(RpcError::header(
                "header `MCP-Protocol-Version`: expected one, got several",
            )),
            _ => Ok(()),
        }
    }

    /// How a request is to be understood; refused where headers and message do not say the same.
    pub(super) fn revision_of(&self, call: &RpcCall) -> Result<Revision, RpcError> {
        self.check_of_notification()?;
        let meta: Option<Map<String, Value>> = call
            .params
            .get("_meta")
            .and_then(|json| serde_json::from_str(json).ok());
        let said = meta.as_ref().and_then(|meta| meta.get(VERSION_KEY));
        let is_of_session = match &self.version {
            GivenHeader::Once(version) => OF_SESSIONS.contains(&version.as_str()),
            // The session begins with it.
            GivenHeader::None if call.method == "initialize" => true,
            GivenHeader::None if said.is_none() => {
                let message = format!(
                    "header `MCP-Protocol-Version`: expected one of {}, got none. Begin with `initialize`, or give it",
                    ALL.join(", ")
                );
                return Err(RpcError::header(message));
            }
            _ => false,
        };
        if is_of_session && said.is_none() {
            return Ok(Revision::Session);
        }
        let (Some(Value::String(said)), Some(Value::Object(_))) =
            (said, meta.as_ref().and_then(|meta| meta.get(CAPABILITIES_KEY)))
        else {
            let message = format!("`params._meta`: expected `{VERSION_KEY}` and `{CAPABILITIES_KEY}`, got not both");
            return Err(RpcError::invalid_params(message));
        };
        if !ALL.contains(&said.as_str()) {
            return Err(RpcError::revision(said, &ALL));
        }
        same("MCP-Protocol-Version", &self.version, said)?;
        if said != OF_REQUESTS {
            let message =
                format!("`{VERSION_KEY}`: expected {OF_REQUESTS}, got {said}, which begins with `initialize`");
            return Err(RpcError::header(message));
        }
        same("Mcp-Method", &self.method, &call.method)?;
        if let ("tools/call", Some(name)) = (call.method.as_str(), call.params.text("name")) {
            same("Mcp-Name", &self.name, &name)?;
        }
        Ok(Revision::Request)
    }
}

/// Refuses a header that says something else than the message.
fn same(header: &str, given: &GivenHeader, expected: &str) -> Result<(), RpcError> {
    let got = match given {
        GivenHeader::Once(given) if decoded(given).as_deref() == Some(expected) => return Ok(()),
        GivenHeader::Once(given) => format!("`{}`", beginning(given)),
        GivenHeader::None => "none".to_owned(),
        GivenHeader::Several => "several".to_owned(),
    };
    let expected = beginning(expected);
    let message = format!("header `{header}`: expected `{expected}` as in the message, got {got}");
    Err(RpcError::header(message))
}

/// A header's value: what is not plain ASCII comes as `=?base64?...?=`.
fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    match inner {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
        None => Some(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::super::message::RpcMessage;
    use super::*;

    fn call(method: &str, params: &Value) -> RpcCall {
        let json = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        match RpcMessage::read(json.as_bytes()) {
            Ok(RpcMessage::Call(call)) => call,
            other => panic!("{other:?}"),
        }
    }

    fn understood(headers: &[[&str; 2]], call: &RpcCall) -> Result<Revision, String> {
        let mut given = HeaderMap::new();
        for [name, value] in headers {
            let name: HeaderName = name.parse().unwrap();
            given.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let understood = GivenHeaders::of(&given).revision_of(call);
        understood.map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn a_session_says_its_revision_in_a_header_once_it_is_agreed() {
        assert_eq!(understood(&[], &call("initialize", &json!({}))), Ok(Revision::Session));
        for version in OF_SESSIONS {
            let list = call("tools/list", &json!({"_meta": {"progressToken": 1}}));
            let headers = [["mcp-protocol-version", version]];
            assert_eq!(understood(&headers, &list), Ok(Revision::Session));
        }
        let list = call("tools/list", &json!({}));
        let none = understood(&[], &list).unwrap_err();
        assert!(none.contains("code: -32020") && none.contains("got none"), "{none}");
        for version in ["2025-03-26", "1900-01-01", "ü", ""] {
            let refused = understood(&[["mcp-protocol-version", version]], &list).unwrap_err();
            assert!(
                refused.contains("code: -32022") && refused.contains("supported"),
                "{refused}"
            );
        }
        let asked =
            |version: &str| Revision::agreed(&call("initialize", &json!({"protocolVersion": version})).params).unwrap();
        let agreed = ["2025-06-18", "2025-11-25", "2026-07-28", "2024-11-05"].map(asked);
        assert_eq!(agreed, ["2025-06-18", "2025-11-25", "2025-11-25", "2025-11-25"]);
    }

    #[test]
    fn a_request_by_itself_says_the_same_in_headers_and_message() {
        let meta = json!({VERSION_KEY: OF_REQUESTS, CAPABILITIES_KEY: {}});
        let search = call("tools/call", &json!({"name": "search", "_meta": meta}));
        let version = ["mcp-protocol-version", OF_REQUESTS];
        let (method, name) = (["mcp-method", "tools/call"], ["mcp-name", "search"]);
        assert_eq!(understood(&[version, method, name], &search), Ok(Revision::Request));
        let encoded = ["mcp-name", "=?base64?c2VhcmNo?="];
        assert_eq!(understood(&[version, method, encoded], &search), Ok(Revision::Request));
        for (headers, code) in [
            (&[version, method][..], "-32020"),
            (&[version, name], "-32020"),
            (&[method, name], "-32020"),
            (&[version, method, ["mcp-name", "get"]], "-32020"),
            (&[version, method, ["mcp-name", "=?base64?!?="]], "-32020"),
            (&[version, method, name, name], "-32020"),
            (&[version, version, method, name], "-32020"),
            (&[version, ["mcp-method", "tools/list"], name], "-32020"),
            (&[["mcp-protocol-version", "2025-11-25"], method, name], "-32020"),
            (&[["mcp-protocol-version", "2027-01-01"], method, name], "-32022"),
        ] {
            let refused = understood(headers, &search).unwrap_err();
            assert!(refused.contains(&format!("code: {code}")), "{headers:?}: {refused}");
        }
        for (meta, code) in [
            (json!(null), "-32602"),
            (json!([]), "-32602"),
            (json!({VERSION_KEY: OF_REQUESTS}), "-32602"),
            (json!({VERSION_KEY: OF_REQUESTS, CAPABILITIES_KEY: []}), "-32602"),
            (json!({VERSION_KEY: 7, CAPABILITIES_KEY: {}}), "-32602"),
            (json!({VERSION_KEY: "1900-01-01", CAPABILITIES_KEY: {}}), "-32022"),
        ] {
            let list = call("tools/list", &json!({ "_meta": meta }));
            let refused = understood(&[version, ["mcp-method", "tools/list"]], &list).unwrap_err();
            assert!(refused.contains(&format!("code: {code}")), "{meta}: {refused}");
        }
    }
}

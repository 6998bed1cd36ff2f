//! JSON-RPC 2.0: the one message of a body. Its parts are kept as text, so that ids come back as they came, and the
//! arguments of tools are read once.

use std::collections::BTreeMap;

use dyad_proto::strict_json;
use serde_json::value::RawValue;

use super::rpc_error::RpcError;

/// Bytes of an id's JSON.
const MAX_ID: usize = 256;

/// What a client sends.
#[derive(Debug)]
pub(super) enum RpcMessage {
    /// It waits for a reply.
    Call(RpcCall),
    /// It waits for none.
    Notification,
}

/// A request of JSON-RPC.
#[derive(Debug)]
pub(super) struct RpcCall {
    /// As JSON.
    pub(super) id: String,
    pub(super) method: String,
    pub(super) params: Params,
}

/// The parameters of a request, by name.
#[derive(Debug, Default)]
pub(super) struct Params(BTreeMap<String, Box<RawValue>>);

impl Params {
    /// The JSON of a parameter; none where it is null.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let json = self.0.get(name).map(|json| json.get());
        json.filter(|json| *json != "null")
    }

    /// A parameter that is a text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }
}

/// Why a body is no message, and whose reply says so.
#[derive(Debug)]
pub(super) struct RpcFault {
    /// As JSON; null where none can be told.
    pub(super) id: String,
    pub(super) error: RpcError,
}

impl RpcMessage {
    /// Reads a body whose memory is known.
    pub(super) fn read(json: &[u8]) -> Result<Self, RpcFault> {
        let no_id = |error| RpcFault {
            id: "null".to_owned(),
            error,
        };
        let members = members(json).map_err(no_id)?;
        let id = members.get("id").map(|id| id.get());
        if let Some(id) = id.filter(|id| !is_id(id)) {
            let expected = format!("a text or a whole number of at most {MAX_ID} bytes");
            let message = format!("`id`: expected {expected}, got {id:.40}");
            return Err(no_id(RpcError::no_message(message)));
        }
        let fault = |error| RpcFault {
            id: id.unwrap_or("null").to_owned(),
            error,
        };
        let text = |name: &str| {
            let json = members.get(name).map_or("none", |json| json.get());
            serde_json::from_str::<String>(json).map_err(|_| json)
        };
        let version = text("jsonrpc").unwrap_or_else(str::to_owned);
        if version != "2.0" {
            let message = format!("`jsonrpc`: expected `2.0`, got {version:.40}");
            return Err(fault(RpcError::no_message(message)));
        }
        let method = text("method").map_err(|got| {
            let message = format!("`method`: expected the name of a method, got {got:.40}");
            fault(RpcError::no_message(message))
        })?;
        let params = match members.get("params").map(|json| json.get()) {
            None | Some("null") => Params::default(),
            Some(json) => Params(serde_json::from_str(json).map_err(|_| {
                let message = format!("`params`: expected an object, got {json:.40}");
                fault(RpcError::invalid_params(message))
            })?),
        };
        Ok(match id {
            Some(id) => Self::Call(RpcCall {
                id: id.to_owned(),
                method,
                params,
            }),
            None => Self::Notification,
        })
    }
}

/// The members of the object that a body is.
fn members(json: &[u8]) -> Result<BTreeMap<String, Box<RawValue>>, RpcError> {
    strict_json::check(json).map_err(|error| RpcError::no_message(format!("the message's JSON: {error}")))?;
    serde_json::from_slice(json).map_err(|error| {
        if !error.is_data() {
            return RpcError::no_json(format!("the message's JSON: {error}"));
        }
        let got = match json.trim_ascii_start().first() {
            Some(b'[') => "a list. Send each message by itself",
            _ => "something else",
        };
        RpcError::no_message(format!("the message: expected one object of JSON-RPC, got {got}"))
    })
}

/// Whether JSON is an id: a text or a whole number, short enough to be given back.
fn is_id(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    json.len() <= MAX_ID && (json.starts_with('"') || is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(json: &str) -> RpcCall {
        match RpcMessage::read(json.as_bytes()) {
            Ok(RpcMessage::Call(call)) => call,
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn ids_come_back_as_they_came() {
        for id in ["0", "-7", "9007199254740993", r#""a\u0041\n""#, r#""""#] {
            let read = call(&format!(r#"{{"jsonrpc": "2.0", "id": {id}, "method": "ping"}}"#));
            assert_eq!((read.id.as_str(), read.method.as_str()), (id, "ping"));
        }
        let notified = RpcMessage::read(br#"{"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}"#);
        assert!(matches!(notified, Ok(RpcMessage::Notification)));
    }

    #[test]
    fn parameters_are_kept_as_text_and_null_is_none() {
        let read = call(
            r#"{"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"name": "a\"b", "arguments": {"n": 1.50}, "no": null}}"#,
        );
        assert_eq!(read.params.text("name").as_deref(), Some("a\"b"));
        assert_eq!(read.params.get("arguments"), Some(r#"{"n": 1.50}"#));
        assert_eq!((read.params.get("no"), read.params.text("arguments")), (None, None));
    }

    #[test]
    fn what_is_no_message_is_told_with_the_id_where_there_is_one() {
        let deep = "[".repeat(1 << 20);
        let long = format!(r#"{{"jsonrpc": "2.0", "id": "{}", "method": "ping"}}"#, "i".repeat(300));
        for (json, id, code, expected) in [
            ("", "null", -32700, "EOF"),
            ("{", "null", -32700, "EOF"),
            (r#"{"jsonrpc": "2.0"} {}"#, "null", -32700, "trailing"),
            (deep.as_str(), "null", -32600, "by itself"),
            (
                r#"[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]"#,
                "null",
                -32600,
                "by itself",
            ),
            ("7", "null", -32600, "expected one object"),
            (r#"{"id": 1, "id": 2}"#, "null", -32600, "twice"),
            (long.as_str(), "null", -32600, "at most 256 bytes"),
            (
                r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#,
                "null",
                -32600,
                "got null",
            ),
            (
                r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#,
                "null",
                -32600,
                "got 1.5",
            ),
            (
                r#"{"jsonrpc": "2.0", "id": {}, "method": "ping"}"#,
                "null",
                -32600,
                "got {}",
            ),
            (
                r#"{"id": 1, "method": "ping"}"#,
                "1",
                -32600,
                "`jsonrpc`: expected `2.0`, got none",
            ),
            (
                r#"{"jsonrpc": "1.0", "id": 1, "method": "ping"}"#,
                "1",
                -32600,
                "got 1.0",
            ),
            (r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#, "1", -32600, "`method`"),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 7}"#, "1", -32600, "got 7"),
            (
                r#"{"jsonrpc": "2.0", "id": "x", "method": "m", "params": [1]}"#,
                "\"x\"",
                -32602,
                "`params`",
            ),
        ] {
            let fault = RpcMessage::read(json.as_bytes()).unwrap_err();
            let said = format!("{:?}", fault.error);
            assert_eq!(fault.id, id, "{json:.80}");
            assert!(
                said.contains(&format!("code: {code}")) && said.contains(expected),
                "{json:.80}: {said}"
            );
        }
    }
}

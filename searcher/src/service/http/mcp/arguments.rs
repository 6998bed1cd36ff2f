//! A tool's arguments as a request of gRPC.

use std::collections::BTreeMap;

use dyad_proto::service::json_api::{HttpRefusal, JsonCalls};
use dyad_proto::v1;
use serde_json::value::RawValue;

use super::rpc_error::beginning;
use super::tools::{SEARCH_FIELDS, TEXT_BYTES};

type RawArguments<'a> = BTreeMap<String, &'a RawValue>;

/// The request of `search`.
pub(super) fn search(calls: &JsonCalls, json: &[u8]) -> Result<v1::SearchRequest, HttpRefusal> {
    let given = members(json);
    check_fields(&given, "arguments")?;
    let mut request: v1::SearchRequest = calls.json.read(json)?;
    // As everywhere in the JSON of messages, null is not given.
    let max_text_bytes = given.get("max_text_bytes").map(|json| json.get());
    if matches!(max_text_bytes, None | Some("null")) {
        request.max_text_bytes = TEXT_BYTES;
    }
    Ok(request)
}

/// The request of `explain`.
pub(super) fn explain(calls: &JsonCalls, json: &[u8]) -> Result<v1::ExplainRequest, HttpRefusal> {
    if let Some(search) = members(json).get("search") {
        check_fields(&members(search.get().as_bytes()), "search")?;
    }
    Ok(calls.json.read(json)?)
}

/// The members of an object; none of what is no object, which the reader of the message refuses.
fn members(json: &[u8]) -> RawArguments<'_> {
    serde_json::from_slice(json).unwrap_or_default()
}

/// Refuses fields of a search that the tool's schema does not have.
fn check_fields(given: &RawArguments<'_>, what: &str) -> Result<(), HttpRefusal> {
    match given.keys().find(|name| !SEARCH_FIELDS.contains(&name.as_str())) {
        Some(other) => {
            let known = SEARCH_FIELDS.map(|name| format!("`{name}`")).join(", ");
            let got = beginning(other);
            Err(HttpRefusal::invalid(format!(
                "`{what}`: expected some of {known}, got `{got}`"
            )))
        }
        None => Ok(()),
    }
}

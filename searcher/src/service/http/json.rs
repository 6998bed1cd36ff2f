//! Messages as JSON by the mapping of proto3, with the names of the `.proto` files, and 64-bit integers as numbers.
//!
//! In replies, a field `NAME_json`, which is JSON as text in gRPC, is the value itself under `NAME`: `metadata`, `bm25_explanation`.

use dyad_proto::limits::{MAX_BATCH, MAX_SEARCH_BATCH_ELEMENTS};
use dyad_proto::v1;
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::{Map, Value};

use super::refusal::Refusal;
use crate::error::{Error, Result};

/// What the names of fields end in that are JSON as text.
pub(super) const AS_TEXT: &str = "_json";
/// Numbers in one request's JSON: vectors of 4096 values for each question of the largest batch.
const MAX_NUMBERS: usize = 4096 * MAX_BATCH;
/// Most strings, objects and arrays in one request's JSON: names and values of the most elements.
const MAX_ELEMENTS: usize = 2 * MAX_SEARCH_BATCH_ELEMENTS;

/// A message of a call.
pub(super) trait Message: prost::Message + Default + Send + 'static {
    /// As in the `.proto` files.
    const NAME: &'static str;
}

macro_rules! messages {
    ($($name:ident),*) => {
        $(impl Message for v1::$name {
            const NAME: &'static str = concat!("dyad.v1.", stringify!($name));
        })*
    };
}

messages!(SearchRequest, SearchResponse, SearchBatchRequest, SearchBatchResponse);
messages!(GetDocumentsRequest, GetDocumentsResponse, ExplainRequest, ExplainResponse);

/// The descriptors of all messages.
pub(super) struct Format {
    pub(super) pool: DescriptorPool,
}

impl Format {
    /// Of the compiled `.proto` files.
    pub(super) fn new() -> Result<Self> {
        let pool = DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET).map_err(|error| {
            tracing::error!(%error, "the compiled .proto files cannot be read");
            Error::Internal
        })?;
        Ok(Self { pool })
    }

    fn descriptor<M: Message>(&self) -> std::result::Result<MessageDescriptor, Refusal> {
        let found = self.pool.get_message_by_name(M::NAME);
        found.ok_or_else(|| tonic::Status::internal(format!("no descriptor of {}", M::NAME)).into())
    }

    /// Reads a message; the refusal says where the JSON is at fault.
    pub(super) fn read<M: Message>(&self, json: &[u8]) -> std::result::Result<M, Refusal> {
        check_size(json)?;
        let mut reader = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new();
        let refuse = |error: serde_json::Error| Refusal::invalid(format!("the request's JSON: {error}"));
        let message = DynamicMessage::deserialize_with_options(self.descriptor::<M>()?, &mut reader, &options);
        let message = message.map_err(refuse)?;
        reader.end().map_err(refuse)?;
        message.transcode_to().map_err(|error| Refusal::invalid(format!("the request's JSON: {error}")))
    }

    /// Writes a message.
    pub(super) fn write<M: Message>(&self, message: &M) -> std::result::Result<Bytes, Refusal> {
        let failed = |error: &dyn std::fmt::Display| -> Refusal {
            tonic::Status::internal(format!("the reply cannot be written as JSON: {error}")).into()
        };
        let mut dynamic = DynamicMessage::new(self.descriptor::<M>()?);
        dynamic.transcode_from(message).map_err(|error| failed(&error))?;
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        let mut json = Vec::with_capacity(2 * message.encoded_len());
        let mut writer = serde_json::Serializer::new(&mut json);
        dynamic.serialize_with_options(&mut writer, &options).map_err(|error| failed(&error))?;
        // Not made of values to begin with: those have no f32, and would show digits that are not there.
        let value: Value = serde_json::from_slice(&json).map_err(|error| failed(&error))?;
        serde_json::to_vec(&as_values(value)).map(Bytes::from).map_err(|error| failed(&error))
    }
}

/// Refuses JSON that would take far more memory than its bytes: a number or an empty object is a hundred times as large once it is
/// read. What else is wrong with it, its reader says.
fn check_size(json: &[u8]) -> std::result::Result<(), Refusal> {
    let (mut commas, mut elements, mut in_string, mut is_escaped) = (0_usize, 0_usize, false, false);
    for byte in json {
        if in_string {
            (in_string, is_escaped) = (is_escaped || *byte != b'"', !is_escaped && *byte == b'\\');
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                elements += 1;
            }
            b'{' | b'[' => elements += 1,
            b',' => commas += 1,
            _ => {}
        }
    }
    for (got, most, what) in [(elements, MAX_ELEMENTS, "strings, objects and arrays"), (commas, MAX_NUMBERS, "values")]
    {
        if got > most {
            return Err(Refusal::invalid(format!(
                "the request's JSON has {got} {what}, more than {most}. Send less at once"
            )));
        }
    }
    Ok(())
}

/// The value with `NAME: VALUE` in place of each `NAME_json: "VALUE"`.
fn as_values(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>()),
        Value::Array(all) => Value::Array(all.into_iter().map(as_values).collect()),
        other => other,
    }
}

fn field((name, value): (String, Value)) -> (String, Value) {
    match (name.strip_suffix(AS_TEXT), value) {
        (Some(name), Value::String(json)) => (name.to_owned(), serde_json::from_str(&json).unwrap_or_default()),
        (_, value) => (name, as_values(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> std::result::Result<v1::SearchRequest, String> {
        Format::new().unwrap().read(json.as_bytes()).map_err(|refusal| format!("{refusal:?}"))
    }

    #[test]
    fn a_request_has_the_names_of_the_proto_files_and_those_of_proto3() {
        let request = read(
            r#"{"query": "why", "mode": "MODE_HYBRID", "k": 3, "vector": [0.5, -1], "target_recall": 0.9,
                "group_by": {"field": "a"}, "filter": {"all": {"filters": [{"exists": {"field": "b"}}]}}}"#,
        );
        let request = request.unwrap();
        assert_eq!((request.query.as_str(), request.mode(), request.k), ("why", v1::Mode::Hybrid, 3));
        assert_eq!((request.vector, request.target_recall), (vec![0.5, -1.0], Some(0.9)));
        assert_eq!(request.group_by.unwrap().field, "a");
        assert!(request.filter.is_some());
        assert_eq!(read(r#"{"keysOnly": true, "id": "7", "mode": 2}"#).unwrap().id, 7);
    }

    #[test]
    fn what_is_wrong_with_json_is_said() {
        for (json, expected) in [
            ("", "EOF"),
            ("[]", "expected"),
            ("{} {}", "trailing"),
            (r#"{"kk": 1}"#, "kk"),
            (r#"{"k": -1}"#, "line 1"),
            (r#"{"k": 4294967296}"#, "line 1"),
            (r#"{"mode": "MODE_NONE"}"#, "MODE_NONE"),
            (r#"{"query": 7}"#, "line 1"),
            (r#"{"filter": {"exists": {}, "keys": {}}}"#, "multiple fields"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains("INVALID_ARGUMENT") && error.contains(expected), "{json}: {error}");
        }
        let deep = format!("{}{}", r#"{"filter": {"not": "#, r#"{"not": "#.repeat(200));
        assert!(read(&deep).unwrap_err().contains("recursion limit"));
        let many = format!(r#"{{"filter": {{"any": {{"filters": [{}{{}}]}}}}}}"#, "{},".repeat(MAX_ELEMENTS));
        assert!(read(&many).unwrap_err().contains("strings, objects and arrays, more than 1048576"));
        let long = format!(r#"{{"vector": [{}0]}}"#, "0,".repeat(MAX_NUMBERS + 1));
        assert!(read(&long).unwrap_err().contains("values, more than 4194304"));
        // Commas and quotes in strings are no values.
        let text = format!(r#"{{"query": "{}"}}"#, r#"\",{"#.repeat(9));
        assert_eq!(read(&text).unwrap().query, "\",{".repeat(9));
    }

    #[test]
    fn a_reply_has_all_its_fields_and_metadata_as_a_value() {
        let document =
            v1::Document { key: "k".into(), metadata_json: r#"{"a": [1, {"b": null}]}"#.into(), ..Default::default() };
        let bare = v1::Document { key: "l".into(), ..Default::default() };
        let reply = v1::GetDocumentsResponse { documents: vec![document, bare], missing: Vec::new() };
        let json = Format::new().unwrap().write(&reply).unwrap();
        assert_eq!(
            serde_json::from_slice::<Value>(&json).unwrap(),
            serde_json::json!({
                "documents": [
                    {"key": "k", "title": "", "text": "", "metadata": {"a": [1, {"b": null}]}},
                    {"key": "l", "title": "", "text": "", "metadata": null},
                ],
                "missing": [],
            })
        );
        let reply = v1::SearchResponse {
            hits: vec![v1::Hit { score: 0.1, ..Default::default() }],
            generation: u64::MAX,
            ..Default::default()
        };
        let json = Format::new().unwrap().write(&reply).unwrap();
        let json = std::str::from_utf8(&json).unwrap();
        assert!(json.contains(r#""generation":18446744073709551615"#) && json.contains(r#""score":0.1}"#), "{json}");
    }
}

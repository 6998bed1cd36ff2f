//! Messages as JSON by the mapping of proto3, with the names of the `.proto` files, and 64-bit integers as numbers.
//!
//! In replies, a field `NAME_json`, which is JSON as text in gRPC, is the value itself under `NAME`: `metadata`, `bm25_explanation`.

use dyad_proto::v1;
use dyad_proto::{limits, strict_json};
use prost::bytes::Bytes;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};

use super::refusal::Refusal;
use crate::error::{Error, Result};
use crate::json_values::with_values;

/// Bytes of memory that a string, object or array takes once it is read, and those of any other value.
const ELEMENT_BYTES: usize = 256;
const VALUE_BYTES: usize = 56;

/// What one request's JSON may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Bytes of it.
    pub(super) bytes: usize,
    /// Strings, objects and arrays, names included.
    pub(super) elements: usize,
    /// Values, between commas.
    pub(super) values: usize,
}

impl Most {
    /// Of one search, or keys of documents.
    pub(super) const SEARCH: Self = Self {
        bytes: limits::MAX_SEARCH_BYTES,
        elements: 2 * limits::MAX_SEARCH_ELEMENTS,
        values: 2 * limits::MAX_DIM,
    };
    /// Of a batch: vectors of 2048 values for each question.
    pub(super) const BATCH: Self = Self {
        bytes: limits::MAX_SEARCH_BATCH_BYTES,
        elements: limits::MAX_SEARCH_BATCH_ELEMENTS,
        values: 2048 * limits::MAX_BATCH,
    };

    /// Bytes of memory that a request takes once it is read, about. Refuses JSON that would take far more than its bytes: an empty
    /// object is a hundred times as large. What else is wrong with it, its reader says.
    pub(super) fn memory(&self, json: &[u8]) -> std::result::Result<usize, Refusal> {
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
        let counts = [(elements, self.elements, "strings, objects and arrays"), (commas, self.values, "values")];
        for (got, most, what) in counts {
            if got > most {
                let message = format!("the request's JSON has {got} {what}, more than {most}. Send less at once");
                return Err(Refusal::invalid(message));
            }
        }
        Ok(elements * ELEMENT_BYTES + commas * VALUE_BYTES)
    }
}

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
messages!(GetDocumentsRequest, GetDocumentsResponse, SampleDocumentsRequest, SampleDocumentsResponse);
messages!(ExplainRequest, ExplainResponse, ListIndexesResponse, StatusResponse);

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

    /// Reads a message whose memory is known; the refusal says where the JSON is at fault.
    pub(super) fn read<M: Message>(&self, json: &[u8]) -> std::result::Result<M, Refusal> {
        strict_json::check(json).map_err(|error| Refusal::invalid(format!("the request's JSON: {error}")))?;
        let mut reader = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new();
        let refuse = |error: serde_json::Error| Refusal::invalid(format!("the request's JSON: {error}"));
        let message = DynamicMessage::deserialize_with_options(self.descriptor::<M>()?, &mut reader, &options);
        let message = message.map_err(refuse)?;
        reader.end().map_err(refuse)?;
        message.transcode_to().map_err(|error| Refusal::invalid(format!("the request's JSON: {error}")))
    }

    /// Writes a message. Each of its forms is dropped before the next but one is made: it may take tens of MiB.
    pub(super) fn write<M: Message>(&self, message: M) -> std::result::Result<Bytes, Refusal> {
        let failed = |error: &dyn std::fmt::Display| -> Refusal {
            tonic::Status::internal(format!("the reply cannot be written as JSON: {error}")).into()
        };
        let mut dynamic = DynamicMessage::new(self.descriptor::<M>()?);
        dynamic.transcode_from(&message).map_err(|error| failed(&error))?;
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        let mut json = Vec::with_capacity(2 * message.encoded_len());
        drop(message);
        let mut writer = serde_json::Serializer::new(&mut json);
        dynamic.serialize_with_options(&mut writer, &options).map_err(|error| failed(&error))?;
        drop(dynamic);
        let json = String::from_utf8(json).map_err(|error| failed(&error))?;
        Ok(Bytes::from(with_values(&json)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

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
            (r#"{"k": 1, "k": 1}"#, "`k` is there twice"),
            (r#"{"keys_only": true, "keysOnly": false}"#, "`keysOnly` is there twice"),
            (r#"{"filter": {"equals": {"field": "a", "value": {"number": 100000000000000000001}}}}"#, "be rounded"),
            (r#"{"filter": {"equals": {"field": "a", "value": {"integer": 7}}}}"#, "invalid type"),
            (r#"{"filter": {"exists": {}, "keys": {}}}"#, "multiple fields"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains("INVALID_ARGUMENT") && error.contains(expected), "{json}: {error}");
        }
        let deep = format!("{}{}", r#"{"filter": {"not": "#, r#"{"not": "#.repeat(200));
        assert!(read(&deep).unwrap_err().contains("recursion limit"));
        // Commas and quotes in strings are no values.
        let text = format!(r#"{{"query": "{}"}}"#, r#"\",{"#.repeat(9));
        assert_eq!(read(&text).unwrap().query, "\",{".repeat(9));
    }

    #[test]
    fn json_that_takes_far_more_memory_than_bytes_is_refused_unread() {
        let memory = |most: Most, json: &str| most.memory(json.as_bytes()).map_err(|refusal| format!("{refusal:?}"));
        let nested = |count: usize| format!("[{}{{}}]", "{},".repeat(count));
        assert!(
            memory(Most::SEARCH, &nested(2 * limits::MAX_SEARCH_ELEMENTS)).unwrap_err().contains("more than 65536")
        );
        assert!(
            memory(Most::BATCH, &nested(limits::MAX_SEARCH_BATCH_ELEMENTS)).unwrap_err().contains("more than 524288")
        );
        assert_eq!(memory(Most::SEARCH, &nested(9)), Ok(11 * ELEMENT_BYTES + 9 * VALUE_BYTES));
        let numbers = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(memory(Most::SEARCH, &numbers(limits::MAX_DIM)).is_ok());
        assert!(
            memory(Most::SEARCH, &numbers(2 * limits::MAX_DIM + 1)).unwrap_err().contains("values, more than 131072")
        );
        // Commas, brackets and escaped quotes in strings are none.
        assert_eq!(memory(Most::SEARCH, r#"["\\\",{[,", "\\"]"#), Ok(3 * ELEMENT_BYTES + VALUE_BYTES));
    }

    #[test]
    fn a_reply_has_all_its_fields_and_metadata_as_a_value() {
        let document =
            v1::Document { key: "k".into(), metadata_json: r#"{"a": [1, {"b": null}]}"#.into(), ..Default::default() };
        let bare = v1::Document { key: "l".into(), ..Default::default() };
        let reply = v1::GetDocumentsResponse { documents: vec![document, bare], missing: Vec::new() };
        let json = Format::new().unwrap().write(reply).unwrap();
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
        let json = Format::new().unwrap().write(reply).unwrap();
        let json = std::str::from_utf8(&json).unwrap();
        assert!(json.contains(r#""generation":18446744073709551615"#) && json.contains(r#""score":0.1}"#), "{json}");
    }
}

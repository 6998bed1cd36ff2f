//! Messages as JSON by the mapping of proto3, with the names of the `.proto` files, and 64-bit integers as numbers. The
//! HTTP routes of all servers and the commands with `--json` read and write it here, and nothing else does.
//!
//! Enum values have their names of the `.proto` files (`MODE_BM25`): every protobuf library reads them back, and what a
//! reply says can be sent as a request. All fields are there, also those of default value, so that a program finds the
//! same keys in every reply. A field `NAME_json`, which is JSON as text in gRPC, is the value itself under `NAME`:
//! `metadata`, `bm25_explanation`. A server may take short forms of its requests too ([`ShortForms`]).

mod values;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

pub(crate) use values::AS_TEXT;
use values::{with_texts, with_values};

use crate::{strict_json, v1};

/// Why a message could not be read or written as JSON.
#[derive(Debug, thiserror::Error)]
pub enum MessageJsonError {
    /// A request is not what its message is.
    #[error("the request's JSON: {0}")]
    Request(String),
    /// A reply could not be written.
    #[error("the reply cannot be written as JSON: {0}")]
    Reply(String),
}

/// Forms of a request that people write, in place of the mapping of proto3.
#[derive(Debug, Clone, Copy)]
pub struct ShortForms {
    /// Longest request that may have them: their standard forms take far more memory, of which the bytes of the request
    /// say nothing.
    pub max_bytes: usize,
    /// Replaces the short forms in a message's JSON by standard ones; whether there were any. What is neither is left
    /// for the reader to refuse.
    pub expand: fn(&mut Value, &MessageDescriptor) -> Result<bool, String>,
}

/// The descriptors of all messages, by which they are read and written.
#[derive(Debug)]
pub struct MessageJson {
    pub(crate) pool: DescriptorPool,
    short_forms: Option<ShortForms>,
}

impl MessageJson {
    /// Of the compiled `.proto` files.
    pub fn new() -> Result<Self, MessageJsonError> {
        let pool = DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET);
        Ok(Self {
            pool: pool.map_err(|error| MessageJsonError::Reply(error.to_string()))?,
            short_forms: None,
        })
    }

    /// The same for requests that may have short forms.
    #[must_use]
    pub fn with_short_forms(self, short_forms: ShortForms) -> Self {
        Self {
            short_forms: Some(short_forms),
            ..self
        }
    }

    fn descriptor<M: Name>(&self) -> Option<MessageDescriptor> {
        self.pool.get_message_by_name(&M::full_name())
    }

    /// Reads a message whose memory is known; the error says where the JSON is at fault.
    pub fn read<M: Message + Name + Default>(&self, json: &[u8]) -> Result<M, MessageJsonError> {
        let refuse = |reason: &dyn std::fmt::Display| MessageJsonError::Request(reason.to_string());
        strict_json::check(json).map_err(|error| refuse(&error))?;
        let descriptor = self
            .descriptor::<M>()
            .ok_or_else(|| refuse(&"its message has no descriptor"))?;
        let texts = with_texts(json, &descriptor);
        let json = texts.as_deref().unwrap_or(json);
        let mut reader = serde_json::Deserializer::from_slice(json);
        let options = DeserializeOptions::new();
        let message = match DynamicMessage::deserialize_with_options(descriptor.clone(), &mut reader, &options) {
            Ok(message) => {
                reader.end().map_err(|error| refuse(&error))?;
                message
            }
            // Only what the mapping of proto3 does not know may have short forms.
            Err(error) if error.is_data() => {
                let forms = self.short_forms.filter(|forms| json.len() <= forms.max_bytes);
                let Some(forms) = forms else { return Err(refuse(&error)) };
                let mut value: Value = serde_json::from_slice(json).map_err(|error| refuse(&error))?;
                if !(forms.expand)(&mut value, &descriptor).map_err(|error| refuse(&error))? {
                    return Err(refuse(&error));
                }
                let read = DynamicMessage::deserialize_with_options(descriptor, value, &options);
                read.map_err(|error| refuse(&error))?
            }
            Err(error) => return Err(refuse(&error)),
        };
        message.transcode_to().map_err(|error| refuse(&error))
    }

    /// Writes a message on one line. Each of its forms is dropped before the next but one is made: it may take tens of
    /// MiB.
    pub fn write<M: Message + Name>(&self, message: M) -> Result<String, MessageJsonError> {
        self.write_by(message, CompactFormatter)
    }

    /// Writes a message with line breaks, for people.
    pub fn write_indented<M: Message + Name>(&self, message: M) -> Result<String, MessageJsonError> {
        self.write_by(message, PrettyFormatter::new())
    }

    fn write_by<M: Message + Name>(&self, message: M, formatter: impl Formatter) -> Result<String, MessageJsonError> {
        let failed = |reason: &dyn std::fmt::Display| MessageJsonError::Reply(reason.to_string());
        let descriptor = self
            .descriptor::<M>()
            .ok_or_else(|| failed(&"its message has no descriptor"))?;
        let mut dynamic = DynamicMessage::new(descriptor);
        dynamic.transcode_from(&message).map_err(|error| failed(&error))?;
        let options = SerializeOptions::new()
            .stringify_64_bit_integers(false)
            .use_proto_field_name(true)
            .skip_default_fields(false);
        let mut json = Vec::with_capacity(2 * message.encoded_len());
        drop(message);
        let mut writer = serde_json::Serializer::with_formatter(&mut json, formatter);
        dynamic
            .serialize_with_options(&mut writer, &options)
            .map_err(|error| failed(&error))?;
        drop(dynamic);
        let json = String::from_utf8(json).map_err(|error| failed(&error))?;
        Ok(with_values(&json))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<v1::SearchRequest, String> {
        MessageJson::new()
            .unwrap()
            .read(json.as_bytes())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_request_has_the_names_of_the_proto_files_and_those_of_proto3() {
        let request = read(
            r#"{"query": "why", "mode": "MODE_HYBRID", "k": 3, "vector": [0.5, -1], "target_recall": 0.9,
                "group_by": {"field": "a"}, "filter": {"all": {"filters": [{"exists": {"field": "b"}}]}}}"#,
        );
        let request = request.unwrap();
        assert_eq!(
            (request.query.as_str(), request.mode(), request.k),
            ("why", v1::Mode::Hybrid, 3)
        );
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
            (
                r#"{"filter": {"equals": {"field": "a", "value": {"number": 100000000000000000001}}}}"#,
                "be rounded",
            ),
            (
                r#"{"filter": {"equals": {"field": "a", "value": {"integer": 7}}}}"#,
                "invalid type",
            ),
            (r#"{"filter": {"exists": {}, "keys": {}}}"#, "multiple fields"),
        ] {
            let error = read(json).unwrap_err();
            assert!(
                error.starts_with("the request's JSON: ") && error.contains(expected),
                "{json}: {error}"
            );
        }
        let deep = format!("{}{}", r#"{"filter": {"not": "#, r#"{"not": "#.repeat(200));
        assert!(read(&deep).unwrap_err().contains("recursion limit"));
        // Commas and quotes in strings are no values.
        let text = format!(r#"{{"query": "{}"}}"#, r#"\",{"#.repeat(9));
        assert_eq!(read(&text).unwrap().query, "\",{".repeat(9));
    }

    #[test]
    fn a_reply_has_all_its_fields_and_metadata_as_a_value() {
        let document = v1::Document {
            key: "k".into(),
            metadata_json: r#"{"a": [1, {"b": null}]}"#.into(),
            ..Default::default()
        };
        let indented = MessageJson::new().unwrap().write_indented(document.clone()).unwrap();
        assert!(
            indented.starts_with("{\n  \"key\": \"k\",\n") && indented.contains("\"metadata\": {\"a\""),
            "{indented}"
        );
        let bare = v1::Document {
            key: "l".into(),
            ..Default::default()
        };
        let reply = v1::GetDocumentsResponse {
            documents: vec![document, bare],
            missing: Vec::new(),
        };
        let json = MessageJson::new().unwrap().write(reply).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&json).unwrap(),
            serde_json::json!({
                "documents": [
                    {"key": "k", "title": "", "text": "", "metadata": {"a": [1, {"b": null}]}},
                    {"key": "l", "title": "", "text": "", "metadata": null},
                ],
                "missing": [],
            })
        );
        let reply = v1::SearchResponse {
            hits: vec![v1::Hit {
                score: 0.1,
                ..Default::default()
            }],
            generation: u64::MAX,
            ..Default::default()
        };
        let json = MessageJson::new().unwrap().write(reply).unwrap();
        assert!(
            json.contains(r#""generation":18446744073709551615"#) && json.contains(r#""score":0.1}"#),
            "{json}"
        );
    }
}

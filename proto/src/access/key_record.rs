//! One key of the file of keys, and what must hold for it.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};
use serde::{Deserialize, Serialize};

use super::Role;
use crate::{v1, validate};

/// The message of a filter.
const FILTER: &str = "dyad.v1.Filter";

/// One key, as the file has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Unique in the file; the part of the key that is no secret.
    pub id: String,
    /// For people.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// Of the secret, in hexadecimal digits.
    pub sha256: String,
    /// When it was created.
    pub created_unix_s: u64,
    /// When it was revoked, if it was: it stays in the file, so that its id is not given again.
    #[serde(
        default,
        deserialize_with = "given::revoked",
        skip_serializing_if = "Option::is_none"
    )]
    pub revoked_unix_s: Option<u64>,
    /// Indexes that its holder may name; all where the file has no such field, which an empty list is not.
    #[serde(default, deserialize_with = "given::indexes", skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<String>,
    /// Documents that exist for its holder, as the JSON form of a filter; all where absent.
    #[serde(default, deserialize_with = "given::filter", skip_serializing_if = "Option::is_none")]
    pub filter: Option<serde_json::Value>,
    /// Calls that its holder may have under way; any number where absent.
    #[serde(
        default,
        deserialize_with = "given::concurrency",
        skip_serializing_if = "Option::is_none"
    )]
    pub concurrency: Option<usize>,
}

impl KeyRecord {
    pub(super) fn check(&self) -> Result<(), String> {
        let is_hex = |text: &str| {
            text.bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        if self.id.is_empty() || self.id.len() > 64 || !is_hex(&self.id) {
            return Err(format!("`id`: expected 1 to 64 hexadecimal digits, got `{}`", self.id));
        }
        if self.name.is_empty() || self.name.len() > 128 || self.name.chars().any(char::is_control) {
            return Err("`name`: expected 1 to 128 bytes without control characters".to_owned());
        }
        if self.sha256.len() != 64 || !is_hex(&self.sha256) {
            return Err("`sha256`: expected 64 hexadecimal digits".to_owned());
        }
        for index in &self.indexes {
            validate::index_name(index).map_err(|reason| format!("`indexes`: {reason}"))?;
        }
        if self.concurrency == Some(0) {
            return Err("`concurrency`: expected at least 1, got 0".to_owned());
        }
        if self.filter.is_some() && self.role == Role::Admin {
            let why = "generations are of whole indexes";
            return Err(format!(
                "`filter`: expected only with roles read and write, got role admin: {why}"
            ));
        }
        self.parsed_filter().map(drop)
    }

    /// The filter as a message.
    pub(super) fn parsed_filter(&self) -> Result<Option<v1::Filter>, String> {
        let Some(json) = &self.filter else { return Ok(None) };
        let wrong = |error: &dyn std::fmt::Display| format!("`filter`: {error}");
        if has_null(json) {
            return Err(wrong(
                &"expected conditions without null, which would let more documents pass than were meant",
            ));
        }
        let descriptor = filter_descriptor()?;
        let options = DeserializeOptions::new();
        let message = DynamicMessage::deserialize_with_options(descriptor, json, &options);
        let filter: v1::Filter = message
            .map_err(|error| wrong(&error))?
            .transcode_to()
            .map_err(|error| wrong(&error))?;
        validate::key_filter(&filter).map_err(|error| error.to_string())?;
        Ok(Some(filter))
    }

    /// Of the secret.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(self.sha256.as_bytes().chunks(2)) {
            // Checked when the file was read.
            *byte = std::str::from_utf8(pair)
                .ok()
                .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                .unwrap_or(0);
        }
        bytes
    }
}

/// Whether a null is anywhere in it: for the reader of messages that is a field that is not there.
fn has_null(json: &serde_json::Value) -> bool {
    match json {
        serde_json::Value::Null => true,
        serde_json::Value::Array(all) => all.iter().any(has_null),
        serde_json::Value::Object(fields) => fields.values().any(has_null),
        _ => false,
    }
}

/// Fields that restrict a key, or end it, where they are in the file: null and an empty list are not read as their
/// absence.
mod given {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer};

    fn field<'de, T: Deserialize<'de>, D: Deserializer<'de>>(name: &str, from: D) -> Result<Option<T>, D::Error> {
        let why = "a null is not read as its absence: leave the field out if that is meant";
        let null = || D::Error::custom(format!("`{name}`: expected a value, got null; {why}"));
        Option::<T>::deserialize(from)?.map(Some).ok_or_else(null)
    }

    pub(super) fn revoked<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
        field("revoked_unix_s", from)
    }

    pub(super) fn concurrency<'de, D: Deserializer<'de>>(from: D) -> Result<Option<usize>, D::Error> {
        field("concurrency", from)
    }

    pub(super) fn filter<'de, D: Deserializer<'de>>(from: D) -> Result<Option<serde_json::Value>, D::Error> {
        field("filter", from)
    }

    pub(super) fn indexes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        let indexes: Vec<String> = field("indexes", from)?.unwrap_or_default();
        if indexes.is_empty() {
            let fix = "revoke the key if it is to have no index, and leave the field out if it is to have all";
            return Err(D::Error::custom(format!(
                "`indexes`: expected at least one name, got none; {fix}"
            )));
        }
        Ok(indexes)
    }
}

fn filter_descriptor() -> Result<prost_reflect::MessageDescriptor, String> {
    // Decoded once: it takes milliseconds, and there may be thousands of keys.
    static POOL: LazyLock<Result<DescriptorPool, String>> =
        LazyLock::new(|| DescriptorPool::decode(v1::FILE_DESCRIPTOR_SET).map_err(|error| error.to_string()));
    let pool = POOL.as_ref().map_err(Clone::clone)?;
    pool.get_message_by_name(FILTER)
        .ok_or_else(|| format!("no descriptor of {FILTER}"))
}

pub(super) fn filter_to_json(filter: &v1::Filter) -> Result<serde_json::Value, String> {
    let mut message = DynamicMessage::new(filter_descriptor()?);
    message.transcode_from(filter).map_err(|error| error.to_string())?;
    let options = SerializeOptions::new().use_proto_field_name(true);
    message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|error| format!("`filter`: it cannot be written as JSON: {error}"))
}

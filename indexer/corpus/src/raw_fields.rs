//! The fields of a JSON object with their values as they are written.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The name of a field; borrowed where it has no escapes.
#[derive(Debug, Deserialize)]
pub(crate) struct RawName<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// Fields in their order; of a name that is there twice the last one counts.
#[derive(Debug, Default)]
pub(crate) struct RawFields<'a>(pub(crate) Vec<(RawName<'a>, &'a RawValue)>);

impl<'a> RawFields<'a> {
    /// Those with a name that is wanted; the values of others are not kept.
    pub(crate) fn parse_wanted(json: &'a str, is_wanted: impl Fn(&str) -> bool) -> serde_json::Result<Self> {
        WantedFields(is_wanted).deserialize(&mut serde_json::Deserializer::from_str(json))
    }

    /// The last value of a name.
    pub(crate) fn last(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .rev()
            .find(|(other, _)| other.0 == name)
            .map(|(_, value)| *value)
    }

    /// The last value of each name.
    pub(crate) fn by_name(&self) -> BTreeMap<&str, &'a RawValue> {
        self.0.iter().map(|(name, value)| (&*name.0, *value)).collect()
    }
}

impl<'de> Deserialize<'de> for RawFields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        WantedFields(|_: &str| true).deserialize(deserializer)
    }
}

struct WantedFields<F>(F);

impl<'de, F: Fn(&str) -> bool> DeserializeSeed<'de> for WantedFields<F> {
    type Value = RawFields<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawFields<'de>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: Fn(&str) -> bool> Visitor<'de> for WantedFields<F> {
    type Value = RawFields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawFields<'de>, A::Error> {
        let mut fields = Vec::new();
        while let Some(name) = map.next_key::<RawName<'de>>()? {
            if (self.0)(&name.0) {
                fields.push((name, map.next_value()?));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(RawFields(fields))
    }
}

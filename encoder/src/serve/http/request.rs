//! The JSON of a request to `/v1/embeddings`, field by field. Unknown fields are ignored: OpenAI's clients send many.

use std::fmt;

use axum::http::StatusCode;
use dyad_proto::limits::{MAX_TEXT_BYTES, MAX_TEXTS};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::refusal::Refusal;
use crate::bundle::ModelInfo;
use crate::serve::{Input, Tower, Truncation};

/// Token ids of one text.
const MAX_TEXT_TOKENS: usize = MAX_TEXT_BYTES / 4;

/// A request in order, but for what only the model can tell.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) input: Input,
    pub(super) tower: Tower,
    pub(super) truncation: Truncation,
    pub(super) dimensions: Option<usize>,
    pub(super) format: Format,
}

/// How a vector is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// An array of numbers.
    #[default]
    Float,
    /// Base64 of little-endian f32.
    Base64,
}

#[derive(Debug, Deserialize)]
#[serde(expecting = "a JSON object")]
struct Wire {
    input: WireInput,
    model: Option<String>,
    encoding_format: Option<Format>,
    dimensions: Option<usize>,
    input_type: Option<InputType>,
    truncate: Option<bool>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputType {
    #[serde(alias = "query")]
    Question,
    #[serde(alias = "document", alias = "passage")]
    Answer,
}

/// Reads and checks a body. Texts are documents' (the answer tower's) where `input_type` is absent.
pub(super) fn parse(bytes: &[u8], model: &ModelInfo) -> Result<Parsed, Refusal> {
    let bad = |code, message: String| Refusal::invalid(StatusCode::BAD_REQUEST, code, message);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        bad("invalid_utf8", format!("the body is not UTF-8: byte {} begins no character", error.valid_up_to()))
    })?;
    // An array would be taken for the fields in their order.
    if text.trim_start().starts_with('[') {
        return Err(bad("invalid_value", "the body must be a JSON object with the field `input`, got an array".into()));
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let wire: Wire = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let (path, cause) = (error.path().to_string(), error.inner());
        if cause.classify() != serde_json::error::Category::Data {
            return bad("invalid_json", format!("the body is not JSON: {cause}"));
        }
        // At the top there is no path; serde names the field itself.
        let field = path.split(['.', '[']).next().filter(|field| !field.is_empty() && *field != "?");
        match field {
            Some(field) => bad("invalid_value", format!("`{path}`: {cause}")).at(field),
            None => bad("invalid_value", cause.to_string()),
        }
    })?;
    json.end().map_err(|error| bad("invalid_json", format!("the body is not JSON: {error}")))?;

    if let Some(asked) = &wire.model
        && *asked != model.name
        && *asked != model.fingerprint
    {
        let message = format!("model `{asked}` is not served here. Leave `model` out, or ask for `{}`", model.name);
        return Err(Refusal::invalid(StatusCode::NOT_FOUND, "model_not_found", message).at("model"));
    }
    let input = wire.input.0;
    bounded(&input)?;
    Ok(Parsed {
        input,
        tower: match wire.input_type {
            Some(InputType::Question) => Tower::Question,
            Some(InputType::Answer) | None => Tower::Answer,
        },
        truncation: if wire.truncate.unwrap_or(true) { Truncation::Truncate } else { Truncation::Refuse },
        dimensions: wire.dimensions,
        format: wire.encoding_format.unwrap_or_default(),
    })
}

/// The bounds that gRPC has too.
fn bounded(input: &Input) -> Result<(), Refusal> {
    let large =
        |message: String| Refusal::invalid(StatusCode::PAYLOAD_TOO_LARGE, "input_too_large", message).at("input");
    if input.len() > MAX_TEXTS {
        return Err(large(format!(
            "`input`: expected at most {MAX_TEXTS} texts, got {}. Send them in parts",
            input.len()
        )));
    }
    let (most, unit) = match input {
        Input::Texts(_) => (MAX_TEXT_BYTES, "bytes"),
        Input::TokenIds(_) => (MAX_TEXT_TOKENS, "token ids"),
    };
    match input.at_most().into_iter().enumerate().find(|&(_, size)| size > most) {
        Some((at, size)) => Err(large(format!("`input[{at}]`: expected at most {most} {unit}, got {size}. Split it"))),
        None => Ok(()),
    }
}

/// A text, texts, token ids of one text, or of several.
#[derive(Debug)]
struct WireInput(Input);

/// What stands in the array.
enum Item {
    Text(String),
    Id(u32),
    Ids(Vec<u32>),
}

impl<'de> Deserialize<'de> for WireInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Inputs;
        impl<'de> Visitor<'de> for Inputs {
            type Value = WireInput;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, an array of texts, an array of token ids, or an array of arrays of token ids")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<WireInput, E> {
                Ok(WireInput(Input::Texts(vec![text.to_owned()])))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<WireInput, A::Error> {
                let (mut texts, mut ids, mut lists) = (Vec::new(), Vec::new(), Vec::new());
                while let Some(item) = items.next_element()? {
                    match item {
                        Item::Text(text) => texts.push(text),
                        Item::Id(id) => ids.push(id),
                        Item::Ids(list) => lists.push(list),
                    }
                    if usize::from(!texts.is_empty()) + usize::from(!ids.is_empty()) + usize::from(!lists.is_empty())
                        > 1
                    {
                        return Err(de::Error::custom("expected items of one kind, got texts beside token ids"));
                    }
                }
                Ok(WireInput(match (ids.is_empty(), lists.is_empty()) {
                    (false, _) => Input::TokenIds(vec![ids]),
                    (_, false) => Input::TokenIds(lists),
                    _ => Input::Texts(texts),
                }))
            }
        }
        deserializer.deserialize_any(Inputs)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items;
        impl<'de> Visitor<'de> for Items {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a token id, or an array of token ids")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
                Ok(Item::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Item, E> {
                Ok(Item::Text(text))
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Item, E> {
                let wrong = |_| de::Error::invalid_value(de::Unexpected::Unsigned(id), &"a token id");
                u32::try_from(id).map(Item::Id).map_err(wrong)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Item, A::Error> {
                let mut list = Vec::new();
                while let Some(id) = ids.next_element()? {
                    list.push(id);
                }
                Ok(Item::Ids(list))
            }
        }
        deserializer.deserialize_any(Items)
    }
}

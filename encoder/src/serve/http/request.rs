//! The JSON of a request to `/v1/embeddings`, field by field. Unknown fields are ignored: OpenAI's clients send many.

use std::fmt;

use axum::http::StatusCode;
use dyad_proto::limits::{MAX_PROMPT_BYTES, MAX_TEXT_BYTES, MAX_TEXTS};
use serde::Deserialize;
use serde::de::{self, Deserializer, SeqAccess, Visitor};

use super::json::{self, bounded, room};
use super::refusal::EncoderRefusal;
use crate::model::ModelInfo;
use crate::serve::{Input, Precision, RequestPrompt, Tower, Truncation};

/// The prompt's name of questions, in sentence-transformers and in TEI.
const QUERY_PROMPT: &str = "query";

/// Token ids of one text.
const MAX_TEXT_TOKENS: usize = MAX_TEXT_BYTES / 4;

/// A request in order, but for what only the model can tell.
#[derive(Debug)]
pub(super) struct ParsedEmbeddings {
    pub(super) input: Input,
    pub(super) tower: Tower,
    pub(super) truncation: Truncation,
    pub(super) dimensions: Option<usize>,
    pub(super) prompt: RequestPrompt,
    pub(super) format: Format,
    pub(super) precision: Precision,
}

/// How a vector of f32 is written.
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
struct EmbeddingsBody {
    input: WireInput,
    model: Option<String>,
    tokenizer: Option<String>,
    encoding_format: Option<Format>,
    dimensions: Option<usize>,
    input_type: Option<InputType>,
    truncate: Option<bool>,
    prompt_name: Option<String>,
    prompt: Option<String>,
    /// Voyage's name for it is the other one.
    #[serde(alias = "output_dtype")]
    precision: Option<Precision>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum InputType {
    #[serde(alias = "query")]
    Question,
    #[serde(alias = "document", alias = "passage")]
    Answer,
}

/// Reads and checks a body. Texts are documents' (the answer tower's) where neither `input_type` nor a `prompt_name` of
/// `query` says otherwise.
pub(super) fn parse(bytes: &[u8], model: &ModelInfo) -> Result<ParsedEmbeddings, EncoderRefusal> {
    let wire: EmbeddingsBody = json::read(bytes, "input")?;
    json::check_model(wire.model.as_deref(), model)?;
    check_tokenizer(&wire, model)?;
    let tower = match wire.input_type {
        Some(InputType::Question) => Tower::Question,
        // The reply's fingerprint is then that of the model's questions.
        None if wire.prompt_name.as_deref() == Some(QUERY_PROMPT) => Tower::Question,
        Some(InputType::Answer) | None => Tower::Answer,
    };
    Ok(ParsedEmbeddings {
        input: wire.input.0,
        tower,
        truncation: if wire.truncate.unwrap_or(true) {
            Truncation::Truncate
        } else {
            Truncation::Refuse
        },
        dimensions: wire.dimensions,
        prompt: prompt(wire.prompt_name, wire.prompt)?,
        format: wire.encoding_format.unwrap_or_default(),
        precision: wire.precision.unwrap_or_default(),
    })
}

/// A prompt is one of the model's by name, or a text.
fn prompt(name: Option<String>, text: Option<String>) -> Result<RequestPrompt, EncoderRefusal> {
    let refused = |status, code, message: String| Err(EncoderRefusal::invalid(status, code, message).at("prompt"));
    match (name, text) {
        (None, None) => Ok(RequestPrompt::OfTower),
        (Some(name), None) => Ok(RequestPrompt::Named(name)),
        (None, Some(text)) if text.len() <= MAX_PROMPT_BYTES => Ok(RequestPrompt::Text(text)),
        (None, Some(text)) => {
            let message = format!(
                "`prompt`: expected at most {MAX_PROMPT_BYTES} bytes, got {}. Shorten it",
                text.len()
            );
            refused(StatusCode::PAYLOAD_TOO_LARGE, "input_too_large", message)
        }
        (Some(_), Some(_)) => {
            let message = "expected `prompt` or `prompt_name`, got both. Leave one of them out".to_owned();
            refused(StatusCode::BAD_REQUEST, "invalid_value", message)
        }
    }
}

/// Ids mean nothing without the tokenizer that made them: those of another one are words of this one's vocabulary too.
/// So clients that send ids name it, by the model's name or fingerprint; OpenAI's clients that tokenize by themselves
/// do not.
fn check_tokenizer(wire: &EmbeddingsBody, model: &ModelInfo) -> Result<(), EncoderRefusal> {
    let refused =
        |code, message: String| Err(EncoderRefusal::invalid(StatusCode::BAD_REQUEST, code, message).at("tokenizer"));
    match &wire.tokenizer {
        None if matches!(wire.input.0, Input::TokenIds(_)) => {
            let name = &model.name;
            refused(
                "tokenizer_missing",
                format!(
                    "`input` is token ids, and nothing says of which tokenizer. Send texts (langchain: `check_embedding_ctx_length=False`); or, where the ids are of the tokenizer of `{name}`, add `\"tokenizer\": \"{name}\"`"
                ),
            )
        }
        Some(asked) if *asked != model.name && *asked != model.fingerprint => refused(
            "tokenizer_not_served",
            format!(
                "`tokenizer`: expected `{}`, whose tokenizer is served, got `{asked}`. Send texts",
                model.name
            ),
        ),
        _ => Ok(()),
    }
}

/// A text, texts, token ids of one text, or of several.
#[derive(Debug)]
struct WireInput(Input);

/// An item of the array.
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
                bounded(text)?;
                Ok(WireInput(Input::Texts(vec![text.to_owned()])))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<WireInput, A::Error> {
                let (mut texts, mut ids, mut lists) = (Vec::new(), Vec::new(), Vec::new());
                while let Some(item) = items.next_element()? {
                    match item {
                        Item::Id(_) => room(ids.len(), MAX_TEXT_TOKENS, "token ids", "Split them")?,
                        _ => room(texts.len() + lists.len(), MAX_TEXTS, "texts", "Send them in parts")?,
                    }
                    match item {
                        Item::Text(text) => texts.push(text),
                        Item::Id(id) => ids.push(id),
                        Item::Ids(list) => lists.push(list),
                    }
                    if usize::from(!texts.is_empty()) + usize::from(!ids.is_empty()) + usize::from(!lists.is_empty())
                        > 1
                    {
                        return Err(de::Error::custom("expected items of one kind, got texts and token ids"));
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
        struct EmbeddingItems;
        impl<'de> Visitor<'de> for EmbeddingItems {
            type Value = Item;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a token id, or an array of token ids")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Item, E> {
                bounded(text)?;
                Ok(Item::Text(text.to_owned()))
            }

            fn visit_u64<E: de::Error>(self, id: u64) -> Result<Item, E> {
                let wrong = |_| de::Error::invalid_value(de::Unexpected::Unsigned(id), &"a token id");
                u32::try_from(id).map(Item::Id).map_err(wrong)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut ids: A) -> Result<Item, A::Error> {
                let mut list = Vec::new();
                while let Some(id) = ids.next_element()? {
                    room(list.len(), MAX_TEXT_TOKENS, "token ids", "Split them")?;
                    list.push(id);
                }
                Ok(Item::Ids(list))
            }
        }
        deserializer.deserialize_any(EmbeddingItems)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, SeqDeserializer};

    use super::*;

    /// How many of a million items are read, and what is said of them.
    fn read<'de, T: IntoDeserializer<'de, Error> + Clone>(item: T) -> (usize, String) {
        let read = Cell::new(0);
        let items = std::iter::repeat_n(item, 1_000_000).inspect(|_| read.set(read.get() + 1));
        let refused = WireInput::deserialize(SeqDeserializer::<_, Error>::new(items))
            .unwrap_err()
            .to_string();
        (read.get(), refused)
    }

    #[test]
    fn no_more_is_read_than_a_request_may_have() {
        for (read, refused) in [read("a"), read(Vec::<u32>::new()), read(vec![5_u32, 6])] {
            assert_eq!(
                (read, refused.as_str()),
                (
                    1025,
                    "expected at most 1024 texts, got 1025 or more. Send them in parts"
                )
            );
        }
        let (ids, refused) = read(5_u32);
        assert_eq!((ids, MAX_TEXT_TOKENS), (262_145, 262_144));
        assert!(
            refused.starts_with("expected at most 262144 token ids, got 262145 or more"),
            "{refused}"
        );
        // The ids of one text among several.
        let pulled = Cell::new(0);
        let ids = std::iter::repeat_n(5_u32, 1_000_000).inspect(|_| pulled.set(pulled.get() + 1));
        let texts = std::iter::once(SeqDeserializer::<_, Error>::new(ids));
        let refused = WireInput::deserialize(SeqDeserializer::<_, Error>::new(texts))
            .unwrap_err()
            .to_string();
        assert_eq!(pulled.get(), MAX_TEXT_TOKENS + 1);
        assert!(refused.starts_with(json::TOO_MUCH), "{refused}");
    }
}

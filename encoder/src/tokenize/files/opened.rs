//! A tokenizer as its files say, and what is read of every `tokenizer.json`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

use super::settings::TokenizerSettings;
use crate::error::Error;

/// A tokenizer as its files say.
#[derive(Debug)]
pub(in crate::tokenize) struct OpenedTokenizer {
    pub(in crate::tokenize) inner: Tokenizer,
    /// What decides the tokens: the content of `tokenizer.json` with what other files change of it.
    pub(in crate::tokenize) facts: Value,
    /// The file of the vocabulary, for errors.
    pub(in crate::tokenize) path: PathBuf,
    /// Whether the beginning of a long text is cut off, and not the end.
    pub(in crate::tokenize) truncates_left: bool,
    /// Whether the tokens of a pair of texts have types.
    pub(in crate::tokenize) gives_types: bool,
    /// Of a static model.
    pub(in crate::tokenize) of_static: Option<StaticTexts>,
}

/// How a static model reads texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tokenize) struct StaticTexts {
    /// The token that is dropped: Model2Vec's unknown one.
    pub(in crate::tokenize) dropped: Option<u32>,
    /// Characters of a token of the vocabulary, the median: as many of a text are looked at for each token of the
    /// longest input.
    pub(in crate::tokenize) characters: Option<usize>,
    /// The id of a text without a token: the first one that has no row.
    pub(in crate::tokenize) no_token: u32,
}

/// The kind of a tokenizer's model: `WordPiece`, `BPE`, `Unigram`, `WordLevel`.
pub(super) fn kind_of_model(fields: &Map<String, Value>) -> Option<&str> {
    fields.get("model")?.get("type")?.as_str()
}

/// The tokenizer of a file's fields.
pub(super) fn parse(path: &Path, fields: &Map<String, Value>) -> Result<Tokenizer, Error> {
    // Through a string: the tokenizer's own reader borrows from its input.
    let text = serde_json::to_string(fields).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })?;
    let refused = |reason: String| Error::Tokenizer {
        path: path.to_owned(),
        reason,
    };
    // The library trusts the tables in its files, and panics where they are damaged.
    let parsed = std::panic::catch_unwind(|| Tokenizer::from_bytes(text));
    let parsed = parsed.map_err(|_| refused("it is damaged. Fetch it again".to_owned()))?;
    parsed.map_err(|error| refused(error.to_string()))
}

/// `truncation_side`, or what the last user of `tokenizer.json` left in it.
pub(super) fn truncates_left(settings: &TokenizerSettings, file: &Map<String, Value>) -> Result<bool, Error> {
    match settings.text("truncation_side")? {
        Some("left") => Ok(true),
        Some("right") => Ok(false),
        Some(other) => Err(settings.wrong("truncation_side", "`left` or `right`", &json!(other))),
        None => {
            let side = file
                .get("truncation")
                .and_then(|truncation| truncation.get("direction"));
            Ok(side.and_then(Value::as_str) == Some("Left"))
        }
    }
}

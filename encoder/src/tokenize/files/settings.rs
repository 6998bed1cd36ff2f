//! The settings of a tokenizer: `tokenizer_config.json`, and what older versions kept in `special_tokens_map.json` and
//! `added_tokens.json`, merged as transformers 5 merges them (`PreTrainedTokenizerBase._from_pretrained`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tokenizers::AddedToken;

use crate::config::{JsonFile, read_value};
use crate::error::Error;

/// The attributes that name a special token, in the order in which they are added.
const ATTRIBUTES: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// Most tokens of `extra_ids`.
const MOST_EXTRA: usize = 100_000;

/// A token as a file has it: its text alone, or with how it is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatedToken {
    Text(String),
    Whole(AddedToken),
}

impl StatedToken {
    pub(super) fn content(&self) -> &str {
        match self {
            Self::Text(content) => content,
            Self::Whole(token) => &token.content,
        }
    }
}

/// What the files of a directory say of its tokenizer.
#[derive(Debug, Default)]
pub(super) struct TokenizerSettings {
    /// The file that most fields are from, for errors.
    path: PathBuf,
    fields: Map<String, Value>,
    /// Token of the padding in `tokenizer.json`.
    of_padding: Option<String>,
    /// The files that the other fields are from, by field.
    origins: BTreeMap<String, PathBuf>,
    /// Tokens added to the vocabulary, by the ids that the files give them, of which their order counts.
    added: BTreeMap<u64, AddedToken>,
}

impl TokenizerSettings {
    /// From a transformer's folder. `overrides` are `processor_kwargs`, which go before the files; `file` is
    /// `tokenizer.json`.
    pub(super) fn read(folder: &Path, overrides: &Map<String, Value>, file: Option<&Value>) -> Result<Self, Error> {
        let path = folder.join("tokenizer_config.json");
        let mut fields = object(&path)?.unwrap_or_default();
        let mut origins = BTreeMap::new();
        for (name, value) in overrides {
            // It goes before that of `config.json` alone, see `stated_class`.
            if name == "tokenizer_class" {
                continue;
            }
            fields.insert(name.clone(), value.clone());
            origins.insert(name.clone(), folder.join("sentence_bert_config.json"));
        }
        let mut settings = Self {
            path,
            fields,
            origins,
            of_padding: None,
            added: BTreeMap::new(),
        };
        settings.take_padding(file);
        settings.rename_additional();
        match settings.fields.remove("added_tokens_decoder") {
            Some(Value::Null) | None => settings.read_older(folder, overrides, file)?,
            Some(Value::Object(tokens)) => {
                for (id, token) in tokens {
                    let parsed = id
                        .parse()
                        .ok()
                        .zip(token.is_object().then(|| added_token(&token)).flatten());
                    let Some((id, token)) = parsed else {
                        return Err(settings.wrong(
                            "added_tokens_decoder",
                            "an object from ids to tokens, each an object with `content`",
                            &token,
                        ));
                    };
                    settings.added.insert(id, token);
                }
            }
            Some(other) => return Err(settings.wrong("added_tokens_decoder", "an object from ids to tokens", &other)),
        }
        Ok(settings)
    }

    /// Without `added_tokens_decoder`, which newer versions write, the older files count, and the tokens of
    /// `tokenizer.json`.
    fn read_older(&mut self, folder: &Path, overrides: &Map<String, Value>, file: Option<&Value>) -> Result<(), Error> {
        let path = folder.join("special_tokens_map.json");
        for (name, value) in object(&path)?.unwrap_or_default() {
            if overrides.get(&name).is_some_and(|given| !given.is_null()) {
                continue;
            }
            let value = match (name.as_str(), value) {
                ("extra_special_tokens", Value::Array(more)) => {
                    let mut known: Vec<Value> = self
                        .fields
                        .get(&name)
                        .and_then(Value::as_array)
                        .cloned()
                        .unwrap_or_default();
                    known.extend(more.into_iter().map(special));
                    Value::Array(known)
                }
                (_, value) => special(value),
            };
            self.origins.insert(name.clone(), path.clone());
            self.fields.insert(name, value);
        }
        // By the older name they are not looked at yet.
        let stated: Vec<String> = self
            .named()?
            .into_iter()
            .filter(|(name, _)| ATTRIBUTES.contains(&name.as_str()))
            .map(|(_, token)| token)
            .chain(self.extra()?.unwrap_or_default())
            .map(|token| token.content().to_owned())
            .collect();
        self.rename_additional();
        let path = folder.join("added_tokens.json");
        if let Some(tokens) = object(&path)? {
            for (content, id) in tokens {
                let Some(id) = id.as_u64() else {
                    let (expected, got) = ("an object from tokens to ids".into(), id.to_string());
                    return Err(Error::Field {
                        path,
                        field: "(whole file)",
                        expected,
                        got,
                    });
                };
                let is_special = stated.contains(&content);
                self.added.insert(id, AddedToken::from(content, is_special));
            }
        }
        for token in file
            .and_then(|file| file.get("added_tokens"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let id = token.get("id").and_then(Value::as_u64);
            if let (Some(id), Some(token)) = (id, added_token(token)) {
                self.added.insert(id, token);
            }
        }
        Ok(())
    }

    /// The padding that the last user left in `tokenizer.json` has a token, where nothing names one.
    fn take_padding(&mut self, file: Option<&Value>) {
        let padding = file.and_then(|file| file.get("padding")?.get("pad_token")?.as_str());
        if let (Some(token), false) = (padding, self.states("pad_token")) {
            self.of_padding = Some(token.to_owned());
        }
    }

    /// Token of that padding, which counts for a `tokenizer.json` that is kept as it is.
    pub(super) fn of_padding(&self) -> Option<&str> {
        self.of_padding.as_deref().filter(|_| !self.states("pad_token"))
    }

    /// Whether a file has a field, be it null.
    pub(super) fn states(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    /// `additional_special_tokens` is the older name of `extra_special_tokens`.
    fn rename_additional(&mut self) {
        let given = self
            .fields
            .get("extra_special_tokens")
            .is_some_and(|given| match given {
                Value::Array(tokens) => !tokens.is_empty(),
                Value::Object(tokens) => !tokens.is_empty(),
                _ => false,
            });
        if !given && let Some(tokens) = self.fields.remove("additional_special_tokens") {
            self.fields.insert("extra_special_tokens".to_owned(), tokens);
        }
    }

    /// Tokens added to the vocabulary, in the order of their ids.
    pub(super) fn added(&self) -> impl Iterator<Item = &AddedToken> {
        self.added.values()
    }

    /// The special tokens that have names, with how they are matched where a list of added tokens says it: the standard
    /// ones, then those that the model has named itself.
    pub(super) fn named(&self) -> Result<Vec<(String, StatedToken)>, Error> {
        let mut named = Vec::new();
        let standard = ATTRIBUTES.iter().map(|name| (*name).to_owned());
        let is_own = |name: &String| name.ends_with("_token") && !ATTRIBUTES.contains(&name.as_str());
        let own = self.fields.keys().filter(|name| is_own(name)).cloned();
        for name in standard.chain(own) {
            // `add_bos_token: true` and the like are no tokens.
            let Some(value @ (Value::String(_) | Value::Object(_))) = self.fields.get(&name) else {
                continue;
            };
            let attribute = ATTRIBUTES.into_iter().find(|attribute| *attribute == name);
            let token = stated(value).ok_or_else(|| {
                self.wrong(
                    attribute.unwrap_or("(special tokens)"),
                    "a text or an object with `content`",
                    value,
                )
            })?;
            let is_standard = attribute.is_some();
            named.push((name, if is_standard { self.matched(token) } else { token }));
        }
        if let Some(Value::Object(more)) = self.fields.get("extra_special_tokens") {
            for (name, value) in more {
                let token =
                    stated(value).ok_or_else(|| self.wrong("extra_special_tokens", "tokens by their names", value))?;
                named.push((name.clone(), token));
            }
        }
        Ok(named)
    }

    /// Special tokens without names, where a file lists them.
    pub(super) fn extra(&self) -> Result<Option<Vec<StatedToken>>, Error> {
        let given = self.fields.get("extra_special_tokens");
        // Where the newer name has tokens with names, the older one may have some without.
        let of_older = given
            .filter(|given| given.is_object())
            .and(self.fields.get("additional_special_tokens"));
        let (field, given) = match of_older {
            Some(tokens) => ("additional_special_tokens", Some(tokens)),
            None => ("extra_special_tokens", given.filter(|given| !given.is_object())),
        };
        match given {
            Some(Value::Array(tokens)) => {
                let read = |value: &Value| stated(value).ok_or_else(|| self.wrong(field, "a list of tokens", value));
                tokens.iter().map(read).collect::<Result<_, _>>().map(Some)
            }
            None | Some(Value::Null) => Ok(None),
            Some(other) => Err(self.wrong(field, "a list of tokens", other)),
        }
    }

    fn matched(&self, token: StatedToken) -> StatedToken {
        let known = self.added.values().rfind(|added| added.content == token.content());
        known.map_or(token, |added| StatedToken::Whole(added.clone()))
    }

    pub(super) fn flag(&self, field: &'static str) -> Result<Option<bool>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(field, "`true` or `false`", other)),
        }
    }

    pub(super) fn count(&self, field: &'static str) -> Result<Option<usize>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => {
                let count = value
                    .as_u64()
                    .and_then(|count| usize::try_from(count).ok())
                    .filter(|count| *count <= MOST_EXTRA);
                count
                    .map(Some)
                    .ok_or_else(|| self.wrong(field, "a whole number up to 100000", value))
            }
        }
    }

    pub(super) fn text(&self, field: &'static str) -> Result<Option<&str>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(field, "a string", other)),
        }
    }

    /// Whether a list of texts holds this one; nothing where there is no list.
    pub(super) fn lists(&self, field: &'static str, text: &str) -> Result<Option<bool>, Error> {
        match self.fields.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Array(texts)) => Ok(Some(texts.iter().any(|one| one.as_str() == Some(text)))),
            Some(other) => Err(self.wrong(field, "a list of strings", other)),
        }
    }

    pub(super) fn wrong(&self, field: &'static str, expected: &str, got: &Value) -> Error {
        let got: String = got.to_string().chars().take(80).collect();
        Error::Field {
            path: self.origin(field).to_owned(),
            field,
            expected: expected.into(),
            got,
        }
    }

    /// The file that a field is from.
    pub(super) fn origin(&self, field: &str) -> &Path {
        self.origins.get(field).unwrap_or(&self.path)
    }
}

/// The fields of a JSON file; nothing where it is not there.
fn object(path: &Path) -> Result<Option<Map<String, Value>>, Error> {
    read_value(path)?
        .map(|value| JsonFile::new(path.to_owned(), value).map(JsonFile::into_fields))
        .transpose()
}

/// A token of `special_tokens_map.json`, which does not say that it is special.
fn special(value: Value) -> Value {
    match value {
        Value::Object(mut token) if token.contains_key("content") => {
            token.insert("special".to_owned(), Value::Bool(true));
            Value::Object(token)
        }
        Value::Array(tokens) => Value::Array(tokens.into_iter().map(special).collect()),
        other => other,
    }
}

fn stated(value: &Value) -> Option<StatedToken> {
    match value {
        Value::String(content) => Some(StatedToken::Text(content.clone())),
        _ => added_token(value).map(StatedToken::Whole),
    }
}

/// A token with its flags; as in the tokenizers library, one that is not special is matched in normalised text unless
/// it says otherwise.
fn added_token(value: &Value) -> Option<AddedToken> {
    let content = value.get("content")?.as_str()?;
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    let is_special = flag("special").unwrap_or(false);
    let mut token = AddedToken::from(content, is_special);
    token.single_word = flag("single_word").unwrap_or(false);
    token.lstrip = flag("lstrip").unwrap_or(false);
    token.rstrip = flag("rstrip").unwrap_or(false);
    token.normalized = flag("normalized").unwrap_or(token.normalized);
    Some(token)
}

//! The tokens that a tokenizer knows in addition to its vocabulary: those of its files, and the special tokens of its
//! class (`TokenizersBackend.__init__` of transformers 5).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::{AddedToken, Tokenizer};

use super::class::TokenizerClass;
use super::settings::{StatedToken, TokenizerSettings};
use crate::error::Error;

/// The tokens to add, in their order.
#[derive(Debug)]
pub(super) struct AddedTokens {
    /// Those that a file lists, which the network's table must have rows for.
    listed: Vec<AddedToken>,
    /// Special tokens, by attribute.
    named: BTreeMap<String, String>,
    /// Named special tokens that are not listed. A class has some that many a vocabulary lacks: those are left out.
    special: Vec<AddedToken>,
    /// Further special tokens.
    extra: Vec<AddedToken>,
    /// Whether a file lists the further ones.
    extra_is_listed: bool,
}

impl AddedTokens {
    pub(super) fn of(class: TokenizerClass, settings: &TokenizerSettings) -> Result<Self, Error> {
        let mut named: Vec<(String, StatedToken)> = settings.named()?;
        for (attribute, content) in class.special_tokens() {
            // What a file says is null is no token.
            if !named.iter().any(|(name, _)| name == attribute) && !settings.states(attribute) {
                named.push(((*attribute).to_owned(), class_token(class, attribute, content)));
            }
        }
        for (attribute, token) in &mut named {
            if let StatedToken::Text(content) = token {
                *token = class_token(class, attribute, content);
            }
        }
        named.sort_by_key(|(name, _)| place(name));
        // Python ignores a token of no characters.
        let listed: Vec<AddedToken> = settings
            .added()
            .filter(|token| !token.content.is_empty())
            .cloned()
            .collect();
        let is_listed = |content: &str| listed.iter().any(|token| token.content == content);
        let mut stated: Vec<&StatedToken> = Vec::new();
        for (_, token) in &named {
            if !is_listed(token.content()) && !stated.contains(&token) {
                stated.push(token);
            }
        }
        let special: Vec<AddedToken> = stated.into_iter().map(whole).collect();
        let (from_files, extra_ids) = (settings.extra()?, settings.count("extra_ids")?.unwrap_or(100));
        let extra_is_listed = from_files.is_some();
        let extra = from_files.unwrap_or_else(|| {
            let more = class.more_special_tokens(extra_ids).into_iter();
            more.map(StatedToken::Text).collect()
        });
        let extra = extra
            .iter()
            .filter(|token| !is_listed(token.content()))
            .map(whole)
            .collect();
        let named = named
            .into_iter()
            .map(|(name, token)| (name, token.content().to_owned()))
            .collect();
        let mut tokens = Self {
            listed,
            named,
            special,
            extra,
            extra_is_listed,
        };
        if class == TokenizerClass::Qwen2 {
            tokens.forget_flags();
        }
        Ok(tokens)
    }

    /// Adds all special tokens without the flags that files give them (`Qwen2Tokenizer.__init__` does so at its end).
    fn forget_flags(&mut self) {
        let extra = self.extra.iter().map(|token| token.content.clone());
        let all: Vec<String> = self.named.values().cloned().chain(extra).collect();
        let tokens = self.listed.iter_mut().chain(&mut self.special).chain(&mut self.extra);
        for token in tokens.filter(|token| all.contains(&token.content)) {
            *token = AddedToken::from(token.content.clone(), true);
        }
    }

    /// One more special token.
    pub(super) fn add_special(&mut self, content: &str) {
        if !self.listed.iter().any(|listed| listed.content == content) {
            self.special.push(AddedToken::from(content, true));
        }
    }

    /// The text of a special token.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// Gives the tokens of a file that is kept as it is the flags with which another file lists them.
    pub(super) fn restate(&self, file: &mut Map<String, Value>) {
        let Some(tokens) = file.get_mut("added_tokens").and_then(Value::as_array_mut) else {
            return;
        };
        for token in tokens {
            let listed = self
                .listed
                .iter()
                .rfind(|listed| token.get("content") == Some(&json!(listed.content)));
            if let (Some(listed), Some(fields)) = (listed, token.as_object_mut()) {
                let listed = self.as_special(listed);
                for (name, value) in flags(&listed) {
                    fields.insert(name.to_owned(), json!(value));
                }
            }
        }
    }

    /// Adds them to a tokenizer whose network has `table_rows` token vectors.
    pub(super) fn add_to(&self, inner: &mut Tokenizer, path: &Path, table_rows: usize) -> Result<(), Error> {
        let known: Vec<AddedToken> = inner.get_added_tokens_decoder().into_values().collect();
        // Of a file that is kept as it is, only what is new.
        let listed = self.listed.iter().filter(|token| !known.contains(token));
        let is_new = |token: &&AddedToken| !known.iter().any(|known| known.content == token.content);
        let special = self.special.iter().chain(&self.extra).filter(is_new);
        let all = last_of_each(listed.chain(special).map(|token| self.as_special(token)));
        let mut trial = inner.clone();
        trial.add_tokens(&all);
        let beyond = |token: &AddedToken| {
            trial
                .token_to_id(&token.content)
                .is_none_or(|id| id as usize >= table_rows)
        };
        let has = |tokens: &[AddedToken], content: &str| tokens.iter().any(|token| token.content == content);
        let named_by_files = |token: &&AddedToken| {
            has(&self.listed, &token.content) || (self.extra_is_listed && has(&self.extra, &token.content))
        };
        if let Some(token) = all.iter().filter(named_by_files).find(|token| beyond(token)) {
            let id = trial.token_to_id(&token.content).unwrap_or(u32::MAX);
            let reason = format!(
                "the added token `{}` has the id {id}, the model's table has {table_rows} rows. Fetch both from one place",
                token.content
            );
            return Err(Error::Tokenizer {
                path: path.to_owned(),
                reason,
            });
        }
        // Ids grow, so that leaving out those beyond the table changes no other.
        let kept: Vec<AddedToken> = all.iter().filter(|token| !beyond(token)).cloned().collect();
        inner.add_tokens(&kept);
        Ok(())
    }

    /// What has a name as a special token is one, whatever the list says.
    fn as_special(&self, token: &AddedToken) -> AddedToken {
        let mut token = token.clone();
        token.special |= self.named.values().any(|content| *content == token.content);
        token
    }
}

/// One token of each text, at the place of its first with the flags of its last: files can name one token twice, with
/// other flags.
fn last_of_each(tokens: impl Iterator<Item = AddedToken>) -> Vec<AddedToken> {
    let mut unique: Vec<AddedToken> = Vec::new();
    for token in tokens {
        match unique.iter_mut().find(|known| known.content == token.content) {
            Some(known) => *known = token,
            None => unique.push(token),
        }
    }
    unique
}

/// A file's added tokens in the order of their ids.
pub(super) fn sorted(listed: Option<&Value>) -> Value {
    let mut tokens = listed.and_then(Value::as_array).cloned().unwrap_or_default();
    tokens.sort_by_key(|token| token.get("id").and_then(Value::as_u64));
    Value::Array(tokens)
}

/// Added tokens of a tokenizer in the order of their ids, as `tokenizer.json` has them.
pub(super) fn listed(inner: &Tokenizer) -> Value {
    let tokens: BTreeMap<u32, AddedToken> = inner.get_added_tokens_decoder().into_iter().collect();
    let listed = tokens.into_iter().map(|(id, token)| {
        let mut fields = Map::from_iter([
            ("id".to_owned(), json!(id)),
            ("content".to_owned(), json!(token.content)),
        ]);
        fields.extend(flags(&token).map(|(name, value)| (name.to_owned(), json!(value))));
        Value::Object(fields)
    });
    Value::Array(listed.collect())
}

/// How a token is matched, by the names of `tokenizer.json`.
fn flags(token: &AddedToken) -> [(&'static str, bool); 5] {
    [
        ("single_word", token.single_word),
        ("lstrip", token.lstrip),
        ("rstrip", token.rstrip),
        ("normalized", token.normalized),
        ("special", token.special),
    ]
}

/// How a class matches a special token that is named by its text alone: the masks of MPNet and CamemBERT with the space
/// before them.
fn class_token(class: TokenizerClass, attribute: &str, content: &str) -> StatedToken {
    let mut token = AddedToken::from(content, true);
    let is_mask = attribute == "mask_token";
    match class {
        TokenizerClass::MpNet | TokenizerClass::Camembert if is_mask => token.lstrip = true,
        _ => return StatedToken::Text(content.to_owned()),
    }
    StatedToken::Whole(token)
}

fn whole(token: &StatedToken) -> AddedToken {
    match token {
        StatedToken::Text(content) => AddedToken::from(content.clone(), true),
        StatedToken::Whole(token) => token.clone(),
    }
}

/// Standard attributes first, in the order in which transformers keeps them.
fn place(attribute: &str) -> usize {
    let standard = [
        "bos_token",
        "eos_token",
        "unk_token",
        "sep_token",
        "pad_token",
        "cls_token",
        "mask_token",
    ];
    standard
        .iter()
        .position(|name| *name == attribute)
        .unwrap_or(standard.len())
}

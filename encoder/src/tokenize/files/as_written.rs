//! The tokenizer of a static model: one file of the tokenizers library as it is, without special tokens around a text.

use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::{PostProcessorWrapper, Tokenizer};

use super::opened::{OpenedTokenizer, StaticTexts, kind_of_model, parse, truncates_left};
use super::settings::TokenizerSettings;
use crate::config::{JsonFile, StaticTokenizer};
use crate::error::Error;

/// Opens the tokenizer in `folder` of a table with `rows` rows.
pub(super) fn open(folder: &Path, tokenizer: &StaticTokenizer, rows: usize) -> Result<OpenedTokenizer, Error> {
    let path = folder.join(&tokenizer.file);
    let mut facts = JsonFile::required(&path)?.into_fields();
    let mut inner = parse(&path, &facts)?;
    inner.with_post_processor(None::<PostProcessorWrapper>);
    let truncates_left = !tokenizer.is_model2vec && truncates_left(&TokenizerSettings::default(), &facts)?;
    let refuse = |reason: String| Error::Tokenizer {
        path: path.clone(),
        reason,
    };
    let mut of_static = StaticTexts {
        dropped: None,
        characters: None,
        no_token: u32::try_from(rows).map_err(|_| refuse(format!("the model's table has {rows} rows")))?,
    };
    if tokenizer.is_model2vec {
        of_static.dropped = unknown(&inner, &facts);
        of_static.characters = Some(median_characters(&inner));
    }
    for name in ["truncation", "padding", "post_processor"] {
        facts.shift_remove(name);
    }
    if tokenizer.is_model2vec {
        let rules = json!({"dropped": of_static.dropped, "characters": of_static.characters});
        facts.insert("model2vec".to_owned(), rules);
    }
    if truncates_left {
        facts.insert("truncation_side".to_owned(), json!("left"));
    }
    Ok(OpenedTokenizer {
        inner,
        facts: Value::Object(facts),
        path,
        truncates_left,
        gives_types: false,
        of_static: Some(of_static),
    })
}

/// The unknown token, as model2vec looks for it: by its text, or in a Unigram by its place.
fn unknown(inner: &Tokenizer, fields: &Map<String, Value>) -> Option<u32> {
    let model = fields.get("model")?;
    if kind_of_model(fields) == Some("Unigram") {
        return model.get("unk_id")?.as_u64()?.try_into().ok();
    }
    inner.token_to_id(model.get("unk_token")?.as_str()?)
}

/// The median number of characters of a token, the mean of two rounded down.
fn median_characters(inner: &Tokenizer) -> usize {
    let vocabulary = inner.get_vocab(true);
    let mut lengths: Vec<usize> = vocabulary.keys().map(|token| token.chars().count()).collect();
    lengths.sort_unstable();
    let at = |place: usize| lengths.get(place).copied().unwrap_or_default();
    let middle = lengths.len() / 2;
    if lengths.len().is_multiple_of(2) {
        at(middle.saturating_sub(1)).midpoint(at(middle))
    } else {
        at(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_that_of_characters_and_rounded_down() {
        let tokenizer = |tokens: &[&str]| {
            let vocabulary: Map<String, Value> = (0..)
                .zip(tokens)
                .map(|(id, token)| ((*token).to_owned(), json!(id)))
                .collect();
            let fields = json!({
                "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
                "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": tokens[0]},
            });
            let fields = fields.as_object().unwrap().clone();
            (parse(Path::new("tokenizer.json"), &fields).unwrap(), fields)
        };
        let (inner, fields) = tokenizer(&["[UNK]", "a", "b\u{e9}"]);
        assert_eq!((median_characters(&inner), unknown(&inner, &fields)), (2, Some(0)));
        assert_eq!(median_characters(&tokenizer(&["[UNK]", "abcd", "b", "c"]).0), 2);
    }
}

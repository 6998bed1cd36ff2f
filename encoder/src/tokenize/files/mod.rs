//! A tokenizer from its files, as transformers 5 makes it of them: class, settings, steps and added tokens.
//!
//! | file | what |
//! |---|---|
//! | `opened.rs` | what is made of the files |
//! | `class.rs` | which tokenizer class, and what it brings along |
//! | `settings.rs` | `tokenizer_config.json` and its older companions |
//! | `pipeline.rs` | the steps that a class builds |
//! | `added.rs` | the tokens that are added to the vocabulary |
//! | `as_written.rs` | that of a static model, which is one file |
//! | `vocabulary.rs` | `vocab.txt` in place of `tokenizer.json` |

mod added;
mod as_written;
mod class;
mod opened;
mod pipeline;
mod settings;
mod vocabulary;

use std::path::Path;

use serde_json::{Value, json};
use tokenizers::normalizers::{Lowercase, Sequence};
use tokenizers::{NormalizerWrapper, PostProcessorWrapper, Tokenizer};

use added::AddedTokens;
use class::TokenizerClass;
pub(super) use opened::{OpenedTokenizer, StaticTexts};
use opened::{kind_of_model, parse, truncates_left};
use pipeline::{TokenFrame, post_processor, rebuild, same_frame};
use settings::TokenizerSettings;
use vocabulary::TokenizerFile;

use crate::config::{TokenizerSource, read_value, registered_class};
use crate::error::Error;

/// Opens the tokenizer in `folder`, for a network whose table has `table_rows` rows.
pub(super) fn open(folder: &Path, source: &TokenizerSource, table_rows: usize) -> Result<OpenedTokenizer, Error> {
    if let Some(tokenizer) = &source.of_static {
        return as_written::open(folder, tokenizer, table_rows);
    }
    let json_path = folder.join("tokenizer.json");
    let written = read_value(&json_path)?;
    let settings = TokenizerSettings::read(folder, &source.processor_kwargs, written.as_ref())?;
    let TokenizerFile {
        mut fields,
        word_list,
        path,
    } = match written {
        Some(value) => TokenizerFile::of_json(json_path, value)?,
        None => TokenizerFile::of_word_list(folder)?,
    };
    let class = match stated_class(folder, source, &settings)? {
        Some(class) => class,
        // A recurrent encoder of ours; older ones do not say which tokenizer they have.
        None if kind_of_model(&fields) == Some("WordPiece") => TokenizerClass::Bert,
        None => TokenizerClass::AsWritten,
    };
    if word_list.is_some() && class.model() != Some("WordPiece") {
        let reason = format!("it is a word list of BERT, and the tokenizer class {class:?} needs `tokenizer.json`");
        return Err(Error::Tokenizer { path, reason });
    }
    if class == TokenizerClass::BertAsWritten && kind_of_model(&fields) != Some("WordPiece") {
        let got = kind_of_model(&fields).unwrap_or("none");
        let class = settings.text("tokenizer_class")?.unwrap_or("of the model type");
        let reason = format!(
            "its model is {got}, and the tokenizer class (`{class}`) needs WordPiece. Fetch both from one place, or set `tokenizer_class` to the class that made it"
        );
        return Err(Error::Tokenizer { path, reason });
    }
    let truncates_left = truncates_left(&settings, &fields)?;
    let mut added = AddedTokens::of(class, &settings)?;
    let listed_in_file = fields.get("added_tokens").cloned();
    let mut changed = Vec::new();
    if class.is_rebuilt() {
        changed = rebuild(
            &mut fields,
            &path,
            class,
            &settings,
            added.attribute("unk_token").unwrap_or_default(),
        )?;
        fields.insert("added_tokens".to_owned(), json!([]));
    } else {
        added.restate(&mut fields);
        if let (TokenizerClass::AsWritten, Some(token)) = (class, settings.of_padding()) {
            added.add_special(token);
        }
    }
    let mut inner = parse(&path, &fields)?;
    added.add_to(&mut inner, &path, table_rows)?;
    let framed = match frame(&inner, &added, &path, class)? {
        Some(frame) => set_post_processor(&mut inner, post_processor(class, &frame), &path)?,
        None => false,
    };

    // The digest is taken over the file as it is, but for what is not so here.
    let mut facts = match word_list {
        None => fields,
        Some(digest) => {
            let only = |name: &&'static str| Some(((*name).to_owned(), without_vocabulary(fields.get(*name)?)));
            let changed = changed.iter().filter_map(only);
            changed.chain([("vocab.txt".to_owned(), json!(digest))]).collect()
        }
    };
    facts.shift_remove("truncation");
    facts.shift_remove("padding");
    if let Some(NormalizerWrapper::BertNormalizer(normalizer)) = inner.get_normalizer() {
        facts.insert("normalizer".to_owned(), pipeline::bert_normalizer(*normalizer));
    }
    facts.shift_remove("added_tokens");
    let now = added::listed(&inner);
    if now != added::sorted(listed_in_file.as_ref()) {
        facts.insert("added_tokens".to_owned(), now);
    } else if let (Some(listed), false) = (listed_in_file, facts.contains_key("vocab.txt")) {
        facts.insert("added_tokens".to_owned(), listed);
    }
    if framed {
        facts.insert("post_processor".to_owned(), json!(inner.get_post_processor()));
    }
    if settings.flag("split_special_tokens")?.unwrap_or(false) {
        inner.set_encode_special_tokens(true);
        facts.insert("split_special_tokens".to_owned(), json!(true));
    }
    if truncates_left {
        facts.insert("truncation_side".to_owned(), json!("left"));
    }
    let gives_types = settings
        .lists("model_input_names", "token_type_ids")?
        .unwrap_or(class.gives_types());
    Ok(OpenedTokenizer {
        inner,
        facts: Value::Object(facts),
        path,
        truncates_left,
        gives_types,
        of_static: None,
    })
}

/// The class that a file names, or that of the model type; none where neither is known.
fn stated_class(
    folder: &Path,
    source: &TokenizerSource,
    settings: &TokenizerSettings,
) -> Result<Option<TokenizerClass>, Error> {
    // transformers does not believe what these models say (`MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS`).
    if source.model_type == "modernbert" {
        return Ok(Some(TokenizerClass::AsWritten));
    }
    let (config, kwargs) = (folder.join("config.json"), folder.join("sentence_bert_config.json"));
    let of_settings = settings
        .text("tokenizer_class")?
        .map(|name| (settings.origin("tokenizer_class"), name));
    // `processor_kwargs` replace the class of `config.json`, where there is one, and add none
    // (`AutoTokenizer.from_pretrained`, transformers 5).
    let given = source.processor_kwargs.get("tokenizer_class").and_then(Value::as_str);
    let of_config = source
        .class
        .as_deref()
        .map(|name| given.map_or((&*config, name), |given| (&*kwargs, given)));
    let registered = registered_class(&source.model_type).map(|name| (&*config, name));
    let named = of_settings.or(of_config).or(registered);
    named
        .map(|(path, name)| TokenizerClass::of(path, name, &source.model_type))
        .transpose()
}

/// Brings texts to lower case before anything else is done to them, as sentence-transformers does for `do_lower_case`
/// of `sentence_bert_config.json`; special tokens in a text stay what they are. Whether that brings to lower case what
/// would not be.
pub(super) fn lower_case_first(inner: &mut Tokenizer) -> bool {
    let known = inner.get_normalizer().cloned();
    let lowers = |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::Lowercase(_));
    let steps = match known {
        Some(NormalizerWrapper::Sequence(sequence)) => sequence.as_ref().to_vec(),
        other => other.into_iter().collect(),
    };
    let is_of_bert =
        |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::BertNormalizer(bert) if bert.lowercase);
    let lowers_anyway = steps.iter().any(|step| lowers(step) || is_of_bert(step));
    if !steps.iter().any(lowers) {
        let first = NormalizerWrapper::Lowercase(Lowercase);
        let steps: Vec<NormalizerWrapper> = std::iter::once(first).chain(steps).collect();
        inner.with_normalizer(Some(Sequence::new(steps)));
        // Added tokens are looked for in normalised text as it is now.
        inner.add_tokens(&[]);
    }
    !lowers_anyway
}

fn without_vocabulary(step: &Value) -> Value {
    let mut step = step.clone();
    if let Some(fields) = step.as_object_mut() {
        fields.shift_remove("vocab");
    }
    step
}

/// The tokens that the class's post-processor puts around a text, which have to be in the vocabulary; nothing where
/// that of the file counts.
fn frame(
    inner: &Tokenizer,
    added: &AddedTokens,
    path: &Path,
    class: TokenizerClass,
) -> Result<Option<TokenFrame>, Error> {
    let [begin, end] = match class {
        class if class.keeps_frame() => return Ok(None),
        TokenizerClass::XlmRoberta | TokenizerClass::Camembert => ["bos_token", "eos_token"],
        TokenizerClass::T5 => ["eos_token", "eos_token"],
        _ => ["cls_token", "sep_token"],
    };
    Ok(Some(TokenFrame {
        begin: special_token(inner, added, path, begin)?,
        end: special_token(inner, added, path, end)?,
    }))
}

/// The token that is an attribute of the tokenizer, and its id.
fn special_token(inner: &Tokenizer, added: &AddedTokens, path: &Path, attribute: &str) -> Result<(String, u32), Error> {
    let content = added.attribute(attribute).unwrap_or_default();
    match inner.token_to_id(content) {
        Some(id) => Ok((content.to_owned(), id)),
        None => Err(Error::Tokenizer {
            path: path.to_owned(),
            reason: format!("`{content}`, its `{attribute}`, is not in the vocabulary"),
        }),
    }
}

/// Whether the tokenizer had another one.
fn set_post_processor(inner: &mut Tokenizer, template: Value, path: &Path) -> Result<bool, Error> {
    let failed = |error: serde_json::Error| Error::Tokenizer {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let template: PostProcessorWrapper = serde_json::from_value(template).map_err(failed)?;
    let same = inner
        .get_post_processor()
        .is_some_and(|known| same_frame(known, &template));
    if !same {
        inner.with_post_processor(Some(template));
    }
    Ok(!same)
}

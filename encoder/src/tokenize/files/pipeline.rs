//! The steps of a tokenizer that transformers 5 builds from a vocabulary: normaliser, pre-tokenizer, model and
//! post-processor by class.
//!
//! They are put into the content of `tokenizer.json` where that has others, and nothing is touched where it has the
//! same: the digest of a tokenizer is taken over that content.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use serde_json::{Map, Value, json};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{Encoding, NormalizerWrapper, PostProcessor, PostProcessorWrapper, PreTokenizerWrapper, Token};

use super::class::TokenizerClass;
use super::settings::TokenizerSettings;
use crate::error::Error;

/// SentencePiece's space.
const META: &str = "\u{2581}";

/// Where Qwen2's tokenizer splits texts (`PRETOKENIZE_REGEX` of transformers).
const QWEN2_SPLIT: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Puts the class's normaliser, pre-tokenizer and model into the content of `tokenizer.json` at `path`, and names those
/// that it had otherwise.
pub(super) fn rebuild(
    file: &mut Map<String, Value>,
    path: &Path,
    class: TokenizerClass,
    settings: &TokenizerSettings,
    unknown: &str,
) -> Result<Vec<&'static str>, Error> {
    let mut changed = Vec::new();
    let kind = class.model().unwrap_or_default();
    let model = file.entry("model").or_insert(Value::Null);
    let Some(fields) = model.as_object_mut() else {
        let (expected, got) = ("an object".into(), model.to_string());
        return Err(Error::Field {
            path: path.to_owned(),
            field: "model",
            expected,
            got,
        });
    };
    // Files of old versions do not name the kind.
    let stated = fields.get("type").and_then(Value::as_str).unwrap_or(kind);
    if stated != kind {
        let reason = format!(
            "its model is {stated}, and the tokenizer class of `{}` (or of `config.json`, or of the model type) is {class:?}, which needs \
             {kind}. Fetch both from one place, or set `tokenizer_class` to the class that made it",
            settings.origin("tokenizer_class").display()
        );
        return Err(Error::Tokenizer {
            path: path.to_owned(),
            reason,
        });
    }
    let mut model_changed = false;
    for (name, value, otherwise) in model_settings(class, fields, unknown) {
        model_changed |= set_unless(fields, name, value, &otherwise);
    }
    if model_changed {
        changed.push("model");
    }
    let pre_tokenizer = pre_tokenizer(class, settings)?;
    let known = file.get("pre_tokenizer").unwrap_or(&Value::Null);
    if canonical_pre_tokenizer(known) != canonical_pre_tokenizer(&pre_tokenizer) {
        file.insert("pre_tokenizer".to_owned(), pre_tokenizer);
        changed.push("pre_tokenizer");
    }
    let known = file.get("normalizer").unwrap_or(&Value::Null);
    let normalizer = normalizer(class, settings, known)?;
    if canonical_normalizer(known, kind == "Unigram") != canonical_normalizer(&normalizer, kind == "Unigram") {
        file.insert("normalizer".to_owned(), normalizer);
        changed.push("normalizer");
    }
    Ok(changed)
}

/// Sets a field, unless the file says the same, or nothing where that means it. Whether it did.
fn set_unless(fields: &mut Map<String, Value>, name: &str, value: Value, otherwise: &Value) -> bool {
    let known = fields.get(name).filter(|known| !known.is_null()).unwrap_or(otherwise);
    let differs = *known != value;
    if differs {
        fields.insert(name.to_owned(), value);
    }
    differs
}

/// BERT's normaliser with all that it depends on.
pub(super) fn bert_normalizer(normalizer: BertNormalizer) -> Value {
    json!({
        "type": "BertNormalizer",
        "clean_text": normalizer.clean_text,
        "handle_chinese_chars": normalizer.handle_chinese_chars,
        "strip_accents": normalizer.strip_accents,
        "lowercase": normalizer.lowercase,
    })
}

/// Fields of the model other than its vocabulary: name, value, and what a file means that leaves it out.
fn model_settings(
    class: TokenizerClass,
    fields: &Map<String, Value>,
    unknown: &str,
) -> Vec<(&'static str, Value, Value)> {
    match class.model() {
        Some("WordPiece") => vec![
            ("unk_token", json!(unknown), Value::Null),
            ("continuing_subword_prefix", json!("##"), json!("##")),
            ("max_input_chars_per_word", json!(100), json!(100)),
        ],
        Some("BPE") if class == TokenizerClass::Gemma => vec![
            ("unk_token", json!(unknown), Value::Null),
            ("dropout", Value::Null, Value::Null),
            ("continuing_subword_prefix", Value::Null, Value::Null),
            ("end_of_word_suffix", Value::Null, Value::Null),
            ("fuse_unk", json!(true), json!(false)),
            ("byte_fallback", json!(true), json!(false)),
            ("ignore_merges", json!(false), json!(false)),
        ],
        Some("BPE") => vec![
            ("unk_token", Value::Null, Value::Null),
            ("dropout", Value::Null, Value::Null),
            ("continuing_subword_prefix", json!(""), json!("")),
            ("end_of_word_suffix", json!(""), json!("")),
            ("fuse_unk", json!(false), json!(false)),
            ("byte_fallback", json!(false), json!(false)),
            ("ignore_merges", json!(false), json!(false)),
        ],
        _ => {
            let unk_id = match class {
                TokenizerClass::T5 => 2,
                TokenizerClass::Camembert => place_of(fields, unknown).unwrap_or(0),
                _ => 3,
            };
            vec![
                ("unk_id", json!(unk_id), Value::Null),
                ("byte_fallback", json!(false), json!(false)),
            ]
        }
    }
}

/// Place of a token in a vocabulary of pieces and their scores.
fn place_of(fields: &Map<String, Value>, token: &str) -> Option<usize> {
    let pieces = fields.get("vocab")?.as_array()?;
    pieces
        .iter()
        .position(|piece| piece.get(0).and_then(Value::as_str) == Some(token))
}

fn normalizer(class: TokenizerClass, settings: &TokenizerSettings, known: &Value) -> Result<Value, Error> {
    Ok(match class.model() {
        Some("WordPiece") => {
            let lower_case = match class {
                TokenizerClass::Dpr => None,
                _ => settings.flag("do_lower_case")?,
            };
            bert_normalizer(BertNormalizer::new(
                true,
                settings.flag("tokenize_chinese_chars")?.unwrap_or(true),
                settings.flag("strip_accents")?,
                lower_case.unwrap_or(true),
            ))
        }
        Some("Unigram") => {
            let steps = steps(known, "normalizers");
            let precompiled = |step: &&Value| step.get("type").and_then(Value::as_str) == Some("Precompiled");
            steps.iter().find(precompiled).cloned().unwrap_or(Value::Null)
        }
        _ => match class {
            TokenizerClass::Qwen2 => json!({"type": "NFC"}),
            TokenizerClass::Gemma => json!({"type": "Replace", "pattern": {"String": " "}, "content": META}),
            _ => Value::Null,
        },
    })
}

fn pre_tokenizer(class: TokenizerClass, settings: &TokenizerSettings) -> Result<Value, Error> {
    let prefix = settings.flag("add_prefix_space")?;
    Ok(match class.model() {
        Some("WordPiece") => json!({"type": "BertPreTokenizer"}),
        Some("BPE") if class == TokenizerClass::Gemma => json!({
            "type": "Split",
            "pattern": {"String": " "},
            "behavior": "MergedWithPrevious",
            "invert": false,
        }),
        Some("BPE") if class == TokenizerClass::Qwen2 => json!({
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": QWEN2_SPLIT}, "behavior": "Isolated", "invert": false},
                byte_level(prefix.unwrap_or(false), false),
            ],
        }),
        Some("BPE") => byte_level(prefix.unwrap_or(false), true),
        _ => {
            let always = class == TokenizerClass::T5 || prefix.unwrap_or(true);
            let scheme = if always { "always" } else { "never" };
            json!({
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    {"type": "Metaspace", "replacement": META, "prepend_scheme": scheme, "split": true},
                ],
            })
        }
    })
}

fn byte_level(add_prefix_space: bool, use_regex: bool) -> Value {
    json!({
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": true,
        "use_regex": use_regex,
    })
}

/// The steps of a sequence, or the only one.
fn steps(step: &Value, name: &str) -> Vec<Value> {
    match step.get(name).and_then(Value::as_array) {
        Some(steps) => steps.clone(),
        None if step.is_null() => Vec::new(),
        None => vec![step.clone()],
    }
}

/// As the library writes a pre-tokenizer, without what changes no token; the value itself where it is none.
fn canonical_pre_tokenizer(value: &Value) -> Value {
    let read = serde_json::from_value::<Option<PreTokenizerWrapper>>(value.clone());
    let mut written = read
        .ok()
        .and_then(|read| serde_json::to_value(read).ok())
        .unwrap_or_else(|| value.clone());
    forget_offsets(&mut written);
    written
}

/// Takes out of a pre-tokenizer, and of the steps inside, what changes offsets alone.
fn forget_offsets(step: &mut Value) {
    let Some(fields) = step.as_object_mut() else { return };
    fields.shift_remove("trim_offsets");
    let inside = fields.get_mut("pretokenizers").and_then(Value::as_array_mut);
    inside.into_iter().flatten().for_each(forget_offsets);
}

/// As the library writes a normaliser; the value itself where it is none. What only joins spaces is left out before a
/// pre-tokenizer that splits at every run of them.
fn canonical_normalizer(value: &Value, splits_at_spaces: bool) -> Value {
    let mut steps = steps(value, "normalizers");
    if splits_at_spaces {
        steps.retain(|step| !joins_spaces(step));
    }
    Value::Array(steps.into_iter().map(rewrite_normalizer).collect())
}

/// Whether a normaliser replaces several spaces by one.
fn joins_spaces(step: &Value) -> bool {
    let text = |name: &str| step.get(name).and_then(Value::as_str);
    let pattern = step
        .get("pattern")
        .and_then(|pattern| pattern.get("Regex"))
        .and_then(Value::as_str);
    text("type") == Some("Replace") && pattern == Some(" {2,}") && text("content") == Some(" ")
}

/// One normaliser as the library writes it.
fn rewrite_normalizer(step: Value) -> Value {
    // The table of a `Precompiled` is trusted by its reader, which panics where it is damaged.
    let read = catch_unwind(|| serde_json::from_value::<NormalizerWrapper>(step.clone()).ok());
    read.ok()
        .flatten()
        .and_then(|read| serde_json::to_value(read).ok())
        .unwrap_or(step)
}

/// The special tokens that a post-processor puts around texts.
#[derive(Debug, Clone)]
pub(super) struct TokenFrame {
    pub(super) begin: (String, u32),
    pub(super) end: (String, u32),
}

/// The class's post-processor.
pub(super) fn post_processor(class: TokenizerClass, frame: &TokenFrame) -> Value {
    let TokenFrame {
        begin: (begin, begin_id),
        end: (end, end_id),
    } = frame;
    let token = |name: &str, id: u32| json!({"id": name, "ids": [id], "tokens": [name]});
    let special = |name: &str, of_type: u32| json!({"SpecialToken": {"id": name, "type_id": of_type}});
    let text = |name: &str, of_type: u32| json!({"Sequence": {"id": name, "type_id": of_type}});
    let (single, pair) = match class {
        TokenizerClass::T5 => (
            vec![text("A", 0), special(end, 0)],
            vec![text("A", 0), special(end, 0), text("B", 0), special(end, 0)],
        ),
        TokenizerClass::MpNet | TokenizerClass::Roberta | TokenizerClass::XlmRoberta | TokenizerClass::Camembert => (
            vec![special(begin, 0), text("A", 0), special(end, 0)],
            vec![
                special(begin, 0),
                text("A", 0),
                special(end, 0),
                special(end, 0),
                text("B", 0),
                special(end, 0),
            ],
        ),
        _ => (
            vec![special(begin, 0), text("A", 0), special(end, 0)],
            vec![
                special(begin, 0),
                text("A", 0),
                special(end, 0),
                text("B", 1),
                special(end, 1),
            ],
        ),
    };
    let tokens = if class == TokenizerClass::T5 {
        json!({ end.as_str(): token(end, *end_id) })
    } else {
        json!({ begin.as_str(): token(begin, *begin_id), end.as_str(): token(end, *end_id) })
    };
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
}

/// Whether two post-processors put the same around one text and around two.
pub(super) fn same_frame(one: &PostProcessorWrapper, other: &PostProcessorWrapper) -> bool {
    let text = |id: u32| Encoding::from_tokens(vec![Token::new(id, String::new(), (0, 0))], 0);
    let processed = |by: &PostProcessorWrapper, pair: bool| {
        let process = || by.process(text(u32::MAX), pair.then(|| text(u32::MAX - 1)), true);
        // Of a file, it may name what is not there, which panics.
        let encoding = catch_unwind(AssertUnwindSafe(process)).ok()?.ok()?;
        Some((encoding.get_ids().to_vec(), encoding.get_type_ids().to_vec()))
    };
    [false, true].into_iter().all(|pair| {
        let (a, b) = (processed(one, pair), processed(other, pair));
        a.is_some() && a == b
    })
}

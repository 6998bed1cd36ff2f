//! Tokenizers of every kind against themselves: what is tokenized in part has the ids of what is tokenized whole.

use std::sync::LazyLock;

use dyad_corpus::{CorpusReader, ReadOptions};
use proptest::prelude::*;
use serde_json::json;

use super::super::tokenizer::{Splitter, SplitterSettings};
use super::*;
use crate::config::TokenizerSource;

const WORDS: [&str; 12] = [
    "the",
    "river",
    "ri",
    "##ver",
    "a",
    "b",
    "##b",
    "[UNK]",
    "\u{2581}the",
    "\u{2581}",
    "\u{4e2d}",
    "s",
];

/// A tokenizer of these steps, as `tokenizer.json` has it.
fn splitter(normalizer: &Value, pre_tokenizer: &Value, model: &Value, added: &Value, lower_case: bool) -> Splitter {
    let folder = tempfile::tempdir().unwrap();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model,
    });
    fs_err::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
    // As it is, whatever its steps are.
    let source = TokenizerSource {
        class: Some("PreTrainedTokenizerFast".into()),
        ..TokenizerSource::default()
    };
    let settings = SplitterSettings {
        max_tokens: 6,
        lower_case,
        vocab_size: 1000,
        source,
        ..SplitterSettings::default()
    };
    Splitter::open(folder.path(), &settings).unwrap()
}

fn word_piece() -> Value {
    let vocab: serde_json::Map<String, Value> = WORDS
        .iter()
        .enumerate()
        .map(|(id, word)| (word.to_string(), json!(id)))
        .collect();
    json!({"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
        "vocab": vocab})
}

fn unigram() -> Value {
    let letters = "abcdeghinrstv\u{2581}\u{3b1}\u{3c3}\u{3c2} .'"
        .chars()
        .map(|c| json!([c.to_string(), -4.0]));
    let words = [
        json!(["<unk>", 0.0]),
        json!(["\u{2581}the", -1.0]),
        json!(["ver", -1.5]),
        json!(["\u{2581}ri", -1.2]),
    ];
    json!({"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": words.into_iter().chain(letters).collect::<Vec<_>>()})
}

/// Byte-level BPE: every byte's letter, and some merges.
fn bpe() -> Value {
    let mut letters: Vec<String> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .map(String::from)
        .collect();
    letters.sort();
    letters.extend(["th", "the", "\u{120}the", "\u{120}\u{120}", "er"].map(String::from));
    let vocab: serde_json::Map<String, Value> = letters
        .into_iter()
        .enumerate()
        .map(|(id, word)| (word, json!(id)))
        .collect();
    json!({"type": "BPE", "vocab": vocab, "merges": [["t", "h"], ["th", "e"], ["\u{120}", "the"], ["\u{120}", "\u{120}"], ["e", "r"]]})
}

fn special(content: &str, options: [bool; 4]) -> Value {
    let [single_word, lstrip, rstrip, normalized] = options;
    json!({"id": 0, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
        "normalized": normalized, "special": true})
}

fn bert(lowercase: bool) -> Value {
    json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": lowercase})
}

/// A map of characters that maps nothing: the walk over graphemes is SentencePiece's all the same.
fn precompiled() -> Value {
    use base64::Engine;
    let map = [&1024_u32.to_le_bytes()[..], &[0; 1024]].concat();
    json!({"type": "Precompiled", "precompiled_charsmap": base64::prelude::BASE64_STANDARD.encode(map)})
}

fn metaspace() -> Value {
    json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true})
}

static FAMILIES: LazyLock<Vec<(&str, Splitter)>> = LazyLock::new(families);

/// Tokenizers that can be cut, by name.
fn families() -> Vec<(&'static str, Splitter)> {
    let bert_pre = json!({"type": "BertPreTokenizer"});
    let mask = |normalized| json!([special("[UNK]", [false, true, true, normalized])]);
    let sequence = |steps: Value| json!({"type": "Sequence", "normalizers": steps});
    let spaces = |content: &str| json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": content});
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let both = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace()]});
    let unk = || json!([special("<unk>", [false, true, false, false])]);
    vec![
        (
            "bert",
            splitter(&bert(true), &bert_pre, &word_piece(), &mask(false), false),
        ),
        (
            "bert cased",
            splitter(&bert(false), &bert_pre, &word_piece(), &mask(true), false),
        ),
        (
            "bert lowered",
            splitter(&bert(false), &bert_pre, &word_piece(), &mask(false), true),
        ),
        (
            "bert word",
            splitter(
                &bert(true),
                &bert_pre,
                &word_piece(),
                &json!([special("[UNK]", [true, false, false, false])]),
                false,
            ),
        ),
        (
            "xlm-r",
            splitter(
                &sequence(json!([precompiled(), strip, spaces("\u{2581}")])),
                &metaspace(),
                &unigram(),
                &unk(),
                false,
            ),
        ),
        (
            "t5",
            splitter(
                &sequence(json!([precompiled(), spaces(" ")])),
                &both,
                &unigram(),
                &unk(),
                false,
            ),
        ),
        (
            "unigram lowered",
            splitter(&json!({"type": "NFKC"}), &metaspace(), &unigram(), &unk(), true),
        ),
        (
            "roberta",
            splitter(
                &Value::Null,
                &byte_level,
                &bpe(),
                &json!([special("!", [false, true, true, false])]),
                false,
            ),
        ),
        (
            "modern",
            splitter(
                &json!({"type": "NFC"}),
                &byte_level,
                &bpe(),
                &json!([special("\"", [true, false, false, true])]),
                false,
            ),
        ),
    ]
}

fn same(splitter: &Splitter, name: &str, text: &str) {
    let whole = splitter.split_whole(text).unwrap();
    assert_eq!(splitter.split(text).unwrap(), whole, "{name}: {text:?}");
    if let Some(cuts) = &splitter.cuts {
        // Not only for what is kept: all tokens of every beginning are those of the text.
        let ids = |text: &str| splitter.content(text).unwrap();
        let all = ids(text);
        for bytes in 1..text.len() {
            if let Some(beginning) = cuts.beginning(text, bytes) {
                assert!(all.starts_with(&ids(beginning)), "{name}: {beginning:?} of {text:?}");
            }
        }
    }
}

#[test]
fn parts_have_the_ids_of_the_whole() {
    for (name, splitter) in &*FAMILIES {
        assert!(splitter.cuts.is_some(), "{name}");
        for text in [
            "the river the river",
            "the  river \n\t the\u{a0}river  a",
            "[UNK] the [UNK]  the [UNK",
            "<unk> the <unk>the <unk",
            "\u{4e2d}\u{4e2d}the\u{4e2d} \u{4e2d}",
            "e\u{301} \u{301}e a\u{301}\u{316} b",
            "\u{1f468}\u{200d}\u{1f469}  \u{1f469}\u{1f3fd} a",
            "\u{600} a \u{d4e} b",
            "\u{391}\u{3a3} \u{391} \u{391}\u{3a3}.\u{391} \u{391}\u{3a3}'s",
            "a\u{0}\u{1} \u{fffd} b",
            "a\u{37a} b",
            "! a !\"!  \"a\" the\"",
            "\u{fdfa} a \u{fe72} b",
            "\u{2581}the \u{2581} a",
            "it's the river's, a",
            "\u{e32}\u{e33} \u{e01}",
        ] {
            same(splitter, name, text);
            same(splitter, name, &text.repeat(5));
        }
    }
}

#[test]
fn long_texts_are_tokenized_in_part() {
    for (name, splitter) in &*FAMILIES {
        let text = "the river ".repeat(1000);
        let beginning = splitter
            .cuts
            .iter()
            .find_map(|cuts| cuts.beginnings(&text, 6).next())
            .unwrap();
        assert!(
            beginning.len() <= 48 && splitter.split_whole(beginning).unwrap().truncated,
            "{name}: {beginning}"
        );
        assert!(splitter.split(&text).unwrap().truncated, "{name}");
        // What has no cut, and what has few tokens, is tokenized whole.
        for text in [
            "a".repeat(5000),
            " ".repeat(5000),
            format!("the{}river", " ".repeat(5000)),
            "\u{e01}".repeat(3000),
        ] {
            same_split(splitter, name, &text);
        }
    }
}

fn same_split(splitter: &Splitter, name: &str, text: &str) {
    assert_eq!(
        splitter.split(text).unwrap(),
        splitter.split_whole(text).unwrap(),
        "{name}"
    );
}

#[test]
fn steps_that_look_further_are_given_the_whole_text() {
    let none = |normalizer: Value, pre_tokenizer: Value, model: Value, added: Value, name: &str| {
        let splitter = splitter(&normalizer, &pre_tokenizer, &model, &added, false);
        assert!(splitter.cuts.is_none(), "{name}");
        same_split(&splitter, name, &"the river ".repeat(100));
    };
    let whole = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": false});
    none(Value::Null, whole, unigram(), json!([]), "one pre-token");
    none(Value::Null, Value::Null, unigram(), json!([]), "no pre-tokenizer");
    let all = json!({"type": "Replace", "pattern": {"Regex": "a.*b"}, "content": "x"});
    none(all, metaspace(), unigram(), json!([]), "a pattern that reaches far");
    let gone = json!({"type": "Replace", "pattern": {"String": " "}, "content": ""});
    none(gone, metaspace(), unigram(), json!([]), "no spaces left");
    let phrase = json!([{"id": 0, "content": "the river", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": false}]);
    none(
        bert(true),
        json!({"type": "BertPreTokenizer"}),
        word_piece(),
        phrase.clone(),
        "a token of two words",
    );
    none(Value::Null, metaspace(), unigram(), phrase, "a token of two words");
}

#[test]
fn real_texts_have_the_ids_of_the_whole() {
    let (Some(model), Some(data)) = (std::env::var_os("DYAD_MODEL"), std::env::var_os("DYAD_DATA")) else {
        println!("skipped: DYAD_MODEL or DYAD_DATA is not set");
        return;
    };
    let settings = SplitterSettings {
        max_tokens: 64,
        vocab_size: 1 << 20,
        ..SplitterSettings::default()
    };
    let splitter = Splitter::open(std::path::Path::new(&model), &settings).unwrap();
    let mut texts = Vec::new();
    for name in ["scifact", "wikipedia-articles"] {
        let path = std::path::Path::new(&data).join(name).join("corpus.jsonl.gz");
        let read = CorpusReader::open(&path, &ReadOptions::default()).unwrap();
        texts.extend(read.take(150).map(|document| document.unwrap().value.text));
    }
    assert!(
        texts.len() == 300 && texts.iter().any(|text| text.len() > 10_000),
        "{}",
        texts.len()
    );
    for text in &texts {
        assert_eq!(
            splitter.split(text).unwrap(),
            splitter.split_whole(text).unwrap(),
            "{text}"
        );
    }
    // Long ones, whose beginnings end in many places.
    for part in texts.chunks(75) {
        same_split(&splitter, "long", &part.join(" "));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn odd_texts_have_the_ids_of_the_whole(
        parts in proptest::collection::vec(prop_oneof![
            Just("the".to_owned()), Just(" ".to_owned()), Just("  ".to_owned()), Just("[UNK]".to_owned()), Just("<unk>".to_owned()),
            Just("\u{3a3}".to_owned()), Just("\u{301}".to_owned()), Just("\u{4e2d}".to_owned()), Just("!".to_owned()),
            Just("\u{600}".to_owned()), Just("\u{2581}".to_owned()), Just("\n".to_owned()), any::<char>().prop_map(String::from),
            "[a-z' ]{1,6}",
        ], 1..40),
    ) {
        let text = parts.concat();
        for (name, splitter) in &*FAMILIES {
            same(splitter, name, &text);
        }
    }
}

//! Notes on words of a question that BM25 cannot search as they are meant: stop words alone, words of a length or a
//! script that an index does not analyse.

use tantivy::tokenizer::TextAnalyzer;
use unicode_script::{Script, UnicodeScript as _};

use super::analyzer::terms;
use super::cjk;
use super::words::{LongWords, MAX_WORD_BYTES, Words};
use crate::language::TextLanguage;

/// Words that a note names.
const NAMED: usize = 5;

/// What BM25 leaves out of a question, where that is all of it or a word of a length that no index holds.
pub fn question_note(language: TextLanguage, text: &str) -> Option<String> {
    let long = LongWords::default();
    let mut words = TextAnalyzer::builder(Words::counted(long.clone())).build();
    let mut all: Vec<String> = Vec::new();
    words
        .token_stream(text)
        .process(&mut |word| all.push(word.text.clone()));
    let is_cut = |c: char| !language.is_english() && cjk::is_cjk(c);
    if long.count() > 0 && !text.chars().any(is_cut) {
        let count = long.count();
        return Some(format!(
            "BM25 leaves out {count} words of {MAX_WORD_BYTES} bytes or more"
        ));
    }
    if !terms(language, text).is_empty() {
        return None;
    }
    let first: Vec<String> = all.iter().take(NAMED).map(|word| format!("`{word}`")).collect();
    let more = if all.len() > NAMED { ", ..." } else { "" };
    Some(match all.len() {
        0 => "the question has no word that BM25 could search".to_owned(),
        _ => format!(
            "the question has only stop words, which BM25 leaves out: {}{more}",
            first.join(", ")
        ),
    })
}

/// Which scripts of a question the analyzer of an index does not know: their words are found only as they are written.
///
/// Told of Chinese, Japanese and Korean where the index does not cut them into pairs of characters, and of other
/// scripts where no word of the question is in that of the language.
pub fn script_note(language: TextLanguage, text: &str) -> Option<String> {
    if text.is_ascii() && language.is_written_in(Script::Latin) {
        return None;
    }
    let letters = text.chars().filter(|c| c.is_alphabetic());
    let mut scripts: Vec<Script> = letters
        .map(|c| c.script())
        .filter(|script| is_of_words(*script))
        .collect();
    scripts.sort_unstable_by_key(|script| script.full_name());
    scripts.dedup();
    if language.is_english() && text.chars().any(cjk::is_cjk) {
        let names = names(scripts.into_iter().filter(|script| !language.is_written_in(*script)));
        return Some(format!(
            "BM25 of this index is English, and finds words in {names} only where they stand between spaces or punctuation; an index with \
             `build --language zh`, or `none` for several languages, finds them in sentences"
        ));
    }
    if scripts.is_empty() || scripts.iter().any(|script| language.is_written_in(*script)) {
        return None;
    }
    Some(format!(
        "BM25 of this index is {}, and finds words in {} only in the form in which they are written",
        language.name(),
        names(scripts)
    ))
}

/// Whether letters of a script say which one a word is of.
fn is_of_words(script: Script) -> bool {
    !matches!(script, Script::Common | Script::Inherited | Script::Unknown)
}

fn names(scripts: impl IntoIterator<Item = Script>) -> String {
    let names: Vec<&str> = scripts.into_iter().map(Script::full_name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_not_analysed_are_named() {
        let note = |language, text| script_note(language, text);
        let english = note(TextLanguage::English, "Berlin 首都").unwrap();
        assert!(
            english.contains("in Han only") && english.contains("--language zh"),
            "{english}"
        );
        assert!(note(TextLanguage::English, "データ").unwrap().contains("Katakana"));
        let russian = note(TextLanguage::English, "столица").unwrap();
        assert!(russian.contains("English") && russian.contains("Cyrillic"), "{russian}");
        assert!(
            note(TextLanguage::Russian, "capital")
                .unwrap()
                .contains("in Latin only")
        );
        for (language, text) in [
            (TextLanguage::English, "capital of Curaçao"),
            (TextLanguage::English, "столица Russia"),
            (TextLanguage::English, "42 € ???"),
            (TextLanguage::German, "Häuser"),
            (TextLanguage::German, "Häuser 首都"),
            (TextLanguage::Russian, "столица"),
            (TextLanguage::Cjk, "首都 capital столица"),
            (TextLanguage::Any, "столица"),
            (TextLanguage::Russian, "42"),
        ] {
            assert_eq!(note(language, text), None, "{language}: {text}");
        }
    }

    #[test]
    fn stop_words_are_those_of_the_language() {
        assert!(
            question_note(TextLanguage::English, "the of")
                .unwrap()
                .contains("`the`, `of`")
        );
        assert!(
            question_note(TextLanguage::German, "der und für")
                .unwrap()
                .contains("stop words")
        );
        assert_eq!(question_note(TextLanguage::German, "the of"), None);
        assert_eq!(question_note(TextLanguage::Any, "the of"), None);
        assert!(question_note(TextLanguage::Any, "?!").unwrap().contains("no word"));
        let long = "京".repeat(100);
        assert!(
            question_note(TextLanguage::English, &long)
                .unwrap()
                .contains("1 words of 255 bytes")
        );
        assert_eq!(question_note(TextLanguage::Cjk, &long), None);
    }
}

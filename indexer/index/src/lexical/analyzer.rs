//! Text to terms, by the language of an index: words (`words.rs`, `cjk.rs`), lower case, without accents, stop words
//! out, Snowball stems.
//!
//! English takes the accents off first, as ever. Other languages have stop words and endings with accents (`für`,
//! `été`), so that there they come off last.

use std::sync::OnceLock;

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, Stemmer, StopWordFilter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer,
};

use super::cjk::CjkWords;
use super::lengths::TermCount;
use super::lower_compose::LowerComposeFilter;
use super::words::{LongWords, Words};
use crate::language::TextLanguage;

/// The analyzer of a text index: that of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Analyzer {
    /// `dyad_en_1`, of earlier releases: English, and combining marks and soft hyphens end a word.
    First,
    /// That of a language.
    Of(TextLanguage),
}

impl Analyzer {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::First => "dyad_en_1",
            Self::Of(language) => language.analyzer(),
        }
    }

    /// That of a name; none where this release has no such analyzer.
    pub(super) fn named(name: &str) -> Option<Self> {
        let current = TextLanguage::ALL.into_iter().map(Self::Of);
        current.chain([Self::First]).find(|analyzer| analyzer.name() == name)
    }

    pub(super) const fn language(self) -> TextLanguage {
        match self {
            Self::First => TextLanguage::English,
            Self::Of(language) => language,
        }
    }

    pub(super) fn build(self) -> TextAnalyzer {
        match self {
            Self::First => {
                let words = TextAnalyzer::builder(Words::bare());
                english(
                    words.filter(LowerCaser).filter(AsciiFoldingFilter),
                    TermCount::default(),
                )
            }
            Self::Of(language) => counting_analyzer(language, TermCount::default(), LongWords::default()),
        }
    }
}

/// The analyzer of a language, which counts its terms, and the words that are too long to be one.
pub(super) fn counting_analyzer(language: TextLanguage, count: TermCount, long: LongWords) -> TextAnalyzer {
    if language.is_english() {
        let words = TextAnalyzer::builder(Words::counted(long));
        return english(
            words.filter(LowerComposeFilter::default()).filter(AsciiFoldingFilter),
            count,
        );
    }
    let lower = LowerComposeFilter {
        dotless: language == TextLanguage::Turkish,
    };
    let mut words = TextAnalyzer::builder(CjkWords::counted(long)).filter(lower).dynamic();
    let stop_words = if language == TextLanguage::Cjk {
        Some(Language::English)
    } else {
        language.snowball()
    };
    if let Some(stop_words) = stop_words.and_then(stop_words_of) {
        words = words.filter_dynamic(stop_words);
    }
    if let Some(snowball) = language.snowball() {
        words = words.filter_dynamic(Stemmer::new(snowball));
    }
    words.filter_dynamic(AsciiFoldingFilter).filter_dynamic(count).build()
}

/// English without stop words, and the rest stemmed.
fn english<T: Tokenizer>(words: TextAnalyzerBuilder<T>, count: TermCount) -> TextAnalyzer {
    match stop_words_of(Language::English) {
        Some(stop_words) => words
            .filter(stop_words)
            .filter(Stemmer::new(Language::English))
            .filter(count)
            .build(),
        // Only without tantivy's feature `stopwords`, which the workspace sets.
        None => words.filter(Stemmer::new(Language::English)).filter(count).build(),
    }
}

/// The stop words of a language: made once, and shared by all analyzers.
fn stop_words_of(language: Language) -> Option<StopWordFilter> {
    static LISTS: [OnceLock<Option<StopWordFilter>>; TextLanguage::ALL.len()] =
        [const { OnceLock::new() }; TextLanguage::ALL.len()];
    let place = TextLanguage::ALL
        .into_iter()
        .position(|one| one.snowball() == Some(language))?;
    LISTS.get(place)?.get_or_init(|| StopWordFilter::new(language)).clone()
}

/// The terms that the analyzer of a language makes of a text, in order, repeated where the text repeats them.
pub fn terms(language: TextLanguage, text: &str) -> Vec<String> {
    terms_by(Analyzer::Of(language), text)
}

/// The terms that an analyzer makes of a text.
pub(super) fn terms_by(analyzer: Analyzer, text: &str) -> Vec<String> {
    let mut analyzer = analyzer.build();
    let mut stream = analyzer.token_stream(text);
    let mut terms = Vec::new();
    stream.process(&mut |token| terms.push(token.text.clone()));
    terms
}

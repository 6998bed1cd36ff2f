//! Text to terms: words (`words.rs`), lower case, without accents, English stop words out, English Snowball stems.

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, Stemmer, StopWordFilter, TextAnalyzer, TextAnalyzerBuilder, Tokenizer,
};

use super::lengths::TermCount;
use super::words::{LongWords, LowerComposeFilter, MAX_WORD_BYTES, Words};

/// Name under which every index registers the analyzer. A change of the analyzer needs a new name, so that an earlier release refuses
/// the index instead of searching it by other terms.
pub const ANALYZER: &str = "dyad_en_2";

/// The analyzer of a text index: that of its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Analyzer {
    /// `dyad_en_1`: combining marks and soft hyphens end a word.
    First,
    /// [`ANALYZER`].
    Current,
}

impl Analyzer {
    pub(super) const ALL: [Self; 2] = [Self::Current, Self::First];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::First => "dyad_en_1",
            Self::Current => ANALYZER,
        }
    }

    pub(super) fn build(self) -> TextAnalyzer {
        match self {
            Self::First => {
                let words = TextAnalyzer::builder(Words::bare());
                stemmed(words.filter(LowerCaser).filter(AsciiFoldingFilter), TermCount::default())
            }
            Self::Current => analyzer(),
        }
    }
}

/// The analyzer.
pub(super) fn analyzer() -> TextAnalyzer {
    counting_analyzer(TermCount::default(), LongWords::default())
}

/// The same, which counts its terms, and the words that are too long to be one.
pub(super) fn counting_analyzer(count: TermCount, long: LongWords) -> TextAnalyzer {
    let words = TextAnalyzer::builder(Words::counted(long));
    stemmed(words.filter(LowerComposeFilter).filter(AsciiFoldingFilter), count)
}

/// Without stop words, and the rest stemmed.
fn stemmed<T: Tokenizer>(words: TextAnalyzerBuilder<T>, count: TermCount) -> TextAnalyzer {
    match StopWordFilter::new(Language::English) {
        Some(stop_words) => words.filter(stop_words).filter(Stemmer::new(Language::English)).filter(count).build(),
        // Only without tantivy's feature `stopwords`, which the workspace sets.
        None => words.filter(Stemmer::new(Language::English)).filter(count).build(),
    }
}

/// What BM25 leaves out of a question, where that is all of it or a word of a length that no index holds.
pub fn question_note(text: &str) -> Option<String> {
    let long = LongWords::default();
    let mut words = TextAnalyzer::builder(Words::counted(long.clone())).build();
    let mut all: Vec<String> = Vec::new();
    words.token_stream(text).process(&mut |word| all.push(word.text.clone()));
    if long.count() > 0 {
        let count = long.count();
        return Some(format!("BM25 leaves out {count} words of {MAX_WORD_BYTES} bytes or more"));
    }
    if !terms(text).is_empty() {
        return None;
    }
    let first: Vec<String> = all.iter().take(NAMED).map(|word| format!("`{word}`")).collect();
    let more = if all.len() > NAMED { ", ..." } else { "" };
    Some(match all.len() {
        0 => "the question has no word that BM25 could search".to_owned(),
        _ => format!("the question has only stop words, which BM25 leaves out: {}{more}", first.join(", ")),
    })
}

/// Words that a note names.
const NAMED: usize = 5;

/// The terms of a text, in order, repeated where the text repeats them.
pub fn terms(text: &str) -> Vec<String> {
    terms_by(Analyzer::Current, text)
}

/// The terms that an analyzer makes of a text.
pub(super) fn terms_by(analyzer: Analyzer, text: &str) -> Vec<String> {
    let mut analyzer = analyzer.build();
    let mut stream = analyzer.token_stream(text);
    let mut terms = Vec::new();
    stream.process(&mut |token| terms.push(token.text.clone()));
    terms
}

//! Text to terms: words, lower case, without accents, English stop words out, English Snowball stems.

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, RemoveLongFilter, SimpleTokenizer, Stemmer, StopWordFilter, TextAnalyzer,
};

use super::lengths::TermCount;

/// Name under which every index registers the analyzer. A change of the analyzer needs a new name, so that an old
/// index is refused instead of searched by other terms.
pub const ANALYZER: &str = "dyad_en_1";

/// Longest word in bytes, as in Lucene's standard analyzer.
const MAX_WORD_BYTES: usize = 255;

/// The analyzer.
pub(super) fn analyzer() -> TextAnalyzer {
    counting_analyzer(TermCount::default())
}

/// The same, which counts its terms.
pub(super) fn counting_analyzer(count: TermCount) -> TextAnalyzer {
    let base = TextAnalyzer::builder(SimpleTokenizer::default())
        .filter(RemoveLongFilter::limit(MAX_WORD_BYTES))
        .filter(LowerCaser)
        .filter(AsciiFoldingFilter);
    match StopWordFilter::new(Language::English) {
        Some(stop_words) => base.filter(stop_words).filter(Stemmer::new(Language::English)).filter(count).build(),
        // Only without tantivy's feature `stopwords`, which the workspace sets.
        None => base.filter(Stemmer::new(Language::English)).filter(count).build(),
    }
}

/// The terms of a text, in order, repeated where the text repeats them.
pub fn terms(text: &str) -> Vec<String> {
    let mut analyzer = analyzer();
    let mut stream = analyzer.token_stream(text);
    let mut terms = Vec::new();
    stream.process(&mut |token| terms.push(token.text.clone()));
    terms
}

//! The language of a corpus, by a sample of its first documents.

use std::collections::BTreeMap;

use dyad_corpus::Document;
use dyad_index::TextLanguage;
use whatlang::{Lang, Script};

/// Documents of a sample.
const DOCUMENTS: usize = 2_000;
/// Bytes of their titles and texts, after which a sample has enough documents.
const BYTES: usize = 4 << 20;
/// Bytes of each document that are looked at: enough to be sure of.
const LOOKED_AT: usize = 1_000;
/// Fewest documents whose language is known.
const FEWEST: usize = 20;
/// Share of the sample that has to be of one language for that to be the index's.
const MOST: f64 = 0.6;

/// The first documents of a corpus, and their languages.
#[derive(Debug, Default)]
pub(crate) struct LanguageSample {
    /// Documents with a title or a text.
    documents: usize,
    /// Others.
    empty: usize,
    bytes: usize,
    /// Documents by what each is surely written in.
    known: BTreeMap<TextLanguage, usize>,
    /// Documents of scripts in which English is not written, and of which no more is known.
    other_scripts: usize,
}

/// The language of a corpus, and what it was told by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SampledLanguage {
    pub(crate) language: TextLanguage,
    /// What a user should know; nothing where there are no texts.
    pub(crate) told: Option<String>,
}

impl LanguageSample {
    /// Looks at a document.
    pub(crate) fn add(&mut self, document: &Document) {
        if document.title.is_empty() && document.text.is_empty() {
            self.empty += 1;
            return;
        }
        let text = format!("{} {}", document.title, document.text);
        let text = &text[..text.floor_char_boundary(LOOKED_AT)];
        self.documents += 1;
        self.bytes += document.title.len() + document.text.len();
        match whatlang::detect(text) {
            Some(found) if found.is_reliable() => *self.known.entry(language_of(found.lang())).or_default() += 1,
            Some(found) if found.script() != Script::Latin => self.other_scripts += 1,
            _ => {}
        }
    }

    /// Whether it has as many documents as it takes.
    pub(crate) fn is_full(&self) -> bool {
        self.documents + self.empty >= DOCUMENTS || self.bytes >= BYTES
    }

    /// The language of most documents; that of no one language where there are several; English, as ever, where texts
    /// do not say.
    pub(crate) fn language(&self) -> SampledLanguage {
        let Self { documents, .. } = *self;
        let share = |count: usize| count as f64 / documents.max(1) as f64;
        let known: usize = self.known.values().sum();
        let is_known = known >= FEWEST.min((MOST * documents as f64).ceil() as usize);
        let most = self.known.iter().max_by_key(|(_, count)| **count);
        let remedy = "`--language` names another";
        if let Some((&language, &count)) = most
            && is_known
            && share(count) >= MOST
        {
            let told = format!(
                "BM25 analyses texts as {} (`{language}`), as which {:.0} % of the first {documents} documents were recognised; {remedy}",
                language.name(),
                100.0 * share(count)
            );
            return SampledLanguage {
                language,
                told: Some(told),
            };
        }
        if is_known && share(known) >= MOST || share(self.other_scripts) >= MOST {
            let mut found: Vec<(usize, TextLanguage)> = self.known.iter().map(|(one, count)| (*count, *one)).collect();
            found.sort_unstable_by(|a, b| b.cmp(a));
            let found: Vec<String> = found
                .iter()
                .take(3)
                .map(|(count, one)| format!("{one} {:.0} %", 100.0 * share(*count)))
                .collect();
            let found = if found.is_empty() {
                "no language known to it".to_owned()
            } else {
                found.join(", ")
            };
            let told = format!(
                "BM25 analyses texts as of no one language (`none`: no stop words, no stems), since the first {documents} documents are of several: \
                 {found}; {remedy}"
            );
            return SampledLanguage {
                language: TextLanguage::Any,
                told: Some(told),
            };
        }
        let told = (documents > 0).then(|| {
            format!(
            "BM25 analyses texts as English (`en`), since only {known} of the first {documents} documents say by themselves which language they are; {remedy}"
        )
        });
        SampledLanguage {
            language: TextLanguage::English,
            told,
        }
    }
}

/// How texts of a language are analysed.
fn language_of(lang: Lang) -> TextLanguage {
    match lang {
        Lang::Ara => TextLanguage::Arabic,
        Lang::Cmn | Lang::Jpn | Lang::Kor => TextLanguage::Cjk,
        Lang::Dan => TextLanguage::Danish,
        Lang::Nld => TextLanguage::Dutch,
        Lang::Eng => TextLanguage::English,
        Lang::Fin => TextLanguage::Finnish,
        Lang::Fra => TextLanguage::French,
        Lang::Deu => TextLanguage::German,
        Lang::Ell => TextLanguage::Greek,
        Lang::Hun => TextLanguage::Hungarian,
        Lang::Ita => TextLanguage::Italian,
        Lang::Nob => TextLanguage::Norwegian,
        Lang::Por => TextLanguage::Portuguese,
        Lang::Ron => TextLanguage::Romanian,
        Lang::Rus => TextLanguage::Russian,
        Lang::Spa => TextLanguage::Spanish,
        Lang::Swe => TextLanguage::Swedish,
        Lang::Tam => TextLanguage::Tamil,
        Lang::Tur => TextLanguage::Turkish,
        _ => TextLanguage::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGLISH: &str = "The committee will publish its report on the new railway line before the end of next year.";
    const GERMAN: &str =
        "Der Ausschuss veröffentlicht seinen Bericht über die neue Bahnstrecke noch vor dem Ende des Jahres.";
    const CHINESE: &str = "委员会将在明年年底之前公布关于新铁路线的报告。北京是中国的首都，也是全国的政治中心。";
    const HINDI: &str = "समिति अगले साल के अंत से पहले नई रेल लाइन पर अपनी रिपोर्ट प्रकाशित करेगी और सबको बताएगी।";

    fn sampled(texts: &[(&str, usize)]) -> SampledLanguage {
        let mut sample = LanguageSample::default();
        for (text, count) in texts {
            for number in 0..*count {
                sample.add(&Document {
                    key: number.to_string(),
                    text: (*text).to_owned(),
                    ..Document::default()
                });
            }
        }
        sample.language()
    }

    #[test]
    fn the_language_of_most_documents_is_that_of_the_corpus() {
        for (text, language) in [
            (ENGLISH, TextLanguage::English),
            (GERMAN, TextLanguage::German),
            (CHINESE, TextLanguage::Cjk),
            (HINDI, TextLanguage::Any),
        ] {
            let found = sampled(&[(text, 30), ("x1 y2", 3)]);
            assert_eq!(found.language, language, "{found:?}");
        }
        assert_eq!(sampled(&[(GERMAN, 3)]).language, TextLanguage::German, "few documents");
        assert_eq!(
            sampled(&[(GERMAN, 9), ("x1", 1)]).language,
            TextLanguage::German,
            "few documents, not all of them known"
        );
        assert!(
            sampled(&[(GERMAN, 30)])
                .told
                .unwrap()
                .contains("German (`de`), as which 100 % of the first 30")
        );
    }

    #[test]
    fn several_languages_are_none_and_texts_that_do_not_say_are_english() {
        let mixed = sampled(&[(GERMAN, 30), (ENGLISH, 30), (CHINESE, 30)]);
        assert_eq!(mixed.language, TextLanguage::Any, "{mixed:?}");
        assert!(mixed.told.unwrap().contains("de 33 %"));
        assert_eq!(sampled(&[("", 5)]).told, None, "vectors alone");
        for texts in [
            &[("document 8", 100)][..],
            &[("x1 y2 z3", 50)],
            &[("", 5)],
            &[],
            &[(GERMAN, 2), ("x1", 98)],
        ] {
            assert_eq!(sampled(texts).language, TextLanguage::English, "{texts:?}");
        }
    }

    #[test]
    fn a_sample_is_bounded() {
        let mut sample = LanguageSample::default();
        sample.add(&Document {
            text: "a".repeat(BYTES),
            ..Document::default()
        });
        assert!(sample.is_full());
        let mut sample = LanguageSample::default();
        (0..DOCUMENTS).for_each(|_| sample.add(&Document::default()));
        assert!(sample.is_full());
    }
}

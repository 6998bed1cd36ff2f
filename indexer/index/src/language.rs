//! The languages that BM25 analyses: their codes, stems, stop words and scripts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tantivy::tokenizer::Language;
use unicode_script::Script;

use crate::error::Error;

/// How the texts of an index become terms.
///
/// | language | words | stop words | stems |
/// |---|---|---|---|
/// | one with a code of ISO 639-1 | runs of letters and digits; of Chinese, Japanese and Korean two characters each | Snowball's, where it has a list | Snowball's |
/// | `en` | runs of letters and digits | Lucene's | Snowball's |
/// | `cjk` (also `zh`, `ja`, `ko`) | as the first, like Lucene's `CJKAnalyzer` | Lucene's, English | none |
/// | `none` | as the first | none | none |
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TextLanguage {
    /// `ar`
    Arabic,
    /// `cjk`: Chinese, Japanese or Korean.
    Cjk,
    /// `da`
    Danish,
    /// `nl`
    Dutch,
    /// `en`: that of indexes of earlier releases.
    #[default]
    English,
    /// `fi`
    Finnish,
    /// `fr`
    French,
    /// `de`
    German,
    /// `el`
    Greek,
    /// `hu`
    Hungarian,
    /// `it`
    Italian,
    /// `no`
    Norwegian,
    /// `pt`
    Portuguese,
    /// `ro`
    Romanian,
    /// `ru`
    Russian,
    /// `es`
    Spanish,
    /// `sv`
    Swedish,
    /// `ta`
    Tamil,
    /// `tr`
    Turkish,
    /// `none`: several languages, or one that is not here.
    Any,
}

/// What is known of a language.
struct LanguageFacts {
    code: &'static str,
    name: &'static str,
    /// Name under which indexes register its analyzer. A change of an analyzer needs a new name, so that an earlier
    /// release refuses the index instead of searching it by other terms.
    analyzer: &'static str,
    /// Snowball's stemmer, and the stop words of that name.
    snowball: Option<Language>,
}

impl TextLanguage {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::Arabic,
        Self::Cjk,
        Self::Danish,
        Self::Dutch,
        Self::English,
        Self::Finnish,
        Self::French,
        Self::German,
        Self::Greek,
        Self::Hungarian,
        Self::Italian,
        Self::Norwegian,
        Self::Portuguese,
        Self::Romanian,
        Self::Russian,
        Self::Spanish,
        Self::Swedish,
        Self::Tamil,
        Self::Turkish,
        Self::Any,
    ];

    const fn facts(self) -> LanguageFacts {
        let (code, name, analyzer, snowball) = match self {
            Self::Arabic => ("ar", "Arabic", "dyad_ar_1", Some(Language::Arabic)),
            Self::Cjk => ("cjk", "Chinese, Japanese or Korean", "dyad_cjk_1", None),
            Self::Danish => ("da", "Danish", "dyad_da_1", Some(Language::Danish)),
            Self::Dutch => ("nl", "Dutch", "dyad_nl_1", Some(Language::Dutch)),
            Self::English => ("en", "English", "dyad_en_2", Some(Language::English)),
            Self::Finnish => ("fi", "Finnish", "dyad_fi_1", Some(Language::Finnish)),
            Self::French => ("fr", "French", "dyad_fr_1", Some(Language::French)),
            Self::German => ("de", "German", "dyad_de_1", Some(Language::German)),
            Self::Greek => ("el", "Greek", "dyad_el_1", Some(Language::Greek)),
            Self::Hungarian => ("hu", "Hungarian", "dyad_hu_1", Some(Language::Hungarian)),
            Self::Italian => ("it", "Italian", "dyad_it_1", Some(Language::Italian)),
            Self::Norwegian => ("no", "Norwegian", "dyad_no_1", Some(Language::Norwegian)),
            Self::Portuguese => ("pt", "Portuguese", "dyad_pt_1", Some(Language::Portuguese)),
            Self::Romanian => ("ro", "Romanian", "dyad_ro_1", Some(Language::Romanian)),
            Self::Russian => ("ru", "Russian", "dyad_ru_1", Some(Language::Russian)),
            Self::Spanish => ("es", "Spanish", "dyad_es_1", Some(Language::Spanish)),
            Self::Swedish => ("sv", "Swedish", "dyad_sv_1", Some(Language::Swedish)),
            Self::Tamil => ("ta", "Tamil", "dyad_ta_1", Some(Language::Tamil)),
            Self::Turkish => ("tr", "Turkish", "dyad_tr_1", Some(Language::Turkish)),
            Self::Any => ("none", "no one language", "dyad_none_1", None),
        };
        LanguageFacts {
            code,
            name,
            analyzer,
            snowball,
        }
    }

    /// As commands and manifests name it.
    pub const fn code(self) -> &'static str {
        self.facts().code
    }

    /// In English.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Name of the analyzer that makes its terms.
    pub const fn analyzer(self) -> &'static str {
        self.facts().analyzer
    }

    pub(crate) const fn snowball(self) -> Option<Language> {
        self.facts().snowball
    }

    /// Whether a letter of this script may be of a word that is analysed as one of the language; where the language has
    /// stems.
    pub(crate) fn is_written_in(self, script: Script) -> bool {
        match self {
            Self::Arabic => script == Script::Arabic,
            Self::Greek => script == Script::Greek,
            Self::Russian => script == Script::Cyrillic,
            Self::Tamil => script == Script::Tamil,
            Self::Cjk | Self::Any => true,
            _ => script == Script::Latin,
        }
    }

    /// Whether it is that of earlier releases, which manifests do not name.
    pub fn is_english(&self) -> bool {
        *self == Self::English
    }
}

impl fmt::Display for TextLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for TextLanguage {
    type Err = Error;

    fn from_str(code: &str) -> Result<Self, Error> {
        let code = match code {
            "zh" | "ja" | "ko" => Self::Cjk.code(),
            "nb" | "nn" => Self::Norwegian.code(),
            code => code,
        };
        Self::ALL
            .into_iter()
            .find(|language| language.code() == code)
            .ok_or_else(|| {
                let codes: Vec<&str> = Self::ALL.iter().map(|language| language.code()).collect();
                let expected = format!("{}, or zh, ja or ko for cjk", codes.join(", "));
                Error::Mismatch {
                    what: "language",
                    expected,
                    got: format!("`{}`", code.escape_debug()),
                }
            })
    }
}

impl TryFrom<String> for TextLanguage {
    type Error = Error;

    fn try_from(code: String) -> Result<Self, Error> {
        code.parse()
    }
}

impl From<TextLanguage> for String {
    fn from(language: TextLanguage) -> Self {
        language.code().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_they_are_written() {
        for language in TextLanguage::ALL {
            assert_eq!(language.code().parse::<TextLanguage>().unwrap(), language);
            let json = serde_json::to_string(&language).unwrap();
            assert_eq!(serde_json::from_str::<TextLanguage>(&json).unwrap(), language);
        }
        for code in ["zh", "ja", "ko"] {
            assert_eq!(code.parse::<TextLanguage>().unwrap(), TextLanguage::Cjk);
        }
        let refused = "xx".parse::<TextLanguage>().unwrap_err().to_string();
        assert!(refused.contains("`xx`") && refused.contains("de, el"), "{refused}");
    }
}

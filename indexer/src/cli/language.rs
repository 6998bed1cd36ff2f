//! The argument of commands that analyse texts for BM25.

use std::str::FromStr;

use dyad_index::TextLanguage;

#[derive(Debug, clap::Args)]
pub(super) struct LanguageArguments {
    /// The language of the texts, by which BM25 stems words and leaves stop words out: `auto` (that of most of the
    /// first documents), `ar`, `da`, `de`, `el`, `en`, `es`, `fi`, `fr`, `hu`, `it`, `nl`, `no`, `pt`, `ro`, `ru`,
    /// `sv`, `ta` or `tr`; `zh`, `ja`, `ko` or `cjk` for words of two characters; or `none` for several languages
    #[arg(long, value_name = "LANGUAGE", default_value = "auto")]
    language: LanguageChoice,
}

/// A language, or that of the texts.
#[derive(Debug, Clone, Copy)]
struct LanguageChoice(Option<TextLanguage>);

impl FromStr for LanguageChoice {
    type Err = dyad_index::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Ok(Self(if name == "auto" { None } else { Some(name.parse()?) }))
    }
}

impl LanguageArguments {
    /// The language; none where texts are to say it.
    pub(super) fn language(&self) -> Option<TextLanguage> {
        self.language.0
    }
}

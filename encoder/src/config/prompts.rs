//! What stands before the texts of each tower: by the model's files, or as asked for.

use serde_json::Value;

use super::json::JsonFile;
use super::tower::Tower;
use crate::error::Error;

/// Prompts of the towers, put before each text; empty where the model has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompts {
    pub(crate) question: String,
    pub(crate) answer: String,
}

/// How the prompts in `config_sentence_transformers.json` are read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PromptReading {
    /// The answer tower has the first of `document`, `passage` and `corpus` that the file names; a tower without a
    /// prompt of its own has that of `default_prompt_name`
    #[default]
    Dyad,
    /// As `encode_query` and `encode_document` of sentence-transformers 6: `query` and `document` alone. They exist in
    /// every model, empty where the file does not name them, so that `passage`, `corpus` and `default_prompt_name` are
    /// never reached
    SentenceTransformers,
}

/// Prompts in place of those of a model's files, which models like E5 have in no file. They are part of the
/// fingerprint.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct PromptOptions {
    /// Text before every question, as it is, in place of what the model's files say; empty for none. E5 needs `query:
    /// `, and has it in no file
    #[arg(long = "question-prompt", value_name = "TEXT")]
    pub question: Option<String>,
    /// Text before every answer, as `--question-prompt`; E5 needs `passage: `
    #[arg(long = "answer-prompt", value_name = "TEXT")]
    pub answer: Option<String>,
    /// How the model's files are read for a tower without one of these
    #[arg(long = "prompts", value_enum, value_name = "READING", default_value_t = PromptReading::Dyad)]
    pub reading: PromptReading,
}

impl PromptOptions {
    /// Whether they leave everything as the files have it.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Prompts {
    pub(crate) fn of(&self, tower: Tower) -> &str {
        match tower {
            Tower::Question => &self.question,
            Tower::Answer => &self.answer,
        }
    }

    /// Those of `config_sentence_transformers.json`.
    pub(crate) fn read(settings: &JsonFile, reading: PromptReading) -> Result<Self, Error> {
        let prompts = settings.object("prompts")?;
        if prompts.values().any(|prompt| !prompt.is_string() && !prompt.is_null()) {
            return Err(settings.wrong("prompts", "an object of strings"));
        }
        let named = |name: &str| prompts.get(name).and_then(Value::as_str);
        let fallback = match settings.text("default_prompt_name")? {
            None => "",
            // Every model has these two.
            Some(name @ ("query" | "document")) => named(name).unwrap_or_default(),
            Some(name) => {
                named(name).ok_or_else(|| settings.wrong("default_prompt_name", "the name of one of the `prompts`"))?
            }
        };
        let [question, answer] = match reading {
            PromptReading::Dyad => {
                let answer = ["document", "passage", "corpus"].into_iter().find_map(named);
                [named("query").unwrap_or(fallback), answer.unwrap_or(fallback)]
            }
            PromptReading::SentenceTransformers => ["query", "document"].map(|name| named(name).unwrap_or_default()),
        };
        Ok(Self {
            question: question.to_owned(),
            answer: answer.to_owned(),
        })
    }

    /// With those that are asked for in their place.
    pub(crate) fn replaced(self, options: &PromptOptions) -> Self {
        Self {
            question: options.question.clone().unwrap_or(self.question),
            answer: options.answer.clone().unwrap_or(self.answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(fields: Value, reading: PromptReading) -> [String; 2] {
        let prompts = Prompts::read(&JsonFile::new("settings".into(), fields).unwrap(), reading).unwrap();
        [prompts.question, prompts.answer]
    }

    #[test]
    fn the_two_readings_differ_where_a_tower_has_no_prompt_of_its_own() {
        let passage = json!({"prompts": {"query": "query: ", "passage": "passage: "}});
        assert_eq!(read(passage.clone(), PromptReading::Dyad), ["query: ", "passage: "]);
        assert_eq!(read(passage, PromptReading::SentenceTransformers), ["query: ", ""]);
        let default = json!({"prompts": {"mine": "text: "}, "default_prompt_name": "mine"});
        assert_eq!(read(default.clone(), PromptReading::Dyad), ["text: ", "text: "]);
        assert_eq!(read(default, PromptReading::SentenceTransformers), ["", ""]);
        let both = json!({"prompts": {"query": "q ", "document": "d "}, "default_prompt_name": "document"});
        assert_eq!(
            read(both.clone(), PromptReading::Dyad),
            read(both, PromptReading::SentenceTransformers)
        );
    }

    #[test]
    fn what_is_asked_for_goes_before_the_file() {
        let options = PromptOptions {
            question: Some(String::new()),
            ..PromptOptions::default()
        };
        let prompts = Prompts {
            question: "q ".into(),
            answer: "a ".into(),
        }
        .replaced(&options);
        assert_eq!((prompts.of(Tower::Question), prompts.of(Tower::Answer)), ("", "a "));
        assert!(!options.is_default() && PromptOptions::default().is_default());
    }
}

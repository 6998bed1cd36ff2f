//! What stands before the texts of each tower: by the model's files, or as asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::json::JsonFile;
use super::tower::Tower;
use crate::error::Error;

/// The names that every model of sentence-transformers has a prompt of.
const ALWAYS_NAMED: [&str; 2] = ["query", "document"];

/// Prompts of the towers, put before each text; empty where the model has none. And all prompts that the model has
/// names for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompts {
    pub(crate) question: String,
    pub(crate) answer: String,
    pub(crate) named: NamedPrompts,
}

/// Prompts by name, as the object `prompts` of `config_sentence_transformers.json` has them. `query` and `document` are
/// always among them, empty where the file does not name them, as in sentence-transformers 6. Clones share them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPrompts(Arc<BTreeMap<String, String>>);

/// A name that a model has no prompt of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`prompt_name`: the model has no prompt `{name}`. Its prompts are {}; send any other text as `prompt`", self.names())]
pub struct UnknownPrompt {
    /// The name that was asked for.
    pub name: String,
    /// The names that there are, in their order.
    pub known: Vec<String>,
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
    /// Name of the prompt before every question, of those that `prompts` in the model's
    /// `config_sentence_transformers.json` has; `inspect` lists them
    #[arg(long = "question-prompt-name", value_name = "NAME", conflicts_with = "question")]
    pub question_name: Option<String>,
    /// Name of the prompt before every answer, as `--question-prompt-name`
    #[arg(long = "answer-prompt-name", value_name = "NAME", conflicts_with = "answer")]
    pub answer_name: Option<String>,
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
        let mut all = NamedPrompts::default();
        for (name, prompt) in &prompts {
            all.set(name, prompt.as_str().unwrap_or_default());
        }
        Ok(Self {
            question: question.to_owned(),
            answer: answer.to_owned(),
            named: all,
        })
    }

    /// With those that are asked for in their place. A text that is asked for is what `query` or `document` stands for
    /// from then on, as in the files that `export` writes of it.
    pub(crate) fn replaced(self, options: &PromptOptions) -> Result<Self, UnknownPrompt> {
        let asked = |text: &Option<String>, name: &Option<String>| match (text, name) {
            (Some(text), _) => Ok(Some(text.clone())),
            (None, Some(name)) => self.named.get(name).map(|text| Some(text.to_owned())),
            (None, None) => Ok(None),
        };
        let question = asked(&options.question, &options.question_name)?;
        let answer = asked(&options.answer, &options.answer_name)?;
        let mut named = self.named.clone();
        for (name, text) in ALWAYS_NAMED.into_iter().zip([&options.question, &options.answer]) {
            if let Some(text) = text {
                named.set(name, text);
            }
        }
        Ok(Self {
            question: question.unwrap_or(self.question),
            answer: answer.unwrap_or(self.answer),
            named,
        })
    }

    /// With this text before the texts of a tower.
    pub(crate) fn with(mut self, tower: Tower, text: &str) -> Self {
        let prompt = match tower {
            Tower::Question => &mut self.question,
            Tower::Answer => &mut self.answer,
        };
        text.clone_into(prompt);
        self
    }

    /// Whether both put the same before the texts of both towers.
    pub(crate) fn are_as(&self, other: &Self) -> bool {
        Tower::BOTH.iter().all(|tower| self.of(*tower) == other.of(*tower))
    }

    /// As the object `prompts` of a new `config_sentence_transformers.json`, which gives the towers these.
    pub(crate) fn to_json(&self) -> Value {
        let mut named = self.named.clone();
        for (name, text) in ALWAYS_NAMED.into_iter().zip([&self.question, &self.answer]) {
            named.set(name, text);
        }
        named.iter().collect()
    }
}

impl Default for NamedPrompts {
    fn default() -> Self {
        let named = ALWAYS_NAMED.map(|name| (name.to_owned(), String::new()));
        Self(Arc::new(named.into()))
    }
}

impl NamedPrompts {
    /// Those of a model that has no prompts.
    pub(crate) fn none() -> Self {
        Self(Arc::default())
    }

    fn set(&mut self, name: &str, prompt: &str) {
        Arc::make_mut(&mut self.0).insert(name.to_owned(), prompt.to_owned());
    }

    /// The prompt of this name.
    pub fn get(&self, name: &str) -> Result<&str, UnknownPrompt> {
        self.0.get(name).map(String::as_str).ok_or_else(|| UnknownPrompt {
            name: name.to_owned(),
            known: self.0.keys().cloned().collect(),
        })
    }

    /// Names and prompts, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, prompt)| (name.as_str(), prompt.as_str()))
    }
}

impl UnknownPrompt {
    /// The names that there are, for people.
    pub(crate) fn names(&self) -> String {
        format!("`{}`", self.known.join("`, `"))
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
            ..Prompts::default()
        }
        .replaced(&options)
        .unwrap();
        assert_eq!((prompts.of(Tower::Question), prompts.of(Tower::Answer)), ("", "a "));
        assert!(!options.is_default() && PromptOptions::default().is_default());
    }

    #[test]
    fn prompts_have_names_and_names_that_are_not_known_are_refused_with_those_that_are() {
        let file = json!({"prompts": {"query": "q ", "clustering": "c ", "none": null}});
        let file = JsonFile::new("settings".into(), file).unwrap();
        let prompts = || Prompts::read(&file, PromptReading::Dyad).unwrap();
        let named: Vec<(String, String)> = prompts()
            .named
            .iter()
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect();
        let expected = [("clustering", "c "), ("document", ""), ("none", ""), ("query", "q ")];
        assert_eq!(named, expected.map(|(name, text)| (name.to_owned(), text.to_owned())));
        let by_name = |name: &str| PromptOptions {
            question_name: Some(name.to_owned()),
            answer: Some("a ".to_owned()),
            ..PromptOptions::default()
        };
        let replaced = prompts().replaced(&by_name("clustering")).unwrap();
        assert_eq!((replaced.of(Tower::Question), replaced.of(Tower::Answer)), ("c ", "a "));
        // What is asked for as a text has its name, too; what is asked for by its name leaves names as they are.
        assert_eq!(
            (replaced.named.get("document"), replaced.named.get("query")),
            (Ok("a "), Ok("q "))
        );
        let expected = json!({"clustering": "c ", "document": "a ", "none": "", "query": "c "});
        assert_eq!(replaced.to_json(), expected);
        let refused = prompts().replaced(&by_name("Query")).unwrap_err();
        assert_eq!(refused.names(), "`clustering`, `document`, `none`, `query`");
    }
}

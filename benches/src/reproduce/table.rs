//! A table: which models are trained under which settings and on what they are measured. Unknown keys are refused.

use std::path::{Path, PathBuf};

use dyad_encoder::loss::Similarity;
use serde::Deserialize;

use crate::error::Result;
use crate::harness::{plain_names, read_toml};

/// What a table shows. `benches/reproduce/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) baseline: String,
    #[serde(default)]
    pub(crate) train: toml::Table,
    #[serde(rename = "evaluation")]
    pub(crate) evaluations: Vec<Evaluated>,
    pub(crate) probe: Option<ProbeConfig>,
    #[serde(rename = "variant")]
    pub(crate) variants: Vec<Variant>,
}

/// What a model is measured on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Evaluated {
    pub(crate) name: String,
    pub(crate) data: String,
    #[serde(default = "test_split")]
    pub(crate) split: String,
    #[serde(default = "cosine")]
    pub(crate) similarity: Similarity,
}

defaults! {
    test_split: String = "test".to_owned();
    cosine: Similarity = Similarity::Cosine;
}

/// What the towers are looked at with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct ProbeConfig {
    pub(crate) data: String,
    #[serde(default = "test_split")]
    pub(crate) split: String,
    pub(crate) pairs: usize,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Variant {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) train: toml::Table,
    pub(crate) against: Option<String>,
    #[serde(default)]
    pub(crate) untrained: bool,
}

/// What `$DATA` and `$MODEL` stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// Folder of all data.
    pub(crate) data: PathBuf,
    /// Directory of the pretrained model.
    pub model: PathBuf,
}

impl Places {
    /// A path, or any text, with the places in it.
    pub(crate) fn fill(&self, text: &str) -> String {
        text.replace("$DATA", &self.data.to_string_lossy()).replace("$MODEL", &self.model.to_string_lossy())
    }

    /// The same of every text in a value.
    pub(super) fn fill_all(&self, value: &mut toml::Value) {
        match value {
            toml::Value::String(text) => *text = self.fill(text),
            toml::Value::Array(values) => values.iter_mut().for_each(|value| self.fill_all(value)),
            toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| self.fill_all(value)),
            _ => {}
        }
    }
}

impl Table {
    /// Reads and checks a table.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        read_toml(path, |table: &mut Self| table.check())
    }

    fn check(&self) -> Result<(), String> {
        plain_names("name", [self.name.as_str()])?;
        plain_names("variant.name", self.variants.iter().map(|variant| variant.name.as_str()))?;
        plain_names("evaluation.name", self.evaluations.iter().map(|evaluation| evaluation.name.as_str()))?;
        let against = self.variants.iter().filter_map(|variant| variant.against.as_ref());
        for name in against.chain([&self.baseline]) {
            if self.variant(name).is_none() {
                return Err(format!("`baseline` and `against`: expected names of variants, got `{name}`"));
            }
        }
        Ok(())
    }

    /// A variant by name.
    pub(crate) fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }

    /// What a variant is compared with; `None` for a variant that would be compared with itself.
    pub(crate) fn baseline_of<'a>(&'a self, variant: &'a Variant) -> Option<&'a str> {
        let name = variant.against.as_deref().unwrap_or(&self.baseline);
        (name != variant.name).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"t\"\ntitle = \"T\"\nbaseline = \"a\"\n\
        [[evaluation]]\nname = \"e\"\ndata = \"$DATA/e\"\n\
        [[variant]]\nname = \"a\"\n[[variant]]\nname = \"b\"\nagainst = \"a\"\n";

    fn read(text: &str) -> Result<Table> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.toml");
        fs_err::write(&path, text).unwrap();
        Table::read(&path)
    }

    #[test]
    fn tables_are_read_and_mistakes_are_named() {
        let table = read(TEXT).unwrap();
        assert_eq!((table.baseline_of(&table.variants[0]), table.baseline_of(&table.variants[1])), (None, Some("a")));
        assert_eq!(
            (table.evaluations[0].split.as_str(), table.evaluations[0].similarity),
            ("test", Similarity::Cosine)
        );
        for (from, to, expected) in [
            ("name = \"b\"", "name = \"a\"", "got `a` twice"),
            ("against = \"a\"", "against = \"c\"", "expected names of variants, got `c`"),
            ("title", "titel", "unknown field `titel`"),
            ("name = \"e\"", "name = \"e/f\"", "`evaluation.name`: expected letters"),
        ] {
            let message = read(&TEXT.replace(from, to)).unwrap_err().to_string();
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }

    #[test]
    fn places_are_filled_in_everywhere() {
        let places = Places { data: "/d".into(), model: "/m".into() };
        let mut value: toml::Value =
            "a = \"$DATA/x\"\nb = [\"$MODEL\", 1]\n[c]\nd = \"e\"\n".parse::<toml::Table>().unwrap().into();
        places.fill_all(&mut value);
        let expected: toml::Value =
            "a = \"/d/x\"\nb = [\"/m\", 1]\n[c]\nd = \"e\"\n".parse::<toml::Table>().unwrap().into();
        assert_eq!(value, expected);
    }
}

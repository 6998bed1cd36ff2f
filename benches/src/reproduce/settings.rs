//! The trainer's settings of one variant at one seed: the table's, the variant's over them, the command's over those.

use std::fmt;
use std::str::FromStr;

use dyad_encoder::train::Config;
use toml::{Table as Toml, Value};

use super::table::{ReproduceTable, TablePlaces, TableVariant};

/// `PATH=VALUE`: a setting of the trainer, and its value in TOML; what is no TOML is a text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SettingOverride {
    /// The override as it was given.
    text: String,
    path: Vec<String>,
    value: Value,
}

impl fmt::Display for SettingOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for SettingOverride {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected SETTING=VALUE, such as batch.size=32, got `{text}`");
        let (path, value) = text.split_once('=').ok_or_else(wrong)?;
        let path: Vec<String> = path.trim().split('.').map(str::to_owned).collect();
        if path.iter().any(String::is_empty) {
            return Err(wrong());
        }
        let parsed = format!("value = {value}")
            .parse::<Toml>()
            .ok()
            .and_then(|mut table| table.remove("value"));
        let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
        Ok(Self {
            text: text.to_owned(),
            path,
            value,
        })
    }
}

/// The settings, with all paths filled in.
pub(crate) fn settings(
    table: &ReproduceTable,
    variant: &TableVariant,
    seed: u64,
    places: &TablePlaces,
    overrides: &[SettingOverride],
) -> Result<Config, String> {
    let mut model = Toml::new();
    model.insert("path".to_owned(), Value::String("$MODEL".to_owned()));
    let mut settings = Toml::from_iter([("model".to_owned(), Value::Table(model))]);
    settings = over(over(settings, table.train.clone()), variant.train.clone());
    settings.insert(
        "seed".to_owned(),
        Value::Integer(i64::try_from(seed).map_err(|_| "seed is too large")?),
    );
    for one in overrides {
        set(&mut settings, &one.path, &one.value);
        // A stage's own value would hide it.
        if let Some(Value::Array(stages)) = settings.get_mut("stages") {
            for stage in stages {
                let section = one.path.first().and_then(|section| stage.get(section));
                if section.is_some_and(Value::is_table)
                    && let Value::Table(stage) = stage
                {
                    set(stage, &one.path, &one.value);
                }
            }
        }
    }
    let mut settings = Value::Table(settings);
    places.fill_all(&mut settings, seed);
    let text = toml::to_string(&settings).map_err(|error| error.to_string())?;
    Config::parse(&text).map_err(|reason| format!("variant `{}`: {reason}", variant.name))
}

/// Sets a value. Deeper than a section (`batch.size`) only where the settings have the table already:
/// `loss.endx.cross.heads` means nothing to a variant without ENDX.
fn set(table: &mut Toml, path: &[String], value: &Value) {
    let Some((key, parents)) = path.split_last() else {
        return;
    };
    let mut table = table;
    for (depth, parent) in parents.iter().enumerate() {
        if parents.len() > 1 && depth < 2 && !table.contains_key(parent) {
            return;
        }
        let below = table.entry(parent.clone()).or_insert_with(|| Value::Table(Toml::new()));
        let Value::Table(below) = below else { return };
        table = below;
    }
    table.insert(key.clone(), value.clone());
}

/// `upper` over `lower`, key by key; arrays as a whole.
fn over(mut lower: Toml, upper: Toml) -> Toml {
    for (key, value) in upper {
        let value = match (lower.remove(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => Value::Table(over(below, above)),
            (_, value) => value,
        };
        lower.insert(key, value);
    }
    lower
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ReproduceTable {
        let text = "name = \"t\"\ntitle = \"T\"\nbaseline = \"a\"\n\
            [train]\nbatch = { size = 8 }\ndata = { paths = [\"$DATA/x\"] }\n\
            [[evaluation]]\nname = \"e\"\ndata = \"$DATA/e\"\n\
            [[variant]]\nname = \"a\"\ntrain = { model = { sharing = \"ade\" } }\n\
            [[variant]]\nname = \"b\"\n\
            [variant.train.loss]\nsimilarity = \"inner-product\"\ntemperature = 1.0\n[variant.train.loss.endx.cross]\nheads = 4\n\
            [[variant]]\nname = \"c\"\n[[variant.train.stages]]\nname = \"s\"\nbatch = { size = 4 }\n\
            [[variant.train.stages]]\nname = \"t\"\n";
        toml::from_str(text).unwrap()
    }

    fn of(variant: usize, overrides: &[&str]) -> Result<Config, String> {
        let places = TablePlaces {
            data: "/d".into(),
            model: "/m".into(),
            out: "/o".into(),
        };
        let overrides: Vec<SettingOverride> = overrides.iter().map(|text| text.parse().unwrap()).collect();
        settings(&table(), &table().variants[variant], 3, &places, &overrides)
    }

    #[test]
    fn variants_lie_over_the_table_and_the_command_over_both() {
        let config = of(0, &[]).unwrap();
        assert_eq!(
            (config.seed, config.model.path.to_str(), config.stages[0].batch.size),
            (3, Some("/m"), 8)
        );
        assert_eq!(
            config.model.sharing.map(|sharing| sharing.to_string()).as_deref(),
            Some("ade")
        );
        assert_eq!(config.stages[0].data.paths[0].to_str(), Some("/d/x"));
        let config = of(
            0,
            &[
                "batch.size=2",
                "training.steps=5",
                "device=cuda",
                "loss.endx.cross.heads=2",
            ],
        )
        .unwrap();
        assert_eq!(
            (config.stages[0].batch.size, config.stages[0].training.steps),
            (2, Some(5))
        );
        assert!(config.device.to_string() == "cuda:0" || config.device.to_string() == "cuda");
        assert!(config.stages[0].loss.endx.is_none(), "a variant without ENDX stays one");
        let config = of(1, &["loss.endx.cross.heads=2"]).unwrap();
        assert_eq!(config.stages[0].loss.endx.map(|endx| endx.cross.heads), Some(2));
    }

    #[test]
    fn the_command_reaches_into_stages() {
        let sizes = |config: &Config| config.stages.iter().map(|stage| stage.batch.size).collect::<Vec<_>>();
        assert_eq!(sizes(&of(2, &[]).unwrap()), [4, 8]);
        assert_eq!(sizes(&of(2, &["batch.size=2"]).unwrap()), [2, 2]);
    }

    #[test]
    fn mistakes_are_told_with_their_variant() {
        assert!("batch.size".parse::<SettingOverride>().is_err() && ".=1".parse::<SettingOverride>().is_err());
        let message = of(0, &["batch.sise=2"]).unwrap_err();
        assert!(message.contains("variant `a`") && message.contains("sise"), "{message}");
    }
}

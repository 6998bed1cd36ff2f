//! Every setting of every configuration file of a model, and what is done with it.
//!
//! One list ([`FILES`]), from which all else follows: a value that would give other vectors in sentence-transformers
//! and cannot be computed here is refused, a setting that is not in the list is told when a model is opened, and
//! `dyad-encoder inspect --settings` prints the list as a table.

mod files;
mod rotary;
mod setting;

use std::path::Path;

use serde_json::Value;

use super::architecture::Architecture;
use super::json::JsonFile;
use super::modules::{Module, Placed};
use super::modules_json::{is_router, router_file};
use super::transformer::settings_file;
use crate::error::Error;

use files::{
    CONFIG, DENSE, FILES, FRAMED, MODEL, MODEL2VEC, MODULES, MULTIHOP, PARAMETERS, POOLING, PROCESSOR, ROUTER,
    SENTENCE, TOKENIZER, TRANSFORMER,
};
use rotary::ROTARY_CONFIG;
use setting::{SettingUse, SettingsFile};

/// Settings of a model that are in no list, by file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownSettings {
    /// The file, below the model's directory.
    pub(crate) file: String,
    pub(crate) names: Vec<String>,
}

/// Checks all configuration files of a model: its own, and those of its modules. Gives what is in no list.
pub(super) fn check(
    root: &Path,
    modules: &[Placed],
    modules_json: Option<&Value>,
) -> Result<Vec<UnknownSettings>, Error> {
    let mut unknown = Vec::new();
    let has_modules_json = modules_json.is_some();
    if let Some(value) = modules_json {
        check_modules(root, value, &mut unknown)?;
    }
    let mut note = |path: &Path, list: &SettingsFile, file: Option<JsonFile>| -> Result<(), Error> {
        let names = file.map(|file| list.check(&file)).transpose()?.unwrap_or_default();
        if !names.is_empty() {
            let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
            unknown.push(UnknownSettings { file, names });
        }
        Ok(())
    };
    let mut whole = |folder: &Path, name: &str, list: &SettingsFile| {
        let path = folder.join(name);
        note(&path, list, JsonFile::open_if_present(&path)?)
    };
    if has_modules_json {
        whole(root, "config_sentence_transformers.json", &SENTENCE)?;
    }
    let is_of_transformer = |folder: &Path| {
        modules
            .iter()
            .any(|placed| matches!(placed.module, Module::Transformer(_)) && placed.folder == folder)
    };
    for placed in modules {
        match &placed.module {
            Module::Transformer(config) => {
                whole(&placed.folder, "config.json", config_list(&config.architecture))?;
                // Other files of a static model, if any, are of no consequence, as in Python.
                if config.static_table().is_some() {
                    continue;
                }
                whole(&placed.folder, "tokenizer_config.json", &TOKENIZER)?;
                whole(&placed.folder, "special_tokens_map.json", &TOKENIZER)?;
            }
            // That of a cross encoder has no file of its own.
            Module::Pooling(_) if has_modules_json && !is_of_transformer(&placed.folder) => {
                whole(&placed.folder, "config.json", &POOLING)?;
            }
            Module::MultiHop(_) => whole(&placed.folder, "config.json", &MULTIHOP)?,
            Module::Dense(_) => whole(&placed.folder, "config.json", &DENSE)?,
            Module::Pooling(_) | Module::Normalize => {}
        }
    }
    for placed in modules.iter().filter(|_| has_modules_json) {
        let Module::Transformer(config) = &placed.module else {
            continue;
        };
        if config.static_table().is_some() {
            continue;
        }
        let Some(settings) = settings_file(&placed.folder)? else {
            continue;
        };
        let path = settings.path().to_owned();
        let inside = [
            ("config_kwargs", config_list(&config.architecture)),
            ("config_args", config_list(&config.architecture)),
            ("model_kwargs", &MODEL),
            ("model_args", &MODEL),
        ];
        for (name, list) in inside {
            note(
                &path,
                list,
                Some(JsonFile::new(path.clone(), Value::Object(settings.object(name)?))?),
            )?;
        }
        for name in ["processor_kwargs", "tokenizer_args"] {
            let given = JsonFile::new(path.clone(), Value::Object(settings.object(name)?))?;
            FRAMED.check(&given)?;
            let fields = settings
                .object(name)?
                .into_iter()
                .filter(|(name, _)| !PROCESSOR.settings.iter().any(|hub| hub.has(name)));
            let fields = Value::Object(fields.collect());
            note(&path, &TOKENIZER, Some(JsonFile::new(path.clone(), fields)?))?;
        }
        note(&path, &TRANSFORMER, Some(settings))?;
    }
    Ok(unknown)
}

/// The settings of the `config.json` of an architecture.
fn config_list(architecture: &Architecture) -> &'static SettingsFile {
    match architecture {
        Architecture::Rotary(_) => &ROTARY_CONFIG,
        Architecture::Static(_) => &MODEL2VEC,
        Architecture::Bert(_) | Architecture::T5(_) | Architecture::Recurrent(_) => &CONFIG,
    }
}

/// `modules.json`, and the settings of its `Router`.
fn check_modules(root: &Path, modules: &Value, unknown: &mut Vec<UnknownSettings>) -> Result<(), Error> {
    let entries = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut names = Vec::new();
    for entry in entries.iter().filter(|entry| entry.is_object()) {
        names.extend(MODULES.check(&JsonFile::new(root.join("modules.json"), entry.clone())?)?);
    }
    note(unknown, "modules.json", names);
    let text = |field: &str| entries.first()?.get(field)?.as_str();
    let (Some(class), Some(id)) = (text("type"), text("path")) else {
        return Ok(());
    };
    if is_router(class) {
        let settings = JsonFile::required(&router_file(&root.join(id)))?;
        let parameters = JsonFile::new(
            settings.path().to_owned(),
            Value::Object(settings.object("parameters")?),
        )?;
        let names = [ROUTER.check(&settings)?, PARAMETERS.check(&parameters)?].concat();
        note(unknown, "router_config.json", names);
    }
    Ok(())
}

fn note(unknown: &mut Vec<UnknownSettings>, file: &str, mut names: Vec<String>) {
    names.sort();
    names.dedup();
    if !names.is_empty() {
        unknown.push(UnknownSettings {
            file: file.to_owned(),
            names,
        });
    }
}

/// The list as a table in Markdown.
pub(crate) fn markdown() -> String {
    let mut table = String::from("| file | setting | what is done with it |\n|---|---|---|\n");
    for file in FILES {
        for known in file.settings {
            let names: Vec<String> = known.names.split_whitespace().map(|name| format!("`{name}`")).collect();
            let used = match known.used {
                SettingUse::Read(what) => what.to_owned(),
                SettingUse::NoEffect(reason) => format!("no effect: {reason}"),
                SettingUse::Only(values) => {
                    let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
                    if values.is_empty() {
                        "refused".to_owned()
                    } else {
                        format!("refused, unless it is {}", values.join(" or "))
                    }
                }
            };
            table.extend(["| ", file.name, " | ", &names.join(", "), " | ", &used, " |\n"]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(list: &SettingsFile, fields: Value) -> Result<Vec<String>, String> {
        let file = JsonFile::new("config.json".into(), fields).unwrap();
        list.check(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn a_setting_is_read_refused_or_told() {
        assert_eq!(
            check(
                &CONFIG,
                json!({"hidden_size": 3, "is_decoder": false, "use_cache": null})
            ),
            Ok(Vec::new())
        );
        let told = check(&CONFIG, json!({"a_new_way_to_attend": 3}));
        assert_eq!(told, Ok(vec!["a_new_way_to_attend".to_owned()]));
        let message = check(&CONFIG, json!({"is_decoder": true})).unwrap_err();
        assert!(
            message.contains("config.json") && message.contains("setting `is_decoder`"),
            "{message}"
        );
        assert!(message.contains("only `false`: true"), "{message}");
        assert_eq!(check(&TOKENIZER, json!({"image_token": "<image>"})), Ok(Vec::new()));
    }

    #[test]
    fn no_setting_stands_twice_in_a_list_and_all_values_are_json() {
        for file in FILES {
            let mut names: Vec<&str> = file
                .settings
                .iter()
                .flat_map(|known| known.names.split_whitespace())
                .collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", file.name);
            for known in file.settings {
                let SettingUse::Only(values) = known.used else { continue };
                assert!(
                    values.iter().all(|value| serde_json::from_str::<Value>(value).is_ok()),
                    "{known:?}"
                );
            }
        }
    }

    #[test]
    fn the_table_has_every_setting() {
        let table = markdown();
        for name in [
            "is_decoder",
            "truncation_side",
            "processor_kwargs",
            "use_residual",
            "route_mappings",
        ] {
            assert!(table.contains(&format!("`{name}`")), "{name}");
        }
        let rows = table.lines().filter(|line| !line.starts_with("|---"));
        assert!(
            rows.clone().count() > 40 && rows.clone().all(|line| line.matches(" | ").count() == 2),
            "{table}"
        );
    }
}

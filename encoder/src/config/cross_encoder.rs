//! Whether a directory holds a cross encoder, which scores a pair of texts (Nogueira and Cho 2019, "Passage Re-ranking
//! with BERT"), and what it makes of its logit.
//!
//! A cross encoder is a Hugging Face `...ForSequenceClassification` of one label, as sentence-transformers'
//! `CrossEncoder` writes it: up to 5.3 without `modules.json`, from 5.4 with a `Transformer` alone, whose
//! `sentence_bert_config.json` names the task.

use std::path::Path;

use serde_json::Value;

use super::json::JsonFile;
use crate::error::Error;

/// What becomes of a logit where a score is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreActivation {
    /// The logit itself.
    Identity,
    /// Between 0 and 1: sentence-transformers' default for one label.
    Sigmoid,
}

impl ScoreActivation {
    /// The score of a logit.
    pub fn of(self, logit: f32) -> f32 {
        match self {
            Self::Identity => logit,
            // In f64: f32's `exp` overflows below -88, where the score is 0 anyway, but not to the bit.
            Self::Sigmoid => (1.0 / (1.0 + (-f64::from(logit)).exp())) as f32,
        }
    }

    /// That of a cross encoder's directory, by the keys of sentence-transformers before 4.0, of 4.0 to 5.3, and from
    /// 5.4.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let config = JsonFile::required(&root.join("config.json"))?;
        let settings = JsonFile::open_if_present(&root.join("config_sentence_transformers.json"))?;
        let nested = config
            .get("sentence_transformers")
            .and_then(|own| own.get("activation_fn"))
            .and_then(Value::as_str);
        let class = match &settings {
            Some(settings) => settings.text("activation_fn")?,
            None => None,
        };
        let class = class
            .or(nested)
            .or(config.text("sbert_ce_default_activation_function")?);
        match class.map(|class| class.rsplit('.').next().unwrap_or(class)) {
            None | Some("Sigmoid") => Ok(Self::Sigmoid),
            Some("Identity") => Ok(Self::Identity),
            Some(other) => {
                Err(config.unsupported("activation of a score", "torch.nn's `Identity` and `Sigmoid`", other))
            }
        }
    }
}

/// Whether a `config.json` is that of a transformer with a head that classifies.
pub(super) fn has_classifier(config: &JsonFile) -> bool {
    let class = config
        .get("architectures")
        .and_then(|names| names.get(0))
        .and_then(Value::as_str);
    class.is_some_and(|class| class.ends_with("ForSequenceClassification"))
}

/// Whether the transformer in `folder` ends in a head that scores pairs. Refuses one of several labels, which
/// classifies them.
pub(super) fn scores(folder: &Path) -> Result<bool, Error> {
    let Some(config) = JsonFile::open_if_present(&folder.join("config.json"))? else {
        return Ok(false);
    };
    if !has_classifier(&config) {
        return Ok(false);
    }
    // Hugging Face writes the labels' names alone, and takes two where there are none.
    let named = config
        .get("id2label")
        .and_then(Value::as_object)
        .map(serde_json::Map::len);
    match named.or(config.count("num_labels")?).unwrap_or(2) {
        1 => Ok(true),
        labels => {
            let supported = "a cross encoder of one label, whose value is the score";
            Err(config.unsupported("classifier", supported, &format!("{labels} labels")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sigmoid_is_between_0_and_1_and_keeps_the_order() {
        let of = |logit| ScoreActivation::Sigmoid.of(logit);
        assert!(
            (of(0.0) - 0.5).abs() < 1e-7 && (of(2.0) - 0.880_797).abs() < 1e-6,
            "{} {}",
            of(0.0),
            of(2.0)
        );
        assert!(of(-200.0) >= 0.0 && of(200.0) <= 1.0 && of(-1.0) < of(1.0));
        assert_eq!(ScoreActivation::Identity.of(-3.5).to_bits(), (-3.5_f32).to_bits());
    }

    #[test]
    fn a_directory_says_by_its_class_and_its_labels_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let of = |config: &str| {
            fs_err::write(folder.path().join("config.json"), config).unwrap();
            scores(folder.path()).map_err(|error| error.to_string())
        };
        let class = r#""architectures": ["BertForSequenceClassification"]"#;
        assert_eq!(of(r#"{"architectures": ["BertModel"]}"#), Ok(false));
        assert_eq!(of("{}"), Ok(false));
        assert_eq!(of(&format!(r#"{{{class}, "id2label": {{"0": "LABEL_0"}}}}"#)), Ok(true));
        assert_eq!(of(&format!(r#"{{{class}, "num_labels": 1}}"#)), Ok(true));
        for two in [
            format!("{{{class}}}"),
            format!(r#"{{{class}, "id2label": {{"0": "no", "1": "yes"}}}}"#),
        ] {
            let message = of(&two).unwrap_err();
            assert!(
                message.contains("one label") && message.contains("2 labels"),
                "{message}"
            );
        }
        assert!(!scores(Path::new("nowhere")).unwrap());
    }
}

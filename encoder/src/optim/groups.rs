//! Rate and weight decay of each tensor, by its name.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Tensors that are treated differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Group {
    /// Names that are meant: `*` stands for any characters, everything else for itself.
    pub names: Vec<String>,
    /// Factor of the learning rate.
    #[serde(default = "one")]
    pub rate: f64,
    /// Weight decay instead of the optimizer's.
    #[serde(default)]
    pub weight_decay: Option<f64>,
}

fn one() -> f64 {
    1.0
}

/// Groups in order: a tensor's rate is that of the first one that names it, its decay that of the first one that names
/// it and says a decay; the optimizer's own where none does.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Groups(pub Vec<Group>);

/// The settings of one tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Treatment {
    pub(super) rate: f64,
    pub(super) weight_decay: f64,
}

impl Groups {
    /// No weight decay for biases, normalisation and the learned temperature; to be put after custom groups.
    pub fn without_decay() -> Group {
        // Names of the BERT family (`LayerNorm`, `layer_norm`, MPNet's `LayerNorm`), DistilBERT (`sa_layer_norm`), T5
        // (`layer_norm`), of torch's recurrent cells (`bias_ih_l0`) and of the cross-encoder branch (`norm`).
        let names = [
            "*.bias",
            "*.bias_*",
            "*LayerNorm.weight",
            "*layer_norm.weight",
            "*norm.weight",
            "loss/*",
        ];
        Group {
            names: names.map(str::to_owned).to_vec(),
            rate: 1.0,
            weight_decay: Some(0.0),
        }
    }

    /// The settings of the tensor of this name, with the optimizer's weight decay `weight_decay`.
    pub(super) fn of(&self, name: &str, weight_decay: f64) -> Treatment {
        let named = |group: &&Group| group.names.iter().any(|pattern| matches(pattern, name));
        let mut of_it = self.0.iter().filter(named);
        let rate = of_it.clone().next().map_or(1.0, |group| group.rate);
        let stated = of_it.find_map(|group| group.weight_decay);
        Treatment {
            rate,
            weight_decay: stated.unwrap_or(weight_decay),
        }
    }

    /// Refuses values that cannot be.
    pub fn check_values(&self) -> Result<(), Error> {
        for group in &self.0 {
            not_negative("rate of a group", group.rate)?;
            not_negative("weight-decay of a group", group.weight_decay.unwrap_or(0.0))?;
        }
        Ok(())
    }

    /// Refuses values that cannot be, and groups that name none of `names`.
    pub(super) fn check(&self, names: &[&str]) -> Result<(), Error> {
        self.check_values()?;
        for group in &self.0 {
            for pattern in &group.names {
                let ours = Self::without_decay().names.contains(pattern);
                if !ours && !names.iter().any(|name| matches(pattern, name)) {
                    return Err(Error::Setting {
                        setting: "names of a group",
                        expected: format!(
                            "the name of a tensor that learns, such as `{}`",
                            names.first().unwrap_or(&"")
                        ),
                        got: pattern.clone(),
                    });
                }
            }
        }
        Ok(())
    }
}

/// Refuses a number that is negative or none.
pub(super) fn not_negative(setting: &'static str, value: f64) -> Result<(), Error> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::Setting {
        setting,
        expected: "a number from 0".to_owned(),
        got: value.to_string(),
    })
}

/// Whether `name` matches `pattern`, where `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(start) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, expected) in [
            ("a.weight", "a.weight", true),
            ("a.weight", "b.a.weight", false),
            ("*", "", true),
            ("*.bias", "x/y.bias", true),
            ("*.bias", "x/y.bias_ih", false),
            ("x*y*z", "x-y-y-z", true),
            ("x*y*z", "x-z-y", false),
            ("ab*ba", "aba", false),
            ("*a*a", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_first_group_that_names_a_tensor_holds() {
        let table = Group {
            names: vec!["*embeddings*".to_owned()],
            rate: 0.1,
            weight_decay: None,
        };
        let groups = Groups(vec![table, Groups::without_decay()]);
        let treatment = |rate, weight_decay| Treatment { rate, weight_decay };
        for (name, expected) in [
            ("0/embeddings.word_embeddings.weight", treatment(0.1, 0.01)),
            // The rate of the one, and no decay by the other.
            ("0/embeddings.LayerNorm.bias", treatment(0.1, 0.0)),
            ("0/encoder.layer.0.output.LayerNorm.weight", treatment(1.0, 0.0)),
            ("0/encoder.block.0.layer.1.layer_norm.weight", treatment(1.0, 0.0)),
            ("0/encoder.final_layer_norm.weight", treatment(1.0, 0.0)),
            ("0/transformer.layer.0.sa_layer_norm.bias", treatment(1.0, 0.0)),
            ("0/rnn.bias_ih_l0_reverse", treatment(1.0, 0.0)),
            ("loss/log_temperature", treatment(1.0, 0.0)),
            ("2_Dense/linear.weight", treatment(1.0, 0.01)),
        ] {
            assert_eq!(groups.of(name, 0.01), expected, "{name}");
        }
    }

    #[test]
    fn groups_that_cannot_be_are_refused() {
        let group = |pattern: &str, rate| {
            Groups(vec![Group {
                names: vec![pattern.to_owned()],
                rate,
                weight_decay: None,
            }])
        };
        let names = ["2_Dense/linear.weight"];
        assert!(group("2_Dense/*", 0.0).check(&names).is_ok());
        assert!(
            Groups(vec![Groups::without_decay()]).check(&names).is_ok(),
            "a model may have no bias"
        );
        let message = group("3_Dense/*", 1.0).check(&names).unwrap_err().to_string();
        assert!(
            message.contains("3_Dense/*") && message.contains("2_Dense/linear.weight"),
            "{message}"
        );
        assert!(
            group("*", -1.0)
                .check(&names)
                .unwrap_err()
                .to_string()
                .contains("got: -1")
        );
    }
}

//! How fast each pair of values of a query or key is rotated from one position to the next.

use serde_json::{Map, Value};

use crate::config::json::JsonFile;
use crate::error::Error;

/// Fields of the settings of a rotation that are read, or change nothing where the type is one of ours.
const KNOWN: [&str; 5] = [
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
];

/// `theta^(-2i / d) / factor` for the pair `i` of `d / 2` (Su et al. 2021, section 3.2.2; the factor is Chen et al.
/// 2023's position interpolation).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RopeFrequencies {
    pub(crate) theta: f64,
    pub(crate) factor: f64,
}

/// Where the settings of a rotation stand, and what they mean without them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RopeSettings<'a> {
    /// The object of the settings; nothing where a file has none.
    pub(super) fields: Option<&'a Map<String, Value>>,
    /// Theta where `fields` do not say it.
    pub(super) theta: f64,
    /// Values of a head.
    pub(super) head_size: usize,
    /// Whether `ntk` is known: that of GTE's own code.
    pub(super) has_ntk: bool,
}

impl RopeFrequencies {
    /// From the settings of a rotation in `file`.
    pub(super) fn read(file: &JsonFile, settings: RopeSettings<'_>) -> Result<Self, Error> {
        let RopeSettings {
            fields,
            theta,
            head_size,
            has_ntk,
        } = settings;
        let wrong = |expected: &str, got: &Value| file.wrong_inside("rope_parameters", expected, got);
        let get = |name: &str| fields?.get(name).filter(|value| !value.is_null());
        let number = |name: &str| match get(name) {
            None => Ok(None),
            Some(value) => match value.as_f64().filter(|number| number.is_finite() && *number > 0.0) {
                Some(number) => Ok(Some(number)),
                None => Err(wrong("numbers above 0", value)),
            },
        };
        let unknown = fields
            .into_iter()
            .flatten()
            .find(|(name, value)| !value.is_null() && !KNOWN.contains(&name.as_str()));
        if let Some((name, _)) = unknown {
            return Err(file.unsupported(
                "setting of `rope_parameters` (or `rope_scaling`)",
                "`rope_type`, `rope_theta` and `factor`",
                name,
            ));
        }
        let theta = number("rope_theta")?.unwrap_or(theta);
        let kind = get("rope_type").or_else(|| get("type"));
        let kind = match kind {
            None => "default",
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(wrong("a `rope_type` that is a string", other)),
        };
        let factor = number("factor")?;
        let needed = || factor.ok_or_else(|| wrong("a `factor`", &Value::from(kind)));
        match kind {
            "default" => Ok(Self { theta, factor: 1.0 }),
            "linear" => Ok(Self {
                theta,
                factor: needed()?,
            }),
            // `NTKScalingRotaryEmbedding` of `Alibaba-NLP/new-impl`: a larger base, and all of it slower.
            "ntk" if has_ntk => {
                let factor = needed()?;
                Ok(Self {
                    theta: theta * factor,
                    factor: factor.powf(2.0 / head_size as f64),
                })
            }
            other => Err(file.unsupported(
                "kind of rotary positions",
                if has_ntk {
                    "`default`, `linear` and `ntk`"
                } else {
                    "`default` and `linear`"
                },
                other,
            )),
        }
    }
}

//! What of its document reaches a passage's vector.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Weight of the tokens in the document where none is named.
const DEFAULT_LATE: u16 = 50;
/// Largest weight, in hundredths.
const MOST_LATE: f64 = 1_000.0;

/// What of its document reaches a passage's vector: its title, and its own tokens in the document (late chunking,
/// Günther et al. 2024, arXiv:2409.04701).
///
/// Written as `none`, `title`, `late` or `title+late`, with a weight after a colon: `title+late:0.5`. With weight *w* a
/// vector is `e + w l`, of unit length, where `e` is the vector of the passage, after its title or not, and `l` that of
/// its tokens in the document, both of unit length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PassageContext {
    title: bool,
    /// The share of late pooling in hundredths; 0 where the document is not read.
    late: u16,
}

impl Default for PassageContext {
    fn default() -> Self {
        Self { title: true, late: 0 }
    }
}

impl PassageContext {
    /// Whether the title stands before the passage.
    pub fn has_title(self) -> bool {
        self.title
    }

    /// The weight of the tokens in the document; none where that is not read.
    pub fn late_weight(self) -> Option<f32> {
        (self.late > 0).then(|| f32::from(self.late) / 100.0)
    }

    /// As it is stored: nothing where it is the default.
    pub fn stored(self) -> Option<String> {
        (!self.is_default()).then(|| self.to_string())
    }

    /// What was stored. An error where this release does not know it.
    pub fn of_stored(stored: Option<&str>) -> Result<Self, String> {
        stored.map_or(Ok(Self::default()), str::parse)
    }

    /// Whether it is that of embeddings which do not say.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for PassageContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.title, self.late_weight()) {
            (false, None) => f.write_str("none"),
            (true, None) => f.write_str("title"),
            (title, Some(weight)) => write!(f, "{}late:{weight}", if title { "title+" } else { "" }),
        }
    }
}

impl FromStr for PassageContext {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("expected none, title, late or title+late, or late:WEIGHT with 0.01 to 10, got: {text}");
        let (kind, weight) = match text.split_once(':') {
            None => (text, DEFAULT_LATE),
            Some((kind, weight)) => {
                let hundredths = weight.parse::<f64>().map_err(|_| refused())? * 100.0;
                if !(1.0..=MOST_LATE).contains(&hundredths) || !kind.ends_with("late") {
                    return Err(refused());
                }
                (kind, hundredths.round() as u16)
            }
        };
        match kind {
            "none" => Ok(Self { title: false, late: 0 }),
            "title" => Ok(Self { title: true, late: 0 }),
            "late" => Ok(Self {
                title: false,
                late: weight,
            }),
            "title+late" => Ok(Self {
                title: true,
                late: weight,
            }),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for PassageContext {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PassageContext> for String {
    fn from(context: PassageContext) -> Self {
        context.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_they_are_written() {
        for (text, written, title, late) in [
            ("none", "none", false, None),
            ("title", "title", true, None),
            ("late", "late:0.5", false, Some(0.5)),
            ("title+late", "title+late:0.5", true, Some(0.5)),
            ("title+late:1", "title+late:1", true, Some(1.0)),
            ("late:0.25", "late:0.25", false, Some(0.25)),
        ] {
            let context: PassageContext = text.parse().unwrap();
            assert_eq!(
                (context.to_string().as_str(), context.has_title(), context.late_weight()),
                (written, title, late)
            );
            assert_eq!(written.parse::<PassageContext>().unwrap(), context);
        }
        assert!(PassageContext::default().is_default() && "title".parse::<PassageContext>().unwrap().is_default());
        for refused in [
            "",
            "titel",
            "title:0.5",
            "late:0",
            "late:11",
            "late:x",
            "late:nan",
            "title+late:",
        ] {
            assert!(refused.parse::<PassageContext>().is_err(), "{refused}");
        }
    }
}

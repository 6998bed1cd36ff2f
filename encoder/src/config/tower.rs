//! The two sides of a dual encoder.

use std::fmt;
use std::str::FromStr;

/// A side of the dual encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tower {
    /// Embeds what is asked.
    Question,
    /// Embeds what may answer.
    Answer,
}

impl Tower {
    /// Both, in the order in which what belongs to one is held.
    pub const BOTH: [Self; 2] = [Self::Question, Self::Answer];

    /// `question` or `answer`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Answer => "answer",
        }
    }

    /// Its place in [`Self::BOTH`].
    pub(crate) fn index(self) -> usize {
        usize::from(self == Self::Answer)
    }
}

impl fmt::Display for Tower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tower {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "question" => Ok(Self::Question),
            "answer" => Ok(Self::Answer),
            _ => Err(format!("tower must be `question` or `answer`, got: {name}")),
        }
    }
}

//! Parameter sharing of two towers: one table of three parts, and the five named variants.
//!
//! | | token embedder | transformer | projection |
//! |---|---|---|---|
//! | `sde` | shared | shared | shared |
//! | `ade` | separate | separate | separate |
//! | `ade-ste` | shared | separate | separate |
//! | `ade-fte` | frozen | separate | separate |
//! | `ade-spl` | separate | separate | shared |
//!
//! (Dong et al. 2022, "Exploring Dual Encoder Architectures for Question Answering", section 2.) Any other combination
//! is written out: `token=shared,transformer=separate,projection=frozen`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the towers hold a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tie {
    /// One set of tensors for both.
    Shared,
    /// Each its own.
    Separate,
    /// Each its own, and training leaves it as it is: equal parts stay equal.
    Frozen,
}

impl Tie {
    const ALL: [Self; 3] = [Self::Shared, Self::Separate, Self::Frozen];

    fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Separate => "separate",
            Self::Frozen => "frozen",
        }
    }
}

/// A part of a tower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TowerPart {
    /// The table of token vectors.
    TokenEmbedder,
    /// All other tensors of the transformer.
    Transformer,
    /// The projection after the pooling.
    Projection,
}

/// How two towers hold their parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sharing {
    /// The table of token vectors.
    pub token: Tie,
    /// Whether all other tensors of the transformer are shared.
    pub transformer: Tie,
    /// The projection after the pooling.
    pub projection: Tie,
}

impl Sharing {
    /// Siamese dual encoder: one tower.
    pub const SDE: Self = Self::of(Tie::Shared, Tie::Shared, Tie::Shared);
    /// Asymmetric dual encoder: two towers.
    pub const ADE: Self = Self::of(Tie::Separate, Tie::Separate, Tie::Separate);
    /// Asymmetric, shared token embedder.
    pub const ADE_STE: Self = Self::of(Tie::Shared, Tie::Separate, Tie::Separate);
    /// Asymmetric, frozen token embedder.
    pub const ADE_FTE: Self = Self::of(Tie::Frozen, Tie::Separate, Tie::Separate);
    /// Asymmetric, shared projection layer.
    pub const ADE_SPL: Self = Self::of(Tie::Separate, Tie::Separate, Tie::Shared);

    const NAMED: [(&'static str, Self); 5] = [
        ("sde", Self::SDE),
        ("ade", Self::ADE),
        ("ade-ste", Self::ADE_STE),
        ("ade-fte", Self::ADE_FTE),
        ("ade-spl", Self::ADE_SPL),
    ];

    const fn of(token: Tie, transformer: Tie, projection: Tie) -> Self {
        Self {
            token,
            transformer,
            projection,
        }
    }

    /// How a part is held.
    pub fn tie(self, part: TowerPart) -> Tie {
        match part {
            TowerPart::TokenEmbedder => self.token,
            TowerPart::Transformer => self.transformer,
            TowerPart::Projection => self.projection,
        }
    }

    /// Whether both towers run the same modules up to the pooling.
    pub fn has_one_transformer(self) -> bool {
        self.token == Tie::Shared && self.transformer == Tie::Shared
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((name, _)) = Self::NAMED.iter().find(|(_, sharing)| sharing == self) {
            return f.write_str(name);
        }
        let Self {
            token,
            transformer,
            projection,
        } = *self;
        let (token, transformer, projection) = (token.name(), transformer.name(), projection.name());
        write!(f, "token={token},transformer={transformer},projection={projection}")
    }
}

impl FromStr for Sharing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, sharing)) = Self::NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(*sharing);
        }
        let wrong = || {
            format!(
                "sharing must be `sde`, `ade`, `ade-ste`, `ade-fte`, `ade-spl`, or `token=T,transformer=T,projection=T` with \
                 `shared`, `separate` or `frozen` for each T, got: {text}"
            )
        };
        let mut ties = [None; 3];
        for pair in text.split(',') {
            let (part, tie) = pair.split_once('=').ok_or_else(wrong)?;
            let at = ["token", "transformer", "projection"]
                .iter()
                .position(|name| *name == part)
                .ok_or_else(wrong)?;
            let tie = Tie::ALL
                .into_iter()
                .find(|known| known.name() == tie)
                .ok_or_else(wrong)?;
            if ties[at].replace(tie).is_some() {
                return Err(wrong());
            }
        }
        match ties {
            [Some(token), Some(transformer), Some(projection)] => Ok(Self {
                token,
                transformer,
                projection,
            }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_27_are_read_as_they_are_printed() {
        let mut named = 0;
        for token in Tie::ALL {
            for transformer in Tie::ALL {
                for projection in Tie::ALL {
                    let sharing = Sharing {
                        token,
                        transformer,
                        projection,
                    };
                    assert_eq!(sharing.to_string().parse(), Ok(sharing));
                    named += usize::from(!sharing.to_string().contains('='));
                }
            }
        }
        assert_eq!(named, 5);
        assert_eq!(
            "projection=shared,token=frozen,transformer=separate"
                .parse::<Sharing>()
                .unwrap()
                .token,
            Tie::Frozen
        );
    }

    #[test]
    fn other_names_are_refused_with_the_choices() {
        for text in [
            "",
            "spl",
            "token=shared",
            "token=shared,token=shared,projection=shared",
            "token=tied,a=b,c=d",
        ] {
            let message = text.parse::<Sharing>().unwrap_err();
            assert!(message.contains("`ade-spl`") && message.ends_with(text), "{message}");
        }
    }
}

//! What is measured: a ranking mode, through the graph or exact.

use std::fmt;

use clap::ValueEnum;
use dyad_proto::v1;

/// A ranking that a searcher serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Nearest vectors.
    Dense,
    /// Okapi BM25.
    Bm25,
    /// Reciprocal rank fusion of both.
    Hybrid,
}

impl Mode {
    /// The mode's name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Bm25 => "bm25",
            Self::Hybrid => "hybrid",
        }
    }
}

impl From<Mode> for v1::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Dense => Self::Dense,
            Mode::Bm25 => Self::Bm25,
            Mode::Hybrid => Self::Hybrid,
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct System {
    /// The ranking.
    pub mode: Mode,
    /// Every vector compared, instead of a walk over the graph.
    pub exact: bool,
}

impl System {
    /// The run's file name without its folder, for example `dense-exact.run`.
    pub fn run_file(self) -> String {
        format!("{}.run", self.slug())
    }

    /// The run's last column, for example `dyad-dense-exact`.
    pub fn tag(self) -> String {
        format!("dyad-{}", self.slug())
    }

    fn slug(self) -> String {
        format!("{}{}", self.mode.name(), if self.exact { "-exact" } else { "" })
    }
}

/// `dense`, `dense exact`, ...
impl fmt::Display for System {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{}{}", self.mode.name(), if self.exact { " exact" } else { "" }))
    }
}

/// The systems behind `modes`, each once and in their order; those with vectors followed by their exact form.
pub fn systems(modes: &[Mode]) -> Vec<System> {
    let mut systems = Vec::new();
    for &mode in modes {
        let forms: &[bool] = if mode == Mode::Bm25 { &[false] } else { &[false, true] };
        for &exact in forms {
            let system = System { mode, exact };
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
    }
    systems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_searched_both_ways_and_each_system_once() {
        let names: Vec<String> =
            systems(&[Mode::Hybrid, Mode::Bm25, Mode::Hybrid]).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["hybrid", "hybrid exact", "bm25"]);
        let exact = System { mode: Mode::Dense, exact: true };
        assert_eq!((exact.run_file(), exact.tag()), ("dense-exact.run".to_owned(), "dyad-dense-exact".to_owned()));
    }
}

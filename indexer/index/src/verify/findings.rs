//! What a verification has found.

use std::path::Path;

use crate::error::Error;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The generation checked.
    pub generation: u64,
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// One line per problem; empty for a valid index.
    pub problems: Vec<String>,
    /// Whether the check was cancelled: there may be more problems.
    pub stopped: bool,
    /// Why the check could not be made, such as too few files. Says nothing of the index.
    pub prevented: Option<String>,
}

impl Findings {
    /// Notes what could not be read, or that nothing could be.
    pub(super) fn failed(&mut self, error: &Error) {
        if error.is_shortage() {
            self.stopped = true;
            self.prevented = Some(error.to_string());
        } else {
            self.note(error);
        }
    }

    pub(super) fn note(&mut self, problem: impl std::fmt::Display) {
        self.problems.push(problem.to_string());
    }

    pub(super) fn differ(&mut self, path: &Path, part: &str, expected: &str, got: &str) {
        self.note(format!("`{}`, {part}: expected {expected}, got {got}", path.display()));
    }
}

/// Differences between vectors and texts that are listed one by one.
pub(super) const MAX_LISTED: usize = 10;

/// Documents compared between two checks for cancellation.
pub(super) const BETWEEN_CHECKS: u32 = 1 << 10;

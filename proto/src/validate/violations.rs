//! Violations: fields of a request that are invalid.

/// One invalid field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, for example `texts[3]`.
    pub field: String,
    /// What was expected and what came.
    pub description: String,
}

/// All invalid fields of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid request: {}", .0.iter().map(|v| format!("`{}`: {}", v.field, v.description)).collect::<Vec<_>>().join("; "))]
pub struct Violations(pub Vec<Violation>);

impl From<Violations> for tonic::Status {
    fn from(violations: Violations) -> Self {
        Self::invalid_argument(violations.to_string())
    }
}

/// Collects violations. At most 16 are reported, so that a reply stays small.
#[derive(Debug, Default)]
pub(super) struct Check(Vec<Violation>);

impl Check {
    pub(super) fn fail(&mut self, field: impl Into<String>, description: impl Into<String>) {
        if self.0.len() < 16 {
            self.0.push(Violation { field: field.into(), description: description.into() });
        }
    }

    pub(super) fn count(&mut self, field: &str, got: usize, max: usize) {
        if got == 0 || got > max {
            self.fail(field, format!("expected 1 to {max} entries, got {got}"));
        }
    }

    pub(super) fn text(&mut self, field: &str, text: &str, max_bytes: usize) {
        if text.trim().is_empty() {
            self.fail(field, "expected text, got none");
        } else if text.len() > max_bytes {
            self.fail(field, format!("expected at most {max_bytes} bytes, got {}", text.len()));
        }
    }

    pub(super) fn key(&mut self, field: &str, key: &str) {
        // A fault of a key does not repeat the key, which may be long.
        self.text(field, key, crate::limits::MAX_KEY_BYTES);
    }

    pub(super) fn at_most(&mut self, field: &str, got: u32, max: u32) {
        if got > max {
            self.fail(field, format!("expected at most {max}, got {got}"));
        }
    }

    pub(super) fn done(self) -> Result<(), Violations> {
        if self.0.is_empty() { Ok(()) } else { Err(Violations(self.0)) }
    }
}

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
pub struct Check(Vec<Violation>);

impl Check {
    pub(super) fn fail(&mut self, field: impl Into<String>, description: impl Into<String>) {
        if self.0.len() < 16 {
            self.0.push(Violation {
                field: field.into(),
                description: description.into(),
            });
        }
    }

    pub(super) fn done(self) -> Result<(), Violations> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Violations(self.0))
        }
    }
}

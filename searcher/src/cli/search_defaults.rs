//! `--search-defaults`: what searches mean where they leave it open.

use clap::Args;
use dyad_command::UsageError;

use super::indexes::ServedChoice;
use crate::plan::{NamedSearchDefaults, ServedSearchDefaults};

/// The defaults of the indexes that are served.
#[derive(Debug, Args)]
pub(super) struct SearchDefaultsOptions {
    /// Parameters of searches that leave them open, such as `ef=64,fusion-depth=200,dense-weight=0.6` (also
    /// `target-recall` in place of `ef`, and `document-weight`), of all indexes, or of one by its name before a colon:
    /// `wiki:ef=64`. May be given several times.
    #[arg(long, value_name = "[NAME:]PARAMETERS")]
    search_defaults: Vec<NamedSearchDefaults>,
}

impl SearchDefaultsOptions {
    /// The defaults by index.
    pub(super) fn defaults(&self) -> ServedSearchDefaults {
        ServedSearchDefaults::new(self.search_defaults.iter().cloned())
    }

    /// Refuses defaults of an index that is not served.
    pub(super) fn check(&self, chosen: &ServedChoice) -> Result<(), UsageError> {
        let is_served = |name: &str| chosen.paths.iter().any(|index| *index.name == *name);
        let defaults = self.defaults();
        let Some(unknown) = defaults.names().find(|name| !is_served(name)) else {
            return Ok(());
        };
        let served: Vec<&str> = chosen.paths.iter().map(|index| &*index.name).collect();
        Err(UsageError(format!(
            "--search-defaults: expected an index of `{}`, got `{unknown}`",
            served.join("`, `")
        )))
    }
}

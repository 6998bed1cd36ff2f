//! All trials of a table, in order; then what is finished of it.

use anyhow::anyhow;
use dyad_command::JobCancellation;

use super::settings::{SettingOverride, settings};
use super::table::{ReproduceTable, TablePlaces};
use super::trial::{QuestionValues, TrialPlan, VariantTrial};
use crate::error::check;
use crate::harness::{MachineInfo, RunInfo};

/// What is to be done.
#[derive(Debug)]
pub(crate) struct ReproduceJob<'a> {
    pub(crate) table: &'a ReproduceTable,
    /// What the table's texts that begin with `$` stand for.
    pub(crate) places: TablePlaces,
    pub(crate) seeds: Vec<u64>,
    /// Variants whose trials are run; all where empty. What is finished of the others is reported too.
    pub(crate) only: Vec<String>,
    /// Over the settings of all variants.
    pub(crate) overrides: Vec<SettingOverride>,
    /// The command as it was given, for the record.
    pub(crate) command: String,
    pub(crate) cancel: JobCancellation,
}

/// What is finished of a table.
#[derive(Debug)]
pub(crate) struct Reproduced {
    pub(crate) table: ReproduceTable,
    /// The command as it was given.
    pub(crate) command: String,
    /// Trials in the table's order, seed by seed within a variant, each with the values of its questions per
    /// evaluation.
    pub(super) trials: Vec<(VariantTrial, Vec<QuestionValues>)>,
    pub(crate) machine: MachineInfo,
    /// When, and of which source.
    pub(crate) stamp: RunInfo,
}

impl Reproduced {
    /// The trials of a variant.
    pub(super) fn trials_of(&self, variant: &str) -> impl Iterator<Item = &(VariantTrial, Vec<QuestionValues>)> {
        self.trials.iter().filter(move |(trial, _)| trial.variant == variant)
    }
}

/// Runs a table; `note` hears what is being done.
pub(crate) fn run(job: &ReproduceJob<'_>, note: &dyn Fn(&str)) -> anyhow::Result<Reproduced> {
    let table = job.table;
    if let Some(unknown) = job.only.iter().find(|name| table.variant(name).is_none()) {
        let known: Vec<&str> = table.variants.iter().map(|variant| variant.name.as_str()).collect();
        return Err(anyhow!(
            "--only: expected variants of the table ({}), got `{unknown}`",
            known.join(", ")
        ));
    }
    for part in &table.parts {
        part.make(&job.places)?;
    }
    for evaluated in &table.evaluations {
        let data = job.places.fill(&evaluated.data, 0);
        if !std::path::Path::new(&data).exists() {
            let name = &evaluated.name;
            return Err(anyhow!(
                "evaluation `{name}`: no such folder: `{data}`. DYAD_DATA (or --data) names the folder of all data"
            ));
        }
    }
    // Mistakes in the settings of a last variant are told before the first one is trained.
    let mut configs = Vec::new();
    for variant in &table.variants {
        // A model that nothing of the table makes has no seed.
        let has_seeds = !(variant.untrained && variant.references(table).is_empty());
        for &seed in job.seeds.iter().take(if has_seeds { usize::MAX } else { 1 }) {
            let config =
                settings(table, variant, seed, &job.places, &job.overrides).map_err(|reason| anyhow!(reason))?;
            configs.push((variant, config));
        }
    }
    let todos = configs.iter().map(|(variant, config)| TrialPlan {
        variant,
        config,
        table,
        places: &job.places,
        cancel: &job.cancel,
        folder: job.places.trial(&variant.name, config.seed),
    });
    for todo in todos
        .clone()
        .filter(|todo| job.only.is_empty() || job.only.contains(&todo.variant.name))
    {
        if todo.finished()?.is_none() {
            check(&job.cancel)?;
            todo.run(note)?;
        }
    }
    let mut trials = Vec::new();
    for todo in todos {
        trials.extend(todo.finished()?);
    }
    Ok(Reproduced {
        table: table.clone(),
        command: job.command.clone(),
        trials,
        machine: MachineInfo::this(),
        stamp: RunInfo::now(),
    })
}

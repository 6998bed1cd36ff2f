//! What a command says at its end: one value, printed as lines for people or as an object for programs.

use std::fmt;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::Instant;

use dyad_index::ModelRecord;
use dyad_index::manifest::Change;
use dyad_indexer::change::ChangeOutcome;
use dyad_indexer::gc::CollectedGenerations;
use dyad_indexer::plan::ByteSize;
use serde::Serialize;

/// Whether a command prints an object for programs.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl OutputArguments {
    /// Prints a report, which displays itself as whole lines, to standard output.
    pub(super) fn print<R: Serialize + fmt::Display>(&self, report: &R) -> io::Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            // Not straight to the writer: the JSON error would hide a broken pipe.
            writeln!(out, "{}", serde_json::to_string_pretty(report)?)?;
        } else {
            write!(out, "{report}")?;
        }
        out.flush()
    }
}

/// How a change is made and reported.
#[derive(Debug, clap::Args)]
pub(super) struct ChangeArguments {
    /// Change nothing; say what would be changed
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) output: OutputArguments,
}

/// What a change of an index did, or would do.
#[derive(Debug, Serialize)]
pub(super) struct ChangeReport {
    index: String,
    dry_run: bool,
    /// The new generation; absent where nothing was published.
    generation: Option<u64>,
    /// The new generation's model, where the change is one of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<ModelRecord>,
    documents_before: u64,
    documents_after: u64,
    change: Change,
    seconds: f64,
    /// The generations that were removed after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    collected: Option<CollectedGenerations>,
}

impl ChangeReport {
    /// The report of a change that has just ended.
    pub(super) fn new(index: &Path, outcome: &ChangeOutcome, dry_run: bool, began: Instant) -> Self {
        Self {
            index: index.display().to_string(),
            dry_run,
            generation: outcome.manifest.as_ref().map(|manifest| manifest.generation),
            model: None,
            documents_before: outcome.documents_before,
            documents_after: outcome.documents_after,
            change: outcome.change.clone(),
            seconds: began.elapsed().as_secs_f64(),
            collected: None,
        }
    }

    /// With the generations that were removed.
    pub(super) fn with_collected(self, collected: &CollectedGenerations) -> Self {
        Self {
            collected: Some(collected.clone()),
            ..self
        }
    }

    /// With the model of the new generation, which is told in place of the counts.
    pub(super) fn with_model(self, model: &ModelRecord) -> Self {
        Self {
            model: Some(model.clone()),
            ..self
        }
    }
}

impl fmt::Display for ChangeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, seconds, .. } = self;
        if let (Some(model), Some(generation)) = (&self.model, self.generation) {
            return writeln!(
                f,
                "re-embedded {} documents by `{}` (fingerprint {}): generation {generation} of `{index}`, {seconds:.1} s. A \
                 searcher that has this model loads it; `dyad-indexer rollback` goes back to the one before",
                self.documents_after, model.name, model.fingerprint,
            );
        }
        match self.generation {
            Some(generation) => write!(f, "published generation {generation} of `{index}`")?,
            None if self.dry_run => write!(f, "dry run: `{index}` is unchanged")?,
            None => write!(f, "nothing to change: `{index}` is unchanged")?,
        }
        writeln!(
            f,
            ": {} -> {} documents, {seconds:.1} s",
            self.documents_before, self.documents_after
        )?;
        writeln!(f, "{}", self.change.counts())?;
        match &self.collected {
            Some(collected) => write_collected(f, collected, self.dry_run),
            None => Ok(()),
        }
    }
}

/// The generations that `gc` removed, or would remove.
#[derive(Debug, Serialize)]
pub(super) struct CollectedReport {
    #[serde(flatten)]
    pub(super) collected: CollectedGenerations,
    #[serde(skip)]
    pub(super) dry_run: bool,
}

impl fmt::Display for CollectedReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_collected(f, &self.collected, self.dry_run)
    }
}

fn write_collected(f: &mut fmt::Formatter<'_>, collected: &CollectedGenerations, dry_run: bool) -> fmt::Result {
    let CollectedGenerations {
        removed,
        in_use,
        kept,
        bytes,
    } = collected;
    f.write_str(if dry_run { "would remove " } else { "removed " })?;
    if removed.is_empty() {
        f.write_str("no generation")?;
    } else {
        write!(f, "generations {}", join_numbers(removed))?;
    }
    let (bytes, kept) = (ByteSize(*bytes), join_numbers(kept));
    write!(f, " and {bytes} of files; generations {kept} are left")?;
    if !in_use.is_empty() {
        write!(f, "; {} are in use", join_numbers(in_use))?;
    }
    writeln!(f)
}

/// Ascending numbers between commas: "1, 2, 5 to 203".
pub(super) fn join_numbers(all: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in all {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let words = |(first, last): &(u64, u64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first} to {last}"),
    };
    runs.iter().map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_told_as_one_run() {
        assert_eq!(join_numbers(&[]), "");
        assert_eq!(join_numbers(&[4]), "4");
        assert_eq!(join_numbers(&[1, 2, 4, 7, 8, 9, 203]), "1, 2, 4, 7 to 9, 203");
    }
}

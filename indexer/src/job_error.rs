//! Errors of bulk jobs.

use dyad_index::ModelRecord;

/// Why a step of a job cannot be taken. What it would have published is not.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BulkJobError {
    /// No job at a place.
    #[error("there is no job at {url}: no object `plan.json`. `dyad-indexer bulk plan --out {url}` puts one there")]
    NoPlan {
        /// The place.
        url: String,
    },
    /// A job in the place of its index.
    #[error("`--out` and `--index` are the same place, {url}. Give the job a place of its own, such as {url}-job")]
    SamePlace {
        /// The place.
        url: String,
    },
    /// An input whose path would be the key of its document.
    #[error(
        "`{name}` is read as one document, whose key is its path, and a job reads inputs by their names alone. \
         Index such files with `dyad-indexer build --corpus FOLDER`"
    )]
    TextInput {
        /// The input.
        name: String,
    },
    /// Another job at a place.
    #[error(
        "there is another job at {url}: expected {part} `{expected}`, got `{got}`. Plan this one at another place, with `--out`"
    )]
    OtherPlan {
        /// The place.
        url: String,
        /// The first part that differs.
        part: &'static str,
        /// Of the job that is there.
        expected: String,
        /// Of this one.
        got: String,
    },
    /// A record of a job that cannot be used.
    #[error(
        "`{path}`, {part}: expected {expected}, got {got}. Put an intact copy there, or plan again at another place"
    )]
    Record {
        /// Its place.
        path: String,
        /// The field.
        part: &'static str,
        /// Wanted.
        expected: String,
        /// Found.
        got: String,
    },
    /// A task of a job that does not exist.
    #[error("`--{option}`: expected a number below {count}, got {got}")]
    NoTask {
        /// The option.
        option: &'static str,
        /// How many there are.
        count: usize,
        /// The number given.
        got: usize,
    },
    /// Tasks that have to end first.
    #[error("{total} of {count} {what} are not done, such as {}. Run `dyad-indexer bulk {command}` for them first", first.join(", "))]
    NotDone {
        /// `partitions` or `shards`.
        what: &'static str,
        /// How many are not done.
        total: usize,
        /// Of how many.
        count: usize,
        /// The first of them.
        first: Vec<String>,
        /// What does them.
        command: &'static str,
    },
    /// Keys of a job that come more than once.
    #[error("{total} keys come more than once in the inputs, such as `{}`. Nothing was published: make keys unique, and plan again at another place", first.join("`, `"))]
    RepeatedKeys {
        /// How many.
        total: u64,
        /// The first of them.
        first: Vec<String>,
    },
    /// More bad records than a job allows.
    #[error(
        "{got} records are bad, and the job allows {allowed} (`bulk plan --max-bad`). `dyad-indexer bulk status` says of which partitions, whose `rejects.jsonl` lists them"
    )]
    TooManyBad {
        /// All.
        got: u64,
        /// Allowed.
        allowed: u64,
    },
    /// Vectors of another model than a job was planned with.
    #[error(
        "the job was planned with model `{}` (fingerprint {}, {}, {}), and these vectors are of `{}` (fingerprint {}, {}, {}). Use that model, or plan again at another place",
        expected.name, expected.fingerprint, expected.values(), expected.metric,
        got.name, got.fingerprint, got.values(), got.metric
    )]
    PlannedModel {
        /// The model of the plan.
        expected: Box<ModelRecord>,
        /// The model of the vectors.
        got: Box<ModelRecord>,
    },
}

//! `dyad-indexer push`, `pull` and `gc` of a URL: an index to and from an object store, and what nothing needs there.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_files::space::{ByteSize, boundless, free_space};
use dyad_index::manifest;
use dyad_indexer::Error;
use dyad_store::{CollectedObjects, LearnedMove, LearnedOutcome, PullOptions, PushOptions, RemoteStore};
use serde::Serialize;

use super::report::{ChangeArguments, OutputArguments};

#[derive(Debug, clap::Args)]
pub(super) struct PushArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Where to: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIR`
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, clap::Args)]
pub(super) struct PullArguments {
    /// Directory of the index; it is created where it does not exist
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Where from: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIR`
    #[arg(long, value_name = "URL")]
    from: String,
    /// Start even if the disk seems to have too little free space
    #[arg(long)]
    skip_space_check: bool,
    #[command(flatten)]
    output: OutputArguments,
}

/// Transfers wait for the network alone: one thread does.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn cancelled_or(error: dyad_store::Error) -> anyhow::Error {
    match error {
        dyad_store::Error::Interrupted => Error::Cancelled.into(),
        error => error.into(),
    }
}

/// What became of a file of what was learned.
#[derive(Debug, Serialize)]
struct LearnedReport {
    file: &'static str,
    outcome: &'static str,
    /// Why it stays as it was, where it could not be moved.
    reason: Option<String>,
    #[serde(skip)]
    line: String,
}

impl From<&LearnedMove> for LearnedReport {
    fn from(learned: &LearnedMove) -> Self {
        Self {
            file: learned.file,
            outcome: learned.outcome.name(),
            reason: match &learned.outcome {
                LearnedOutcome::Failed(reason) => Some(reason.clone()),
                _ => None,
            },
            line: learned.to_string(),
        }
    }
}

fn write_learned(f: &mut fmt::Formatter<'_>, learned: &[LearnedReport]) -> fmt::Result {
    learned
        .iter()
        .try_for_each(|learned| writeln!(f, "what was learned for the index: {}", learned.line))
}

/// What a push has put.
#[derive(Debug, Serialize)]
struct PushReport {
    url: String,
    generation: u64,
    files: u64,
    bytes: u64,
    present: u64,
    is_new: bool,
    learned: Vec<LearnedReport>,
    seconds: f64,
}

impl fmt::Display for PushReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, generation, files) = (&self.url, self.generation, self.files);
        let (bytes, present) = (ByteSize(self.bytes), self.present);
        if self.is_new {
            writeln!(
                f,
                "pushed generation {generation} to {url}: {files} files of {bytes}, {present} were there; {:.1} s",
                self.seconds
            )?;
        } else if files > 0 {
            writeln!(
                f,
                "{url} has generation {generation} already; {files} files of {bytes} that it lacked were put there"
            )?;
        } else if self.learned.is_empty() {
            writeln!(f, "nothing to do: {url} has generation {generation} already")?;
        }
        write_learned(f, &self.learned)
    }
}

/// What a pull has fetched.
#[derive(Debug, Serialize)]
struct PullReport {
    url: String,
    index: String,
    generation: u64,
    documents: u64,
    files: u64,
    bytes: u64,
    present: u64,
    is_new: bool,
    learned: Vec<LearnedReport>,
    seconds: f64,
}

impl fmt::Display for PullReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, index, generation) = (&self.url, &self.index, self.generation);
        if self.is_new {
            writeln!(
                f,
                "pulled generation {generation} ({} documents) of {url} into `{index}`: {} files, {}, {} were there; {:.1} s",
                self.documents,
                self.files,
                ByteSize(self.bytes),
                self.present,
                self.seconds
            )?;
        } else if self.learned.is_empty() {
            writeln!(
                f,
                "nothing to do: `{index}` has generation {generation} of {url} already"
            )?;
        }
        write_learned(f, &self.learned)
    }
}

/// What `gc` removed from a store, or would remove.
#[derive(Debug, Serialize)]
struct StoreGcReport {
    removed: Vec<u64>,
    kept: Vec<u64>,
    files: u64,
    bytes: u64,
    #[serde(skip)]
    dry_run: bool,
}

impl fmt::Display for StoreGcReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let did = if self.dry_run { "would remove" } else { "removed" };
        let (generations, files, bytes) = (self.removed.len(), self.files, ByteSize(self.bytes));
        writeln!(
            f,
            "{did} {generations} generations and {files} files of {bytes}; kept generations {:?}",
            self.kept
        )
    }
}

pub(super) fn push(arguments: &PushArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let remote = RemoteStore::open(&arguments.to)?;
    let pushed = runtime()?
        .block_on(dyad_store::push(
            &arguments.index,
            &remote,
            &PushOptions::default(),
            &cancel,
        ))
        .map_err(cancelled_or)?;
    arguments.output.print(&PushReport {
        url: remote.url().to_owned(),
        generation: pushed.generation,
        files: pushed.files,
        bytes: pushed.bytes,
        present: pushed.present,
        is_new: pushed.is_new,
        learned: pushed.learned.iter().map(LearnedReport::from).collect(),
        seconds: began.elapsed().as_secs_f64(),
    })?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn pull(arguments: &PullArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let remote = RemoteStore::open(&arguments.from)?;
    let options = PullOptions {
        free_space: if arguments.skip_space_check {
            boundless
        } else {
            free_space
        },
    };
    let index = &arguments.index;
    let pulled = runtime()?
        .block_on(dyad_store::pull(&remote, index, &options, &cancel))
        .map_err(cancelled_or)?;
    arguments.output.print(&PullReport {
        url: remote.url().to_owned(),
        index: index.display().to_string(),
        generation: pulled.generation,
        documents: manifest::current(index)?.documents(),
        files: pulled.files,
        bytes: pulled.bytes,
        present: pulled.present,
        is_new: pulled.is_new,
        learned: pulled.learned.iter().map(LearnedReport::from).collect(),
        seconds: began.elapsed().as_secs_f64(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// `gc` of an index in a store.
pub(super) fn gc(
    url: &str,
    keep: usize,
    older_than: Duration,
    arguments: &ChangeArguments,
) -> anyhow::Result<ExitCode> {
    let remote = RemoteStore::open(url)?;
    let CollectedObjects {
        removed,
        kept,
        files,
        bytes,
    } = runtime()?
        .block_on(dyad_store::gc(&remote, keep, older_than, arguments.dry_run))
        .map_err(cancelled_or)?;
    arguments.output.print(&StoreGcReport {
        removed,
        kept,
        files,
        bytes,
        dry_run: arguments.dry_run,
    })?;
    Ok(ExitCode::SUCCESS)
}

//! `dyad-indexer push`, `pull` and `gc` of a URL: an index to and from an object store, and what nothing needs there.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_files::space::{ByteSize, boundless, free_space};
use dyad_index::manifest;
use dyad_indexer::Error;
use dyad_store::{
    CollectedObjects, LearnedMove, LearnedOutcome, PullOptions, Pulled, PushOptions, Pushed, RemoteStore,
};
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(super) struct PushArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Where to: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///DIR`
    #[arg(long, value_name = "URL")]
    to: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Transfers wait for the network alone: one thread does.
fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn told(error: dyad_store::Error) -> anyhow::Error {
    match error {
        dyad_store::Error::Interrupted => Error::Cancelled.into(),
        error => error.into(),
    }
}

/// What became of files of what was learned, for programs.
fn learned_json(learned: &[LearnedMove]) -> serde_json::Value {
    let one = |LearnedMove { file, outcome }: &LearnedMove| {
        let reason = if let LearnedOutcome::Failed(reason) = outcome {
            Some(reason)
        } else {
            None
        };
        json!({ "file": file, "outcome": outcome.name(), "reason": reason })
    };
    learned.iter().map(one).collect()
}

pub(super) fn push(arguments: &PushArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let remote = RemoteStore::open(&arguments.to)?;
    let go_on = || !cancel.is_cancelled();
    let pushed = runtime()?
        .block_on(dyad_store::push(
            &arguments.index,
            &remote,
            &PushOptions::default(),
            &go_on,
        ))
        .map_err(told)?;
    let Pushed {
        generation,
        files,
        bytes,
        present,
        is_new,
        learned,
    } = pushed;
    let seconds = began.elapsed().as_secs_f64();
    let mut out = io::stdout().lock();
    if arguments.json {
        let record = json!({
            "url": remote.url(), "generation": generation, "files": files, "bytes": bytes, "present": present, "is_new": is_new,
            "learned": learned_json(&learned), "seconds": seconds,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_new {
        let url = remote.url();
        writeln!(
            out,
            "pushed generation {generation} to {url}: {files} files of {}, {present} were there; {seconds:.1} s",
            ByteSize(bytes)
        )?;
    } else if files > 0 {
        let (url, bytes) = (remote.url(), ByteSize(bytes));
        writeln!(
            out,
            "{url} has generation {generation} already; {files} files of {bytes} that it lacked were put there"
        )?;
    } else if learned.is_empty() {
        writeln!(
            out,
            "nothing to do: {} has generation {generation} already",
            remote.url()
        )?;
    }
    for learned in learned {
        writeln!(out, "what was learned for the index: {learned}")?;
    }
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
    let go_on = || !cancel.is_cancelled();
    let index = &arguments.index;
    let pulled = runtime()?
        .block_on(dyad_store::pull(&remote, index, &options, &go_on))
        .map_err(told)?;
    let Pulled {
        generation,
        files,
        bytes,
        present,
        is_new,
        learned,
    } = pulled;
    let seconds = began.elapsed().as_secs_f64();
    let documents = manifest::current(index)?.documents();
    let mut out = io::stdout().lock();
    let (from, to) = (remote.url(), index.display());
    if arguments.json {
        let record = json!({
            "url": from, "index": to.to_string(), "generation": generation, "documents": documents, "files": files, "bytes": bytes,
            "present": present, "is_new": is_new, "learned": learned_json(&learned), "seconds": seconds,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if is_new {
        writeln!(
            out,
            "pulled generation {generation} ({documents} documents) of {from} into `{to}`: {files} files, {}, {present} were there; {seconds:.1} s",
            ByteSize(bytes)
        )?;
    } else if learned.is_empty() {
        writeln!(
            out,
            "nothing to do: `{to}` has generation {generation} of {from} already"
        )?;
    }
    for learned in learned {
        writeln!(out, "what was learned for the index: {learned}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `gc` of an index in a store.
pub(super) fn gc(url: &str, keep: usize, older_than: Duration, dry_run: bool, json: bool) -> anyhow::Result<ExitCode> {
    let remote = RemoteStore::open(url)?;
    let CollectedObjects {
        removed,
        kept,
        files,
        bytes,
    } = runtime()?
        .block_on(dyad_store::gc(&remote, keep, older_than, dry_run))
        .map_err(told)?;
    let mut out = io::stdout().lock();
    if json {
        let record = json!({ "removed": removed, "kept": kept, "files": files, "bytes": bytes });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    } else {
        let did = if dry_run { "would remove" } else { "removed" };
        let (generations, size) = (removed.len(), ByteSize(bytes));
        writeln!(
            out,
            "{did} {generations} generations and {files} files of {size}; kept generations {kept:?}"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

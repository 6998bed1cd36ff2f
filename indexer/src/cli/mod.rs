//! The command line: arguments in, text and exit codes out. Builds are implemented in the library.
//!
//! | file | contents |
//! |---|---|
//! | `build.rs` | `dyad-indexer build` |
//! | `documents.rs` | the arguments of commands that read documents |
//! | `graph.rs` | the arguments of commands that build graphs |
//! | `dimensions.rs` | how many values of each vector are kept |
//! | `change.rs` | `dyad-indexer append`, `upsert`, `delete`, `merge`, `purge`, `gc` |
//! | `maintain.rs` | `dyad-indexer maintain` |
//! | `reembed.rs` | `dyad-indexer reembed` |
//! | `compare.rs` | `dyad-indexer compare` |
//! | `report.rs` | what a command says at its end, for people and for programs |
//! | `inspect.rs` | `dyad-indexer inspect` |
//! | `verify.rs` | `dyad-indexer verify` |
//! | `serve.rs` | `dyad-indexer serve` |
//! | `export.rs` | `dyad-indexer export` |
//! | `store.rs` | `dyad-indexer push`, `pull`, `gc` of a store |
//! | `bulk/` | `dyad-indexer bulk` |
//! | `services.rs` | how commands call encoder services, and what passages are read in |
//! | `model.rs` | an encoder service of a command's own |
//! | `rollback.rs` | `dyad-indexer rollback` |
//! | `hints.rs` | test: texts name options that commands have |
//! | `bar.rs` | progress on a terminal, or as log lines |
//!
//! Exit codes: 0 success, 1 failure or a damaged index, 2 usage, 130 interrupted.

mod bar;
mod build;
mod bulk;
mod calibrate;
mod change;
mod compare;
mod delete;
mod dimensions;
mod documents;
mod export;
mod graph;
#[cfg(test)]
mod hints;
mod inspect;
mod language;
mod maintain;
mod model;
mod reembed;
mod report;
mod rollback;
mod serve;
mod services;
mod store;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_command::{FAILURE, Follower, INTERRUPTED, USAGE};
use dyad_index::kernels::{self, UnknownKernels};
use dyad_indexer::Error;

/// Builds, changes and verifies the indexes that dyad-searcher serves.
#[derive(Debug, Parser)]
#[command(name = "dyad-indexer", version)]
struct IndexerArguments {
    #[command(subcommand)]
    command: IndexerCommand,
}

#[derive(Debug, Subcommand)]
enum IndexerCommand {
    /// Build an index from a corpus and its vectors, and publish it as the next generation
    Build(Box<build::BuildArguments>),
    /// Add documents to an index; those that are in it are an error
    Append(Box<change::AppendArguments>),
    /// Add documents to an index, and replace those that are in it. Documents whose text has not changed are not
    /// embedded again
    Upsert(Box<change::UpsertArguments>),
    /// Delete documents. Earlier generations keep them, so that a rollback brings them back
    Delete(delete::DeleteArguments),
    /// Embed all documents again with another model, and publish them as the next generation while the current one is
    /// served and changed
    Reembed(Box<reembed::ReembedArguments>),
    /// Compare what two generations find for the same questions
    Compare(compare::CompareArguments),
    /// Measure recall again by questions as they are asked, without a rebuild, and publish what searches go by as the
    /// next generation
    Calibrate(Box<calibrate::CalibrateArguments>),
    /// Merge shards that hold many deleted documents, or are many and small
    Merge(change::MergeArguments),
    /// Delete documents from every generation, and remove the files that hold them
    Purge(change::PurgeArguments),
    /// Remove generations that are no longer needed, and files that no generation names. What a process of this machine
    /// reads stays
    Gc(change::GcArguments),
    /// Merge and gc in one call, for a timer: shards are merged as long as some should be, then generations that are no
    /// longer needed are removed. `serve` does so by itself
    Maintain(maintain::MaintainArguments),
    /// Serve changes of an index over gRPC (`dyad.v1.Index`), for clients that touch a few documents
    Serve(Box<serve::ServeArguments>),
    /// Print what is in an index
    Inspect(inspect::InspectArguments),
    /// Write an index for other programs
    Export(export::ExportArguments),
    /// Put the current generation of an index to an object store: s3://, gs://, az:// or file://. Credentials come from
    /// the environment
    Push(store::PushArguments),
    /// Fetch the current generation of an object store into an index directory; every file is verified before anything
    /// is published
    Pull(store::PullArguments),
    /// Embed and index a corpus of any size by tasks that any engine can schedule, repeat and kill; all state is in an
    /// object store
    Bulk(bulk::BulkArguments),
    /// Read every byte of an index and check it; exit code 1 if it is damaged
    Verify(verify::VerifyArguments),
    /// Make an earlier generation current, without a searcher. A running searcher loads it with `dyad-searcher admin
    /// reload`
    Rollback(rollback::RollbackArguments),
}

pub(crate) fn run(revision: &'static str) -> ExitCode {
    dyad_command::run_server(revision, command, exit_code)
}

fn command(arguments: IndexerArguments, follower: Follower) -> anyhow::Result<ExitCode> {
    kernels::choose(kernels::requested_set().as_deref())?;
    match arguments.command {
        IndexerCommand::Build(arguments) => build::run(*arguments),
        IndexerCommand::Append(arguments) => change::append(&arguments),
        IndexerCommand::Upsert(arguments) => change::upsert(*arguments),
        IndexerCommand::Delete(arguments) => delete::delete(&arguments),
        IndexerCommand::Reembed(arguments) => reembed::run(*arguments),
        IndexerCommand::Compare(arguments) => compare::run(&arguments),
        IndexerCommand::Calibrate(arguments) => calibrate::run(&arguments),
        IndexerCommand::Merge(arguments) => change::merge(&arguments),
        IndexerCommand::Purge(arguments) => change::purge(&arguments),
        IndexerCommand::Gc(arguments) => change::gc(&arguments),
        IndexerCommand::Maintain(arguments) => maintain::run(&arguments),
        IndexerCommand::Serve(arguments) => serve::run(*arguments, follower),
        IndexerCommand::Inspect(arguments) => inspect::run(&arguments),
        IndexerCommand::Export(arguments) => export::run(&arguments),
        IndexerCommand::Push(arguments) => store::push(&arguments),
        IndexerCommand::Pull(arguments) => store::pull(&arguments),
        IndexerCommand::Bulk(arguments) => bulk::run(arguments),
        IndexerCommand::Verify(arguments) => verify::run(&arguments),
        IndexerCommand::Rollback(arguments) => rollback::run(&arguments),
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Error::Cancelled) => INTERRUPTED,
        Some(Error::Parameter { .. } | Error::TargetValue { .. }) => USAGE,
        _ if error.is::<UnknownKernels>() => USAGE,
        _ => FAILURE,
    }
}

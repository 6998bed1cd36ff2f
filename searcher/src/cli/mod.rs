//! The command line.
//!
//! | file | contents |
//! |---|---|
//! | `serve.rs` | `dyad-searcher serve` |
//! | `leaves.rs` | `--leaves` |
//! | `leaf.rs` | `dyad-searcher leaf` |
//! | `indexes.rs` | `--index`, `--indexes` and `--cache` |
//! | `search_defaults.rs` | `--search-defaults` |
//! | `tower.rs` | `--question-tower` and how it runs |
//! | `learn.rs` | `dyad-searcher learn` |
//! | `query.rs` | `dyad-searcher query` and `explain` |
//! | `ask.rs` | the search that these ask for, as arguments |
//! | `get.rs` | `dyad-searcher get` |
//! | `scroll.rs` | `dyad-searcher scroll` |
//! | `inventory.rs` | `dyad-searcher count` and `fields` |
//! | `filter.rs` | `--filter` |
//! | `table.rs` | hits as a text table |
//! | `json.rs` | replies as JSON |
//! | `keys.rs` | `dyad-searcher keys create|list|revoke` |
//! | `date.rs` | times for people |
//! | `admin.rs` | `dyad-searcher admin list|status|reload|rollback|verify` |

mod admin;
mod ask;
mod date;
mod filter;
mod get;
mod indexes;
mod inventory;
mod json;
mod judged_answers;
mod keys;
mod leaf;
mod learn;
mod learn_reranking;
mod leaves;
mod page_indexers;
mod query;
mod scroll;
mod search_defaults;
mod serve;
mod served_log;
mod table;
mod tower;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_command::{FAILURE, Follower, USAGE};
use dyad_index::kernels::{self, UnknownKernels};

/// Answers questions from a dyad index: dense, BM25, hybrid, or all three for comparison.
#[derive(Debug, Parser)]
#[command(name = "dyad-searcher", version, about, disable_help_subcommand = true)]
struct SearcherArguments {
    #[command(subcommand)]
    command: SearcherCommand,
}

#[derive(Debug, Subcommand)]
enum SearcherCommand {
    /// Serve one or several indexes over gRPC.
    Serve(Box<serve::Serve>),
    /// Hold some of the shards of an index, for roots.
    Leaf(Box<leaf::LeafOptions>),
    /// Learn how to fuse the two rankings of an index from judged questions.
    Learn(learn::Learn),
    /// Ask a running searcher.
    Query(query::Query),
    /// Explain why a document is, or is not, among the hits of a search.
    Explain(query::Explain),
    /// Print documents by key.
    Get(get::Get),
    /// Print all documents as JSON lines.
    Scroll(scroll::Scroll),
    /// Print how many documents there are.
    Count(inventory::CountOptions),
    /// Print the fields that documents have.
    Fields(inventory::FieldsOptions),
    /// Administer a running searcher.
    Admin(admin::Admin),
    /// Create, list and revoke API keys.
    Keys(keys::KeysOptions),
}

/// Runs the command line of this process, which was built of the commit `revision`. Exit code 0: success; 1: failure;
/// 2: usage error.
pub fn main(revision: &'static str) -> ExitCode {
    // Before a configuration is read, which may come from a pipe.
    #[cfg(feature = "torch")]
    dyad_encoder::environment::begin_again();
    dyad_command::run_server(revision, command, |error| {
        if error.is::<UnknownKernels>() { USAGE } else { FAILURE }
    })
}

fn command(arguments: SearcherArguments, follower: Follower) -> anyhow::Result<ExitCode> {
    kernels::choose(kernels::requested_set().as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match arguments.command {
            SearcherCommand::Serve(arguments) => Box::pin(arguments.run(follower)).await,
            SearcherCommand::Leaf(arguments) => Box::pin(arguments.run(follower)).await,
            SearcherCommand::Learn(arguments) => Box::pin(arguments.run()).await,
            SearcherCommand::Query(arguments) => arguments.run().await,
            SearcherCommand::Explain(arguments) => arguments.run().await,
            SearcherCommand::Get(arguments) => arguments.run().await,
            SearcherCommand::Scroll(arguments) => arguments.run().await,
            SearcherCommand::Count(arguments) => arguments.run().await,
            SearcherCommand::Fields(arguments) => arguments.run().await,
            SearcherCommand::Admin(arguments) => arguments.run().await,
            SearcherCommand::Keys(arguments) => arguments.run(),
        }
    })
}

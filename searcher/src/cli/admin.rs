//! `dyad-searcher admin status|reload|rollback|verify`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use dyad_proto::client::AdminClient;
use dyad_proto::v1;

use super::query::Server;

/// Look after a running searcher.
#[derive(Debug, Args)]
pub(super) struct Admin {
    #[command(flatten)]
    server: Server,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// What is served: index, generation, models, shards.
    Status,
    /// Serve the generation that CURRENT names.
    Reload,
    /// Make an earlier generation current and serve it.
    Rollback {
        /// The generation; 0 is the one before the served.
        #[arg(default_value_t = 0)]
        generation: u64,
    },
    /// Read every byte of the served generation and check it. Exit code 1 where it is unsound.
    Verify,
}

impl Admin {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = AdminClient::connect(&self.server.server, self.server.config(Duration::from_mins(10))).await?;
        let mut out = std::io::stdout().lock();
        match self.action {
            Action::Status => print_status(&mut out, &client.status(v1::StatusRequest {}).await?)?,
            Action::Reload => {
                let reply = client.reload(v1::ReloadRequest {}).await?;
                writeln!(out, "generation {} -> {}", reply.previous_generation, reply.generation)?;
            }
            Action::Rollback { generation } => {
                let reply = client.rollback(v1::RollbackRequest { generation }).await?;
                writeln!(out, "generation {} -> {}", reply.previous_generation, reply.generation)?;
            }
            Action::Verify => {
                let reply = client.verify(v1::VerifyRequest {}).await?;
                for problem in &reply.problems {
                    writeln!(out, "{problem}")?;
                }
                let word = if reply.sound { "sound" } else { "UNSOUND" };
                writeln!(out, "{word}: {} bytes read, {} problems", reply.bytes_read, reply.problems.len())?;
                return Ok(if reply.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print_status(out: &mut impl std::io::Write, status: &v1::StatusResponse) -> std::io::Result<()> {
    let known = status.generations.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    writeln!(out, "index           {} ({} documents)", status.index, status.documents)?;
    writeln!(
        out,
        "generation      {} of [{known}], published {} s after the epoch",
        status.generation, status.created_unix_s
    )?;
    for (what, model) in [("index model", &status.index_model), ("question tower", &status.question_model)] {
        if let Some(model) = model {
            writeln!(out, "{what:<15} {} {} ({} values)", model.name, model.fingerprint, model.dim)?;
        }
    }
    for shard in &status.shards {
        let (dense, text) = (shard.dense_bytes, shard.text_bytes);
        writeln!(
            out,
            "shard           {}: {} documents, {dense} bytes dense, {text} bytes text",
            shard.id, shard.documents
        )?;
    }
    writeln!(out, "version         {}", status.version)
}

//! `dyad-searcher admin list|status|reload|rollback|verify`.

use std::io::StdoutLock;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use dyad_command::UsageError;
use dyad_proto::client::AdminClient;
use dyad_proto::v1;
use prost::{Message, Name};

use super::date::date;
use super::json;
use super::query::ServerOptions;
use crate::memory::mib;

/// Administer a running searcher.
#[derive(Debug, Args)]
pub(super) struct Admin {
    #[command(flatten)]
    server: ServerOptions,
    /// Print the reply as JSON, as the HTTP routes answer it.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: AdminAction,
}

#[derive(Debug, Subcommand)]
enum AdminAction {
    /// List all indexes: name, generation, documents, shards, model.
    List,
    /// Print what is served of an index: directory, generation, models, shards, memory.
    Status,
    /// Serve the generation that CURRENT names.
    Reload,
    /// Make an earlier generation current and serve it.
    Rollback {
        /// The generation [default: the one before the served one].
        #[arg(value_parser = clap::value_parser!(u64).range(1..))]
        generation: Option<u64>,
    },
    /// Read every byte of the served generation and check it. Exit code 1 if it is damaged.
    Verify,
}

impl Admin {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let client = AdminClient::connect(&self.server.url, self.server.config(Duration::from_mins(10))?).await?;
        let index = self.server.index;
        let status = v1::StatusRequest { index: index.clone() };
        dyad_proto::validate::fields(&status).map_err(|violations| UsageError(violations.to_string()))?;
        match self.action {
            AdminAction::List => show(
                client.list_indexes(v1::ListIndexesRequest {}).await?,
                self.json,
                print_list,
            )?,
            AdminAction::Status => show(client.status(status).await?, self.json, print_status)?,
            AdminAction::Reload => {
                let reply = client.reload(v1::ReloadRequest { index }).await?;
                let (before, now) = (reply.previous_generation, reply.generation);
                show(reply, self.json, |out, _| print_generations(out, before, now))?;
            }
            AdminAction::Rollback { generation } => {
                // Resolved here, so that a retried call names the same generation.
                let generation = match generation {
                    Some(generation) => generation,
                    None => previous(&client.status(status).await?)?,
                };
                let reply = client.rollback(v1::RollbackRequest { generation, index }).await?;
                let (before, now) = (reply.previous_generation, reply.generation);
                show(reply, self.json, |out, _| print_generations(out, before, now))?;
            }
            AdminAction::Verify => {
                let reply = client.verify(v1::VerifyRequest { index }).await?;
                let is_intact = reply.intact;
                show(reply, self.json, print_verified)?;
                return Ok(if is_intact {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                });
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a reply: as JSON, or for people.
fn show<M: Message + Name>(
    reply: M,
    as_json: bool,
    print: impl FnOnce(&mut StdoutLock<'static>, &M) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    if as_json {
        return json::print(reply);
    }
    print(&mut std::io::stdout().lock(), &reply)?;
    Ok(())
}

fn print_generations(out: &mut impl std::io::Write, before: u64, now: u64) -> std::io::Result<()> {
    writeln!(out, "generation {before} -> {now}")
}

fn print_verified(out: &mut impl std::io::Write, reply: &v1::VerifyResponse) -> std::io::Result<()> {
    for problem in &reply.problems {
        writeln!(out, "{problem}")?;
    }
    let word = if reply.intact { "intact" } else { "DAMAGED" };
    writeln!(
        out,
        "{word}: {} bytes read, {} problems",
        reply.bytes_read,
        reply.problems.len()
    )
}

fn previous(status: &v1::StatusResponse) -> anyhow::Result<u64> {
    anyhow::ensure!(status.index_error.is_empty(), "{}", status.index_error);
    let none = "nothing to roll back to: no generation was published before generation";
    anyhow::ensure!(status.previous_generation > 0, "{none} {}", status.generation);
    Ok(status.previous_generation)
}

/// One line for each index; `*` marks the default one.
fn print_list(out: &mut impl std::io::Write, reply: &v1::ListIndexesResponse) -> std::io::Result<()> {
    let indexes = &reply.indexes;
    let width = indexes.iter().map(|index| index.name.len()).max().unwrap_or(0).max(4);
    writeln!(
        out,
        "  {:<width$}  {:>10}  {:>10}  {:>6}  {:<8}  model",
        "name", "generation", "documents", "shards", "language"
    )?;
    for index in indexes {
        let mark = if index.is_default { '*' } else { ' ' };
        let v1::IndexInfo {
            name,
            generation,
            documents,
            shards,
            language,
            ..
        } = index;
        let (model, fingerprint) = index
            .model
            .as_ref()
            .map_or(("none", ""), |model| (model.name.as_str(), model.fingerprint.as_str()));
        let tower = if index.has_question_tower {
            ""
        } else {
            ", no question tower"
        };
        let fingerprint = fingerprint.get(..12).unwrap_or(fingerprint);
        write!(
            out,
            "{mark} {name:<width$}  {generation:>10}  {documents:>10}  {shards:>6}  {language:<8}  {model} {fingerprint}{tower}"
        )?;
        if !index.degraded_reason.is_empty() {
            write!(out, "  DEGRADED: {}", index.degraded_reason)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The beam widths from which two recalls were measured, and the recall at the widest.
fn certificate(measured: &v1::Certificate) -> String {
    let from = [0.95, 0.99].into_iter().filter_map(|target| {
        let point = measured.recall.iter().find(|point| point.recall_at_10 >= target)?;
        Some(format!("{target} from ef {}, ", point.ef))
    });
    let from: String = from.collect();
    let widest = measured
        .recall
        .last()
        .map(|point| format!("{:.4} at ef {}", point.recall_at_10, point.ef));
    let with = if measured.by_questions {
        "questions"
    } else {
        "documents"
    };
    let since = if measured.lost_since > 0.0 {
        format!(", less up to {:.4} by deletions since", measured.lost_since)
    } else {
        String::new()
    };
    format!(
        "recall@10 {from}{}{since} ({} {with})",
        widest.unwrap_or_default(),
        measured.queries
    )
}

/// The searcher, the index, and the generation.
fn print_served(out: &mut impl std::io::Write, status: &v1::StatusResponse) -> std::io::Result<()> {
    // A searcher from before there was a revision sends none.
    let revision = Some(status.revision.as_str()).filter(|revision| !revision.is_empty());
    writeln!(
        out,
        "searcher        {} ({})",
        status.version,
        revision.unwrap_or("unknown")
    )?;
    writeln!(
        out,
        "index           {}: {} ({} documents)",
        status.name, status.index, status.documents
    )?;
    let known = status
        .generations
        .iter()
        .map(u64::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    let known = if status.index_error.is_empty() {
        format!("of [{known}]")
    } else {
        "served".to_owned()
    };
    writeln!(
        out,
        "generation      {} {known}, published {}",
        status.generation,
        date(status.created_unix_s)
    )
}

/// One line for each leaf of a root, and one for each shard that it refuses.
fn print_leaves(out: &mut impl std::io::Write, leaves: &[v1::LeafStatus]) -> std::io::Result<()> {
    for leaf in leaves {
        let state = match (leaf.is_up, leaf.is_leaving) {
            (false, _) => "DOWN",
            (true, true) => "leaving",
            (true, false) => "up",
        };
        let late = match leaf.p95_us {
            0 => String::new(),
            micros => format!(", p95 {:.1} ms", micros as f64 / 1e3),
        };
        writeln!(
            out,
            "leaf            {} {}: {state}, {} shards, {} calls, {} under way{late}",
            leaf.name, leaf.url, leaf.shards, leaf.calls, leaf.calls_under_way
        )?;
        for refused in &leaf.refused {
            writeln!(out, "WARNING         {}: {refused}", leaf.url)?;
        }
    }
    Ok(())
}

fn print_status(out: &mut impl std::io::Write, status: &v1::StatusResponse) -> std::io::Result<()> {
    print_served(out, status)?;
    let errors = [
        ("directory", &status.index_error),
        ("question tower", &status.question_tower_error),
        ("cross encoder", &status.reranker_error),
    ];
    for (what, error) in errors {
        if !error.is_empty() {
            writeln!(out, "WARNING         {what}: {error}")?;
        }
    }
    for (what, model) in [
        ("index model", &status.index_model),
        ("question tower", &status.question_model),
    ] {
        if let Some(model) = model {
            let metric = model.metric().word();
            let values = match model.full_dim {
                0 => model.dim.to_string(),
                full => format!("{} of {full}", model.dim),
            };
            writeln!(
                out,
                "{what:<15} {} {} ({values} values, {metric})",
                model.name, model.fingerprint
            )?;
        } else {
            writeln!(out, "{what:<15} none")?;
        }
    }
    if let Some(model) = &status.reranker {
        writeln!(out, "cross encoder   {} {}", model.name, model.fingerprint)?;
        let gain = status.rerank_gain.as_ref().map(|gain| {
            let v1::RerankGain { before, after, p, depth, questions, data, split, weight } = gain;
            format!("nDCG@10 {before:.4} to {after:.4} with {depth} hits, weight {weight} (p = {p:.3}), {questions} questions of {data} ({split})")
        });
        writeln!(
            out,
            "reranking       {}",
            gain.as_deref()
                .unwrap_or("not measured: see `dyad-searcher learn --reranker`")
        )?;
    }
    for shard in &status.shards {
        let (dense, text) = (mib(shard.dense_bytes), mib(shard.text_bytes));
        let leaves = if status.leaves.is_empty() {
            String::new()
        } else {
            format!(
                ", {} {}",
                shard.leaves,
                if shard.leaves == 1 { "leaf" } else { "leaves" }
            )
        };
        writeln!(
            out,
            "shard           {}: {} documents, {dense} dense, {text} text{leaves}",
            shard.id, shard.documents
        )?;
    }
    print_leaves(out, &status.leaves)?;
    for shard in &status.shards {
        if let Some(measured) = shard
            .certificate
            .as_ref()
            .filter(|measured| !measured.recall.is_empty())
        {
            writeln!(out, "certificate     {}: {}", shard.id, certificate(measured))?;
        }
    }
    if let Some(memory) = &status.memory {
        let source = if memory.limit == 0 {
            "none".to_owned()
        } else {
            format!("{} (`{}`)", mib(memory.limit), memory.limit_source)
        };
        let [needed, anonymous, file, hot, cold] = [
            memory.needed,
            memory.anonymous,
            memory.file,
            memory.index_hot,
            memory.index_cold,
        ]
        .map(mib);
        writeln!(
            out,
            "memory          limit {source}, at most {needed} needed; now {anonymous} anonymous, {file} of files"
        )?;
        writeln!(out, "index files     {hot} hot (graphs and codes), {cold} cold")?;
    }
    writeln!(out, "version         {}", status.version)
}

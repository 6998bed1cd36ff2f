//! `dyad-searcher count` and `fields`: how many documents there are, and which fields they have.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dyad_command::UsageError;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;

use super::filter::FilterOptions;
use super::json;
use super::query::ServerOptions;

/// Print how many documents an index has, or match.
#[derive(Debug, Args)]
pub(super) struct CountOptions {
    #[command(flatten)]
    server: ServerOptions,
    #[command(flatten)]
    filter: FilterOptions,
    /// Print the reply as JSON, as the HTTP routes answer it.
    #[arg(long)]
    json: bool,
}

impl CountOptions {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let request = v1::CountDocumentsRequest {
            filter: self.filter.filter(),
            index: self.server.index.clone(),
        };
        dyad_proto::validate::count_documents_request(&request)
            .map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_secs(10))?).await?;
        let reply = client.count_documents(request).await?;
        if self.json {
            json::print(reply)?;
        } else {
            writeln!(std::io::stdout().lock(), "{}", reply.documents)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Print the fields that documents have, as filters name them, and how many documents have each.
#[derive(Debug, Args)]
pub(super) struct FieldsOptions {
    #[command(flatten)]
    server: ServerOptions,
    /// Print the reply as JSON, as the HTTP routes answer it.
    #[arg(long)]
    json: bool,
}

impl FieldsOptions {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let request = v1::ListFieldsRequest {
            index: self.server.index.clone(),
        };
        dyad_proto::validate::fields(&request).map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_mins(1))?).await?;
        let reply = client.list_fields(request).await?;
        if self.json {
            json::print(reply)?;
        } else {
            print_fields(&mut std::io::stdout().lock(), &reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// One line for each field.
fn print_fields(out: &mut impl std::io::Write, reply: &v1::ListFieldsResponse) -> std::io::Result<()> {
    let width = reply
        .fields
        .iter()
        .map(|field| field.name.len())
        .max()
        .unwrap_or(0)
        .max(5);
    writeln!(
        out,
        "{:<width$}  {:>10}  {:>10}  {:>10}  {:>10}",
        "field", "documents", "texts", "numbers", "flags"
    )?;
    for v1::FieldInfo { name, documents, types } in &reply.fields {
        let v1::FieldTypes { texts, numbers, flags } = types.unwrap_or_default();
        let [texts, numbers, flags] = [texts, numbers, flags].map(Option::unwrap_or_default);
        writeln!(
            out,
            "{name:<width$}  {documents:>10}  {texts:>10}  {numbers:>10}  {flags:>10}"
        )?;
    }
    if reply.has_more {
        writeln!(out, "and more")?;
    }
    writeln!(out, "of {} documents", reply.documents)
}

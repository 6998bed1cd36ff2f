//! `dyad-searcher get`: documents by key.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dyad_command::UsageError;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;

use super::json;
use super::query::ServerOptions;

/// Print documents by key. Exit code 1 if one of them is not in the index.
#[derive(Debug, Args)]
pub(super) struct Get {
    #[command(flatten)]
    server: ServerOptions,
    /// Stored fields, between commas: `title`, `text`, or metadata; all by default.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    fields: Vec<String>,
    /// Print the reply as JSON, as the HTTP routes answer it.
    #[arg(long)]
    json: bool,
    /// The documents' keys, each once.
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,
}

impl Get {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let request = v1::GetDocumentsRequest {
            keys: self.keys,
            fields: self.fields,
            index: self.server.index.clone(),
        };
        dyad_proto::validate::fields(&request).map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_secs(10))?).await?;
        let reply = client.get_documents(request).await?;
        let is_complete = reply.missing.is_empty();
        if self.json {
            json::print(reply)?;
        } else {
            let mut out = std::io::stdout().lock();
            for v1::Document {
                key,
                title,
                text,
                metadata_json,
                etag: _,
            } in &reply.documents
            {
                let title = if title.is_empty() {
                    String::new()
                } else {
                    format!("  {title}")
                };
                writeln!(out, "{key}{title}\n{text}")?;
                if !metadata_json.is_empty() {
                    writeln!(out, "{metadata_json}")?;
                }
                writeln!(out)?;
            }
            for key in &reply.missing {
                writeln!(std::io::stderr(), "no document with the key `{key}`")?;
            }
        }
        Ok(if is_complete {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

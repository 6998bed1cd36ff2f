//! `dyad-searcher query` and `explain`.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dyad_command::UsageError;
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials, SearcherClient};
use dyad_proto::v1;

use super::ask::SearchOptions;
use super::{json, table};

/// The searcher to call.
#[derive(Debug, Args)]
pub(super) struct ServerOptions {
    /// The searcher's URL.
    #[arg(
        long = "server",
        value_name = "SERVER",
        default_value = "http://127.0.0.1:7700",
        env = "DYAD_SERVER"
    )]
    pub(super) url: String,
    /// Deadline of one call, in milliseconds [default: 10000; for `admin` 600000].
    #[arg(long)]
    pub(super) timeout_ms: Option<u64>,
    /// Name of the index, where the searcher serves several; its default one where none is given.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true,
        global = true
    )]
    pub(super) index: String,
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl ServerOptions {
    /// Few attempts, each with a deadline of `time` unless another one is given.
    pub(super) fn config(&self, time: Duration) -> anyhow::Result<ClientConfig> {
        let call_timeout = self.timeout_ms.map_or(time, |ms| Duration::from_millis(ms.max(1)));
        let credentials = Credentials::open(&self.credentials)?;
        Ok(ClientConfig {
            call_timeout,
            attempts: 3,
            credentials,
            ..ClientConfig::default()
        })
    }
}

/// Ask a running searcher.
#[derive(Debug, Args)]
pub(super) struct Query {
    #[command(flatten)]
    server: ServerOptions,
    /// Stored fields of the hits, between commas: `title`, `text`, or metadata; all by default.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    fields: Vec<String>,
    /// Bytes of each hit's text at most, 16 to 65536; whole texts by default.
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    max_text_bytes: u32,
    /// Bytes of each hit's snippet, 16 to 4096: the part of its text that says most about the question's words.
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    snippet: u32,
    /// Bytes of what stands around each hit in its document, 16 to 65536, where the index has passages of documents.
    #[arg(long, value_name = "BYTES", default_value_t = 0, hide_default_value = true)]
    surrounding: u32,
    /// Print the reply as JSON, as the HTTP routes answer it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    search: SearchOptions,
}

impl Query {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.search.request(self.server.index.clone(), self.fields)?;
        let request = v1::SearchRequest {
            max_text_bytes: self.max_text_bytes,
            snippet_bytes: self.snippet,
            surrounding_bytes: self.surrounding,
            ..asked
        };
        // Checked here and by the server, so that a wrong argument is refused without one.
        dyad_proto::validate::search_request(&request).map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_secs(10))?).await?;
        let query = request.query.clone();
        let reply = client.search(request).await?;
        if self.json {
            json::print(reply)?;
        } else {
            table::print(&mut std::io::stdout().lock(), &query, &reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Say why a document is, or is not, among the hits of a search; the arguments are those of `query`.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    server: ServerOptions,
    /// Key of the document.
    #[arg(long)]
    key: String,
    /// Print the reply as JSON, as the HTTP routes answer it: with BM25 term by term.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    search: SearchOptions,
}

impl Explain {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let search = self.search.request(self.server.index.clone(), Vec::new())?;
        let question = search.query.clone();
        let request = v1::ExplainRequest {
            key: self.key.clone(),
            search: Some(search),
        };
        dyad_proto::validate::explain_request(&request).map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_secs(10))?).await?;
        let reply = client.explain(request).await?;
        if self.json {
            json::print(reply)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "`{}` for \"{question}\", generation {}",
            self.key, reply.generation
        )?;
        writeln!(
            out,
            "  hit            {}",
            reply.hit.map_or("no".to_owned(), |hit| placement_text(Some(hit)))
        )?;
        for reason in &reply.reasons {
            writeln!(out, "                 {reason}")?;
        }
        let of = if reply.ef > 0 {
            format!(" of {} hits at ef {}", reply.depth, reply.ef)
        } else {
            String::new()
        };
        writeln!(out, "  dense          {}{of}", placement_text(reply.dense))?;
        writeln!(out, "  dense, exact   {}", placement_text(reply.dense_exact))?;
        writeln!(out, "  bm25           {}", placement_text(reply.bm25))?;
        writeln!(out, "  terms asked    {}", reply.terms.join(" "))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A placement, for people.
fn placement_text(placement: Option<v1::Placement>) -> String {
    placement.map_or("-".to_owned(), |place| {
        format!("rank {} (score {:.4})", place.rank, place.score)
    })
}

//! `dyad-searcher scroll`: all documents as JSON lines.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dyad_command::UsageError;
use dyad_proto::client::SearcherClient;
use dyad_proto::json::MessageJson;
use dyad_proto::v1;

use super::filter::FilterOptions;
use super::query::ServerOptions;

/// Print all documents in the order of their keys, one JSON object per line, as `dyad-indexer build --corpus` reads
/// them. Documents that are there all along are printed once, whatever changes meanwhile.
#[derive(Debug, Args)]
pub(super) struct Scroll {
    #[command(flatten)]
    server: ServerOptions,
    /// Stored fields, between commas: `title`, `text`, or metadata; all by default.
    #[arg(long, value_name = "FIELDS", value_delimiter = ',')]
    fields: Vec<String>,
    #[command(flatten)]
    filter: FilterOptions,
    /// Only documents whose keys come after this one, byte by byte: to go on where an earlier run has ended.
    #[arg(long, value_name = "KEY", default_value = "", hide_default_value = true)]
    after: String,
    /// Documents of one call at most, 1 to 1000.
    #[arg(long, value_name = "N", default_value_t = 100)]
    page_size: u32,
}

impl Scroll {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        let mut request = v1::ScrollDocumentsRequest {
            page_size: self.page_size,
            after_key: self.after,
            filter: self.filter.filter(),
            fields: self.fields,
            with_vectors: false,
            index: self.server.index.clone(),
        };
        dyad_proto::validate::scroll_documents_request(&request)
            .map_err(|violations| UsageError(violations.to_string()))?;
        let client = SearcherClient::connect(&self.server.url, self.server.config(Duration::from_secs(10))?).await?;
        let json = MessageJson::new()?;
        loop {
            let read = client.scroll_documents(request.clone()).await;
            let page = read.with_context(|| ended_after(&request.after_key))?;
            let mut lines = String::new();
            for document in page.documents.into_iter().filter_map(|one| one.document) {
                lines.push_str(&json.write(document)?);
                lines.push('\n');
            }
            std::io::stdout().lock().write_all(lines.as_bytes())?;
            if !page.has_more {
                return Ok(ExitCode::SUCCESS);
            }
            request.after_key = page.next_after_key;
        }
    }
}

/// What was printed before a page could not be read.
fn ended_after(key: &str) -> String {
    if key.is_empty() {
        "no document was read".to_owned()
    } else {
        format!("the last document is `{key}`: `--after` with this key goes on there")
    }
}

//! `dyad-bench quality`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dyad_command::ProgressBar;
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials, SearcherClient};

use crate::quality::{JudgedQuestions, QualityJob, measure, systems};

/// Which ranking, and how many questions it was asked.
const BAR: &str = "{msg:<13} [{bar:40}] {human_pos}/{human_len} questions, {per_sec}, {eta} left";

/// Ask a running searcher every judged question of a BEIR folder, write the answers as TREC runs, and print how good
/// they are.
#[derive(Debug, Args)]
pub(super) struct QualityCommand {
    /// The searcher's URL.
    #[arg(long, default_value = "http://127.0.0.1:7700", env = "DYAD_SERVER")]
    server: String,
    /// A BEIR folder: queries.jsonl and qrels/SPLIT.tsv, plain or compressed.
    #[arg(long, value_name = "BEIR_DIR")]
    data: PathBuf,
    /// Which judgements.
    #[arg(long, default_value = "test")]
    split: String,
    #[command(flatten)]
    job: QualityJob,
    /// Also write the figures to this file, as JSON and unrounded.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Time for one call, in milliseconds.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl QualityCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(self) -> anyhow::Result<()> {
        // Whatever can be refused is refused before the first question is asked.
        let judged = JudgedQuestions::read(&self.data, &self.split)?;
        fs_err::create_dir_all(&self.job.run_dir)?;
        if let Some(parent) = self.json.as_deref().and_then(Path::parent) {
            fs_err::create_dir_all(parent)?;
        }
        let call_timeout = Duration::from_millis(self.timeout_ms);
        let credentials = Credentials::open(&self.credentials)?;
        let config = ClientConfig {
            call_timeout,
            credentials,
            ..ClientConfig::default()
        };
        let client = SearcherClient::connect(&self.server, config).await?;

        let questions = (systems(&self.job.modes, self.job.rerank).len() * judged.questions.len()) as u64;
        let bar = ProgressBar::new("", Some(questions), BAR);
        let report = measure(&client, &judged, &self.job, &|system, answered| {
            bar.set(bar.position() + answered as u64, system.to_string());
        })
        .await?;
        drop(bar);
        if let Some(path) = &self.json {
            fs_err::write(path, format!("{:#}\n", report.to_json()))?;
        }
        Ok(report.write_table(&mut std::io::stdout().lock())?)
    }
}

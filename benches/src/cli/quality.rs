//! `dyad-bench quality`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use dyad_command::ProgressBar;
use dyad_proto::client::{ClientConfig, SearcherClient};
use dyad_proto::limits::MAX_K;

use crate::quality::{Job, Judged, Mode, measure, systems, write_table};

/// Which ranking, and how many questions it was asked.
const BAR: &str = "{msg:<12} [{bar:40}] {human_pos}/{human_len} questions, {per_sec}, {eta} left";

/// Ask a running searcher every judged question of a BEIR folder, write the answers as TREC runs, and print how good they are.
#[derive(Debug, Args)]
pub(super) struct Quality {
    /// The searcher's URL.
    #[arg(long, default_value = "http://127.0.0.1:7700", env = "DYAD_SERVER")]
    server: String,
    /// A BEIR folder: queries.jsonl and qrels/SPLIT.tsv, plain or compressed.
    #[arg(long, value_name = "BEIR_DIR")]
    data: PathBuf,
    /// Which judgements.
    #[arg(long, default_value = "test")]
    split: String,
    /// Rankings to measure, between commas; dense and hybrid are also asked for with exact search.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["dense", "bm25", "hybrid"])]
    modes: Vec<Mode>,
    /// Folder for the runs: dense.run, dense-exact.run, bm25.run and so on. Earlier runs there are replaced.
    #[arg(long, value_name = "DIR")]
    run_dir: PathBuf,
    /// Also write the figures to this file, as JSON and unrounded.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Hits per question.
    #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_K)))]
    k: u32,
    /// Calls under way at once; each carries 64 questions.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    concurrency: u32,
    /// Drop hits whose key is the question's own, where questions are themselves documents (ArguAna, Quora).
    #[arg(long)]
    drop_identical_ids: bool,
    /// Time for one call, in milliseconds.
    #[arg(long, default_value_t = 300_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout_ms: u64,
}

impl Quality {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        runtime.block_on(self.measure())
    }

    async fn measure(self) -> anyhow::Result<()> {
        // Whatever can be refused is refused before the first question is asked.
        let judged = Judged::read(&self.data, &self.split)?;
        fs_err::create_dir_all(&self.run_dir)?;
        if let Some(parent) = self.json.as_deref().and_then(Path::parent) {
            fs_err::create_dir_all(parent)?;
        }
        let config = ClientConfig { call_timeout: Duration::from_millis(self.timeout_ms), ..ClientConfig::default() };
        let client = SearcherClient::connect(&self.server, config).await?;

        let job = Job {
            systems: systems(&self.modes),
            run_dir: self.run_dir,
            k: self.k,
            concurrency: self.concurrency as usize,
            drop_identical_ids: self.drop_identical_ids,
        };
        let questions = (job.systems.len() * judged.questions.len()) as u64;
        let bar = ProgressBar::new("", Some(questions), BAR);
        let report = measure(&client, &judged, &job, &|system, answered| {
            bar.set(bar.position() + answered as u64, system.to_string());
        })
        .await?;
        drop(bar);
        if let Some(path) = &self.json {
            fs_err::write(path, format!("{:#}\n", report.to_json()))?;
        }
        write_table(&mut std::io::stdout().lock(), &report)?;
        Ok(())
    }
}

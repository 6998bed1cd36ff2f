//! `dyad-indexer calibrate`: recall measured again, by questions as they are asked.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use dyad_command::{JobCancellation, cancel_on_signal};
use dyad_corpus::PassageContext;
use dyad_corpus::queries::QuestionTexts;
use dyad_index::manifest;
use dyad_indexer::change::{CalibrateConfig, calibrate, embed_questions};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::QuestionVectors;
use dyad_proto::client::CredentialOptions;
use dyad_proto::v1;

use super::bar::ProgressReporter;
use super::change::report_change;
use super::documents::thread_count;
use super::model::ModelArguments;
use super::report::ChangeArguments;
use super::services::ServiceCalls;

#[derive(Debug, clap::Args)]
pub(super) struct CalibrateArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Questions as they are asked; at most 1,000 of them are used, by chance. Vectors: a directory that `dyad-encoder
    /// embed --tower question` has made, or a .npy file of float32 or float16 [questions, values]. Or texts, which the
    /// question tower of `--encoder` or `--model` embeds: a log with a question on each line, a .jsonl file with `text`
    /// or `query`, or a .tsv file; plain, .gz or .zst
    #[arg(long, value_name = "FILE|LOG")]
    queries: PathBuf,
    /// Encoder service that embeds texts, http://HOST:PORT, or several between commas
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    encoder: Vec<String>,
    #[command(flatten)]
    model: ModelArguments,
    /// Seed of the sample of questions
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; one per core by default
    #[arg(long)]
    threads: Option<usize>,
    /// Texts per call to the encoder service
    #[arg(long, default_value_t = 256)]
    batch_texts: usize,
    /// Deadline of one call to the encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
    #[command(flatten)]
    report: ChangeArguments,
}

pub(super) fn run(arguments: &CalibrateArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let questions = arguments.questions(&cancel)?;
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let config = CalibrateConfig {
        index: arguments.index.clone(),
        threads: thread_count(arguments.threads)?,
        dry_run: arguments.report.dry_run,
    };
    let outcome = calibrate(&config, &questions, control)?;
    report_change(&config.index, &outcome, &arguments.report, began)
}

/// Whether a path holds vectors and not texts.
fn holds_vectors(path: &Path) -> bool {
    path.is_dir() || path.extension().is_some_and(|extension| extension == "npy")
}

impl CalibrateArguments {
    fn questions(&self, cancel: &JobCancellation) -> anyhow::Result<QuestionVectors> {
        let model = manifest::current(&self.index)?.model;
        if holds_vectors(&self.queries) {
            return Ok(QuestionVectors::open(&self.queries, &model, self.seed)?);
        }
        let texts = QuestionTexts::open(&self.queries).context("--queries")?;
        // Dropped after its client, which is created below.
        let own = self.model.start()?;
        let urls = own
            .as_ref()
            .map_or_else(|| self.encoder.clone(), |own| vec![own.url().to_owned()]);
        anyhow::ensure!(
            !urls.is_empty(),
            "`{}` holds texts, and nothing embeds them: name an encoder service of the index's model by `--encoder`, or its directory by \
             `--model`",
            self.queries.display()
        );
        let timeout = Duration::from_secs(self.timeout_s);
        let calls = ServiceCalls {
            urls: &urls,
            tower: v1::Tower::Question,
            context: PassageContext::default(),
            batch_texts: self.batch_texts,
            timeout,
            credentials: &self.credentials,
        };
        let mut source = calls.connect(cancel)?;
        Ok(embed_questions(texts, &mut source, &model, self.seed, cancel)?)
    }
}

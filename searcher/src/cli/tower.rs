//! `--question-tower` and `--reranker`, and how they run.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dyad_proto::client::{CredentialOptions, Credentials};

use crate::question::{QuestionTower, QuestionTowers};
use crate::reranker::Reranker;

/// In place of a tower.
const NONE: &str = "none";

/// The question tower and the cross encoder.
#[derive(Debug, Args)]
pub(super) struct TowerOptions {
    /// Question tower: a model directory (in this process), the URL of an encoder service, or `none`, for an index of
    /// vectors alone: questions then come with their vectors, or are answered by BM25. May be given several times, for
    /// indexes of several models: each index is served by the tower of its model.
    #[arg(
        long = "question-tower",
        value_name = "DIR|URL|none",
        env = "DYAD_QUESTION_TOWER",
        required = true
    )]
    names: Vec<String>,
    /// Cross encoder that scores the best hits again where a request asks for it (`rerank_depth`): a model directory
    /// (in this process), or the URL of an encoder service that serves one.
    #[arg(long, value_name = "DIR|URL", env = "DYAD_RERANKER")]
    reranker: Option<String>,
    /// Data type of the cross encoder's model directory: f32, bf16, f16, or int8 on the CPU.
    #[arg(long, value_name = "DTYPE", default_value = "f32")]
    reranker_dtype: String,
    /// Device of a model directory: cpu or cuda:N.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Data type of a model directory: f32, bf16, f16, or int8 on the CPU.
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Seconds to wait for an encoder service that is not up yet, for an object store that does not answer, and for an
    /// index that has not been pushed there yet.
    #[arg(long, default_value_t = 0)]
    wait_s: u64,
    /// Threads that a model directory computes on; 0 uses every core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Of the question tower's model directory: the index must have been embedded with the same.
    #[cfg(feature = "torch")]
    #[command(flatten)]
    prompts: dyad_encoder::PromptOptions,
    /// For encoder services.
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl TowerOptions {
    /// Loads the models, and connects to the services; nothing with `none`.
    pub(super) async fn open(&self) -> anyhow::Result<QuestionTowers> {
        let mut towers = Vec::new();
        for name in self.names.iter().filter(|name| *name != NONE) {
            towers.push(
                self.open_named(name)
                    .await
                    .with_context(|| format!("--question-tower `{name}`"))?,
            );
        }
        Ok(QuestionTowers::new(towers, self.names.iter().any(|name| name == NONE))?)
    }

    /// What is shown to other servers.
    pub(super) fn credentials(&self) -> anyhow::Result<Credentials> {
        Ok(Credentials::open(&self.credentials)?)
    }

    /// Loads the cross encoder, or connects to it; nothing where none is named.
    pub(super) async fn open_reranker(&self) -> anyhow::Result<Option<Reranker>> {
        let Some(name) = &self.reranker else { return Ok(None) };
        let opened = if is_url(name) {
            let credentials = Credentials::open(&self.credentials)?;
            Reranker::connect(name, credentials, self.wait()).await
        } else {
            self.load_reranker(name).await
        };
        opened.map(Some).with_context(|| format!("--reranker `{name}`"))
    }

    /// The patience at the start.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_secs(self.wait_s)
    }

    async fn open_named(&self, name: &str) -> crate::Result<QuestionTower> {
        if is_url(name) {
            let credentials = Credentials::open(&self.credentials).map_err(|error| crate::Error::Tower {
                reason: error.to_string(),
                transient: false,
            })?;
            self.check_prompts_of_service()?;
            return QuestionTower::connect_within(name, credentials, self.wait()).await;
        }
        self.load(name).await
    }
}

fn is_url(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

#[cfg(feature = "torch")]
impl TowerOptions {
    async fn load(&self, name: &str) -> crate::Result<QuestionTower> {
        let options = crate::question::LocalOptions {
            prompts: self.prompts.clone(),
            ..self.options(&self.dtype)
        };
        QuestionTower::load(std::path::Path::new(name), options).await
    }

    /// An encoder service has its own prompts.
    fn check_prompts_of_service(&self) -> crate::Result<()> {
        if self.prompts == dyad_encoder::PromptOptions::default() {
            return Ok(());
        }
        let reason = "--question-prompt, --answer-prompt, their names (--question-prompt-name, --answer-prompt-name) and --prompts are for a model directory: give them to `dyad-encoder serve`";
        Err(crate::Error::Tower {
            reason: reason.to_owned(),
            transient: false,
        })
    }

    async fn load_reranker(&self, name: &str) -> crate::Result<Reranker> {
        Reranker::load(std::path::Path::new(name), self.options(&self.reranker_dtype)).await
    }

    fn options(&self, dtype: &str) -> crate::question::LocalOptions {
        crate::question::LocalOptions {
            device: self.device.clone(),
            dtype: dtype.to_owned(),
            threads: self.threads,
            ..crate::question::LocalOptions::default()
        }
    }
}

#[cfg(not(feature = "torch"))]
const NO_TORCH: &str = "this build has no libtorch (feature `torch`), so a model directory cannot be opened. Start `dyad-encoder serve` \
                        and give its URL, http://HOST:PORT";

#[cfg(not(feature = "torch"))]
#[expect(clippy::unused_async, reason = "the same signatures as with libtorch")]
impl TowerOptions {
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "the same signature as with libtorch"
    )]
    fn check_prompts_of_service(&self) -> crate::Result<()> {
        Ok(())
    }

    async fn load(&self, _name: &str) -> crate::Result<QuestionTower> {
        Err(crate::Error::Tower {
            reason: NO_TORCH.to_owned(),
            transient: false,
        })
    }

    async fn load_reranker(&self, _name: &str) -> crate::Result<Reranker> {
        Err(crate::Error::Reranker {
            reason: NO_TORCH.to_owned(),
            transient: false,
        })
    }
}

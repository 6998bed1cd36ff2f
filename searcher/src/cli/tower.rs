//! `--question-tower` and how it runs.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dyad_proto::client::{CredentialOptions, Credentials};

use crate::question::{QuestionTower, Towers};

/// In place of a tower.
const NONE: &str = "none";

/// The question tower.
#[derive(Debug, Args)]
pub(super) struct Tower {
    /// Question tower: a model directory (in this process), the URL of an encoder service, or `none`, for an index of vectors alone:
    /// questions then come with their vectors, or are answered by BM25. May be given several times, for indexes of several models: each index is
    /// served by the tower of its model.
    #[arg(long = "question-tower", value_name = "DIR|URL|none", env = "DYAD_QUESTION_TOWER", required = true)]
    names: Vec<String>,
    /// Device of a model directory: cpu or cuda:N.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Data type of a model directory: f32, bf16, f16, or int8 on the CPU.
    #[arg(long, default_value = "f32")]
    dtype: String,
    /// Seconds to wait for an encoder service that is not up yet.
    #[arg(long, default_value_t = 0)]
    wait_s: u64,
    /// Threads of one operator of a model directory; 0 uses every core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// For encoder services.
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl Tower {
    /// Loads the models, and connects to the services; nothing with `none`.
    pub(super) async fn open(&self) -> anyhow::Result<Towers> {
        let mut towers = Vec::new();
        for name in self.names.iter().filter(|name| *name != NONE) {
            towers.push(self.open_named(name).await.with_context(|| format!("--question-tower `{name}`"))?);
        }
        Ok(Towers::new(towers, self.names.iter().any(|name| name == NONE))?)
    }

    async fn open_named(&self, name: &str) -> crate::Result<QuestionTower> {
        if name.starts_with("http://") || name.starts_with("https://") {
            let wait = Duration::from_secs(self.wait_s);
            let credentials = Credentials::open(&self.credentials)
                .map_err(|error| crate::Error::Tower { reason: error.to_string(), transient: false })?;
            return QuestionTower::connect_within(name, credentials, wait).await;
        }
        self.load(name).await
    }

    #[cfg(feature = "torch")]
    async fn load(&self, name: &str) -> crate::Result<QuestionTower> {
        let options = crate::question::LocalOptions {
            device: self.device.clone(),
            dtype: self.dtype.clone(),
            threads: self.threads,
        };
        QuestionTower::load(std::path::Path::new(name), options).await
    }

    #[cfg(not(feature = "torch"))]
    #[expect(clippy::unused_async, reason = "the same signature as with libtorch")]
    async fn load(&self, _name: &str) -> crate::Result<QuestionTower> {
        let reason = "this build has no libtorch (feature `torch`), so a model directory cannot be opened. Start \
                      `dyad-encoder serve` and give its URL, http://HOST:PORT";
        Err(crate::Error::Tower { reason: reason.to_owned(), transient: false })
    }
}

//! The question tower: embeds questions, in this process or in an encoder service.
//!
//! | file | contents |
//! |---|---|
//! | `embedded.rs` | the vectors, and the errors |
//! | `towers.rs` | the towers of a searcher, one for each model |
//! | `cache.rs` | the vectors of questions that were asked before |
//! | `local.rs` | a model in this process (feature `torch`) |
//! | `remote.rs` | an encoder service |

mod cache;
mod embedded;
#[cfg(feature = "torch")]
mod local;
mod remote;
mod towers;

use std::time::{Duration, Instant};

use dyad_index::ModelRecord;
use dyad_proto::client::Credentials;

use crate::error::{Error, Result};

use self::embedded::failed;
pub use cache::{CachedQuestion, QuestionCache};
pub use embedded::EmbeddedQuestions;
pub(crate) use embedded::GOLDEN;
#[cfg(feature = "torch")]
pub use local::LocalOptions;
pub use towers::{ModelTower, QuestionTowers};

/// Timeout of a health check of the service.
const CHECK: Duration = Duration::from_secs(1);

/// Pause before the next attempt to connect to a service that is not up yet.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The question tower.
#[derive(Debug, Clone)]
pub enum QuestionTower {
    /// In this process.
    #[cfg(feature = "torch")]
    Local(local::Local),
    /// In an encoder service.
    Remote(Box<remote::Remote>),
}

impl QuestionTower {
    /// Connects to an encoder service.
    pub async fn connect(url: &str, credentials: Credentials) -> Result<Self> {
        Ok(Self::Remote(Box::new(remote::Remote::connect(url, credentials).await?)))
    }

    /// As [`QuestionTower::connect`], but retries for up to `wait` while the service is not up yet.
    pub async fn connect_within(url: &str, credentials: Credentials, wait: Duration) -> Result<Self> {
        let until = Instant::now() + wait;
        loop {
            match Self::connect(url, credentials.clone()).await {
                Err(error @ Error::Tower { transient: true, .. }) if Instant::now() < until => {
                    tracing::info!(%error, "waiting for the question tower");
                    tokio::time::sleep(RETRY_PAUSE.min(until.saturating_duration_since(Instant::now()))).await;
                }
                connected => return connected,
            }
        }
    }

    /// Loads a model directory into this process.
    #[cfg(feature = "torch")]
    pub async fn load(model: &std::path::Path, options: LocalOptions) -> Result<Self> {
        Ok(Self::Local(local::Local::load(model, options).await?))
    }

    /// A model that runs in this process already, with these settings, and that others may use too.
    #[cfg(feature = "torch")]
    pub fn running(handle: dyad_encoder::serve::Handle, compute: &dyad_encoder::Compute) -> Self {
        Self::Local(local::Local::running(handle, compute))
    }

    /// The tower's model.
    pub fn model(&self) -> &ModelRecord {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.model(),
            Self::Remote(tower) => tower.model(),
        }
    }

    /// Whether embedding takes every core of this machine: parallel work would slow both down.
    pub fn takes_all_cores(&self) -> bool {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.takes_all_cores,
            Self::Remote(_) => false,
        }
    }

    /// Whether it is an encoder service.
    pub fn is_remote(&self) -> bool {
        matches!(self, Self::Remote(_))
    }

    /// Completes when the tower has failed for good, as when the model's thread has died; never for a service, which
    /// may come back.
    pub async fn ended(&self) {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.ended().await,
            Self::Remote(_) => std::future::pending().await,
        }
    }

    /// Whether the tower answers now, and is still of the model that it was at the start; takes a second at most.
    pub async fn check(&self) -> Result<()> {
        match self {
            #[cfg(feature = "torch")]
            Self::Local(tower) => tower.check(),
            Self::Remote(tower) => tokio::time::timeout(CHECK, tower.check())
                .await
                .unwrap_or_else(|_| Err(failed(format!("no answer within {CHECK:?}"), true))),
        }
    }

    /// Embeds questions within a timeout; returns one finite vector of the model's dimension for each.
    pub async fn embed(&self, questions: Vec<String>, time: Duration) -> Result<EmbeddedQuestions> {
        let count = questions.len();
        let deadline = Instant::now() + time;
        let embedding = async {
            match self {
                #[cfg(feature = "torch")]
                Self::Local(tower) => tower.embed(questions, deadline, time).await,
                Self::Remote(tower) => tower.embed(questions, time).await,
            }
        };
        let embedded = tokio::time::timeout_at(deadline.into(), embedding).await;
        let embedded = embedded.map_err(|_| Error::TowerLate(time))??;
        let expected = count * self.model().dim;
        if embedded.vectors.len() != expected || embedded.vectors.iter().any(|value| !value.is_finite()) {
            return Err(failed(
                format!("expected {expected} finite values, got {}", embedded.vectors.len()),
                false,
            ));
        }
        Ok(embedded)
    }
}

//! `dyad-searcher serve`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use dyad_proto::service::{self, ServerConfig};

use crate::question::QuestionTower;
use crate::run::{Engine, EngineConfig};

/// Serve an index over gRPC.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Directory of the index.
    #[arg(long, env = "DYAD_INDEX")]
    index: PathBuf,
    /// Question tower: a model directory (in this process) or the URL of an encoder service.
    #[arg(long, value_name = "DIR|URL", env = "DYAD_QUESTION_TOWER")]
    question_tower: String,
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "HOST:PORT")]
    listen: String,
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
    /// Serve this generation until the next reload, whatever `CURRENT` says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    generation: Option<u64>,
    /// Requests in flight at once; more are refused with `RESOURCE_EXHAUSTED`. A question of a batch counts as one; batches
    /// and streams take at most a quarter, and queue for it.
    #[arg(long, default_value_t = 512)]
    max_requests: usize,
    /// Connections at once; more queue until one ends.
    #[arg(long, default_value_t = ServerConfig::default().connections)]
    max_connections: usize,
    /// Deadline of a request whose client sets none, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    default_timeout_ms: u64,
    /// Pause after SIGTERM or SIGINT in which health is `NOT_SERVING` and requests are still accepted, in seconds.
    #[arg(long, default_value_t = 1)]
    lame_duck_s: u64,
    /// Time for running requests to finish after that pause, in seconds.
    #[arg(long, default_value_t = 20)]
    drain_s: u64,
}

impl Serve {
    pub(super) async fn run(self) -> anyhow::Result<ExitCode> {
        // The port first, so that a port in use is reported before a model is loaded.
        let listener = service::bind(&self.listen).await?;
        // Signals are handled before the long start, so that a stop during it is clean.
        let shutdown = dyad_command::shutdown_signal();
        let config = EngineConfig {
            max_requests: self.max_requests.max(1),
            default_time: Duration::from_millis(self.default_timeout_ms.max(1)),
            generation: self.generation,
        };
        let tower = self.tower().await.with_context(|| format!("--question-tower `{}`", self.question_tower))?;
        let engine = Engine::open(&self.index, tower, config)?;
        let snapshot = engine.snapshot();
        tracing::info!(
            index = %self.index.display(),
            generation = snapshot.manifest().generation,
            documents = snapshot.len(),
            shards = snapshot.shards().len(),
            model = %snapshot.manifest().model.name,
            fingerprint = %snapshot.manifest().model.fingerprint,
            kernels = dyad_index::kernels::kernels().name,
            "serving"
        );
        drop(snapshot);
        writeln!(std::io::stdout(), "listening on {}", listener.local_addr()?)?;
        std::io::stdout().flush()?;
        let config = ServerConfig {
            lame_duck: Duration::from_secs(self.lame_duck_s),
            drain: Duration::from_secs(self.drain_s),
            connections: self.max_connections,
            ..ServerConfig::default()
        };
        super::super::service::serve(listener, Arc::new(engine), shutdown, config).await?;
        Ok(ExitCode::SUCCESS)
    }

    async fn tower(&self) -> crate::Result<QuestionTower> {
        if self.question_tower.starts_with("http://") || self.question_tower.starts_with("https://") {
            let wait = Duration::from_secs(self.wait_s);
            return QuestionTower::connect_within(&self.question_tower, wait).await;
        }
        self.load().await
    }

    #[cfg(feature = "torch")]
    async fn load(&self) -> crate::Result<QuestionTower> {
        let options = crate::question::LocalOptions {
            device: self.device.clone(),
            dtype: self.dtype.clone(),
            threads: self.threads,
        };
        QuestionTower::load(std::path::Path::new(&self.question_tower), options).await
    }

    #[cfg(not(feature = "torch"))]
    #[expect(clippy::unused_async, reason = "the same signature as with libtorch")]
    async fn load(&self) -> crate::Result<QuestionTower> {
        let reason = "this build has no libtorch (feature `torch`), so a model directory cannot be opened. Start \
                      `dyad-encoder serve` and give its URL, http://HOST:PORT";
        Err(crate::Error::Tower { reason: reason.to_owned(), transient: false })
    }
}

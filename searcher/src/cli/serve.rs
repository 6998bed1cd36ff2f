//! `dyad-searcher serve`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyad_command::UsageError;
use dyad_proto::service::{self, HttpConfig, MAX_REQUESTS_BYTES, ServerConfig};
use futures_util::FutureExt as _;

use super::indexes::Indexes;
use super::tower::Tower;
use crate::memory::{MemoryLimit, ProcessMemory, Resident, mib};
use crate::run::{Engine, EngineConfig, open_files};
use crate::service::{HTTP_BYTES, router};

/// Indexes that are logged one by one.
const LOGGED: usize = 10;

/// Serve one or several indexes over gRPC, and over HTTP where asked to.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    indexes: Indexes,
    #[command(flatten)]
    tower: Tower,
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "HOST:PORT")]
    listen: String,
    /// Serve HTTP at this address too: a page for browsers at /, and JSON at /v1/search and others, which /v1/openapi.json
    /// lists.
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// Serve this generation until the next reload, whatever `CURRENT` says. For one index only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    generation: Option<u64>,
    /// Read `CURRENT` every N seconds (1 by default), and serve the generation that it names, as `admin reload` does.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        conflicts_with = "generation"
    )]
    watch: Option<u64>,
    /// Requests in flight at once: half of them single searches, a quarter exact searches and explanations, of which more are refused with
    /// `RESOURCE_EXHAUSTED`; a quarter batches and streams, which queue. A question of a batch counts as one.
    #[arg(long, default_value_t = 512)]
    max_requests: usize,
    /// MiB of the cache of question vectors: a question that is asked again is not embedded again. 0: no cache.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    question_cache_mb: u32,
    /// MiB of the cache of filters: the documents that a filter allows are not looked up again while the same generation is served. 0: no
    /// cache.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    filter_cache_mb: u32,
    /// MiB of memory that the searcher may use; an index that would need more is not served [default: the lowest of the cgroup's limit and
    /// the machine's memory]. 0: nothing is refused.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    memory_limit_mb: Option<u64>,
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
        let indexes = self.indexes.paths()?;
        if self.generation.is_some() && indexes.len() > 1 {
            let error = format!("--generation: expected one index, got {}", indexes.len());
            return Err(UsageError(error).into());
        }
        // The port first, so that a port in use is reported before a model is loaded.
        let listener = service::bind(&self.listen).await?;
        let http_listener = match &self.http {
            Some(address) => Some(service::bind_for(address, "--http").await?),
            None => None,
        };
        // Signals are handled before the long start, so that a stop during it is clean.
        let shutdown = dyad_command::shutdown_signal();
        let towers = self.tower.open().await?;
        open_files::raise_limit();
        let config = EngineConfig {
            max_requests: self.max_requests.max(1),
            default_time: Duration::from_millis(self.default_timeout_ms.max(1)),
            question_cache: (self.question_cache_mb as usize) << 20,
            filter_cache: (self.filter_cache_mb as usize) << 20,
            generation: self.generation,
            memory: self.memory(),
        };
        let engine = Engine::open_all(indexes, towers, config)?;
        log(&engine);
        engine.warm_up().await;
        {
            let mut output = std::io::stdout().lock();
            writeln!(output, "listening on {}", listener.local_addr()?)?;
            if let Some(listener) = &http_listener {
                writeln!(output, "HTTP on {}", listener.local_addr()?)?;
            }
            output.flush()?;
        }
        let engine = Arc::new(engine);
        // Both servers end at the same signal and have the same time to drain.
        let shutdown = shutdown.boxed().shared();
        let (drain, lame_duck) = (Duration::from_secs(self.drain_s), Duration::from_secs(self.lame_duck_s));
        let config = ServerConfig { lame_duck, drain, connections: self.max_connections, ..ServerConfig::default() };
        let grpc = crate::service::serve(listener, Arc::clone(&engine), shutdown.clone(), config);
        let http = async {
            let Some(listener) = http_listener else { return Ok(()) };
            let header_timeout = HttpConfig::default().header_timeout.min(drain * 3 / 4);
            let config =
                HttpConfig { drain, header_timeout, connections: self.max_connections, ..HttpConfig::default() };
            let routes = router(Arc::clone(&engine), (config.connections * 3 / 4).max(1))?;
            let stop = shutdown.then(|()| tokio::time::sleep(lame_duck));
            Ok::<_, anyhow::Error>(service::serve_http(listener, routes, stop, config).await?)
        };
        // A server that fails ends the other.
        let served = Box::pin(async { tokio::try_join!(async { Ok(grpc.await?) }, http) });
        match self.watch {
            None => drop(served.await?),
            Some(seconds) => tokio::select! {
                ended = served => drop(ended?),
                () = engine.follow(Duration::from_secs(seconds)) => {}
            },
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What the process may use, and has taken once its towers are loaded and its servers full.
    fn memory(&self) -> ProcessMemory {
        let limit = match self.memory_limit_mb {
            None => MemoryLimit::of_system(),
            Some(mib) => (mib > 0).then(|| MemoryLimit::given(mib << 20, "--memory-limit-mb")),
        };
        let Resident { anonymous, file } = Resident::now();
        let http = if self.http.is_some() { HTTP_BYTES } else { 0 };
        ProcessMemory { limit, program: anonymous.saturating_add(file), buffers: (MAX_REQUESTS_BYTES + http) as u64 }
    }
}

/// Logs what is served: of a few indexes each.
fn log(engine: &Engine) {
    for index in engine.indexes().take(LOGGED) {
        let snapshot = index.snapshot();
        tracing::info!(
            index = %snapshot.index().display(),
            name = index.name(),
            generation = snapshot.manifest().generation,
            documents = snapshot.len(),
            shards = snapshot.shards().len(),
            model = %snapshot.manifest().model.name,
            fingerprint = %snapshot.manifest().model.fingerprint,
            "serving"
        );
    }
    let documents: usize = engine.indexes().map(|index| index.snapshot().len()).sum();
    let kernels = dyad_index::kernels::kernels().name;
    tracing::info!(indexes = engine.indexes().len(), documents, kernels, "all indexes are open");
    let (limit, need) = engine.memory();
    let told = limit.map_or_else(|| "none".to_owned(), ToString::to_string);
    tracing::info!(limit = told, needed = %need, "memory");
    if let Some(limit) = limit
        && need.total().saturating_add(limit.others) > limit.bytes
    {
        let others = mib(limit.others);
        tracing::warn!(
            "others hold {others} of the memory now: pages of graphs and codes will be read from disk again and again"
        );
    }
}

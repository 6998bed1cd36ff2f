//! `dyad-searcher serve`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use dyad_command::{Follower, UsageError};
use dyad_proto::access::{Role, ServedIndexes};
use dyad_proto::service::{self, CorsOrigin, HttpConfig, MAX_REQUESTS_BYTES, Security, SecurityOptions, ServerConfig};
use futures_util::FutureExt as _;
use tokio::net::TcpListener;

use super::indexes::{IndexOptions, ServedChoice};
use super::leaves::LeavesOptions;
use super::page_indexers::PageIndexerOptions;
use super::search_defaults::SearchDefaultsOptions;
use super::served_log::log_served;
use super::tower::TowerOptions;
use crate::memory::{ProcessMemory, ProcessMemoryLimit, Resident};
use crate::mirrors::Mirrors;
use crate::run::{Engine, EngineConfig, open_files};
use crate::service::{HTTP_BYTES, PagePlaces, RouterConfig, Services, router, serve_some};

/// Serve one or several indexes over gRPC, and over HTTP where asked to.
#[derive(Debug, Args)]
pub(super) struct Serve {
    #[command(flatten)]
    indexes: IndexOptions,
    #[command(flatten)]
    tower: TowerOptions,
    #[command(flatten)]
    leaves: LeavesOptions,
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:7700", value_name = "HOST:PORT")]
    listen: String,
    /// Serve HTTP at this address too: a page for browsers at /, and JSON at /v1/search and others, which
    /// /v1/openapi.json lists.
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// A name by which browsers and others may call the HTTP server, next to its address and `localhost`; may be given
    /// several times. Where requests need API keys, every name is accepted.
    #[arg(long = "http-host", value_name = "NAME", requires = "http")]
    http_hosts: Vec<String>,
    /// Origin whose pages may call this server from a browser (CORS), as `https://app.example`; `*` for all. May be
    /// given several times; without it none but the server's own
    #[arg(long = "cors-origin", value_name = "ORIGIN", requires = "http")]
    cors_origins: Vec<CorsOrigin>,
    #[command(flatten)]
    page_indexers: PageIndexerOptions,
    /// Serve `Admin` at this address, and not at that of `--listen`. Without it `Admin` is served at `--listen` where
    /// that is a loopback address, and nowhere else.
    #[arg(long, value_name = "HOST:PORT")]
    admin_listen: Option<String>,
    #[command(flatten)]
    security: SecurityOptions,
    /// Serve this generation until the next reload, whatever `CURRENT` says. For one index only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    generation: Option<u64>,
    /// Read `CURRENT` every N seconds (1 by default), of indexes in object stores that of the store, and serve the
    /// generation that it names, by number and checksum, as `admin reload` does. With `--leaves` that is done in any
    /// case.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_missing_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=86_400),
        conflicts_with = "generation"
    )]
    watch: Option<u64>,
    /// Requests in flight at once: half of them single searches, a quarter costly searches and explanations, of which
    /// more are refused with `RESOURCE_EXHAUSTED`; a quarter batches and streams, which queue. A question of a batch
    /// counts as one.
    #[arg(long, default_value_t = 512)]
    max_requests: usize,
    /// MiB of the cache of question vectors: a question that is asked again is not embedded again. 0: no cache.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    question_cache_mb: u32,
    /// MiB of the cache of filters: the documents that a filter allows are not looked up again while the same
    /// generation is served. 0: no cache.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    filter_cache_mb: u32,
    /// MiB of memory that the searcher may use; an index that would need more is not served [default: the lowest of the
    /// cgroup's limit and the machine's memory]. 0: nothing is refused.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    memory_limit_mb: Option<u64>,
    /// Share of one core's time in which searches of graphs are compared with exact ones, for the live recall in
    /// `/metrics`. 0: none are.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    live_recall_share: f64,
    #[command(flatten)]
    search_defaults: SearchDefaultsOptions,
    /// Connections at once; more queue until one ends.
    #[arg(long, default_value_t = ServerConfig::default().connections)]
    max_connections: usize,
    /// Deadline of a request whose client sets none, in milliseconds.
    #[arg(long, default_value_t = 10_000)]
    default_timeout_ms: u64,
    /// Log a line for each request that takes at least this many milliseconds: method, index, mode, k, id, status, and
    /// where the time went, never a text. 0: for each; without it for none. At most 20 lines a second; what is left out
    /// is counted.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=3_600_000))]
    slow_ms: Option<u64>,
    /// Pause after SIGTERM or SIGINT in which health is `NOT_SERVING` and requests are still accepted, in seconds.
    #[arg(long, default_value_t = 1)]
    lame_duck_s: u64,
    /// Time for running requests to finish after that pause, in seconds.
    #[arg(long, default_value_t = 20)]
    drain_s: u64,
}

impl Serve {
    pub(super) async fn run(self, follower: Follower) -> anyhow::Result<ExitCode> {
        let (chosen, watched) = (self.choose()?, self.watched());
        let indexers = self.page_indexers.origins(&chosen)?;
        let (indexes, mirrored) = (chosen.paths, chosen.mirrored);
        // The port first, so that a port in use is reported before a model is loaded.
        let listeners = self.listeners().await?;
        let names = indexes.iter().map(|index| index.name.clone()).collect();
        let served = ServedIndexes {
            names,
            role: Role::Read,
        };
        let security = Security::open_for(&self.security, &listeners.named(), Some(&served))?;
        // Signals are handled before the long start, so that a stop during it is clean.
        let stopping = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stopping);
        // Both servers end at the same signal and have the same time to drain.
        let shutdown = dyad_command::shutdown_signal().inspect(move |()| told.store(true, Ordering::Relaxed));
        let shutdown = shutdown.boxed().shared();
        let follower = follower.listen();
        let (towers, reranker) = (self.tower.open().await?, self.tower.open_reranker().await?);
        let mirrors = if mirrored.is_empty() {
            None
        } else {
            let start = Mirrors::start(mirrored, self.tower.wait(), Arc::clone(&stopping));
            tokio::select! {
                started = start => Some(started?),
                () = shutdown.clone() => return Ok(ExitCode::SUCCESS),
            }
        };
        open_files::raise_limit();
        let engine = Engine::open_all(indexes, towers, self.engine_config())?;
        let engine = tokio::select! {
            engine = self.with_leaves(engine) => engine?.with_reranker(reranker).with_mirrors(mirrors),
            () = shutdown.clone() => return Ok(ExitCode::SUCCESS),
        };
        let engine = Arc::new(engine);
        log_served(&engine);
        engine.warm_up().await;
        // With the golden question's vector, to compare later ones with.
        _ = engine.check_readiness().await;
        listeners.print()?;
        let Listeners {
            grpc: listener,
            http: http_listener,
            admin: admin_listener,
        } = listeners;
        engine.set_slow_threshold(self.slow_threshold());
        let configured = Arc::clone(&engine);
        follower.spawn(&["default-timeout-ms", "slow-ms"], move |now: &Self| {
            configured.set_default_time(now.default_time());
            configured.set_slow_threshold(now.slow_threshold());
        });
        let (drain, lame_duck) = (Duration::from_secs(self.drain_s), Duration::from_secs(self.lame_duck_s));
        let grpc_port = Some(listener.local_addr()?.port());
        let places = PagePlaces { grpc_port, indexers };
        let config = self.server_config(&security, &engine);
        let services = services(&listener, admin_listener.is_some())?;
        let grpc = serve_some(
            listener,
            services,
            Arc::clone(&engine),
            shutdown.clone(),
            config.clone(),
        );
        let admin = async {
            let Some(listener) = admin_listener else { return Ok(()) };
            Ok(serve_some(listener, Services::Admin, Arc::clone(&engine), shutdown.clone(), config).await?)
        };
        let http = async {
            let Some(listener) = http_listener else { return Ok(()) };
            let header_timeout = HttpConfig::default().header_timeout.min(drain * 3 / 4);
            let connections = self.max_connections;
            let requests = (connections * 3 / 4).max(1);
            let routes = RouterConfig {
                security: security.clone(),
                hosts: self.http_hosts,
                origins: self.cors_origins,
                requests,
                stopping,
                places,
            };
            let routes = router(Arc::clone(&engine), routes)?;
            let config = HttpConfig {
                drain,
                header_timeout,
                connections,
                security,
                ..HttpConfig::default()
            };
            let stop = shutdown.clone().then(|()| tokio::time::sleep(lame_duck));
            Ok::<_, anyhow::Error>(service::serve_http(listener, routes, stop, config).await?)
        };
        // A server that fails ends the other.
        let served = Box::pin(async { tokio::try_join!(async { Ok(grpc.await?) }, admin, http) });
        tokio::select! {
            ended = served => drop(ended?),
            () = follow(&engine, watched) => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// With the leaves that hold the shards, where there are any: they are waited for.
    async fn with_leaves(&self, engine: Engine) -> anyhow::Result<Engine> {
        match self.leaves.open(self.tower.credentials()?)? {
            Some(leaves) => Ok(engine.with_leaves(leaves, self.tower.wait()).await?),
            None => Ok(engine),
        }
    }

    fn engine_config(&self) -> EngineConfig {
        EngineConfig {
            max_requests: self.max_requests.max(1),
            default_time: self.default_time(),
            question_cache: (self.question_cache_mb as usize) << 20,
            filter_cache: (self.filter_cache_mb as usize) << 20,
            generation: self.generation,
            held: self.leaves.held(),
            memory: self.memory(),
            live_recall_share: self.live_recall_share.clamp(0.0, 1.0),
            search_defaults: self.search_defaults.defaults(),
        }
    }

    fn server_config(&self, security: &Security, engine: &Engine) -> ServerConfig {
        ServerConfig {
            lame_duck: Duration::from_secs(self.lame_duck_s),
            drain: Duration::from_secs(self.drain_s),
            connections: self.max_connections,
            security: security.clone(),
            observer: Some(Arc::clone(engine.metrics()) as _),
            ..ServerConfig::default()
        }
    }

    /// What is to be served.
    fn choose(&self) -> anyhow::Result<ServedChoice> {
        let chosen = self.indexes.choose(&self.leaves.held())?;
        self.search_defaults.check(&chosen)?;
        if self.generation.is_none() {
            chosen.check()?;
        }
        let refused = match (self.generation, chosen.paths.len(), chosen.mirrored.is_empty()) {
            (None, _, _) | (_, 1, true) => return Ok(chosen),
            (Some(_), _, false) => "expected an index in a directory, got one in an object store".to_owned(),
            (Some(_), count, true) => format!("expected one index, got {count}"),
        };
        Err(UsageError(format!("--generation: {refused}")).into())
    }

    async fn listeners(&self) -> anyhow::Result<Listeners> {
        let bind = async |address: &Option<String>, option| match address {
            Some(address) => service::bind_for(address, option).await.map(Some),
            None => Ok(None),
        };
        Ok(Listeners {
            grpc: service::bind(&self.listen).await?,
            http: bind(&self.http, "--http").await?,
            admin: bind(&self.admin_listen, "--admin-listen").await?,
        })
    }

    fn default_time(&self) -> Duration {
        Duration::from_millis(self.default_timeout_ms.max(1))
    }

    fn slow_threshold(&self) -> Option<Duration> {
        self.slow_ms.map(Duration::from_millis)
    }

    /// What the process may use, and has taken once its towers are loaded and its servers full.
    fn memory(&self) -> ProcessMemory {
        let limit = match self.memory_limit_mb {
            None => ProcessMemoryLimit::of_system(),
            Some(mib) => (mib > 0).then(|| ProcessMemoryLimit::from_option(mib << 20, "--memory-limit-mb")),
        };
        let Resident { anonymous, file } = Resident::now();
        let http = if self.http.is_some() { HTTP_BYTES } else { 0 };
        ProcessMemory {
            limit,
            program: anonymous.saturating_add(file),
            buffers: (MAX_REQUESTS_BYTES + http) as u64,
        }
    }
}

impl Serve {
    /// Seconds between two looks at `CURRENT`. A root looks in any case: leaves follow, and hold no other generation
    /// for long.
    fn watched(&self) -> Option<u64> {
        let is_root_of_current = self.leaves.is_root() && self.generation.is_none();
        self.watch.or(is_root_of_current.then_some(1))
    }
}

/// Follows `CURRENT` where that is asked for, leaves where there are any, and whether questions can be answered; does
/// not end.
async fn follow(engine: &Arc<Engine>, watch: Option<u64>) {
    let indexes = async {
        if let Some(seconds) = watch {
            engine.follow(Duration::from_secs(seconds)).await;
        }
    };
    let leaves = async {
        if let Some(leaves) = engine.leaves() {
            leaves.follow().await;
        }
    };
    tokio::join!(indexes, leaves, engine.follow_readiness());
}

/// What the searcher listens at.
struct Listeners {
    grpc: TcpListener,
    http: Option<TcpListener>,
    admin: Option<TcpListener>,
}

impl Listeners {
    /// Each with the option that gave its address.
    fn named(&self) -> Vec<(&TcpListener, &'static str)> {
        let others = [(&self.http, "--http"), (&self.admin, "--admin-listen")];
        let others = others
            .into_iter()
            .filter_map(|(listener, option)| Some((listener.as_ref()?, option)));
        std::iter::once((&self.grpc, "--listen")).chain(others).collect()
    }

    /// Says where, for people and for programs that let the system choose the ports.
    fn print(&self) -> anyhow::Result<()> {
        let mut output = std::io::stdout().lock();
        writeln!(output, "listening on {}", self.grpc.local_addr()?)?;
        for (name, listener) in [("HTTP", &self.http), ("admin", &self.admin)] {
            if let Some(listener) = listener {
                writeln!(output, "{name} on {}", listener.local_addr()?)?;
            }
        }
        Ok(output.flush()?)
    }
}

/// What is served at `--listen`: `Admin` only where no other machine can call it.
fn services(listener: &TcpListener, has_admin_listener: bool) -> anyhow::Result<Services> {
    if has_admin_listener {
        return Ok(Services::Searcher);
    }
    if listener.local_addr()?.ip().to_canonical().is_loopback() {
        return Ok(Services::All);
    }
    tracing::info!("`Admin` is not served: `--listen` is no loopback address, and there is no `--admin-listen`");
    Ok(Services::Searcher)
}

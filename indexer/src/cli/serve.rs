//! `dyad-indexer serve`: changes of an index over gRPC.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_command::{Follower, UsageError};
use dyad_indexer::plan::ByteSize;
use dyad_indexer::serve::{
    CallLimits, ChangeWorker, ChangeWorkerConfig, GatherWindow, IndexRoutes, IndexSearchers, IndexService, UpkeepConfig,
};
use dyad_indexer::source::RemoteConfig;
use dyad_proto::access::{Role, ServedIndexes};
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials};
use dyad_proto::service::{self, CorsOrigin, Health, HttpAccess, HttpConfig, Security, SecurityOptions, ServerConfig};
use dyad_proto::v1::index_server::IndexServer;
use dyad_proto::validate;
use futures_util::FutureExt as _;
use tokio::net::TcpListener;
use tonic::service::Routes;

use super::documents;

#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    /// Directory of the index, with the name by which API keys and the searcher know it. Without a NAME no key may be
    /// restricted to indexes. Write `./` before a path that has a `=`
    #[arg(long, value_name = "[NAME=]DIR")]
    index: PathBuf,
    /// Encoder service that embeds what is added, http://HOST:PORT. Without one, documents are taken with their vectors
    /// alone
    #[arg(long, value_name = "URL")]
    encoder: Option<String>,
    /// `Admin` of a searcher that serves the index, http://HOST:PORT of its `--admin-listen`, or of `--listen` where it
    /// has none; may be repeated. Calls with `wait: SEARCHABLE` have all of them reload the index, and are answered
    /// once they serve the change
    #[arg(long = "searcher", value_name = "URL")]
    searchers: Vec<String>,
    /// File of the API key for searchers, with role admin there [default: the key for the encoder service]
    #[arg(long, value_name = "FILE", requires = "searchers")]
    searcher_api_key_file: Option<PathBuf>,
    /// Address to listen on; port 0 lets the system choose. Who can reach it can change the index
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7702")]
    listen: String,
    /// Address for changes as JSON over HTTP, probes and metrics (7712 in our examples)
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// Name, next to addresses and `localhost`, by which the HTTP server may be called where there are no API keys
    #[arg(long = "http-host", value_name = "NAME")]
    http_hosts: Vec<String>,
    /// Origin whose pages may call the HTTP server from a browser, such as `https://app.example`, or `*`; may be
    /// repeated
    #[arg(long = "cors-origin", value_name = "ORIGIN")]
    cors_origins: Vec<CorsOrigin>,
    /// Threads of a new shard's build; one per core by default
    #[arg(long)]
    threads: Option<usize>,
    /// Deadline of one call to the encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    /// Memory for the documents and keys of all calls that are received or wait, such as `256MiB`; calls that find no
    /// room are refused and may be sent again
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = call_memory)]
    call_memory: usize,
    /// Longest time between two messages of a call, in seconds: a call that is silent for longer ends, and changes
    /// nothing
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=600))]
    silence_s: u64,
    /// How long a call waits for others that can be made together with it, in milliseconds: they share one generation
    /// [default: 5, and 0 where calls come one after another]
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=10_000))]
    gather_ms: Option<u64>,
    /// Whether shards are merged: by tiers, so that there are few of each size, or never
    #[arg(long, value_enum, default_value_t = MergeMode::Tiers)]
    merge: MergeMode,
    /// Most documents of a shard that is made by merging
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    merge_documents: u64,
    /// Most memory of a merge, such as `4GiB`
    #[arg(long, value_name = "SIZE")]
    merge_memory: Option<ByteSize>,
    /// Newest generations that are kept besides the current one and those that are being read, or `all`. Others are
    /// removed, also those that other commands have published
    #[arg(long, value_name = "N|all", default_value = "3", value_parser = kept_generations)]
    keep: KeptGenerations,
    /// Pause after SIGTERM or SIGINT in which health is `NOT_SERVING` and changes are refused, in seconds
    #[arg(long, default_value_t = 1)]
    lame_duck_s: u64,
    /// Time for a running change to finish after that pause, in seconds
    #[arg(long, default_value_t = 60)]
    drain_s: u64,
    #[command(flatten)]
    security: SecurityOptions,
    /// For the encoder service; all but the API key for searchers too
    #[command(flatten)]
    credentials: CredentialOptions,
}

impl ServeArguments {
    /// How other services are called, with the API key of this file.
    fn client(&self, api_key_file: Option<&PathBuf>) -> anyhow::Result<ClientConfig> {
        let credentials = CredentialOptions {
            api_key_file: api_key_file.cloned(),
            ..self.credentials.clone()
        };
        Ok(ClientConfig {
            call_timeout: Duration::from_secs(self.timeout_s),
            credentials: Credentials::open(&credentials)?,
            ..ClientConfig::default()
        })
    }

    /// The searchers that serve changes before their replies are sent.
    fn searchers(&self, index: &str) -> anyhow::Result<IndexSearchers> {
        let of_encoder = self.credentials.api_key_file.as_ref();
        let client = self.client(self.searcher_api_key_file.as_ref().or(of_encoder))?;
        Ok(IndexSearchers::new(&self.searchers, index, &client)?)
    }

    /// How changes of an index are made.
    fn worker_config(&self, index: &Path) -> anyhow::Result<ChangeWorkerConfig> {
        let always = |ms| GatherWindow::Always(Duration::from_millis(ms));
        Ok(ChangeWorkerConfig {
            index: index.to_owned(),
            encoder: self.encoder.clone(),
            remote: RemoteConfig {
                client: self.client(self.credentials.api_key_file.as_ref())?,
                ..RemoteConfig::default()
            },
            threads: documents::thread_count(self.threads)?,
            gather: self.gather_ms.map_or(GatherWindow::WhereCallsComeTogether, always),
            upkeep: UpkeepConfig {
                merge: self.merge == MergeMode::Tiers,
                keep: self.keep.0,
                max_documents: self.merge_documents,
                memory: self.merge_memory.map(|ByteSize(bytes)| bytes),
            },
        })
    }
}

/// Whether shards are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MergeMode {
    /// Those of one size, as soon as there are more than a few.
    Tiers,
    /// Never: `dyad-indexer maintain` does.
    Never,
}

/// How many generations are kept; all where absent.
#[derive(Debug, Clone, Copy)]
struct KeptGenerations(Option<usize>);

fn kept_generations(text: &str) -> Result<KeptGenerations, String> {
    if text == "all" {
        return Ok(KeptGenerations(None));
    }
    let number = text.parse();
    number
        .map(|number| KeptGenerations(Some(number)))
        .map_err(|_| format!("expected a number or `all`, got `{text}`"))
}

/// Enough for calls of a few documents.
const LEAST_CALL_MEMORY: u64 = 1 << 20;

fn call_memory(text: &str) -> Result<usize, String> {
    let ByteSize(bytes) = text.parse()?;
    if bytes < LEAST_CALL_MEMORY {
        return Err(format!(
            "expected at least {}, got {}",
            ByteSize(LEAST_CALL_MEMORY),
            ByteSize(bytes)
        ));
    }
    usize::try_from(bytes).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: ServeArguments, follower: Follower) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(serve(arguments, follower))
}

/// Says where it listens, for people and for programs that let the system choose the ports.
fn print_addresses(grpc: &TcpListener, http: Option<&TcpListener>) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}", grpc.local_addr()?)?;
    if let Some(listener) = http {
        writeln!(out, "HTTP on {}", listener.local_addr()?)?;
    }
    out.flush()
}

async fn serve(arguments: ServeArguments, follower: Follower) -> anyhow::Result<ExitCode> {
    // The port first, so that a port in use is reported before anything is opened.
    let listener = service::bind(&arguments.listen).await?;
    let (name, index) = validate::named_path(&arguments.index)
        .map_err(|error| UsageError(format!("--index `{}`: {error}", arguments.index.display())))?;
    let served = ServedIndexes {
        names: name.map(str::to_owned).into_iter().collect(),
        role: Role::Write,
    };
    let http_listener = match &arguments.http {
        Some(address) => Some(service::bind_for(address, "--http").await?),
        None => None,
    };
    let http = http_listener.iter().map(|listener| (listener, "--http"));
    let listeners: Vec<_> = std::iter::once((&listener, "--listen")).chain(http).collect();
    let security = Security::open_for(&arguments.security, &listeners, Some(&served))?;
    let signal = dyad_command::shutdown_signal();
    follower.spawn(&[], |_: &ServeArguments| ());
    let name = name.unwrap_or_else(|| validate::folder_name(index));
    let searchers = arguments.searchers(name)?;
    let config = arguments.worker_config(index)?;
    let changes = tokio::task::spawn_blocking(move || ChangeWorker::start(config)).await??;
    let stopping = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stopping);
    let shutdown = async move {
        signal.await;
        told.store(true, Ordering::SeqCst);
    };
    let silence = Duration::from_secs(arguments.silence_s);
    let limits = CallLimits {
        memory: arguments.call_memory,
        silence,
        ..CallLimits::default()
    };
    let service = IndexService::new(changes, name, Arc::clone(&stopping))
        .with_limits(limits)
        .with_searchers(searchers.clone());
    let routes = Routes::new(service::index(service.clone()));
    let health = Health::new().serving::<IndexServer<IndexService>>().await;
    tokio::spawn(async move { searchers.check().await });
    print_addresses(&listener, http_listener.as_ref())?;
    let lame_duck = Duration::from_secs(arguments.lame_duck_s);
    let drain = Duration::from_secs(arguments.drain_s);
    // Both servers end at the same signal and have the same time to drain.
    let shutdown = shutdown.boxed().shared();
    let config = ServerConfig {
        lame_duck,
        drain,
        security: security.clone(),
        ..ServerConfig::default()
    };
    let grpc = service::serve(listener, routes, health, shutdown.clone(), config);
    let http = async {
        let Some(listener) = http_listener else { return Ok(()) };
        let header_timeout = HttpConfig::default().header_timeout.min(drain * 3 / 4);
        let config = HttpConfig {
            drain,
            header_timeout,
            security: security.clone(),
            ..HttpConfig::default()
        };
        let routes = IndexRoutes {
            service,
            index: index.to_owned(),
            access: HttpAccess::new(security.access().clone(), arguments.http_hosts, arguments.cors_origins),
            security,
            requests: config.connections * 3 / 4,
            stopping,
        };
        let stop = shutdown.then(|()| tokio::time::sleep(lame_duck));
        Ok::<_, anyhow::Error>(service::serve_http(listener, routes.router()?, stop, config).await?)
    };
    // A server that fails ends the other.
    tokio::try_join!(async { Ok(grpc.await?) }, http)?;
    Ok(ExitCode::SUCCESS)
}

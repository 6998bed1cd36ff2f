//! `dyad-indexer serve`: changes of an index over gRPC.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_command::{Follower, UsageError};
use dyad_indexer::plan::ByteSize;
use dyad_indexer::serve::{CallLimits, ChangeWorker, ChangeWorkerConfig, IndexService};
use dyad_indexer::source::RemoteConfig;
use dyad_proto::access::{Role, ServedIndexes};
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials};
use dyad_proto::service::{self, Health, Security, SecurityOptions, ServerConfig};
use dyad_proto::v1::index_server::IndexServer;
use dyad_proto::validate;
use tonic::service::Routes;

use super::documents;

#[derive(Debug, clap::Args)]
pub(super) struct ServeArguments {
    /// Directory of the index, with the name by which API keys and the searcher know it. Without a NAME no key may be
    /// restricted to indexes. Write `./` before a path that has a `=`
    #[arg(long, value_name = "[NAME=]DIR")]
    index: PathBuf,
    /// Encoder service that embeds what is added, http://HOST:PORT
    #[arg(long, value_name = "URL")]
    encoder: String,
    /// Address to listen on; port 0 lets the system choose. Who can reach it can change the index
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7702")]
    listen: String,
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
    /// Pause after SIGTERM or SIGINT in which health is `NOT_SERVING` and changes are refused, in seconds
    #[arg(long, default_value_t = 1)]
    lame_duck_s: u64,
    /// Time for a running change to finish after that pause, in seconds
    #[arg(long, default_value_t = 60)]
    drain_s: u64,
    #[command(flatten)]
    security: SecurityOptions,
    /// For the encoder service
    #[command(flatten)]
    credentials: CredentialOptions,
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

async fn serve(arguments: ServeArguments, follower: Follower) -> anyhow::Result<ExitCode> {
    // The port first, so that a port in use is reported before anything is opened.
    let listener = service::bind(&arguments.listen).await?;
    let (name, index) = validate::named_path(&arguments.index)
        .map_err(|error| UsageError(format!("--index `{}`: {error}", arguments.index.display())))?;
    let served = ServedIndexes {
        names: name.map(str::to_owned).into_iter().collect(),
        role: Role::Write,
    };
    let security = Security::open_for(&arguments.security, &[(&listener, "--listen")], Some(&served))?;
    let credentials = Credentials::open(&arguments.credentials)?;
    let signal = dyad_command::shutdown_signal();
    follower.spawn(&[], |_: &ServeArguments| ());
    let call_timeout = Duration::from_secs(arguments.timeout_s);
    let client = ClientConfig {
        call_timeout,
        credentials,
        ..ClientConfig::default()
    };
    let name = name.unwrap_or_else(|| validate::folder_name(index));
    let config = ChangeWorkerConfig {
        index: index.to_owned(),
        encoder: arguments.encoder,
        remote: RemoteConfig {
            client,
            ..RemoteConfig::default()
        },
        threads: documents::thread_count(arguments.threads)?,
    };
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
    let service = IndexService::new(changes, name, stopping).with_limits(limits);
    let routes = Routes::new(service::index(service));
    let health = Health::new().serving::<IndexServer<IndexService>>().await;
    {
        let mut out = std::io::stdout().lock();
        writeln!(out, "listening on {}", listener.local_addr()?)?;
        out.flush()?;
    }
    let config = ServerConfig {
        lame_duck: Duration::from_secs(arguments.lame_duck_s),
        drain: Duration::from_secs(arguments.drain_s),
        security,
        ..ServerConfig::default()
    };
    service::serve(listener, routes, health, shutdown, config).await?;
    Ok(ExitCode::SUCCESS)
}

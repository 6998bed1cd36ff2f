//! `dyad-searcher leaf`.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use dyad_command::{Follower, UsageError};
use dyad_proto::service::{self, HttpConfig, MAX_REQUESTS_BYTES, Security, SecurityOptions, ServerConfig};
use futures_util::FutureExt as _;

use super::indexes::IndexOptions;
use super::served_log::log_served;
use crate::leaves::HeldShards;
use crate::memory::{ProcessMemory, ProcessMemoryLimit, Resident};
use crate::mirrors::Mirrors;
use crate::question::QuestionTowers;
use crate::run::{Engine, EngineConfig, open_files};
use crate::service::{LeafService, Services, leaf_router, serve_some};

/// Hold some of the shards of an index, for roots (`dyad-searcher serve --leaves`). A leaf answers whoever may connect,
/// and knows no filters of API keys: let it ask for certificates (`--tls-client-ca`) or admin keys.
#[derive(Debug, Args)]
pub(super) struct LeafOptions {
    #[command(flatten)]
    indexes: IndexOptions,
    /// Name of this leaf, one of `--names`: it decides which shards are held.
    #[arg(long, value_name = "NAME", env = "DYAD_LEAF_NAME")]
    name: String,
    /// Names of all leaves, separated by commas; `leaf-{0..4}` stands for five names.
    #[arg(long, value_name = "NAMES", env = "DYAD_LEAF_NAMES")]
    names: String,
    /// Names of all leaves as they were, or will be, while their number changes: what is placed on this leaf among
    /// these is held, too.
    #[arg(long, value_name = "NAMES", env = "DYAD_LEAF_ALSO_NAMES")]
    also_names: Option<String>,
    /// Leaves that hold each shard.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    replicas: u32,
    /// Address to listen on; port 0 lets the system choose.
    #[arg(long, default_value = "127.0.0.1:7703", value_name = "HOST:PORT")]
    listen: String,
    /// Serve HTTP at this address too: /livez, /readyz and /metrics.
    #[arg(long, value_name = "HOST:PORT")]
    http: Option<String>,
    /// A name by which the HTTP server may be called, next to its address and `localhost`; may be given several times.
    #[arg(long = "http-host", value_name = "NAME", requires = "http")]
    http_hosts: Vec<String>,
    #[command(flatten)]
    security: SecurityOptions,
    /// Read `CURRENT` every N seconds, of indexes in object stores that of the store, and hold the shards of the
    /// generation that it names. Generations before are kept for a minute after a root has asked for them last.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    watch: u64,
    /// Calls of roots in flight at once.
    #[arg(long, default_value_t = 1024)]
    max_requests: usize,
    /// MiB of the cache of filters. 0: no cache.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=1 << 20))]
    filter_cache_mb: u32,
    /// MiB of memory that the leaf may use; shards that would need more are not served [default: the lowest of the
    /// cgroup's limit and the machine's memory]. 0: nothing is refused.
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=1 << 30))]
    memory_limit_mb: Option<u64>,
    /// Seconds to wait for an object store that does not answer, and for an index that has not been pushed there yet.
    #[arg(long, default_value_t = 0)]
    wait_s: u64,
    /// Pause after SIGTERM or SIGINT in which roots are told that this leaf leaves, and requests are still accepted, in
    /// seconds.
    #[arg(long, default_value_t = 3)]
    lame_duck_s: u64,
    /// Time for running requests to finish after that pause, in seconds.
    #[arg(long, default_value_t = 20)]
    drain_s: u64,
}

/// The names that a list stands for.
fn names_of(list: &str) -> anyhow::Result<Vec<String>> {
    let mut names = Vec::new();
    for part in list.split(',').map(str::trim) {
        let usage = |got: &str| UsageError(format!("--names: expected names, or `leaf-{{0..4}}`, got `{got}`"));
        let Some((before, range)) = part.split_once('{') else {
            if part.is_empty() {
                return Err(usage(list).into());
            }
            names.push(part.to_owned());
            continue;
        };
        let (range, after) = range.split_once('}').ok_or_else(|| usage(part))?;
        let (first, last) = range.split_once("..").ok_or_else(|| usage(part))?;
        let number = |text: &str| text.parse::<u16>().map_err(|_| usage(part));
        names.extend((number(first)?..=number(last)?).map(|number| format!("{before}{number}{after}")));
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

impl LeafOptions {
    pub(super) async fn run(self, follower: Follower) -> anyhow::Result<ExitCode> {
        let held = self.held()?;
        let chosen = self.indexes.choose(&held)?;
        chosen.check()?;
        let listener = service::bind(&self.listen).await?;
        let http_listener = match &self.http {
            Some(address) => Some(service::bind_for(address, "--http").await?),
            None => None,
        };
        let mut listeners = vec![(&listener, "--listen")];
        listeners.extend(http_listener.iter().map(|listener| (listener, "--http")));
        let security = Security::open_for(&self.security, &listeners, None)?;
        let is_leaving = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_leaving);
        let shutdown = dyad_command::shutdown_signal().inspect(move |()| told.store(true, Ordering::Relaxed));
        let shutdown = shutdown.boxed().shared();
        follower.listen().spawn(&[], |_: &Self| {});
        let mirrors = if chosen.mirrored.is_empty() {
            None
        } else {
            let start = Mirrors::start(
                chosen.mirrored,
                Duration::from_secs(self.wait_s),
                Arc::clone(&is_leaving),
            );
            tokio::select! {
                started = start => Some(started?),
                () = shutdown.clone() => return Ok(ExitCode::SUCCESS),
            }
        };
        open_files::raise_limit();
        let engine = Engine::open_all(chosen.paths, QuestionTowers::default(), self.engine_config(held))?;
        let engine = Arc::new(engine.with_mirrors(mirrors));
        log_served(&engine);
        let mut output = std::io::stdout().lock();
        writeln!(output, "listening on {}", listener.local_addr()?)?;
        if let Some(http) = &http_listener {
            writeln!(output, "HTTP on {}", http.local_addr()?)?;
        }
        output.flush()?;
        drop(output);
        let lame_duck = Duration::from_secs(self.lame_duck_s);
        let config = ServerConfig {
            lame_duck,
            drain: Duration::from_secs(self.drain_s),
            security: security.clone(),
            observer: Some(Arc::clone(engine.metrics()) as _),
            ..ServerConfig::default()
        };
        let leaf = LeafService::new(Arc::clone(&engine), &self.name, Arc::clone(&is_leaving), lame_duck);
        let leaf = Services::Leaf(leaf);
        let grpc = serve_some(listener, leaf, Arc::clone(&engine), shutdown.clone(), config);
        let http = async {
            let Some(listener) = http_listener else { return Ok(()) };
            let routes = leaf_router(Arc::clone(&engine), &security, self.http_hosts.clone(), is_leaving);
            let config = HttpConfig {
                drain: Duration::from_secs(self.drain_s),
                security: security.clone(),
                ..HttpConfig::default()
            };
            let stop = shutdown.clone().then(|()| tokio::time::sleep(lame_duck));
            service::serve_http(listener, routes, stop, config).await
        };
        // A server that fails ends the other.
        let served = Box::pin(async { tokio::try_join!(grpc, http) });
        tokio::select! {
            ended = served => drop(ended?),
            () = engine.follow(Duration::from_secs(self.watch)) => {}
            () = engine.follow_readiness() => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The shards that are placed on this leaf.
    fn held(&self) -> anyhow::Result<HeldShards> {
        let mut leaves = vec![names_of(&self.names)?];
        if let Some(names) = &self.also_names {
            leaves.push(names_of(names)?);
        }
        if !leaves.iter().flatten().any(|name| *name == self.name) {
            let refused = format!(
                "--name `{}`: expected one of `--names`, which are {}",
                self.name,
                leaves.concat().join(", ")
            );
            return Err(UsageError(refused).into());
        }
        Ok(HeldShards::OfLeaf {
            name: self.name.clone(),
            leaves,
            replicas: self.replicas as usize,
        })
    }

    fn engine_config(&self, held: HeldShards) -> EngineConfig {
        let Resident { anonymous, file } = Resident::now();
        let limit = match self.memory_limit_mb {
            None => ProcessMemoryLimit::of_system(),
            Some(mib) => (mib > 0).then(|| ProcessMemoryLimit::from_option(mib << 20, "--memory-limit-mb")),
        };
        EngineConfig {
            max_requests: self.max_requests.max(1),
            filter_cache: (self.filter_cache_mb as usize) << 20,
            held,
            memory: ProcessMemory {
                limit,
                program: anonymous.saturating_add(file),
                buffers: MAX_REQUESTS_BYTES as u64,
            },
            ..EngineConfig::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_stands_for_names() {
        let of = |list: &str| names_of(list).unwrap();
        assert_eq!(of("b, a"), ["a", "b"]);
        assert_eq!(of("leaf-{0..2}"), ["leaf-0", "leaf-1", "leaf-2"]);
        assert_eq!(of("x,leaf-{3..3}.svc"), ["leaf-3.svc", "x"]);
        for bad in ["", "a,,b", "leaf-{0..", "leaf-{a..b}", "leaf-{0-3}"] {
            let error = names_of(bad).unwrap_err();
            assert!(
                error.is::<UsageError>() && error.to_string().starts_with("--names: expected names"),
                "{error}"
            );
        }
    }
}

//! `dyad-encoder serve`: one model over gRPC, and over HTTP where asked.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use dyad_command::Follower;
use dyad_proto::service::{self, CorsOrigin, Health, HttpAccess, HttpConfig, Security, SecurityOptions, ServerConfig};
use dyad_proto::v1::encoder_server::EncoderServer;
use futures_util::FutureExt;
use tonic::service::Routes;

use super::model::ModelOptions;
use crate::config::PromptOptions;
use crate::serve::{self, EncoderService, Handle, http};

#[derive(Debug, Args)]
pub(crate) struct ServeOptions {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    /// Address to listen on, HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7701")]
    listen: String,
    /// Address of the HTTP service, HOST:PORT: OpenAI's `/v1/embeddings`, `/livez`, `/readyz`, `/metrics` [default:
    /// none]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// A name by which the HTTP service may be called, next to its address and `localhost`; may be given several times.
    /// Where requests need API keys, every name is accepted
    #[arg(long = "http-host", value_name = "NAME", requires = "http")]
    http_hosts: Vec<String>,
    /// Origin whose pages may call this server from a browser (CORS), as `https://app.example`; `*` for all. May be
    /// given several times; without it none but the server's own
    #[arg(long = "cors-origin", value_name = "ORIGIN", requires = "http")]
    cors_origins: Vec<CorsOrigin>,
    /// Tokens that may be queued or running; further requests get `RESOURCE_EXHAUSTED`, over HTTP 429, as do those that
    /// cannot be answered before their deadline
    #[arg(
        long, value_name = "N", default_value_t = serve::ServedModelOptions::default().queue_tokens,
        value_parser = clap::value_parser!(u32).range(1..),
    )]
    queue_tokens: u32,
    /// Seconds after SIGINT or SIGTERM in which the health service reports `NOT_SERVING` while requests are still
    /// accepted
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    lame_duck_s: u64,
    /// Seconds that running requests get to finish after that
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    drain_s: u64,
    /// End when standard input ends: for a program that starts the server, and may be killed
    #[arg(long)]
    while_input: bool,
    #[command(flatten)]
    security: SecurityOptions,
}

/// Completes when standard input ends; never, where that is not asked for.
async fn input_ended(asked: bool) -> anyhow::Result<()> {
    if !asked {
        return std::future::pending().await;
    }
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        // A read that fails ends it as well.
        drop(std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()));
        let _ = tell.send(());
    })?;
    Ok(told.await?)
}

/// Serves until SIGINT or SIGTERM, or until the model's thread ends, or standard input where that is asked for.
pub(crate) fn run(options: &ServeOptions, follower: Follower) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        // Before the model is opened: an address in use should not cost the time of opening it.
        let listener = service::bind(&options.listen).await?;
        let http_listener = match &options.http {
            Some(address) => Some(service::bind_for(address, "--http").await?),
            None => None,
        };
        let http = http_listener.iter().map(|listener| (listener, "--http"));
        let listeners: Vec<_> = std::iter::once((&listener, "--listen")).chain(http).collect();
        let security = Security::open(&options.security, &listeners)?;
        // From here on a signal is waited for: one that comes while the model is being opened ends the server cleanly.
        let signal = dyad_command::shutdown_signal();
        follower.spawn(&[], |_: &ServeOptions| ());
        let address = listener.local_addr().context("cannot read the listener's address")?;
        let http_address = http_listener
            .as_ref()
            .map(tokio::net::TcpListener::local_addr)
            .transpose();
        let http_address = http_address.context("cannot read the HTTP listener's address")?;
        let mut settings = serve::ServedModelOptions::new(options.model.compute());
        settings.budget = options.model.budget();
        settings.queue_tokens = options.queue_tokens;
        settings.prompts = options.prompts.clone();
        let directory = options.model.model.clone();
        let handle = tokio::task::spawn_blocking(move || Handle::start(&directory, settings))
            .await
            .context("opening the model was interrupted")??;

        let health = Health::new().serving::<EncoderServer<EncoderService>>().await;
        let routes = Routes::new(service::encoder(EncoderService::new(handle.clone())));
        let drain = Duration::from_secs(options.drain_s);
        let lame_duck = Duration::from_secs(options.lame_duck_s);
        let stopping = Arc::new(AtomicBool::new(false));
        let (model, told, while_input) = (handle.clone(), Arc::clone(&stopping), options.while_input);
        let stop = async move {
            tokio::select! {
                () = signal => {}
                ended = input_ended(while_input) => match ended {
                    Ok(()) => tracing::info!("standard input has ended, so the server stops"),
                    Err(error) => tracing::error!("standard input cannot be read, so the server stops: {error}"),
                },
                () = model.ended() => tracing::error!("the model has stopped, so the server stops too"),
            }
            told.store(true, Ordering::Relaxed);
        };
        // Both servers end at the same signal and have the same time to drain.
        let stop = stop.boxed().shared();
        {
            let mut output = std::io::stdout().lock();
            writeln!(output, "listening on {address}")?;
            if let Some(address) = http_address {
                writeln!(output, "HTTP on {address}")?;
            }
            output.flush()?;
        }
        let observer = Some(handle.observer(&security));
        let config = ServerConfig {
            lame_duck,
            drain,
            security: security.clone(),
            observer,
            ..ServerConfig::default()
        };
        let grpc = service::serve(listener, routes, health, stop.clone(), config);
        let http = async {
            let Some(listener) = http_listener else { return Ok(()) };
            let header_timeout = HttpConfig::default().header_timeout.min(drain * 3 / 4);
            let access = HttpAccess::new(
                security.access().clone(),
                options.http_hosts.clone(),
                options.cors_origins.clone(),
            );
            let config = HttpConfig {
                drain,
                header_timeout,
                security,
                ..HttpConfig::default()
            };
            let routes = http::router(handle.clone(), access, config.connections * 3 / 4, stopping);
            let stop = stop.then(|()| tokio::time::sleep(lame_duck));
            service::serve_http(listener, routes, stop, config).await
        };
        // A server that fails ends the other.
        tokio::try_join!(grpc, http)?;
        anyhow::ensure!(!handle.has_ended(), "the model has stopped; the log above says why");
        Ok(())
    })
}

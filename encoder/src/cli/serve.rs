//! `dyad-encoder serve`: the gRPC service of one model.

use std::io::Write;

use anyhow::Context;
use clap::Args;
use dyad_proto::service::{self, Health, ServerConfig};
use dyad_proto::v1::encoder_server::EncoderServer;
use tonic::service::Routes;

use super::model::ModelOptions;
use crate::serve::{self, EncoderService, Handle};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    model: ModelOptions,
    /// Address to listen on, HOST:PORT; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7701")]
    listen: String,
    /// Tokens that may wait or be under way; requests on top get `RESOURCE_EXHAUSTED`
    #[arg(long, value_name = "N", default_value_t = serve::Options::default().queue_tokens, value_parser = clap::value_parser!(u32).range(1..))]
    queue_tokens: u32,
    /// Seconds that running requests get to finish after SIGINT or SIGTERM
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    drain_s: u64,
}

/// Serves until SIGINT or SIGTERM, or until the model's thread ends.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Before the model is opened: an address in use should not cost the time of opening it.
        let listener = service::bind(&options.listen).await?;
        // From here on a signal is waited for: one that comes while the model is being opened ends the server cleanly.
        let signal = service::signal();
        let address = listener.local_addr().context("cannot read the listener's address")?;
        let mut settings = serve::Options::new(options.model.compute());
        settings.budget = options.model.budget();
        settings.queue_tokens = options.queue_tokens;
        let directory = options.model.model.clone();
        let handle = tokio::task::spawn_blocking(move || Handle::start(&directory, settings))
            .await
            .context("opening the model was interrupted")??;

        let health = Health::new().serving::<EncoderServer<EncoderService>>().await;
        let routes = Routes::new(service::encoder(EncoderService::new(handle.clone())));
        let config = ServerConfig { drain: std::time::Duration::from_secs(options.drain_s), ..ServerConfig::default() };
        let model = handle.clone();
        let stop = async move {
            tokio::select! {
                () = signal => {}
                () = model.ended() => tracing::error!("the model has stopped, so the server stops too"),
            }
        };
        {
            let mut output = std::io::stdout().lock();
            writeln!(output, "listening on {address}")?;
            output.flush()?;
        }
        service::serve(listener, routes, health, stop, config).await?;
        anyhow::ensure!(!handle.has_ended(), "the model has stopped; the log above says why");
        Ok(())
    })
}

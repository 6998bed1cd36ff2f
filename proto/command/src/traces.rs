//! Traces over OTLP (feature `otlp`), where the standard variable `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector,
//! `http://HOST:4317`. The other `OTEL_` variables hold too: service name, headers, sampler, limits.

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Runtime;
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Names the collector.
const ENDPOINT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// Names the service; the program where it is not set.
const SERVICE: &str = "OTEL_SERVICE_NAME";
/// Longest time at the end for what was not sent yet.
const FLUSH: Duration = Duration::from_secs(5);

/// What sends the traces of this process. The exporter's connection lives on the runtime.
static SENDER: OnceLock<(SdkTracerProvider, Runtime)> = OnceLock::new();

/// The layer that takes spans and events of ours, down to the stages of a search; nothing without a collector, or where
/// it cannot be set up, which is logged.
pub(crate) fn layer<S: Subscriber + for<'s> LookupSpan<'s>>() -> Result<Option<impl Layer<S>>, String> {
    if ENDPOINT.iter().all(|name| std::env::var_os(name).is_none()) {
        return Ok(None);
    }
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("dyad-otlp")
        .enable_all()
        .build();
    let runtime = threads.map_err(|error| error.to_string())?;
    let exporter = {
        let _entered = runtime.enter();
        SpanExporter::builder()
            .with_tonic()
            .build()
            .map_err(|error| error.to_string())?
    };
    let mut resource = Resource::builder();
    if std::env::var_os(SERVICE).is_none() {
        resource = resource.with_service_name(program());
    }
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build();
    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("dyad"));
    let ours = [
        "dyad_proto",
        "dyad_searcher",
        "dyad_encoder",
        "dyad_indexer",
        "dyad_command",
        "traces",
    ];
    let ours = Targets::new().with_targets(ours.map(|target| (target, Level::DEBUG)));
    _ = SENDER.set((provider, runtime));
    Ok(Some(layer.with_filter(ours)))
}

/// Sends what was not sent yet, for some seconds at most.
pub(crate) fn flush() {
    if let Some((provider, _)) = SENDER.get()
        && let Err(error) = provider.shutdown_with_timeout(FLUSH)
    {
        tracing::warn!("the last traces were not sent: {error}");
    }
}

/// The name of the program's file.
fn program() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

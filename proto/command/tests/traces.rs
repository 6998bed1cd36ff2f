//! Traces over OTLP: a program that exports, and a collector.

use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

/// Set for the program that exports: this one, started again.
const EXPORTS: &str = "DYAD_TEST_EXPORTS";
/// Longest wait for its spans.
const SOON: Duration = Duration::from_secs(30);

struct Collector(Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        _ = self.0.send(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Those of the test harness.
#[derive(Debug, clap::Parser)]
struct Arguments {
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    _rest: Vec<String>,
}

/// What the program does.
fn program() -> ExitCode {
    tracing::info_span!("outer", call = "Searcher.Search").in_scope(|| {
        tracing::debug!(dense_us = 7, "answered");
        tracing::info_span!("inner").in_scope(|| {});
    });
    ExitCode::SUCCESS
}

#[test]
fn spans_reach_the_collector_before_the_program_ends() {
    if std::env::var_os(EXPORTS).is_some() {
        assert_eq!(
            dyad_command::run("unknown", |_: Arguments| Ok(program()), |_| 1),
            ExitCode::SUCCESS
        );
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (sender, received) = channel();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(Collector(sender)));
    runtime.spawn(server.serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener)));
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "spans_reach_the_collector_before_the_program_ends"])
        .env(EXPORTS, "1")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{address}"))
        .env("OTEL_SERVICE_NAME", "a searcher")
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let resource = received.recv_timeout(SOON).unwrap().resource_spans.remove(0);
    assert!(
        format!("{:?}", resource.resource).contains("a searcher"),
        "{:?}",
        resource.resource
    );
    let spans = &resource.scope_spans[0].spans;
    let span = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    assert_eq!(span("inner").parent_span_id, span("outer").span_id);
    assert_eq!(span("inner").trace_id, span("outer").trace_id);
    let event = &span("outer").events[0];
    assert!(
        event.name == "answered" && event.attributes.iter().any(|attribute| attribute.key == "dense_us"),
        "{event:?}"
    );
}

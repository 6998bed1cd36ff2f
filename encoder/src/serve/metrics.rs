//! Metrics of the service, and their text for Prometheus (OpenMetrics 1.0).
//!
//! One registry per model, so that two of them in one process do not mix. Names begin with `dyad_encoder_`; times are
//! seconds.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dyad_proto::service::{CallObserver, Security};
use dyad_proto::status::status_name;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::error::EncodeError;
use super::reply::EncodedReply;
use crate::config::Tower;
use crate::model::ModelInfo;
use crate::tokenize::Tokens;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
    status: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TowerLabels {
    tower: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteOnly {
    route: String,
}

/// Counters, gauges and histograms of one model.
#[derive(Debug)]
pub(crate) struct EncoderMetrics {
    registry: Mutex<Registry>,
    requests: Family<RouteLabels, Counter>,
    request_time: Family<RouteOnly, Histogram, fn() -> Histogram>,
    texts: Family<TowerLabels, Counter>,
    tokens: Family<TowerLabels, Counter>,
    truncated: Counter,
    refused: Family<ReasonLabels, Counter>,
    queue_tokens: Gauge,
    queue_limit: Gauge,
    queue_time: Histogram,
    batch_texts: Histogram,
    batch_tokens: Histogram,
    batch_time: Histogram,
    batches_failed: Counter,
}

/// 1 ms to 65 s.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 17))
}

/// 1 to 65,536.
fn sizes() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 2.0, 17))
}

impl EncoderMetrics {
    pub(crate) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("dyad_encoder")),
            requests: Family::default(),
            request_time: Family::new_with_constructor(times),
            texts: Family::default(),
            tokens: Family::default(),
            truncated: Counter::default(),
            refused: Family::default(),
            queue_tokens: Gauge::default(),
            queue_limit: Gauge::default(),
            queue_time: times(),
            batch_texts: sizes(),
            batch_tokens: sizes(),
            batch_time: times(),
            batches_failed: Counter::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let registry = &mut *self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let build = [
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", dyad_command::revision()),
        ];
        registry.register(
            "build",
            "The release, and the commit that it was built of",
            Info::new(build.to_vec()),
        );
        registry.register(
            "requests",
            "Requests answered, by route and status",
            self.requests.clone(),
        );
        let help = "From the request's headers to the reply";
        registry.register_with_unit("request", help, Unit::Seconds, self.request_time.clone());
        registry.register("texts", "Texts embedded", self.texts.clone());
        registry.register(
            "tokens",
            "Tokens embedded, special tokens included",
            self.tokens.clone(),
        );
        registry.register(
            "texts_truncated",
            "Texts cut at the model's longest input",
            self.truncated.clone(),
        );
        registry.register(
            "refused",
            "Requests that were not embedded, by reason",
            self.refused.clone(),
        );
        registry.register(
            "queue_tokens",
            "Tokens admitted and not answered",
            self.queue_tokens.clone(),
        );
        registry.register(
            "queue_tokens_limit",
            "Tokens that may be admitted",
            self.queue_limit.clone(),
        );
        let help = "From a request's arrival to its first batch, without tokenizing";
        registry.register_with_unit("queue", help, Unit::Seconds, self.queue_time.clone());
        registry.register("batch_texts", "Texts of a batch", self.batch_texts.clone());
        registry.register(
            "batch_tokens",
            "Tokens of a batch, without padding",
            self.batch_tokens.clone(),
        );
        registry.register_with_unit(
            "batch",
            "Forward pass of a batch",
            Unit::Seconds,
            self.batch_time.clone(),
        );
        registry.register(
            "batches_failed",
            "Batches that the model could not embed",
            self.batches_failed.clone(),
        );
    }

    /// Names the model in every scrape.
    pub(crate) fn describe(&self, info: &ModelInfo) {
        let labels = vec![
            ("name", info.name.clone()),
            ("fingerprint", info.fingerprint.clone()),
            ("dim", info.dim.to_string()),
            ("device", info.device.to_string()),
            ("dtype", info.dtype.to_string()),
        ];
        let registry = &mut *self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register("model", "The model that is served", Info::new(labels));
    }

    /// A request was answered. `status` is HTTP's number or gRPC's name.
    pub(crate) fn request(&self, route: &str, status: &str, time: Duration) {
        let labels = RouteLabels {
            route: route.to_owned(),
            status: status.to_owned(),
        };
        self.requests.get_or_create(&labels).inc();
        self.request_time
            .get_or_create(&RouteOnly {
                route: route.to_owned(),
            })
            .observe(time.as_secs_f64());
    }

    /// Adds the metrics of the server's keys and TLS.
    pub(crate) fn secure(&self, security: &Security) {
        let registry = &mut *self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        registry.register_collector(Box::new(security.clone()));
    }

    /// A request was embedded, or not.
    pub(crate) fn outcome(&self, tower: Tower, outcome: &Result<EncodedReply, EncodeError>) {
        match outcome {
            Ok(encoded) => {
                let labels = TowerLabels { tower: tower.name() };
                self.texts.get_or_create(&labels).inc_by(encoded.tokens.len() as u64);
                self.tokens
                    .get_or_create(&labels)
                    .inc_by(encoded.tokens.iter().map(|&count| u64::from(count)).sum());
                self.truncated.inc_by(encoded.truncated.len() as u64);
                self.queue_time
                    .observe(Duration::from_micros(encoded.queue_us).as_secs_f64());
            }
            Err(error) => {
                self.refused
                    .get_or_create(&ReasonLabels { reason: error.reason() })
                    .inc();
            }
        }
    }

    /// A batch was embedded.
    pub(crate) fn batch(&self, texts: &[&Tokens], forward: Duration) {
        self.batch_texts.observe(texts.len() as f64);
        self.batch_tokens
            .observe(texts.iter().map(|text| text.ids.len()).sum::<usize>() as f64);
        self.batch_time.observe(forward.as_secs_f64());
    }

    /// A batch could not be embedded.
    pub(crate) fn batch_failed(&self) {
        self.batches_failed.inc();
    }

    /// The text of a scrape; `load` is the tokens in the queue and their limit.
    pub(crate) fn text(&self, load: (usize, usize)) -> Result<String, std::fmt::Error> {
        self.queue_tokens.set(load.0 as i64);
        self.queue_limit.set(load.1 as i64);
        let mut scrape = String::new();
        text::encode(
            &mut scrape,
            &self.registry.lock().unwrap_or_else(PoisonError::into_inner),
        )?;
        Ok(scrape)
    }
}

impl CallObserver for EncoderMetrics {
    fn answered(&self, path: Option<&str>, status: tonic::Code, time: Duration) {
        // As HTTP's routes: paths that lead nowhere are one, so that strangers cannot make new series.
        self.request(path.unwrap_or("none"), status_name(status), time);
    }
}

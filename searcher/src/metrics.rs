//! What a searcher counts while it answers, for Prometheus (OpenMetrics 1.0). Names begin with `dyad_searcher_`; times
//! are seconds. Values of the moment are read at each scrape: `service/http/scrape.rs`.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use dyad_proto::service::CallObserver;
use dyad_proto::status::status_name;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use tonic::Code;

/// The call of a request for which there is none.
pub(crate) const NO_CALL: &str = "none";
const TAKEN_OVER: &str = "taken over";
const FAILED: &str = "failed";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    call: String,
    status: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallOnly {
    call: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeLabels {
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RecallLabels {
    index: String,
    /// Whether the question was out of distribution.
    out_of_distribution: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    index: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CacheLabels {
    cache: &'static str,
}

/// An answer to be counted.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) mode: &'static str,
    /// A part of it is missing.
    pub(crate) degraded: bool,
    /// The question is longer than the tower reads.
    pub(crate) truncated: bool,
    /// The question is farther from the documents than those that calibrated them.
    pub(crate) out_of_distribution: bool,
    /// Microseconds by stage; 0 where it did not run.
    pub(crate) stages_us: [(&'static str, u64); 9],
}

/// A served search next to the exact one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ComparedSearch {
    /// How many of the nearest it has found.
    pub(crate) found: u64,
    /// How many there are.
    pub(crate) expected: u64,
    /// Whether its question is farther from the documents than those that calibrated them.
    pub(crate) out_of_distribution: bool,
}

/// A cache of the searcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Vectors of questions.
    Questions,
    /// Nodes that filters allow.
    Filters,
}

impl CacheKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Questions => "questions",
            Self::Filters => "filters",
        }
    }
}

/// Histograms of times.
type TimeHistograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of one searcher.
#[derive(Debug)]
pub struct SearcherMetrics {
    registry: Mutex<Registry>,
    requests: Family<CallLabels, Counter>,
    request_time: TimeHistograms<CallOnly>,
    answers: Family<ModeLabels, Counter>,
    degraded: Counter,
    truncated: Counter,
    stages: TimeHistograms<StageLabels>,
    cache_hits: Family<CacheLabels, Counter>,
    cache_misses: Family<CacheLabels, Counter>,
    out_of_distribution: Counter,
    recall_expected: Family<RecallLabels, Counter>,
    recall_found: Family<RecallLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
}

/// 50 us to 13 s.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_05, 2.0, 19))
}

impl Default for SearcherMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl SearcherMetrics {
    /// All of them at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("dyad_searcher");
        let metrics = Self {
            registry: Mutex::default(),
            requests: Family::default(),
            request_time: Family::new_with_constructor(times),
            answers: Family::default(),
            degraded: Counter::default(),
            truncated: Counter::default(),
            stages: Family::new_with_constructor(times),
            cache_hits: Family::default(),
            cache_misses: Family::default(),
            out_of_distribution: Counter::default(),
            recall_expected: Family::default(),
            recall_found: Family::default(),
            reloads: Family::default(),
        };
        metrics.register(&mut registry);
        Self {
            registry: Mutex::new(registry),
            ..metrics
        }
    }

    fn register(&self, registry: &mut Registry) {
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
            "Calls answered or refused, by call and gRPC status; of streams, requests",
            self.requests.clone(),
        );
        let help = "From a call's arrival to its reply; of streams, from each request to its reply";
        registry.register_with_unit("request", help, Unit::Seconds, self.request_time.clone());
        registry.register("answers", "Questions answered, by mode", self.answers.clone());
        registry.register("degraded", "Answers of which a part was missing", self.degraded.clone());
        registry.register(
            "truncated",
            "Questions longer than the question tower reads",
            self.truncated.clone(),
        );
        let help = "Time of a question in a stage that ran: queue, tokenize, embed, filter, dense, bm25, fuse, fetch";
        registry.register_with_unit("stage", help, Unit::Seconds, self.stages.clone());
        registry.register("cache_hits", "Look-ups that a cache answered", self.cache_hits.clone());
        registry.register(
            "cache_misses",
            "Look-ups that a cache could not answer",
            self.cache_misses.clone(),
        );
        let help = "Questions farther from the documents of a shard than those that calibrated it: searched as widely as by a beam at least";
        registry.register("out_of_distribution", help, self.out_of_distribution.clone());
        let help = "Nearest vectors that sampled questions have by exact search, ten for each";
        registry.register("recall_expected", help, self.recall_expected.clone());
        let help = "Those of them that the served search had found: found over expected is the live recall@10";
        registry.register("recall_found", help, self.recall_found.clone());
        let help = "Other generations that were to be served, by index, and whether they could be; failed, too, where a store could not be asked for one";
        registry.register("index_reloads", help, self.reloads.clone());
    }

    /// The text of a scrape, without its end.
    pub(crate) fn write(&self, text: &mut String) -> std::fmt::Result {
        encode_registry(text, &self.registry.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A call was answered; `status` is gRPC's name.
    fn call(&self, call: String, status: &'static str, time: Duration) {
        let labels = CallLabels { call, status };
        self.requests.get_or_create(&labels).inc();
        self.request_time
            .get_or_create(&CallOnly { call: labels.call })
            .observe(time.as_secs_f64());
    }

    /// A question was answered.
    pub(crate) fn answer(&self, answered: &Answered) {
        self.answers.get_or_create(&ModeLabels { mode: answered.mode }).inc();
        if answered.degraded {
            self.degraded.inc();
        }
        if answered.truncated {
            self.truncated.inc();
        }
        if answered.out_of_distribution {
            self.out_of_distribution.inc();
        }
        for (stage, us) in answered.stages_us.into_iter().filter(|(_, us)| *us > 0) {
            self.stages
                .get_or_create(&StageLabels { stage })
                .observe(us as f64 / 1e6);
        }
    }

    /// A cache was asked.
    pub(crate) fn cache(&self, cache: CacheKind, hit: bool) {
        let counters = if hit { &self.cache_hits } else { &self.cache_misses };
        counters.get_or_create(&CacheLabels { cache: cache.name() }).inc();
    }

    /// An index is served: its series begin at zero, so that the first event is an increase.
    pub(crate) fn index(&self, index: &str) {
        for outcome in [TAKEN_OVER, FAILED] {
            _ = self.reloads.get_or_create(&ReloadLabels {
                index: index.to_owned(),
                outcome,
            });
        }
    }

    /// Another generation of an index was to be served.
    pub(crate) fn reload(&self, index: &str, was_taken_over: bool) {
        let outcome = if was_taken_over { TAKEN_OVER } else { FAILED };
        self.reloads
            .get_or_create(&ReloadLabels {
                index: index.to_owned(),
                outcome,
            })
            .inc();
    }

    /// A served search was compared with the exact one.
    pub(crate) fn recall(&self, index: &str, compared: &ComparedSearch) {
        let ComparedSearch {
            found,
            expected,
            out_of_distribution,
        } = *compared;
        let out_of_distribution = if out_of_distribution { "true" } else { "false" };
        let labels = RecallLabels {
            index: index.to_owned(),
            out_of_distribution,
        };
        self.recall_found.get_or_create(&labels).inc_by(found);
        self.recall_expected.get_or_create(&labels).inc_by(expected);
    }
}

/// `Searcher.Search` of the path `/dyad.v1.Searcher/Search`.
fn call_of(path: &str) -> String {
    let of = |(service, method): (&str, &str)| format!("{}.{method}", service.rsplit('.').next().unwrap_or_default());
    path.trim_start_matches('/')
        .split_once('/')
        .map_or_else(|| path.to_owned(), of)
}

impl CallObserver for SearcherMetrics {
    fn answered(&self, path: Option<&str>, status: Code, time: Duration) {
        // Paths that lead nowhere are one call, so that strangers cannot make new series.
        self.call(
            path.map_or_else(|| NO_CALL.to_owned(), call_of),
            status_name(status),
            time,
        );
    }
}

/// The name of a call: that of its route, unless the route finds another one in the request.
#[derive(Debug, Clone)]
pub(crate) struct CountedName {
    of_route: &'static str,
    found: Arc<OnceLock<&'static str>>,
}

impl CountedName {
    pub(crate) fn new(of_route: &'static str) -> Self {
        let found = Arc::default();
        Self { of_route, found }
    }

    /// The name that the request has; the first one counts.
    pub(crate) fn find(&self, name: &'static str) {
        self.found.get_or_init(|| name);
    }
}

/// Counts a call when it is dropped: also one whose client has left.
#[derive(Debug)]
pub(crate) struct CountedCall {
    metrics: Arc<SearcherMetrics>,
    call: CountedName,
    came: Instant,
    status: &'static str,
}

impl CountedCall {
    pub(crate) fn new(metrics: &Arc<SearcherMetrics>, call: CountedName) -> Self {
        Self {
            metrics: Arc::clone(metrics),
            call,
            came: Instant::now(),
            status: status_name(Code::Cancelled),
        }
    }

    /// The call's outcome, by the name of its status.
    pub(crate) fn end(mut self, status: &'static str) {
        self.status = status;
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        let name = self.call.found.get().unwrap_or(&self.call.of_route);
        self.metrics.call((*name).to_owned(), self.status, self.came.elapsed());
    }
}

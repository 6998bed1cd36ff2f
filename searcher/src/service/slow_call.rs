//! A line in the log for each call that took longer than `--slow-ms`: what was asked for and where the time went,
//! never a text of the question or of a document.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_proto::access::Caller;
use dyad_proto::status::status_name;
use dyad_proto::v1;
use tonic::{Code, Status};

use crate::run::{Answer, Engine};

/// A call that is logged at its end where it was slow, also where its client has left before.
#[derive(Debug)]
pub(super) struct SlowCall(Option<WatchedCall>);

#[derive(Debug)]
struct WatchedCall {
    engine: Arc<Engine>,
    threshold: Duration,
    came: Instant,
    caller: Caller,
    method: &'static str,
    index: String,
    /// The first of several.
    mode: &'static str,
    /// The most of several.
    k: u32,
    /// Whether any has one.
    has_filter: bool,
    questions: usize,
    status: &'static str,
    timings: v1::Timings,
}

impl SlowCall {
    /// A call of a method about an index, from now on.
    pub(super) fn new(engine: &Arc<Engine>, caller: &Caller, method: &'static str, index: &str) -> Self {
        Self::of_searches(engine, caller, method, index, &[])
    }

    /// A call that searches.
    pub(super) fn of_search(
        engine: &Arc<Engine>,
        caller: &Caller,
        method: &'static str,
        search: &v1::SearchRequest,
    ) -> Self {
        Self::of_searches(engine, caller, method, &search.index, std::slice::from_ref(search))
    }

    /// A call of several searches in one index.
    pub(super) fn of_searches(
        engine: &Arc<Engine>,
        caller: &Caller,
        method: &'static str,
        index: &str,
        searches: &[v1::SearchRequest],
    ) -> Self {
        let watched = engine.slow_threshold().map(|threshold| WatchedCall {
            engine: Arc::clone(engine),
            threshold,
            came: Instant::now(),
            caller: caller.clone(),
            method,
            index: index.to_owned(),
            mode: searches.first().map_or("", |first| first.mode().word()),
            k: searches.iter().map(|search| search.k).max().unwrap_or_default(),
            has_filter: searches.iter().any(|search| search.filter.is_some()),
            questions: searches.len(),
            status: status_name(Code::Cancelled),
            timings: v1::Timings::default(),
        });
        Self(watched)
    }

    /// The end of a call that searches once.
    pub(super) fn end_search<T>(self, answered: &Result<(Answer, T), Status>) {
        self.end(answered.as_ref().map(|(answer, _)| std::iter::once(answer)));
    }

    /// The end of a call whose parts are not timed.
    pub(super) fn end_without_times<T>(self, outcome: &Result<T, Status>) {
        self.end(outcome.as_ref().map(|_| std::iter::empty()));
    }

    /// The end of a call that searches: its status, and where the time went, of several questions of the slowest.
    pub(super) fn end<'t>(self, outcome: Result<impl Iterator<Item = &'t Answer>, &Status>) {
        let Some(mut watched) = self.0 else { return };
        match outcome {
            Err(refused) => watched.status = status_name(refused.code()),
            Ok(answers) => {
                watched.status = status_name(Code::Ok);
                let timings = answers.filter_map(|answer| answer.response.timings);
                watched.timings = timings.max_by_key(|timings| timings.total_us).unwrap_or_default();
            }
        }
    }
}

impl Drop for WatchedCall {
    fn drop(&mut self) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.came);
        if took < self.threshold || !self.engine.admits_slow_line(now) {
            return;
        }
        // The name of the default index, where the request has none.
        let index = self.engine.index(&self.index, &self.caller);
        let timings = self.timings;
        tracing::warn!(
            method = self.method,
            index = index.as_ref().map_or(&*self.index, |index| index.name()),
            request_id = &*self.caller.request_id,
            status = self.status,
            ms = took.as_secs_f64() * 1e3,
            mode = self.mode,
            k = self.k,
            filter = self.has_filter,
            questions = self.questions,
            queue_us = timings.queue_us,
            tokenize_us = timings.tokenize_us,
            embed_us = timings.embed_us,
            filter_us = timings.filter_us,
            dense_us = timings.dense_us,
            bm25_us = timings.bm25_us,
            fuse_us = timings.fuse_us,
            fetch_us = timings.fetch_us,
            rerank_us = timings.rerank_us,
            "slow request"
        );
    }
}

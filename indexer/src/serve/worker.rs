//! The thread that makes the changes, one after another: what a change costs is CPU time, and two at once would only
//! prepare their publications twice. Calls that come while one is made, or within some milliseconds, are made together.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;
use dyad_index::{Snapshot, manifest};
use dyad_proto::v1;
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::gathered::{ChangeCall, GatheredCalls, WantedChange, conditions_of, joined, replies};
use super::make::{self, ChangeWorkerConfig, make};
use super::metrics::IndexerMetrics;
use super::pending::Wanted;
use super::recorded::RecordedCalls;
use super::remembered::{CallTicket, RememberedCalls};
use super::status::status;
use super::upkeep::Upkeep;
use crate::change::{ChangeOutcome, ChangeStart};
use crate::control::{JobControl, Silent};
use crate::error::Error;
use crate::memory::keep_freed_memory;
use crate::publish::check_model;
use crate::source::{LeadingSource, RemoteSource, VectorSource as _};

/// Calls that may wait for their turn.
const WAITING: usize = 1_024;
/// Calls of other kinds that are set aside while calls are gathered.
const SET_ASIDE: usize = 64;
/// How long a generation is kept open for a change that may follow.
const KEPT_OPEN: Duration = Duration::from_millis(250);

/// Makes changes on a thread of its own. Clones share it; it ends with the last of them.
#[derive(Debug, Clone)]
pub struct ChangeWorker {
    calls: SyncSender<ChangeCall>,
    index: Arc<Path>,
    metrics: Arc<IndexerMetrics>,
    remembered: RememberedCalls,
}

/// Cancels a change whose client has gone.
struct CancelChangeOnDrop(JobCancellation);

impl Drop for CancelChangeOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl ChangeWorker {
    /// Checks that the index can be opened and that the encoder service has its model, and starts the threads. Blocks.
    pub fn start(config: ChangeWorkerConfig) -> Result<Self, Error> {
        keep_freed_memory();
        drop(Snapshot::open(&config.index)?);
        if let Some(url) = &config.encoder {
            let mut source = RemoteSource::connect(url, config.remote.clone(), &JobCancellation::new())?;
            let current = manifest::current(&config.index)?;
            check_model(&config.index, LeadingSource::like(&mut source, &current.model).model())?;
        }
        let remembered = RememberedCalls::of_index(&config.index)?;
        let metrics = Arc::new(IndexerMetrics::new());
        let upkeep = Upkeep::start(&config.index, &config.upkeep, config.threads, &metrics)?;
        upkeep.wake();
        let (calls, received) = sync_channel(WAITING);
        let index = Arc::from(&*config.index);
        let thread = ChangeThread {
            config,
            received,
            set_aside: VecDeque::new(),
            come_together: true,
            known: None,
            upkeep,
            metrics: Arc::clone(&metrics),
            remembered: remembered.clone(),
        };
        std::thread::Builder::new()
            .name("dyad-changes".to_owned())
            .spawn(move || thread.run())?;
        Ok(Self {
            calls,
            index,
            metrics,
            remembered,
        })
    }

    /// Calls that were made already.
    pub(super) fn remembered(&self) -> &RememberedCalls {
        &self.remembered
    }

    /// The generation that is current; none where that cannot be read.
    pub(super) async fn current_generation(&self) -> Option<u64> {
        let index = Arc::clone(&self.index);
        let read = tokio::task::spawn_blocking(move || manifest::current(&index).map(|current| current.generation));
        read.await.ok()?.ok()
    }

    /// What is counted.
    pub(super) fn metrics(&self) -> &IndexerMetrics {
        &self.metrics
    }

    /// Makes a change; none where too many wait, or the thread has ended. The change is cancelled when the future is
    /// dropped, unless it is made together with others.
    pub(super) async fn make(
        &self,
        wanted: Wanted,
        ticket: Option<CallTicket>,
    ) -> Option<Result<v1::ChangeResponse, Status>> {
        let (cancel, (reply, made)) = (JobCancellation::new(), oneshot::channel());
        let guard = CancelChangeOnDrop(cancel.clone());
        let call = ChangeCall {
            change: wanted.change,
            rules: wanted.rules,
            ticket,
            held: wanted.received.into_held(),
            cancel,
            reply,
        };
        match self.calls.try_send(call) {
            Ok(()) => drop(self.metrics.waiting.inc()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => return None,
        }
        let made = made.await.ok();
        drop(guard);
        made
    }
}

/// What the thread has.
struct ChangeThread {
    config: ChangeWorkerConfig,
    received: Receiver<ChangeCall>,
    /// Calls that came before others were made, and are of another kind.
    set_aside: VecDeque<ChangeCall>,
    /// Whether calls have come together lately.
    come_together: bool,
    /// Opening all shards would be most of the work of a small change. It is not kept for long: `gc` and `purge` leave
    /// an open generation.
    known: Option<Snapshot>,
    upkeep: Upkeep,
    metrics: Arc<IndexerMetrics>,
    remembered: RememberedCalls,
}

impl ChangeThread {
    fn run(mut self) {
        loop {
            match self.next() {
                Ok(first) => {
                    let gathered = self.gather(first);
                    self.make(gathered);
                }
                Err(RecvTimeoutError::Timeout) => self.known = None,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// The call that has waited longest.
    fn next(&mut self) -> Result<ChangeCall, RecvTimeoutError> {
        if let Some(call) = self.set_aside.pop_front() {
            return Ok(call);
        }
        if let Ok(call) = self.received.try_recv() {
            // It came while the change before was made.
            self.come_together = true;
            return Ok(call);
        }
        match &self.known {
            Some(_) => self.received.recv_timeout(KEPT_OPEN),
            None => self.received.recv().map_err(RecvTimeoutError::from),
        }
    }

    /// That call, and others that can be made together with it.
    fn gather(&mut self, first: ChangeCall) -> GatheredCalls {
        let mut gathered = GatheredCalls::begin(first);
        for call in std::mem::take(&mut self.set_aside) {
            if let Some(other) = gathered.join(call) {
                self.set_aside.push_back(other);
            }
        }
        let until = Instant::now() + self.config.gather.time(self.come_together);
        while gathered.has_room() && self.set_aside.len() < SET_ASIDE {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(call) = self.received.recv_timeout(left) else {
                break;
            };
            if let Some(other) = gathered.join(call) {
                self.set_aside.push_back(other);
            }
        }
        self.come_together = gathered.calls.len() > 1 || !self.set_aside.is_empty();
        gathered
    }

    /// Makes the calls as one change. Where that is refused, each is made by itself, so that no call fails for what
    /// another one has brought.
    fn make(&mut self, gathered: GatheredCalls) {
        self.metrics.waiting.dec_by(gathered.calls.len() as i64);
        self.metrics.gathered.observe(gathered.calls.len() as f64);
        let (gone, calls): (Vec<ChangeCall>, Vec<ChangeCall>) =
            gathered.calls.into_iter().partition(|call| call.cancel.is_cancelled());
        drop(gone);
        let calls = self.without_made(calls);
        let calls = self.without_refused(calls);
        if calls.is_empty() {
            return;
        }
        let made = self.make_together(&calls);
        match made {
            Ok(replies) => {
                for (call, reply) in calls.into_iter().zip(replies) {
                    answer(call, Ok(reply));
                }
            }
            Err(status) if calls.len() > 1 && is_of_one_call(&status, &calls) => self.make_each(calls),
            Err(status) => {
                for call in calls {
                    answer(call, Err(status.clone()));
                }
            }
        }
    }

    /// Answers calls that another server of the same index has made under their names, and returns the others.
    fn without_made(&self, calls: Vec<ChangeCall>) -> Vec<ChangeCall> {
        if calls.iter().all(|call| call.ticket.is_none()) {
            return calls;
        }
        if let Err(error) = self.remembered.follow(&self.config.index) {
            tracing::warn!(%error, "what other servers have recorded of their calls cannot be read");
        }
        let mut others = Vec::with_capacity(calls.len());
        for call in calls {
            let ticket = call.ticket.as_ref();
            match ticket.and_then(|ticket| self.remembered.reply_to(&ticket.call)) {
                Some(reply) => answer(call, Ok(reply)),
                None => others.push(call),
            }
        }
        others
    }

    /// Answers calls that must not be made on the current generation, and returns the others, which need not be made
    /// one by one then. What must hold is looked at again when the change is made.
    fn without_refused(&mut self, calls: Vec<ChangeCall>) -> Vec<ChangeCall> {
        if calls.iter().all(|call| call.rules.are_none()) {
            return calls;
        }
        // What is wrong with the index is told by the change.
        let Ok(current) = Snapshot::open_after(&self.config.index, self.known.as_ref()) else {
            return calls;
        };
        let check = |call: &ChangeCall| {
            let conditions = conditions_of(std::slice::from_ref(call));
            caught(|| make::check(&conditions, &call.change, &current).map_err(|error| status(&error)))
        };
        let mut others = Vec::with_capacity(calls.len());
        for call in calls {
            match check(&call) {
                Ok(()) => others.push(call),
                Err(refused) => answer(call, Err(refused)),
            }
        }
        self.known = Some(current);
        others
    }

    /// Makes calls one after another, until one fails for what all would fail for.
    fn make_each(&mut self, calls: Vec<ChangeCall>) {
        let mut failure = None;
        for call in calls {
            let made = match &failure {
                Some(status) => Err(Status::clone(status)),
                None => self.make_together(std::slice::from_ref(&call)),
            };
            if let Err(status) = &made
                && matches!(
                    status.code(),
                    Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted
                )
            {
                failure = Some(status.clone());
            }
            let only = |mut replies: Vec<v1::ChangeResponse>| replies.pop().unwrap_or_default();
            answer(call, made.map(only));
        }
    }

    /// What each of these calls came to, made as one change.
    fn make_together(&mut self, calls: &[ChangeCall]) -> Result<Vec<v1::ChangeResponse>, Status> {
        let never = JobCancellation::new();
        let cancel = match calls {
            [only] => &only.cancel,
            _ => &never,
        };
        let control = JobControl {
            progress: &Silent,
            cancel,
        };
        let changes: Vec<&WantedChange> = calls.iter().map(|call| &call.change).collect();
        let change = joined(&changes);
        let recorder = RecordedCalls(calls);
        let start = ChangeStart {
            known: self.known.as_ref(),
            conditions: conditions_of(calls),
            recorder: Some(&recorder),
        };
        let made = caught(|| make(&self.config, &start, change, control));
        match &made {
            Ok(ChangeOutcome {
                manifest: Some(manifest),
                change,
                ..
            }) => {
                let (generation, calls) = (manifest.generation, calls.len());
                tracing::info!(generation, calls, ?change, "published");
                self.metrics.published.inc();
                self.metrics.documents_changed.inc_by(change.indexed);
                self.upkeep.wake();
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "a change was not made"),
        }
        // The next change begins with this generation; one that cannot be opened is told by the next change.
        self.known = Snapshot::open_after(&self.config.index, self.known.as_ref()).ok();
        made.map(|outcome| replies(&changes, &outcome))
    }
}

/// Whether a failure may be due to one of several calls.
fn is_of_one_call(status: &Status, calls: &[ChangeCall]) -> bool {
    match status.code() {
        Code::ResourceExhausted | Code::DeadlineExceeded => false,
        // Others were faster than all of them, or documents are not as one of them expects.
        Code::Aborted => calls.iter().any(|call| call.rules.expect_documents()),
        _ => true,
    }
}

fn answer(call: ChangeCall, made: Result<v1::ChangeResponse, Status>) {
    let ChangeCall {
        reply,
        rules,
        ticket,
        held,
        ..
    } = call;
    drop(held);
    let told = rules.told(made);
    if let (Ok(made), Some(ticket)) = (&told, ticket) {
        ticket.complete(*made);
    }
    // The client may have gone.
    let _ = reply.send(told);
}

/// A panic must not end the thread: every later change would be refused.
fn caught<T>(change: impl FnOnce() -> Result<T, Status>) -> Result<T, Status> {
    catch_unwind(AssertUnwindSafe(change)).unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or(panic.downcast_ref::<&str>().copied());
        tracing::error!(message, "a change panicked");
        Err(status(&Error::Panicked))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_panics_is_an_error() {
        let panicked = caught(|| Ok::<_, Status>(vec![0; 3].swap_remove(3)));
        assert_eq!(panicked.unwrap_err().code(), Code::Internal);
        assert!(matches!(caught(|| Ok(3)), Ok(3)));
        let contended = caught(|| Err::<(), _>(status(&Error::Contended)));
        assert_eq!(contended.unwrap_err().code(), Code::Aborted);
    }
}

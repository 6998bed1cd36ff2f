//! Calls that have a name of their own: one that was made already is answered as it was, and not made again.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dyad_index::manifest::{self, RecordedCall};
use dyad_proto::v1;
use tokio::sync::watch;
use tonic::Status;

/// How long a call is remembered.
const KEPT_FOR: Duration = Duration::from_hours(1);
/// Most calls that are remembered: `UpsertRequest.request_key` tells clients of both.
const MOST_CALLS: usize = 16_384;
/// Most generations of which the recorded calls are read.
const MOST_GENERATIONS: usize = 1_024;

/// Who has made a call, and what it is called.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct CallName {
    /// The id of the API key; empty without one.
    pub(super) caller: String,
    pub(super) request_key: String,
}

/// A call with a name, and what it brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NamedCall {
    pub(super) name: CallName,
    /// A hash of all that it brings.
    pub(super) content: String,
}

#[derive(Debug)]
enum CallState {
    /// The receiver is told of the end.
    UnderWay(watch::Receiver<()>),
    Made(v1::ChangeResponse),
}

#[derive(Debug)]
struct RememberedCall {
    content: String,
    state: CallState,
}

#[derive(Debug, Default)]
struct CallsByName {
    calls: HashMap<CallName, RememberedCall>,
    /// Those that were made, oldest first.
    made: VecDeque<(Instant, CallName)>,
    /// The newest generation that was there when the recorded calls were read.
    newest: Option<u64>,
}

/// The calls that one server remembers. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct RememberedCalls(Arc<Mutex<CallsByName>>);

/// What is known of a call that begins.
pub(super) enum BegunCall {
    /// Nothing: it is to be made.
    New(CallTicket),
    /// It was made.
    Made(v1::ChangeResponse),
    /// It is under way; the receiver is told when that has ended.
    UnderWay(watch::Receiver<()>),
}

/// A call that is under way: it is forgotten when this is dropped, unless it was made.
#[derive(Debug)]
pub(super) struct CallTicket {
    calls: RememberedCalls,
    pub(super) call: NamedCall,
    _ended: watch::Sender<()>,
}

impl RememberedCalls {
    /// Those that the generations of an index have recorded.
    pub(super) fn of_index(index: &Path) -> Result<Self, dyad_index::Error> {
        let remembered = Self::default();
        remembered.follow(index)?;
        Ok(remembered)
    }

    /// Takes over what has been recorded since this was called last: by another server of the same index too, from
    /// which a client may have turned to this one.
    pub(super) fn follow(&self, index: &Path) -> Result<(), dyad_index::Error> {
        let after = self.lock().newest;
        if manifest::current_generation(index)? == after {
            return Ok(());
        }
        let generations = manifest::generations(index)?;
        let now = SystemTime::now();
        let mut recorded = Vec::new();
        for generation in generations.iter().rev().copied().take(MOST_GENERATIONS) {
            if Some(generation) <= after || recorded.len() >= MOST_CALLS {
                break;
            }
            // Removed meanwhile, or damaged: the current one is opened, and what is wrong with it is told, elsewhere.
            let Ok(manifest) = manifest::load(index, generation) else {
                continue;
            };
            let created = UNIX_EPOCH + Duration::from_secs(manifest.created_unix_s);
            let age = now.duration_since(created).unwrap_or_default();
            if age > KEPT_FOR {
                break;
            }
            let Some(at) = Instant::now().checked_sub(age) else {
                break;
            };
            let calls = manifest.change.into_iter().flat_map(|change| change.calls);
            recorded.extend(calls.map(|call| (at, read(call, generation))));
        }
        let mut remembered = self.lock();
        for (at, (call, reply)) in recorded.into_iter().rev() {
            remembered.add(call, reply, at);
        }
        remembered.newest = generations.last().copied().max(after);
        Ok(())
    }

    /// The reply to a call of this name and content that was made.
    pub(super) fn reply_to(&self, call: &NamedCall) -> Option<v1::ChangeResponse> {
        let remembered = self.lock();
        let known = remembered
            .calls
            .get(&call.name)
            .filter(|known| known.content == call.content)?;
        match &known.state {
            CallState::Made(reply) => Some(*reply),
            CallState::UnderWay(_) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, CallsByName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call. Refuses one that has the name of another, which has brought something else.
    pub(super) fn begin(&self, call: NamedCall) -> Result<BegunCall, Status> {
        let mut remembered = self.lock();
        remembered.forget_old();
        if let Some(known) = remembered.calls.get(&call.name) {
            if known.content != call.content {
                return Err(Status::invalid_argument(
                    "`request_key`: expected a new one, got that of a call with other content; nothing was changed",
                ));
            }
            return Ok(match &known.state {
                CallState::UnderWay(ended) => BegunCall::UnderWay(ended.clone()),
                CallState::Made(reply) => BegunCall::Made(*reply),
            });
        }
        let (ended, receiver) = watch::channel(());
        let state = RememberedCall {
            content: call.content.clone(),
            state: CallState::UnderWay(receiver),
        };
        remembered.calls.insert(call.name.clone(), state);
        Ok(BegunCall::New(CallTicket {
            calls: self.clone(),
            call,
            _ended: ended,
        }))
    }
}

impl CallsByName {
    fn add(&mut self, call: NamedCall, reply: v1::ChangeResponse, at: Instant) {
        // This server's own calls are read again from what it has recorded.
        let is_made = |known: &RememberedCall| matches!(known.state, CallState::Made(_));
        if self.calls.get(&call.name).is_some_and(is_made) {
            return;
        }
        self.made.push_back((at, call.name.clone()));
        let made = RememberedCall {
            content: call.content,
            state: CallState::Made(reply),
        };
        self.calls.insert(call.name, made);
        self.forget_old();
    }

    fn forget_old(&mut self) {
        let is_old = |at: &Instant| at.elapsed() > KEPT_FOR;
        while self.made.len() > MOST_CALLS || self.made.front().is_some_and(|(at, _)| is_old(at)) {
            if let Some((_, name)) = self.made.pop_front() {
                self.calls.remove(&name);
            }
        }
    }
}

impl CallTicket {
    /// The call was made.
    pub(super) fn complete(self, reply: v1::ChangeResponse) {
        self.calls.lock().add(self.call.clone(), reply, Instant::now());
    }
}

impl Drop for CallTicket {
    fn drop(&mut self) {
        let mut remembered = self.calls.lock();
        let is_under_way = |known: &RememberedCall| matches!(known.state, CallState::UnderWay(_));
        if remembered.calls.get(&self.call.name).is_some_and(is_under_way) {
            remembered.calls.remove(&self.call.name);
        }
    }
}

/// A call as the generation that has it records it.
pub(super) fn record(call: &NamedCall, reply: v1::ChangeResponse) -> RecordedCall {
    let v1::ChangeResponse {
        generation: _,
        documents,
        read,
        indexed,
        unchanged,
        superseded,
        rejected,
        reused,
        // Of the call that is answered, and not of the change.
        searchable: _,
    } = reply;
    RecordedCall {
        caller: call.name.caller.clone(),
        request_key: call.name.request_key.clone(),
        content: call.content.clone(),
        read,
        indexed,
        unchanged,
        superseded,
        rejected,
        reused,
        documents,
    }
}

fn read(call: RecordedCall, generation: u64) -> (NamedCall, v1::ChangeResponse) {
    let RecordedCall {
        caller,
        request_key,
        content,
        read,
        indexed,
        unchanged,
        superseded,
        rejected,
        reused,
        documents,
    } = call;
    let reply = v1::ChangeResponse {
        // A call that changed nothing names no generation.
        generation: if indexed > 0 { generation } else { 0 },
        documents,
        read,
        indexed,
        unchanged,
        superseded,
        rejected,
        reused,
        searchable: None,
    };
    let name = CallName { caller, request_key };
    (NamedCall { name, content }, reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(request_key: &str, content: &str) -> NamedCall {
        NamedCall {
            name: CallName {
                caller: "a".to_owned(),
                request_key: request_key.to_owned(),
            },
            content: content.to_owned(),
        }
    }

    fn reply(indexed: u64) -> v1::ChangeResponse {
        v1::ChangeResponse {
            indexed,
            generation: 7 * indexed.min(1),
            ..v1::ChangeResponse::default()
        }
    }

    fn begun(calls: &RememberedCalls, call: NamedCall) -> CallTicket {
        match calls.begin(call).unwrap() {
            BegunCall::New(ticket) => ticket,
            BegunCall::Made(_) | BegunCall::UnderWay(_) => unreachable!("it is new"),
        }
    }

    #[tokio::test]
    async fn a_call_is_made_once_and_again_where_it_failed() {
        let calls = RememberedCalls::default();
        let first = begun(&calls, named("x", "1"));
        let BegunCall::UnderWay(mut ended) = calls.begin(named("x", "1")).unwrap() else {
            unreachable!("it is under way")
        };
        assert!(calls.begin(named("x", "2")).is_err(), "another content");
        drop(begun(&calls, named("y", "2")));
        drop(first);
        assert!(ended.changed().await.is_err(), "it has ended");
        begun(&calls, named("x", "2")).complete(reply(3));
        assert!(matches!(calls.begin(named("x", "2")).unwrap(), BegunCall::Made(made) if made.indexed == 3));
        assert!(calls.begin(named("x", "1")).is_err());
        let other = CallName {
            caller: "b".to_owned(),
            request_key: "x".to_owned(),
        };
        drop(begun(
            &calls,
            NamedCall {
                name: other,
                ..named("x", "1")
            },
        ));
    }

    #[test]
    fn old_calls_and_those_beyond_the_bound_are_forgotten() {
        let calls = RememberedCalls::default();
        let old = Instant::now().checked_sub(KEPT_FOR + Duration::from_secs(1));
        if let Some(old) = old {
            calls.lock().add(named("old", ""), reply(1), old);
        }
        drop(begun(&calls, named("old", "other")));
        for number in 0..=MOST_CALLS {
            begun(&calls, named(&number.to_string(), "")).complete(reply(1));
        }
        assert_eq!(calls.lock().calls.len(), MOST_CALLS);
        drop(begun(&calls, named("0", "other")));
        assert!(matches!(calls.begin(named("1", "")).unwrap(), BegunCall::Made(_)));
    }

    #[test]
    fn what_is_recorded_is_what_was_replied() {
        for indexed in [0, 2] {
            let call = named("x", "1");
            let recorded = record(&call, reply(indexed));
            assert_eq!(read(recorded, 7), (call, reply(indexed)));
        }
    }
}

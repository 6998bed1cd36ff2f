//! What a generation records of the calls that made it.

use dyad_index::manifest::RecordedCall;

use super::gathered::{ChangeCall, WantedChange, replies};
use super::remembered::record;
use crate::change::{CallRecorder, ChangeOutcome};

/// Records those of these calls that have names in the generation that is made of them.
#[derive(Debug)]
pub(super) struct RecordedCalls<'a>(pub(super) &'a [ChangeCall]);

impl CallRecorder for RecordedCalls<'_> {
    fn calls(&self, outcome: &ChangeOutcome) -> Vec<RecordedCall> {
        if self.0.iter().all(|call| call.ticket.is_none()) {
            return Vec::new();
        }
        let changes: Vec<&WantedChange> = self.0.iter().map(|call| &call.change).collect();
        let named = self
            .0
            .iter()
            .zip(replies(&changes, outcome))
            .filter_map(|(call, reply)| {
                let ticket = call.ticket.as_ref()?;
                Some(record(&ticket.call, call.rules.told_reply(reply)))
            });
        named.collect()
    }
}

//! Whether some documents of some shards are in none of the groups that a root has found.

use std::sync::Arc;
use std::time::Duration;

use dyad_filter::field_value;
use dyad_index::Snapshot;
use dyad_index::snapshot::DocumentHit;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::stages::groups::{HitGroup, have_other_groups};
use super::call::{LeafCallTarget, LeafPart};
use crate::error::Result;
use crate::plan::{IndexSize, SearchCost};

impl Engine {
    /// Looks for documents of other groups.
    pub(crate) async fn leaf_other_groups(
        &self,
        request: v1::OtherGroupsRequest,
        time: Option<Duration>,
    ) -> Result<v1::OtherGroupsResponse> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let cost = |snapshot: &Arc<Snapshot>| SearchCost {
            answer: IndexSize::from_snapshot(snapshot).fields().answer,
            ..SearchCost::default()
        };
        let call = self.leaf_call(&target, cost)?;
        let part = call.part.clone();
        call.jobs.start(move || others(&part, request)).await
    }
}

fn others(part: &LeafPart, request: v1::OtherGroupsRequest) -> Result<v1::OtherGroupsResponse> {
    let LeafPart { snapshot, cancel, .. } = part;
    let key_id = request.scope.as_ref().map_or("", |scope| &scope.key_id);
    let allowed = match &request.filter {
        Some(filter) => Some(part.allowed(filter, key_id)?.0),
        None => None,
    };
    let nodes = allowed.as_ref().map(|allowed| Arc::clone(&allowed.shards));
    let group = |group: &v1::LeafGroupValue| {
        // A document of another leaf that has no value is none of this one's.
        let shard = snapshot
            .numbers()
            .binary_search(&(group.shard as usize))
            .unwrap_or(usize::MAX);
        HitGroup {
            value: group.value.as_ref().and_then(field_value),
            hits: vec![DocumentHit {
                score: 0.0,
                shard,
                node: group.node,
            }],
        }
    };
    let groups: Vec<HitGroup> = request.groups.iter().map(group).collect();
    let has_others = have_other_groups(snapshot, &request.group_by, &groups, nodes.as_deref(), cancel)?;
    Ok(v1::OtherGroupsResponse {
        has_others,
        generation: request.generation,
    })
}

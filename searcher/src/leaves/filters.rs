//! The filters of requests to leaves: which leaf has probably kept what one allows.

use dyad_proto::v1;
use dyad_proto::v1::leaf_read_request::Request as Asked;
use prost::Message as _;

use super::placement::weight;

/// An order of leaves for a filter and some shards, the same for each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilterAffinity(u64);

impl FilterAffinity {
    pub(super) fn new(filter: &v1::Filter) -> Self {
        Self(weight(&filter.encode_to_vec(), ""))
    }

    /// The weight of a leaf of this name for shards of which this is the first: the highest comes first.
    pub(super) fn weight(self, shard: u32, leaf: &str) -> u64 {
        let mut of = self.0.to_le_bytes().to_vec();
        of.extend(shard.to_le_bytes());
        weight(&of, leaf)
    }
}

pub(super) fn none(_: &v1::TermsRequest) -> Option<&v1::Filter> {
    None
}

pub(super) fn of_search(request: &v1::LeafSearchRequest) -> Option<&v1::Filter> {
    request.filter.as_ref()
}

pub(super) fn of_explanation(request: &v1::LeafExplainRequest) -> Option<&v1::Filter> {
    request.filter.as_ref()
}

pub(super) fn of_other_groups(request: &v1::OtherGroupsRequest) -> Option<&v1::Filter> {
    request.filter.as_ref()
}

pub(super) fn of_read(request: &v1::LeafReadRequest) -> Option<&v1::Filter> {
    match request.request.as_ref()? {
        Asked::Sample(asked) => asked.filter.as_ref(),
        Asked::Scroll(asked) => asked.filter.as_ref(),
        Asked::Count(asked) => asked.filter.as_ref(),
        Asked::Documents(_) | Asked::Fields(_) => None,
    }
}

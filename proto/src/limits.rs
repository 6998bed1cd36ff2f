//! Maxima shared by clients and servers. A request above one of them is refused with the field's name and the limit.
//!
//! Those of single fields and methods are options in the `.proto` files ([`crate::rules`]); the others are given here.

use crate::rules::{self, OTHER_LIMITS, request_limits};

const SEARCH: crate::v1::RequestLimits = request_limits("/dyad.v1.Searcher/Search");
const SEARCH_BATCH: crate::v1::RequestLimits = request_limits("/dyad.v1.Searcher/SearchBatch");

/// Bytes of one `EncodeRequest`, `ScoreRequest` or `UpsertRequest`.
pub const MAX_ENCODE_BYTES: usize = request_limits("/dyad.v1.Encoder/Encode").bytes as usize;
/// Bytes of one `SearchRequest`, `GetDocumentsRequest`, `SampleDocumentsRequest`, `ScrollDocumentsRequest`,
/// `CountDocumentsRequest`, `ExplainRequest` or `DeleteRequest`.
pub const MAX_SEARCH_BYTES: usize = SEARCH.bytes as usize;
/// Texts and messages in one `SearchRequest`, at every depth: those of the largest filter.
pub const MAX_SEARCH_ELEMENTS: usize = SEARCH.elements as usize;
/// Bytes of one `SearchBatchRequest`.
pub const MAX_SEARCH_BATCH_BYTES: usize = SEARCH_BATCH.bytes as usize;
/// Texts and messages in one `SearchBatchRequest`, at every depth.
pub const MAX_SEARCH_BATCH_ELEMENTS: usize = SEARCH_BATCH.elements as usize;
/// Bytes of any other request.
pub const MAX_OTHER_BYTES: usize = OTHER_LIMITS.bytes as usize;
/// Texts in one `EncodeRequest` or `ScoreRequest`.
pub const MAX_TEXTS: usize = rules::ENCODE_REQUEST_TEXTS.most_items();
/// Bytes of one text to embed.
pub const MAX_TEXT_BYTES: usize = rules::ENCODE_REQUEST_TEXTS.most_bytes();
/// Bytes of one document of which texts to embed are passages.
pub const MAX_DOCUMENT_BYTES: usize = rules::PASSAGE_DOCUMENT_TEXT.most_bytes();
/// Bytes of the prompt of a request to embed.
pub const MAX_PROMPT_BYTES: usize = rules::ENCODE_REQUEST_PROMPT.most_bytes();
/// Bytes of one question.
pub const MAX_QUERY_BYTES: usize = rules::SEARCH_REQUEST_QUERY.most_bytes();
/// Values of a question's vector.
pub const MAX_DIM: usize = rules::SEARCH_REQUEST_VECTOR.most_items();
/// Characters of an index's name.
pub const MAX_INDEX_NAME: usize = rules::SEARCH_REQUEST_INDEX.most_bytes();
/// Hits of one question, `offset` included.
pub const MAX_K: u32 = rules::SEARCH_REQUEST_K.largest();
/// Hits that a cross encoder scores again, of one question.
pub const MAX_RERANK: u32 = rules::SEARCH_REQUEST_RERANK_DEPTH.largest();
/// Requests in one `SearchBatchRequest`.
pub const MAX_BATCH: usize = rules::SEARCH_BATCH_REQUEST_REQUESTS.most_items();
/// Documents in one `UpsertRequest`, and keys in one `DeleteRequest`.
pub const MAX_CHANGED: usize = rules::UPSERT_REQUEST_DOCUMENTS.most_items();
/// Bytes of a document's key.
pub const MAX_KEY_BYTES: usize = rules::EXPLAIN_REQUEST_KEY.most_bytes();
/// Conditions of one filter, those that hold others included.
pub const MAX_FILTER_CONDITIONS: usize = rules::FILTER_LIST_FILTERS.most_items();
/// Values and keys of one filter in all.
pub const MAX_FILTER_VALUES: usize = rules::FIELD_ONE_OF_VALUES.most_items();

/// Pairs of a question and a text that one `SearchBatchRequest` may have scored by a cross encoder.
pub const MAX_BATCH_RERANK: u64 = 10_000;
/// Hits that one `SearchBatchRequest` may ask for in all; those of `MODE_COMPARE` count three times.
pub const MAX_BATCH_HITS: u64 = 200_000;
/// Depth of nested filters: a single condition has depth 1.
pub const MAX_FILTER_DEPTH: usize = 8;
/// Bytes of the largest message that a server sends, or accepts from a batch job: 64 MiB. gRPC's usual 4 MiB is too
/// little for 1024 vectors or long hits; foreign clients must raise their own limit to receive as much.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Bytes of documents or keys in one call that changes an index: 64 MiB.
pub const MAX_CHANGE_BYTES: usize = 64 << 20;
/// Bytes of titles, texts and metadata in one reply: 48 MiB.
pub const MAX_REPLY_DOCUMENT_BYTES: usize = 48 << 20;

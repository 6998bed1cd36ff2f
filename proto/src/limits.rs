//! Maxima shared by clients and servers. A request above one of them is refused with the field's name and the limit.

/// Texts in one `EncodeRequest`.
pub const MAX_TEXTS: usize = 1024;
/// Bytes of one text to embed: 1 MiB. Tokens behind the model's maximum are cut anyway.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of one question: 32 KiB.
pub const MAX_QUERY_BYTES: usize = 32 << 10;
/// Hits of one question.
pub const MAX_K: u32 = 10_000;
/// Beam width of one walk.
pub const MAX_EF: u32 = 10_000;
/// Constant of reciprocal rank fusion.
pub const MAX_RRF_K: u32 = 1_000_000;
/// Requests in one `SearchBatchRequest`.
pub const MAX_BATCH: usize = 1024;
/// Hits that one `SearchBatchRequest` may ask for in all; those of `MODE_COMPARE` count three times.
pub const MAX_BATCH_HITS: u64 = 200_000;
/// Filters inside of one another: a lone condition is 1 deep.
pub const MAX_FILTER_DEPTH: usize = 8;
/// Conditions of one filter, those that hold others included.
pub const MAX_FILTER_CONDITIONS: usize = 256;
/// Values and keys of one filter in all.
pub const MAX_FILTER_VALUES: usize = 10_000;
/// Bytes of a field's name in a filter.
pub const MAX_FILTER_FIELD_BYTES: usize = 256;
/// Bytes of a text that a field is compared with.
pub const MAX_FILTER_TEXT_BYTES: usize = 1024;
/// Keys in one `GetDocumentsRequest`.
pub const MAX_KEYS: usize = 1024;
/// Bytes of one message, both ways: 64 MiB. gRPC's usual 4 MiB is too little for 1024 vectors or long hits; foreign
/// clients must raise their own limit to receive as much.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

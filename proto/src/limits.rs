//! Maxima shared by clients and servers. A request above one of them is refused with the field's name and the limit.

/// Texts in one `EncodeRequest` or `ScoreRequest`.
pub const MAX_TEXTS: usize = 1024;
/// Bytes of one text to embed: 1 MiB. Tokens beyond the model's maximum are truncated anyway.
pub const MAX_TEXT_BYTES: usize = 1 << 20;
/// Bytes of one document of which texts to embed are passages: 1 MiB. All of it is tokenized.
pub const MAX_DOCUMENT_BYTES: usize = 1 << 20;
/// Least and largest weight of the tokens of a passage in its document.
pub const LATE_WEIGHT: std::ops::RangeInclusive<f32> = 0.01..=10.0;
/// Bytes of one question: 32 KiB.
pub const MAX_QUERY_BYTES: usize = 32 << 10;
/// Values of a question's vector.
pub const MAX_DIM: usize = 65_536;
/// Bytes of a model's fingerprint.
pub const MAX_FINGERPRINT_BYTES: usize = 1024;
/// Characters of an index's name.
pub const MAX_INDEX_NAME: usize = 64;
/// Hits of one question.
pub const MAX_K: u32 = 10_000;
/// Stored fields that one request names.
pub const MAX_FIELDS: usize = 64;
/// Fewest and most bytes of a snippet.
pub const SNIPPET_BYTES: std::ops::RangeInclusive<u32> = 16..=4096;
/// Fewest and most bytes of what stands around a passage.
pub const SURROUNDING_BYTES: std::ops::RangeInclusive<u32> = 16..=65_536;
/// Hits that a cross encoder scores again, of one question.
pub const MAX_RERANK: u32 = 1000;
/// Pairs of a question and a text that one `SearchBatchRequest` may have scored by a cross encoder.
pub const MAX_BATCH_RERANK: u64 = 10_000;
/// Hits of one group.
pub const MAX_GROUP_HITS: u32 = 100;
/// Beam width of one search.
pub const MAX_EF: u32 = 10_000;
/// Constant of reciprocal rank fusion.
pub const MAX_RRF_K: u32 = 1_000_000;
/// Weight of a document's BM25 in the scores of its passages.
pub const MAX_DOCUMENT_WEIGHT: f64 = 10.0;
/// Requests in one `SearchBatchRequest`.
pub const MAX_BATCH: usize = 1024;
/// Hits that one `SearchBatchRequest` may ask for in all; those of `MODE_COMPARE` count three times.
pub const MAX_BATCH_HITS: u64 = 200_000;
/// Depth of nested filters: a single condition has depth 1.
pub const MAX_FILTER_DEPTH: usize = 8;
/// Conditions of one filter, those that hold others included.
pub const MAX_FILTER_CONDITIONS: usize = 256;
/// Values and keys of one filter in all.
pub const MAX_FILTER_VALUES: usize = 10_000;
/// Bytes of a field's name in a filter.
pub const MAX_FILTER_FIELD_BYTES: usize = 256;
/// Bytes of a text that a field is compared with.
pub const MAX_FILTER_TEXT_BYTES: usize = 1024;
/// Bytes of a whole number that a field is compared with: those of the largest doubles.
pub const MAX_FILTER_INTEGER_BYTES: usize = 310;
/// Keys in one `GetDocumentsRequest`.
pub const MAX_KEYS: usize = 1024;
/// Documents in one `SampleDocumentsRequest`.
pub const MAX_SAMPLE: u32 = 1000;
/// Bytes of the largest message that a server sends, or accepts from a batch job: 64 MiB. gRPC's usual 4 MiB is too little
/// for 1024 vectors or long hits; foreign clients must raise their own limit to receive as much.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Bytes of one `EncodeRequest` or `ScoreRequest`: 32 MiB, 1024 texts of 32 KiB each.
pub const MAX_ENCODE_BYTES: usize = 32 << 20;
/// Bytes of one `SearchBatchRequest`: 16 MiB.
pub const MAX_SEARCH_BATCH_BYTES: usize = 16 << 20;
/// Bytes of one `SearchRequest` or `GetDocumentsRequest`: 4 MiB, of which a question takes 32 KiB and a filter the rest.
pub const MAX_SEARCH_BYTES: usize = 4 << 20;
/// Documents in one `UpsertRequest`, and keys in one `DeleteRequest`.
pub const MAX_CHANGED: usize = 1024;
/// Bytes of documents or keys in one call that changes an index: 64 MiB.
pub const MAX_CHANGE_BYTES: usize = 64 << 20;
/// Bytes of a document's key.
pub const MAX_KEY_BYTES: usize = 4096;
/// Bytes of any other request: 64 KiB.
pub const MAX_OTHER_BYTES: usize = 64 << 10;
/// Strings and messages in one `SearchRequest`, at every depth: those of the largest filter.
pub const MAX_SEARCH_ELEMENTS: usize = 32_768;
/// Strings and messages in one `SearchBatchRequest`, at every depth.
pub const MAX_SEARCH_BATCH_ELEMENTS: usize = 524_288;
/// Strings and messages in any other request.
pub const MAX_OTHER_ELEMENTS: usize = 4096;
/// Bytes of titles, texts and metadata in one reply: 48 MiB.
pub const MAX_REPLY_DOCUMENT_BYTES: usize = 48 << 20;

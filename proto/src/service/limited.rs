//! Services with dyad's message limits instead of gRPC's 4 MiB. Each method's own limit is checked earlier, while its
//! bytes arrive.

use crate::limits::MAX_MESSAGE_BYTES;
use crate::v1::admin_server::{Admin, AdminServer};
use crate::v1::encoder_server::{Encoder, EncoderServer};
use crate::v1::index_server::{Index, IndexServer};
use crate::v1::leaf_server::{Leaf, LeafServer};
use crate::v1::searcher_server::{Searcher, SearcherServer};

/// An encoder that sends up to [`MAX_MESSAGE_BYTES`].
pub fn encoder<T: Encoder>(service: T) -> EncoderServer<T> {
    EncoderServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A searcher that sends up to [`MAX_MESSAGE_BYTES`].
pub fn searcher<T: Searcher>(service: T) -> SearcherServer<T> {
    SearcherServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// An admin service that sends up to [`MAX_MESSAGE_BYTES`].
pub fn admin<T: Admin>(service: T) -> AdminServer<T> {
    AdminServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// An index service that takes messages of up to [`MAX_MESSAGE_BYTES`].
pub fn index<T: Index>(service: T) -> IndexServer<T> {
    IndexServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A leaf that takes and sends up to [`MAX_MESSAGE_BYTES`].
pub fn leaf<T: Leaf>(service: T) -> LeafServer<T> {
    LeafServer::new(service)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

//! The protocol between dyad's processes: generated code for `dyad.v1`, and everything on the wire that clients and
//! servers must agree on.
//!
//! | module | contents |
//! |---|---|
//! | [`v1`] | messages, clients and servers generated from `proto/dyad/v1/*.proto` |
//! | [`access`] | API keys, roles, and what they restrict callers to |
//! | [`admission`] | how much may be under way at once |
//! | `defaults` | what requests leave out |
//! | `enums` | words for the values of enums |
//! | [`vector`] | packing of vectors as bytes |
//! | [`rules`] | what fields and methods may hold, from the options of the `.proto` files |
//! | [`json`] | messages as JSON |
//! | [`limits`] | maxima shared by clients and servers |
//! | [`pushback`] | the hint of a server that is too busy |
//! | [`status`] | names of gRPC's statuses |
//! | [`validate`] | validation of requests, field by field |
//! | [`client`] | clients with deadlines and bounded retries |
//! | `trace_context` | traces across servers (feature `otlp`) |
//! | [`service`] | the server: every server is built here |

pub mod access;
pub mod admission;
pub mod client;
mod defaults;
mod enums;
pub mod json;
pub mod limits;
pub mod pushback;
pub mod rules;
pub mod service;
pub mod status;
pub mod strict_json;
mod trace_context;
pub mod validate;
pub mod vector;

/// Generated from `proto/dyad/v1/*.proto`.
#[expect(
    missing_docs,
    clippy::pedantic,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code; its documentation is the comments of the .proto files"
)]
pub mod v1 {
    tonic::include_proto!("dyad.v1");

    /// The compiled `.proto` files, for server reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("dyad.v1");
}

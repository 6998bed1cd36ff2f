//! A whole searcher over a small index, with a stand-in for the encoder service: called through gRPC and the command
//! line.
#![expect(clippy::unwrap_used, reason = "tests")]

mod access;
mod access_keys;
mod admin;
mod changes;
mod command_line;
mod configuration;
mod cross_encoder;
mod damage;
mod dimensions;
mod encoder_service;
mod explain;
mod faults;
mod fields;
mod filter_cache;
mod filters;
mod fixture;
mod gather;
mod groups;
mod guarded;
mod http;
mod http_client;
mod http_refusals;
mod index_towers;
mod indexes;
mod indexes_served;
#[cfg(feature = "torch")]
mod languages;
mod learn;
mod leaves;
mod leaves_documents;
mod leaves_failures;
mod leaves_fixture;
mod leaves_generations;
mod leaves_security;
mod limits;
#[cfg(feature = "torch")]
mod local;
mod log_odds;
mod mcp;
mod mcp_client;
mod mcp_keys;
mod mcp_refusals;
mod memory;
mod min_max;
mod operations;
mod page;
mod pages;
mod passage_documents;
#[path = "../../../proto/tests/it/pki.rs"]
mod pki;
mod proxy;
mod question_cache;
mod read_back;
mod read_back_access;
mod read_back_commands;
mod read_back_fields;
mod read_back_properties;
mod refusals;
mod reloads;
mod rerank;
mod rerank_gain;
mod rerank_weight;
mod samples;
mod search;
mod several_indexes;
mod short_requests;
mod snippets;
mod stores;
mod surrounding;
mod tenants;
mod vectors;

// Of `pki`, whose file is the tests' of dyad-proto.
use rcgen as _;

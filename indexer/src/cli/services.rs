//! Encoder services as commands call them, and what of their documents passages are read in.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_index::manifest;
use dyad_indexer::source::{RemoteConfig, RemoteSource};
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials};
use dyad_proto::v1;

/// Encoder services of one model, and how they are called.
pub(super) struct ServiceCalls<'a> {
    pub(super) urls: &'a [String],
    pub(super) tower: v1::Tower,
    pub(super) context: PassageContext,
    pub(super) batch_texts: usize,
    pub(super) timeout: Duration,
    pub(super) credentials: &'a CredentialOptions,
}

impl ServiceCalls<'_> {
    pub(super) fn connect(&self, cancel: &JobCancellation) -> anyhow::Result<RemoteSource> {
        let client = ClientConfig {
            call_timeout: self.timeout,
            credentials: Credentials::open(self.credentials)?,
            ..ClientConfig::default()
        };
        let config = RemoteConfig {
            batch_texts: self.batch_texts,
            client,
            tower: self.tower,
            context: self.context,
            ..RemoteConfig::default()
        };
        Ok(RemoteSource::connect_all(self.urls, config, cancel)?)
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ContextArguments {
    /// What of its document reaches a passage's vector: its `title` before it; its tokens where the model has read all
    /// of the document (`late`, of passages of documents: with `--split` or `--documents`; a weight after a colon, 0.5
    /// by default); both (`title+late`); or `none`. By default as in the index, or `title`
    #[arg(long, value_name = "CONTEXT[:WEIGHT]")]
    context: Option<PassageContext>,
}

impl ContextArguments {
    /// As asked for.
    pub(super) fn given(&self) -> Option<PassageContext> {
        self.context
    }

    /// As asked for, or that of an index.
    pub(super) fn or_of(&self, index: &Path) -> anyhow::Result<PassageContext> {
        match self.context {
            Some(context) => Ok(context),
            None => context_of(index),
        }
    }
}

/// The context of an index's vectors; the default where there is no index yet.
pub(super) fn context_of(index: &Path) -> anyhow::Result<PassageContext> {
    let Ok(manifest) = manifest::current(index) else {
        return Ok(PassageContext::default());
    };
    PassageContext::of_stored(manifest.context.as_deref())
        .map_err(anyhow::Error::msg)
        .with_context(|| format!("context of generation {} of `{}`", manifest.generation, index.display()))
}

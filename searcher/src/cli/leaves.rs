//! `--leaves`: where the shards of the indexes are held.

use std::sync::Arc;

use clap::Args;
use dyad_proto::client::{ClientConfig, Credentials};

use crate::error::Result;
use crate::leaves::{HeldShards, Leaves};

/// The leaves of a root.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leaves")]
pub(super) struct LeavesOptions {
    /// Address of leaves (`dyad-searcher leaf`), `http://HOST:PORT` or `https://HOST:PORT`: they hold the shards, and
    /// this server is a root that asks them. A name with several addresses is as many leaves, and is looked up again
    /// every few seconds. May be given several times.
    #[arg(long = "leaves", value_name = "URL", env = "DYAD_LEAVES", value_delimiter = ',')]
    urls: Vec<String>,
    /// With `--leaves`: how many must hold each shard of a generation before it is served.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    replicas: u32,
}

impl LeavesOptions {
    /// Whether this server asks leaves.
    pub(super) fn is_root(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Which shards this server opens.
    pub(super) fn held(&self) -> HeldShards {
        if self.is_root() {
            HeldShards::None
        } else {
            HeldShards::All
        }
    }

    /// The leaves, where there are any.
    pub(super) fn open(&self, credentials: Credentials) -> Result<Option<Arc<Leaves>>> {
        if !self.is_root() {
            return Ok(None);
        }
        let config = ClientConfig::for_questions(credentials);
        Ok(Some(Arc::new(Leaves::new(&self.urls, self.replicas as usize, config)?)))
    }
}

//! How encoder services are called.

use std::time::Duration;

use dyad_corpus::PassageContext;
use dyad_proto::client::ClientConfig;
use dyad_proto::v1;

/// How to use an encoder service.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Most texts per batch, 1 to [`dyad_proto::limits::MAX_TEXTS`].
    pub batch_texts: usize,
    /// Most batches in flight, to each service.
    pub in_flight: usize,
    /// How long a service that has failed gets no batches where there are others.
    pub away: Duration,
    /// Deadlines and retries of each call.
    pub client: ClientConfig,
    /// Which tower embeds.
    pub tower: v1::Tower,
    /// What of its document reaches a passage's vector.
    pub context: PassageContext,
}

impl Default for RemoteConfig {
    fn default() -> Self {
        Self {
            batch_texts: 256,
            in_flight: 4,
            away: Duration::from_mins(1),
            client: ClientConfig::default(),
            tower: v1::Tower::Answer,
            context: PassageContext::default(),
        }
    }
}

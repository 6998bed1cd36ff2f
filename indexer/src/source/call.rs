//! One batch to one of several encoder services: whichever is there.

use std::time::{Duration, Instant};

use dyad_proto::client::{ClientConfig, ClientError, EncoderClient};
use dyad_proto::v1;
use tonic::Code;

use super::absence::{Absence, ServicePresence};

/// For a service that was away to say which model it has.
const PROBE_TIME: Duration = Duration::from_secs(5);

/// An encoder service, and whether it is away.
#[derive(Debug, Clone)]
pub(super) struct CalledService {
    pub(super) client: EncoderClient,
    pub(super) absence: Absence,
}

/// A reply that is not as it has to be.
pub(super) fn contract(url: String, reason: String) -> ClientError {
    ClientError::Contract { url, reason }
}

/// One batch, with the client's deadline and retries, and the URL of the service that has answered. On top of these, a
/// connection that breaks under a call is retried: the next call connects again, or fails because no server answers;
/// then the next service is asked. Those that are away come last.
pub(super) async fn encode(
    services: Vec<CalledService>,
    request: v1::EncodeRequest,
    config: ClientConfig,
    fingerprint: String,
) -> Result<(String, v1::EncodeResponse), ClientError> {
    let (mut first, mut away) = (Vec::with_capacity(services.len()), Vec::new());
    for service in services {
        match service.absence.turn(Instant::now()) {
            ServicePresence::Present => first.push(service),
            // It is asked first, for the others would answer in its place.
            ServicePresence::Probe if is_back(&service, &fingerprint).await => first.insert(0, service),
            ServicePresence::Probe | ServicePresence::Away => away.push(service),
        }
    }
    first.append(&mut away);
    let mut services = first.into_iter().peekable();
    let mut last = contract(String::new(), "no service".to_owned());
    while let Some(service) = services.next() {
        let (sent, mut tries_left) = (Instant::now(), config.attempts.saturating_sub(1));
        last = loop {
            match service.client.encode(request.clone()).await {
                Ok(reply) => {
                    service.absence.answered(Instant::now());
                    return Ok((service.client.url().to_owned(), reply));
                }
                Err(ClientError::Broken { .. }) if tries_left > 0 => {
                    tries_left -= 1;
                    tokio::time::sleep(config.first_wait).await;
                }
                Err(error) => break error,
            }
        };
        if !is_of_one_service(&last) {
            break;
        }
        if !matches!(
            last,
            ClientError::Refused {
                code: Code::ResourceExhausted,
                ..
            }
        ) {
            service.absence.failed(sent, Instant::now());
        }
        if services.peek().is_none() {
            break;
        }
        tracing::warn!("{last}; its batch goes to another service");
    }
    Err(last)
}

/// Whether a service that was away answers, with the same model.
async fn is_back(service: &CalledService, fingerprint: &str) -> bool {
    let info = tokio::time::timeout(PROBE_TIME, service.client.info()).await;
    info.is_ok_and(|info| info.is_ok_and(|info| info.fingerprint == fingerprint))
}

/// Whether another service may still take what this one has not.
fn is_of_one_service(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { .. } | ClientError::Broken { .. } | ClientError::Deadline { .. } => true,
        ClientError::Refused { code, .. } => {
            matches!(
                code,
                Code::ResourceExhausted | Code::Unavailable | Code::Internal | Code::Unknown | Code::Cancelled
            )
        }
        _ => false,
    }
}

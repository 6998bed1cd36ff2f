//! `Leaf`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_proto::service::UntilSent;
use dyad_proto::service::deadline::{timeout, within_deadline};
use dyad_proto::v1::leaf_server::Leaf;
use dyad_proto::{v1, validate};
use futures_util::{Stream, StreamExt as _, stream};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::run::{Engine, HeldVersion, ReplyBudget};

/// Between two looks at what is held.
const LOOK: Duration = Duration::from_millis(100);
/// Looks between two reports where nothing has changed.
const LOOKS_PER_REPORT: u32 = 10;

/// The service.
#[derive(Debug, Clone)]
pub struct LeafService {
    engine: Arc<Engine>,
    name: Arc<str>,
    is_leaving: Arc<AtomicBool>,
    lame_duck: Duration,
}

impl LeafService {
    /// A service around an engine; once `is_leaving` is true, roots are told so, and their watches end after
    /// `lame_duck`.
    pub fn new(engine: Arc<Engine>, name: &str, is_leaving: Arc<AtomicBool>, lame_duck: Duration) -> Self {
        Self {
            engine,
            name: name.into(),
            is_leaving,
            lame_duck,
        }
    }

    fn version(&self) -> ReportVersion {
        ReportVersion {
            held: self.engine.held_version(),
            is_leaving: self.is_leaving.load(Ordering::Relaxed),
        }
    }

    /// The next report: as soon as something has changed, and after a second otherwise. None after the one that says
    /// that the leaf leaves.
    async fn next_report(self, before: Option<ReportVersion>) -> Option<(v1::LeafReport, ReportVersion)> {
        let mut now = self.version();
        if before.as_ref().is_some_and(|before| before.is_leaving) {
            tokio::time::sleep(self.lame_duck).await;
            return None;
        }
        if let Some(before) = before {
            for _ in 0..LOOKS_PER_REPORT {
                if now != before {
                    break;
                }
                tokio::time::sleep(LOOK).await;
                now = self.version();
            }
            if now == before {
                let unchanged = v1::LeafReport {
                    is_unchanged: true,
                    ..v1::LeafReport::default()
                };
                return Some((unchanged, now));
            }
        }
        let report = v1::LeafReport {
            leaf: self.name.to_string(),
            generations: self.engine.held_generations(),
            is_leaving: now.is_leaving,
            refused: self.engine.refused_shards(),
            ..v1::LeafReport::default()
        };
        Some((report, now))
    }
}

/// What reports depend on.
#[derive(Debug, Clone, PartialEq)]
struct ReportVersion {
    held: HeldVersion,
    is_leaving: bool,
}

fn time(metadata: &MetadataMap) -> Option<Duration> {
    timeout(metadata).map(within_deadline)
}

/// A reply whose documents take of the memory of replies until it is sent.
fn until_sent<T>(reply: T, budget: ReplyBudget) -> Response<T> {
    let mut response = Response::new(reply);
    response.extensions_mut().insert(UntilSent::new(budget));
    response
}

#[tonic::async_trait]
impl Leaf for LeafService {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<v1::LeafReport, Status>> + Send>>;

    async fn watch(&self, _: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let service = self.clone();
        let reports = stream::unfold(None, move |before| {
            let service = service.clone();
            async move {
                let (report, version) = service.next_report(before).await?;
                Some((report, Some(version)))
            }
        });
        Ok(Response::new(Box::pin(reports.map(Ok))))
    }

    async fn terms(&self, request: Request<v1::TermsRequest>) -> Result<Response<v1::TermsResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::fields(&request)?;
        Ok(Response::new(self.engine.leaf_terms(request, time).await?))
    }

    async fn search(
        &self,
        request: Request<v1::LeafSearchRequest>,
    ) -> Result<Response<v1::LeafSearchResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::leaf_search_request(&request)?;
        let (found, budget) = self.engine.leaf_search(request, time).await?;
        Ok(until_sent(found, budget))
    }

    async fn read(&self, request: Request<v1::LeafReadRequest>) -> Result<Response<v1::LeafReadResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::fields(&request)?;
        let (read, budget) = self.engine.leaf_read(request, time).await?;
        Ok(until_sent(read, budget))
    }

    async fn explain(
        &self,
        request: Request<v1::LeafExplainRequest>,
    ) -> Result<Response<v1::LeafExplainResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::leaf_explain_request(&request)?;
        Ok(Response::new(self.engine.leaf_explain(request, time).await?))
    }

    async fn other_groups(
        &self,
        request: Request<v1::OtherGroupsRequest>,
    ) -> Result<Response<v1::OtherGroupsResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::fields(&request)?;
        Ok(Response::new(self.engine.leaf_other_groups(request, time).await?))
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<v1::FetchResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::fields(&request)?;
        let (fetched, budget) = self.engine.leaf_fetch(request, time).await?;
        Ok(until_sent(fetched, budget))
    }
}

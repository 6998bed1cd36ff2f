//! `Searcher`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::service::deadline::{in_time, timeout};
use dyad_proto::v1::searcher_server::Searcher;
use dyad_proto::{v1, validate};
use futures_util::{Stream, StreamExt as _};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::convert;
use crate::run::Engine;

/// Requests of one stream that are answered at the same time.
const STREAM_WIDTH: usize = 16;

/// The service.
#[derive(Debug, Clone)]
pub struct SearchService {
    engine: Arc<Engine>,
}

impl SearchService {
    /// Around an engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

/// What the client's deadline leaves.
fn time(metadata: &MetadataMap) -> Option<Duration> {
    timeout(metadata).map(in_time)
}

#[tonic::async_trait]
impl Searcher for SearchService {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::search_request(&request)?;
        Ok(Response::new(convert::answer(self.engine.search(request, time).await?)))
    }

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::search_batch_request(&request)?;
        let answers = self.engine.search_batch(request.requests, time).await?;
        Ok(Response::new(v1::SearchBatchResponse { responses: answers.into_iter().map(convert::answer).collect() }))
    }

    type SearchStreamStream = Pin<Box<dyn Stream<Item = Result<v1::SearchStreamResponse, Status>> + Send>>;

    async fn search_stream(
        &self,
        request: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchStreamStream>, Status> {
        let engine = Arc::clone(&self.engine);
        let replies = request.into_inner().map(move |request| {
            let engine = Arc::clone(&engine);
            async move {
                let request = request?;
                validate::search_request(&request)?;
                let id = request.id;
                let response = convert::answer(engine.search(request, None).await?);
                Ok(v1::SearchStreamResponse { id, response: Some(response) })
            }
        });
        Ok(Response::new(Box::pin(replies.buffered(STREAM_WIDTH))))
    }

    async fn get_documents(
        &self,
        request: Request<v1::GetDocumentsRequest>,
    ) -> Result<Response<v1::GetDocumentsResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::get_documents_request(&request)?;
        let (documents, missing) = self.engine.documents(request.keys, time).await?;
        let documents = documents.into_iter().map(convert::document).collect();
        Ok(Response::new(v1::GetDocumentsResponse { documents, missing }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let time = time(request.metadata());
        let request = request.into_inner();
        validate::explain_request(&request)?;
        let (explanation, generation) = self.engine.explain(request, time).await?;
        Ok(Response::new(convert::explanation(explanation, generation)))
    }
}

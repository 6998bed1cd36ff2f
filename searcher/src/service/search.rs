//! `Searcher`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

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

/// The client's deadline: `grpc-timeout` is up to eight digits and a unit.
fn deadline(metadata: &MetadataMap) -> Option<Duration> {
    let text = metadata.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

#[tonic::async_trait]
impl Searcher for SearchService {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        let time = deadline(request.metadata());
        let request = request.into_inner();
        validate::search_request(&request)?;
        Ok(Response::new(convert::answer(self.engine.search(request, time).await?)))
    }

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let time = deadline(request.metadata());
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
        let request = request.into_inner();
        validate::get_documents_request(&request)?;
        let (documents, missing) = self.engine.documents(request.keys).await?;
        let documents = documents.into_iter().map(convert::document).collect();
        Ok(Response::new(v1::GetDocumentsResponse { documents, missing }))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let request = request.into_inner();
        validate::explain_request(&request)?;
        let (explanation, generation) = self.engine.explain(request.query, request.key, request.ef).await?;
        Ok(Response::new(convert::explanation(explanation, generation)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_read_as_grpc_writes_them() {
        let read = |text: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("grpc-timeout", text.parse().unwrap());
            deadline(&metadata)
        };
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("3S"), Some(Duration::from_secs(3)));
        assert_eq!(read("5000u"), Some(Duration::from_millis(5)));
        for wrong in ["", "S", "12", "12x", "-1S", "123456789S"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        assert_eq!(deadline(&MetadataMap::new()), None);
    }
}

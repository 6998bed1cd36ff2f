//! `Searcher`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::access::Caller;
use dyad_proto::service::UntilSent;
use dyad_proto::service::deadline::{timeout, within_deadline};
use dyad_proto::v1::searcher_server::Searcher;
use dyad_proto::{v1, validate};
use futures_util::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status, Streaming};

use super::search_stream::StreamSearch;
use super::slow_call::SlowCall;
use crate::run::{Answer, Engine, QueuePolicy, ReplyBudget};

/// The service.
#[derive(Debug, Clone)]
pub struct SearchService {
    engine: Arc<Engine>,
}

impl SearchService {
    /// A service around an engine.
    pub fn new(engine: Arc<Engine>) -> Self {
        Self { engine }
    }
}

/// The time that the client's deadline leaves.
fn time(metadata: &MetadataMap) -> Option<Duration> {
    timeout(metadata).map(within_deadline)
}

/// A reply that holds its budget of the reply memory until it is sent.
fn reply<T>(message: T, budget: ReplyBudget) -> Response<T> {
    let mut response = Response::new(message);
    response.extensions_mut().insert(UntilSent::new(budget));
    response
}

#[tonic::async_trait]
impl Searcher for SearchService {
    async fn search(&self, request: Request<v1::SearchRequest>) -> Result<Response<v1::SearchResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner().with_defaults();
        validate::search_request(&request)?;
        let slow = SlowCall::of_search(&self.engine, &caller, "Searcher.Search", &request);
        let answered = self.engine.search(request, &caller, time, QueuePolicy::Refused).await;
        let answered = answered.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_search(&answered);
        let (answer, budget) = answered?;
        Ok(reply(answer.into_response(), budget))
    }

    async fn search_batch(
        &self,
        request: Request<v1::SearchBatchRequest>,
    ) -> Result<Response<v1::SearchBatchResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let mut request = request.into_inner();
        let requests = request.requests.into_iter().map(v1::SearchRequest::with_defaults);
        request.requests = requests.collect();
        validate::search_batch_request(&request)?;
        let index = request.requests.first().map_or("", |first| &first.index);
        let slow = SlowCall::of_searches(&self.engine, &caller, "Searcher.SearchBatch", index, &request.requests);
        let answered = self.engine.search_batch(request.requests, &caller, time).await;
        let answered = answered.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end(answered.as_ref().map(|(answers, _)| answers.iter()));
        let (answers, budget) = answered?;
        let responses = answers.into_iter().map(Answer::into_response).collect();
        Ok(reply(v1::SearchBatchResponse { responses }, budget))
    }

    type SearchStreamStream = Pin<Box<dyn Stream<Item = Result<v1::SearchStreamResponse, Status>> + Send>>;

    async fn search_stream(
        &self,
        request: Request<Streaming<v1::SearchRequest>>,
    ) -> Result<Response<Self::SearchStreamStream>, Status> {
        let caller = Caller::of(&request)?;
        let search = StreamSearch::new(Arc::clone(&self.engine), caller, request.metadata());
        let replies = search.replies(request.into_inner());
        Ok(Response::new(Box::pin(replies)))
    }

    async fn get_documents(
        &self,
        request: Request<v1::GetDocumentsRequest>,
    ) -> Result<Response<v1::GetDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::fields(&request)?;
        let slow = SlowCall::new(&self.engine, &caller, "Searcher.GetDocuments", &request.index);
        let read = self.engine.documents(request, &caller, time).await;
        let read = read.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&read);
        let (documents, budget) = read?;
        Ok(reply(documents, budget))
    }

    async fn sample_documents(
        &self,
        request: Request<v1::SampleDocumentsRequest>,
    ) -> Result<Response<v1::SampleDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::sample_documents_request(&request)?;
        let slow = SlowCall::new(&self.engine, &caller, "Searcher.SampleDocuments", &request.index);
        let sampled = self.engine.sample(request, &caller, time).await;
        let sampled = sampled.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&sampled);
        let (sample, budget) = sampled?;
        Ok(reply(sample, budget))
    }

    async fn scroll_documents(
        &self,
        request: Request<v1::ScrollDocumentsRequest>,
    ) -> Result<Response<v1::ScrollDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner().with_defaults();
        validate::scroll_documents_request(&request)?;
        let slow = SlowCall::new(&self.engine, &caller, "Searcher.ScrollDocuments", &request.index);
        let read = self.engine.scroll(request, &caller, time).await;
        let read = read.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&read);
        let (page, budget) = read?;
        Ok(reply(page, budget))
    }

    async fn count_documents(
        &self,
        request: Request<v1::CountDocumentsRequest>,
    ) -> Result<Response<v1::CountDocumentsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::count_documents_request(&request)?;
        let slow = SlowCall::new(&self.engine, &caller, "Searcher.CountDocuments", &request.index);
        let counted = self.engine.count(request, &caller, time).await;
        let counted = counted.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&counted);
        Ok(Response::new(counted?))
    }

    async fn list_fields(
        &self,
        request: Request<v1::ListFieldsRequest>,
    ) -> Result<Response<v1::ListFieldsResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let request = request.into_inner();
        validate::fields(&request)?;
        let slow = SlowCall::new(&self.engine, &caller, "Searcher.ListFields", &request.index);
        let listed = self.engine.fields(request, &caller, time).await;
        let listed = listed.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&listed);
        Ok(Response::new(listed?))
    }

    async fn explain(&self, request: Request<v1::ExplainRequest>) -> Result<Response<v1::ExplainResponse>, Status> {
        let (time, caller) = (time(request.metadata()), Caller::of(&request)?);
        let mut request = request.into_inner();
        request.search = request.search.map(v1::SearchRequest::with_defaults);
        validate::explain_request(&request)?;
        let search = request.search.unwrap_or_default();
        let slow = SlowCall::of_search(&self.engine, &caller, "Searcher.Explain", &search);
        let explained = self.engine.explain(search, request.key, &caller, time).await;
        let explained = explained.map_err(|error| Status::from(error.told_to(&caller)));
        slow.end_without_times(&explained);
        let (explanation, budget) = explained?;
        Ok(reply(explanation, budget))
    }
}

//! Judged questions, asked of an index in this process.

use std::time::Duration;

use anyhow::{Context as _, bail};
use dyad_corpus::queries::KeyedQuery;
use dyad_proto::access::Caller;
use dyad_proto::v1;

use crate::run::{Answer, Engine};

/// Time for one call: minutes on a slow machine.
const CALL: Duration = Duration::from_mins(10);

/// The answers to questions, which must not lack anything. `request` has all but the question.
pub(super) async fn answers(
    engine: &Engine,
    questions: &[KeyedQuery],
    request: &v1::SearchRequest,
) -> anyhow::Result<Vec<Answer>> {
    let request = |question: &KeyedQuery| v1::SearchRequest {
        query: question.text.clone(),
        ..request.clone()
    };
    let requests: Vec<v1::SearchRequest> = questions.iter().map(request).collect();
    for (request, question) in requests.iter().zip(questions) {
        dyad_proto::validate::search_request(request).with_context(|| format!("query `{}`", question.key))?;
    }
    let (answers, _) = Box::pin(engine.search_batch(requests, &Caller::default(), Some(CALL))).await?;
    for (answer, question) in answers.iter().zip(questions) {
        if answer.response.degraded {
            bail!("query `{}`: {}", question.key, answer.response.degraded_reason);
        }
    }
    Ok(answers)
}

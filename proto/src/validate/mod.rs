//! Validates requests field by field; a violation names the field, the limit and the value.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | every other request |
//! | `changes.rs` | changes of documents |
//! | `fields.rs` | single fields, by the rules of the `.proto` files |
//! | `index.rs` | names of indexes |
//! | `leaf.rs` | requests of roots to leaves |
//! | `passages.rs` | documents of which texts to embed are passages |
//! | `rerank.rs` | what a cross encoder scores of a search |
//! | `search.rs` | searches, alone and in batches |
//! | `violations.rs` | the list of violations |
//! | `filter.rs` | filters of any depth |

mod changes;
mod fields;
mod filter;
mod index;
mod leaf;
mod passages;
mod rerank;
mod search;
mod violations;

use self::search::search_fields;
use crate::v1;

pub use changes::{delete_request, upsert_request};
pub use fields::{CheckFields, fields};
pub use filter::key_filter;
pub use index::{folder_name, index_name, named_path};
pub use leaf::{leaf_explain_request, leaf_search_request};
pub use search::{ranking_depth, search_batch_request, search_request};
pub use violations::{Check, Violation, Violations};

/// Checks a batch of texts to embed.
pub fn encode_request(request: &v1::EncodeRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    passages::passages(&mut check, request);
    if request.prompt.is_some() && !request.prompt_name.is_empty() {
        check.fail("prompt", "expected `prompt` or `prompt_name`, got both");
    }
    check.done()
}

/// Checks a request for documents chosen at random.
pub fn sample_documents_request(request: &v1::SampleDocumentsRequest) -> Result<(), Violations> {
    filtered(request, request.filter.as_ref())
}

/// Checks a request for a page of documents.
pub fn scroll_documents_request(request: &v1::ScrollDocumentsRequest) -> Result<(), Violations> {
    filtered(request, request.filter.as_ref())
}

/// Checks a request for the number of documents.
pub fn count_documents_request(request: &v1::CountDocumentsRequest) -> Result<(), Violations> {
    filtered(request, request.filter.as_ref())
}

/// Checks a request that has a filter next to its fields.
fn filtered(request: &impl CheckFields, filter: Option<&v1::Filter>) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    if let Some(filter) = filter {
        filter::check(&mut check, "filter", filter);
    }
    check.done()
}

/// Checks a request to explain a document.
pub fn explain_request(request: &v1::ExplainRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    match &request.search {
        None => {}
        Some(search) if search.mode() == v1::Mode::Compare => {
            let modes = "MODE_DENSE (1), MODE_BM25 (2) or MODE_HYBRID (3)";
            check.fail(
                "search.mode",
                format!("expected {modes}: a comparison is of all three, explain each"),
            );
        }
        Some(search) => {
            search_fields(&mut check, "search.", search);
            if search.rerank_depth > 0 {
                check.fail("search.rerank_depth", "expected 0: the ranking before it is explained");
            }
        }
    }
    check.done()
}

/// Checks a request to go back to an earlier generation.
pub fn rollback_request(request: &v1::RollbackRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    if request.generation == 0 {
        check.fail(
            "generation",
            "expected the number of a generation, got 0. `Status` names the previous one",
        );
    }
    check.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;

    #[test]
    fn keys_are_asked_for_once() {
        let keys = |keys: &[&str]| v1::GetDocumentsRequest {
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..Default::default()
        };
        assert!(fields(&keys(&["a", "b"])).is_ok());
        let error = fields(&keys(&["a", "b", "a"])).unwrap_err().to_string();
        assert_eq!(
            error,
            "invalid request: `keys[2]`: expected each entry once, got that of `keys[0]` again"
        );
        let long = "x".repeat(limits::MAX_KEY_BYTES + 1);
        let error = fields(&keys(&[&long])).unwrap_err().to_string();
        assert!(error.contains("`keys[0]`: ") && error.len() < 200, "{error}");
    }

    #[test]
    fn a_deletion_has_keys_or_a_filter() {
        let delete = |keys: &[&str], filter: Option<v1::Filter>| {
            let keys = keys.iter().map(|key| (*key).to_owned()).collect();
            let request = v1::DeleteRequest {
                keys,
                filter,
                ..v1::DeleteRequest::default()
            };
            delete_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        let exists = || {
            let condition = v1::filter::Condition::Exists(v1::FieldExists { field: "a".into() });
            Some(v1::Filter {
                condition: Some(condition),
            })
        };
        assert_eq!(
            (delete(&["a"], None), delete(&[], exists())),
            ("fine".into(), "fine".into())
        );
        assert!(delete(&["a"], exists()).contains("`filter`: expected `keys` or `filter`, got both"));
        assert!(delete(&[], None).contains("`keys`: expected 1 to 1024 entries, or a `filter`, got none"));
        assert!(delete(&[" "], None).contains("`keys[0]`"));
        assert!(delete(&[], Some(v1::Filter::default())).contains("`filter`: expected one of"));
    }

    #[test]
    fn every_bad_field_of_a_sample_is_named() {
        let sample = |change: fn(&mut v1::SampleDocumentsRequest)| {
            let mut request = v1::SampleDocumentsRequest {
                count: 1000,
                ..Default::default()
            };
            change(&mut request);
            sample_documents_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(sample(|_| ()), "fine");
        assert!(sample(|r| r.count = 0).contains("`count`: expected 1 to 1000, got 0"));
        assert!(sample(|r| r.count = 1001).contains("`count`: expected 1 to 1000, got 1001"));
        assert!(sample(|r| r.fields = vec![" ".into()]).contains("`fields[0]`: expected text, got none"));
        assert!(sample(|r| r.filter = Some(v1::Filter::default())).contains("`filter`: "));
        assert!(sample(|r| r.index = "a/b".into()).contains("`index`: "));
    }

    #[test]
    fn every_bad_field_of_a_page_and_of_a_count_is_named() {
        let page = |change: fn(&mut v1::ScrollDocumentsRequest)| {
            let mut request = v1::ScrollDocumentsRequest::default().with_defaults();
            assert_eq!(request.page_size, 100);
            change(&mut request);
            scroll_documents_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(page(|_| ()), "fine");
        assert!(page(|r| r.page_size = 1001).contains("`page_size`: expected 1 to 1000, got 1001"));
        assert!(page(|r| r.after_key = "k".repeat(limits::MAX_KEY_BYTES + 1)).contains("`after_key`: "));
        assert!(page(|r| r.fields = vec![" ".into()]).contains("`fields[0]`: expected text, got none"));
        assert!(page(|r| r.filter = Some(v1::Filter::default())).contains("`filter`: "));
        assert!(page(|r| r.index = "a/b".into()).contains("`index`: "));
        let count = v1::CountDocumentsRequest {
            filter: Some(v1::Filter::default()),
            index: "a/b".into(),
        };
        let error = count_documents_request(&count).unwrap_err().to_string();
        assert!(error.contains("`filter`: ") && error.contains("`index`: "), "{error}");
        assert!(count_documents_request(&v1::CountDocumentsRequest::default()).is_ok());
    }

    #[test]
    fn every_bad_field_of_an_explanation_is_named() {
        let explain = |change: fn(&mut v1::ExplainRequest)| {
            let search = v1::SearchRequest {
                query: "why".into(),
                mode: 3,
                k: 10,
                ..Default::default()
            };
            let mut request = v1::ExplainRequest {
                key: "k".into(),
                search: Some(search),
            };
            change(&mut request);
            explain_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(explain(|_| ()), "fine");
        assert!(explain(|r| r.key.clear()).contains("`key`: expected text, got none"));
        assert!(explain(|r| r.search = None).contains("`search`: expected a `SearchRequest`, got none"));
        let search = |change: fn(&mut v1::SearchRequest)| {
            let mut search = v1::SearchRequest {
                query: "why".into(),
                mode: 1,
                k: 10,
                ..Default::default()
            };
            change(&mut search);
            let request = v1::ExplainRequest {
                key: "k".into(),
                search: Some(search),
            };
            explain_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert!(search(|r| r.k = 10_001).contains("`search.k`: expected 1 to 10000, got 10001"));
        assert!(search(|r| r.rerank_depth = 5).contains("`search.rerank_depth`: expected 0"));
        assert!(search(|r| r.mode = 4).contains("`search.mode`: expected MODE_DENSE (1), MODE_BM25 (2) or"));
        assert!(
            search(|r| (r.ef, r.target_recall) = (9, Some(0.9))).contains("`search.target_recall`: expected neither")
        );
    }

    #[test]
    fn bytes_around_a_passage_are_few_or_none() {
        let told = |surrounding_bytes| {
            let (query, mode, k) = ("why".into(), v1::Mode::Bm25.into(), 1);
            let request = v1::SearchRequest {
                query,
                mode,
                k,
                surrounding_bytes,
                ..Default::default()
            };
            search_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".to_owned())
        };
        for bytes in [0, 16, 65_536] {
            assert_eq!(told(bytes), "fine");
        }
        for bytes in [15, 65_537] {
            let told = told(bytes);
            assert!(
                told.contains("`surrounding_bytes`: expected 0 for none, or 16 to 65536"),
                "{told}"
            );
        }
    }

    #[test]
    fn texts_to_embed_are_checked_one_by_one() {
        let request = v1::EncodeRequest {
            tower: 2,
            texts: vec!["a".into(), " ".into()],
            ..Default::default()
        };
        let error = encode_request(&request).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid request: `texts[1]`: expected text, got none"
        );
        let many = v1::EncodeRequest {
            tower: 0,
            texts: vec![String::new(); 5000],
            ..Default::default()
        };
        assert_eq!(encode_request(&many).unwrap_err().0.len(), 16);
        let torn = v1::EncodeRequest {
            tower: 2,
            texts: vec!["a".into()],
            truncation: 2,
            ..Default::default()
        };
        let message = encode_request(&torn).unwrap_err().to_string();
        assert!(message.contains("`truncation`: expected TRUNCATION_TRUNCATE (0)") && message.ends_with("got 2"));
        let status = tonic::Status::from(error);
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn a_prompt_is_a_name_or_a_text() {
        let told = |change: fn(&mut v1::EncodeRequest)| {
            let mut request = v1::EncodeRequest {
                tower: 2,
                texts: vec!["a".into()],
                ..Default::default()
            };
            change(&mut request);
            encode_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(told(|r| r.prompt = Some(String::new())), "fine");
        assert_eq!(told(|r| r.prompt = Some("a".repeat(limits::MAX_PROMPT_BYTES))), "fine");
        assert_eq!(told(|r| r.prompt_name = "query".into()), "fine");
        let long = told(|r| r.prompt = Some("a".repeat(limits::MAX_PROMPT_BYTES + 1)));
        assert!(long.contains("`prompt`: ") && long.contains("16384"), "{long}");
        assert!(told(|r| r.prompt_name = "a".repeat(1025)).contains("`prompt_name`: "));
        let both = |r: &mut v1::EncodeRequest| (r.prompt_name, r.prompt) = ("query".into(), Some(String::new()));
        assert!(told(both).contains("`prompt`: expected `prompt` or `prompt_name`, got both"));
        assert!(told(|r| r.precision = 5).contains("PRECISION_UBINARY (4), got 5"));
    }

    #[test]
    fn a_query_and_the_texts_to_score_for_it_are_checked_one_by_one() {
        let score = |change: fn(&mut v1::ScoreRequest)| {
            let mut request = v1::ScoreRequest {
                query: "why".into(),
                texts: vec!["a".into()],
                ..Default::default()
            };
            change(&mut request);
            fields(&request).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        assert_eq!(score(|_| ()), "fine");
        assert!(score(|r| r.query = " ".into()).contains("`query`: expected text, got none"));
        assert!(score(|r| r.query = "a".repeat(limits::MAX_QUERY_BYTES + 1)).contains("`query`: "));
        assert!(score(|r| r.texts.clear()).contains("`texts`: "));
        assert!(score(|r| r.texts = vec!["a".into(); limits::MAX_TEXTS + 1]).contains("`texts`: "));
        assert!(score(|r| r.texts.push(String::new())).contains("`texts[1]`: expected text, got none"));
        assert!(score(|r| r.truncation = 7).contains("`truncation`: expected TRUNCATION_TRUNCATE (0)"));
    }
}

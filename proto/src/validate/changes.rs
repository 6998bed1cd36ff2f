//! Changes of documents.

use super::{Check, CheckFields as _, Violations, filter};
use crate::{limits, rules, v1};

/// Checks documents to add or replace, but for their metadata, which are left to who parses them.
pub fn upsert_request(request: &v1::UpsertRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    for (number, document) in request.documents.iter().enumerate().take(limits::MAX_CHANGED) {
        changed_document(&mut check, &format!("documents[{number}]"), document);
    }
    given_vectors(&mut check, request);
    expected_documents(&mut check, &request.expected);
    check.done()
}

/// Checks what is to be deleted.
pub fn delete_request(request: &v1::DeleteRequest) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    expected_documents(&mut check, &request.expected);
    match (&request.filter, request.keys.is_empty()) {
        (None, false) => {}
        (Some(filter), true) => filter::check(&mut check, "filter", filter),
        (Some(_), false) => check.fail("filter", "expected `keys` or `filter`, got both"),
        (None, true) => {
            let most = limits::MAX_CHANGED;
            check.fail("keys", format!("expected 1 to {most} entries, or a `filter`, got none"));
        }
    }
    check.done()
}

/// What must be in the index for a change to be made.
fn expected_documents(check: &mut Check, expected: &[v1::ExpectedDocument]) {
    for (number, document) in expected.iter().enumerate().take(limits::MAX_CHANGED) {
        document.check_fields(check, &format!("expected[{number}]."));
    }
}

/// The vectors of documents to add or replace.
fn given_vectors(check: &mut Check, request: &v1::UpsertRequest) {
    let (documents, vectors) = (request.documents.len(), request.vectors.len());
    if vectors == 0 {
        for (name, value) in [("fingerprint", &request.fingerprint), ("context", &request.context)] {
            if !value.is_empty() {
                check.fail(name, "expected none without `vectors`");
            }
        }
        return;
    }
    if vectors != documents {
        let expected = format!("expected as many as `documents`, {documents}, got {vectors}");
        check.fail("vectors", expected);
    }
    if request.fingerprint.is_empty() {
        check.fail(
            "fingerprint",
            "expected that of the model that made `vectors`, got none",
        );
    }
    for (number, vector) in request.vectors.iter().enumerate().take(limits::MAX_CHANGED) {
        let at = format!("vectors[{number}].");
        vector.check_fields(check, &at);
        if let Some(position) = vector.values.iter().position(|value| !value.is_finite()) {
            let value = vector.values[position];
            check.fail(
                format!("{at}values[{position}]"),
                format!("expected a finite number, got {value}"),
            );
        }
    }
}

/// A document to add or replace.
fn changed_document(check: &mut Check, at: &str, document: &v1::Document) {
    check.text(at, ".key", &document.key, &rules::EXPLAIN_REQUEST_KEY);
    if document.key.contains(['\n', '\r', '\0']) {
        let why = "files of keys have one in a line";
        check.fail(
            format!("{at}.key"),
            format!("expected no line break and no zero byte: {why}"),
        );
    }
    let text = if document.text.trim().is_empty() {
        &document.title
    } else {
        &document.text
    };
    check.text(at, ".text", text, &rules::ENCODE_REQUEST_TEXTS);
    let (bytes, limit) = (document.title.len() + document.text.len(), limits::MAX_TEXT_BYTES);
    if bytes > limit {
        check.fail(
            at,
            format!("expected title and text of at most {limit} bytes, got {bytes}"),
        );
    }
}

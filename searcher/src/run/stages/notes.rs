//! Notes of a reply: what a request refers to that does not exist, and what BM25 has left out of it.

use dyad_index::lexical::{MAX_WORD_BYTES, question_note, script_note};
use dyad_index::snapshot::{DocumentHit, Snapshot};

use crate::plan::StoredFields;

/// What BM25 has left out of a question, and what it does not analyse. If it has found something, all words of an
/// ordinary length count.
pub(super) fn notes_of_words(snapshot: &Snapshot, question: &str, found: &[DocumentHit]) -> Vec<String> {
    let language = snapshot.manifest().language;
    let may_leave_out = found.is_empty() || question.len() > MAX_WORD_BYTES;
    let left_out = may_leave_out.then(|| question_note(language, question)).flatten();
    left_out.into_iter().chain(script_note(language, question)).collect()
}

/// Stored fields that were asked for and no document has: hits without them say nothing of a misspelt name. Nothing in
/// a scope: which fields other documents have is theirs.
pub(super) fn notes_of_fields(snapshot: &Snapshot, fields: &StoredFields, has_scope: bool) -> Vec<String> {
    match fields {
        StoredFields::Named { metadata, .. } if !metadata.is_empty() && !has_scope => {
            // What cannot be read is an error of the stage that reads the fields.
            snapshot.field_notes(metadata).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

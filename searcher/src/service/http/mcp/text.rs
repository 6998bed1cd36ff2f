//! Replies as text, for models whose clients show them nothing else.

use std::fmt::Write as _;

use dyad_proto::v1;
use dyad_proto::v1::{Hit, Placement};

/// The hits of a search, best first.
pub(super) fn search(reply: &v1::SearchResponse) -> String {
    let mut text = String::new();
    match &reply.comparison {
        None => add_hits(&mut text, &format!("in index `{}`", reply.index), &reply.hits),
        Some(rankings) => {
            for (name, hits) in [
                ("by meaning", &rankings.dense),
                ("by BM25", &rankings.bm25),
                ("by both", &rankings.hybrid),
            ] {
                add_hits(&mut text, name, hits);
            }
        }
    }
    for note in reply.notes.iter().chain([&reply.degraded_reason, &reply.recall_note]) {
        if !note.is_empty() {
            _ = writeln!(text, "Note: {note}");
        }
    }
    text
}

fn add_hits(text: &mut String, of: &str, hits: &[Hit]) {
    let count = match hits.len() {
        0 => "No hits".to_owned(),
        1 => "1 hit".to_owned(),
        count => format!("{count} hits"),
    };
    _ = writeln!(text, "{count} {of}.\n");
    for hit in hits {
        add_hit(text, hit);
        for other in hit.group.iter().flat_map(|group| &group.hits) {
            text.push_str("In the same group: ");
            add_hit(text, other);
        }
    }
}

/// Rank, key, title, score and passage.
fn add_hit(text: &mut String, hit: &Hit) {
    let Hit { rank, key, score, .. } = hit;
    let title = hit.document.as_ref().map_or("", |document| &document.title);
    let title = if title.is_empty() {
        String::new()
    } else {
        format!(" {title}")
    };
    _ = writeln!(text, "{rank}. [{key}]{title} (score {score})");
    if let Some(document) = &hit.document {
        add_metadata(text, document);
    }
    let passage = match (&hit.snippet, &hit.document) {
        (Some(snippet), _) => &snippet.text,
        (None, Some(document)) => &document.text,
        (None, None) => "",
    };
    let (before, after) = match &hit.surrounding {
        Some(around) if hit.snippet.is_none() => (around.before.as_str(), around.after.as_str()),
        _ => ("", ""),
    };
    _ = writeln!(text, "{before}{passage}{after}\n");
}

fn add_metadata(text: &mut String, document: &v1::Document) {
    if !matches!(document.metadata_json.as_str(), "" | "{}") {
        _ = writeln!(text, "metadata: {}", document.metadata_json);
    }
}

/// Documents, and the keys that are missing.
pub(super) fn documents(reply: &v1::GetDocumentsResponse) -> String {
    let mut text = String::new();
    for document in &reply.documents {
        _ = writeln!(text, "[{}] {}", document.key, document.title);
        add_metadata(&mut text, document);
        _ = writeln!(text, "{}\n", document.text);
    }
    for key in &reply.missing {
        _ = writeln!(text, "There is no document `{key}`.");
    }
    text
}

/// Where a document stands, and why it is no hit.
pub(super) fn explanation(reply: &v1::ExplainResponse) -> String {
    let mut text = String::new();
    match &reply.hit {
        Some(hit) => _ = writeln!(text, "The document is hit {} with score {}.", hit.rank, hit.score),
        None => text.push_str("The document is none of the hits.\n"),
    }
    if !reply.allowed {
        text.push_str("The filter does not allow it.\n");
    }
    for reason in &reply.reasons {
        _ = writeln!(text, "{reason}");
    }
    for (what, placement) in [
        ("By meaning, of all documents", &reply.dense_exact),
        ("By meaning, of the hits of that ranking", &reply.dense),
        ("By BM25, of all documents", &reply.bm25),
    ] {
        if let Some(Placement { rank, score }) = placement {
            _ = writeln!(text, "{what}: rank {rank}, score {score}.");
        }
    }
    if !reply.terms.is_empty() {
        _ = writeln!(text, "Terms of the question: {}.", reply.terms.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hit(rank: u32, key: &str, title: &str, text: &str) -> Hit {
        let document = v1::Document {
            key: key.into(),
            title: title.into(),
            text: text.into(),
            ..Default::default()
        };
        Hit {
            rank,
            key: key.into(),
            score: 0.5,
            document: Some(document),
            ..Default::default()
        }
    }

    #[test]
    fn a_search_reads_as_a_list_with_its_notes() {
        let mut first = hit(1, "a", "Title", "The passage.");
        first.document.as_mut().unwrap().metadata_json = r#"{"year":1901}"#.into();
        first.surrounding = Some(v1::Surrounding {
            before: "Before. ".into(),
            after: " After.".into(),
            ..Default::default()
        });
        first.group = Some(v1::Group {
            hits: vec![hit(2, "a2", "", "Another.")],
            ..Default::default()
        });
        let mut second = hit(2, "b", "", "Whole text.");
        second.snippet = Some(v1::Snippet {
            text: "text".into(),
            ..Default::default()
        });
        let mut reply = v1::SearchResponse {
            hits: vec![first, second],
            index: "wiki".into(),
            notes: vec!["no document has the field `x`".into()],
            ..Default::default()
        };
        assert_eq!(
            search(&reply),
            "2 hits in index `wiki`.\n\n\
             1. [a] Title (score 0.5)\nmetadata: {\"year\":1901}\nBefore. The passage. After.\n\n\
             In the same group: 2. [a2] (score 0.5)\nAnother.\n\n\
             2. [b] (score 0.5)\ntext\n\n\
             Note: no document has the field `x`\n"
        );
        let rankings = v1::Comparison {
            dense: std::mem::take(&mut reply.hits),
            ..Default::default()
        };
        reply.comparison = Some(rankings);
        let compared = search(&reply);
        assert!(
            compared.starts_with("2 hits by meaning.") && compared.contains("No hits by BM25.\n\nNo hits by both.")
        );
    }

    #[test]
    fn documents_and_explanations_read_as_sentences() {
        let reply = v1::GetDocumentsResponse {
            documents: hit(1, "a", "Title", "Text.").document.into_iter().collect(),
            missing: vec!["none".into()],
        };
        assert_eq!(documents(&reply), "[a] Title\nText.\n\nThere is no document `none`.\n");
        let reply = v1::ExplainResponse {
            bm25: Some(Placement { rank: 12, score: 2.5 }),
            reasons: vec!["BM25: rank 12 is beyond the depth of 10".into()],
            terms: vec!["okapi".into()],
            allowed: true,
            ..Default::default()
        };
        assert_eq!(
            explanation(&reply),
            "The document is none of the hits.\nBM25: rank 12 is beyond the depth of 10\n\
             By BM25, of all documents: rank 12, score 2.5.\nTerms of the question: okapi.\n"
        );
    }
}

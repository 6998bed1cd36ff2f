//! Passages in their documents, as an encoder service gets them for late chunking.

use std::collections::HashMap;

use dyad_corpus::{Document, PassageContext};
use dyad_proto::{limits, v1};

use crate::context_error::ContextError;

/// Refuses a document that is no passage, where passages are read in their documents.
pub(super) fn check_place(document: &Document, context: PassageContext) -> Result<(), ContextError> {
    if context.late_weight().is_none() || document.place.is_some() {
        return Ok(());
    }
    Err(ContextError::NoPlace {
        key: document.key.clone(),
        context: context.to_string(),
    })
}

/// The documents of which others are passages, each once; none in a context without them.
pub(super) fn passage_documents(
    documents: &[Document],
    context: PassageContext,
) -> Result<Vec<v1::PassageDocument>, ContextError> {
    let mut found: Vec<v1::PassageDocument> = Vec::new();
    if context.late_weight().is_none() {
        return Ok(found);
    }
    let mut numbers: HashMap<u128, usize> = HashMap::new();
    for (text, document) in (0..).zip(documents) {
        check_place(document, context)?;
        let Some(place) = &document.place else { continue };
        let (bytes, limit) = (place.document().len(), limits::MAX_DOCUMENT_BYTES);
        if bytes > limit {
            return Err(ContextError::LongDocument {
                key: document.key.clone(),
                bytes,
                limit,
            });
        }
        // The limit is less than a u32 holds.
        let passage = v1::DocumentPassage {
            text,
            start: place.bytes().start as u32,
            end: place.bytes().end as u32,
        };
        let number = *numbers.entry(place.digest()).or_insert(found.len());
        match found.get_mut(number) {
            Some(of) => of.passages.push(passage),
            None => found.push(v1::PassageDocument {
                text: place.document().to_owned(),
                passages: vec![passage],
            }),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use dyad_corpus::Split;

    use super::*;

    /// What can be asked for can be sent, and no more.
    #[test]
    fn weights_have_the_bounds_of_requests() {
        let rules = dyad_proto::rules::ENCODE_REQUEST_LATE_WEIGHT;
        let (least, most) = (rules.minimum() as f32, rules.maximum() as f32);
        for weight in [least, most] {
            let context: PassageContext = format!("late:{weight}").parse().unwrap();
            assert!((least..=most).contains(&context.late_weight().unwrap()), "{weight}");
        }
        for weight in [least / 2.0 - 0.001, most + 0.01] {
            assert!(format!("late:{weight}").parse::<PassageContext>().is_err(), "{weight}");
        }
    }

    #[test]
    fn documents_are_sent_once_with_all_of_their_passages() {
        let of = |key: &str, text: &str| {
            let document = Document {
                key: key.into(),
                text: text.into(),
                ..Document::default()
            };
            Split::new(2, 0).unwrap().passages(&document).unwrap()
        };
        let (one, other) = (of("a", "Eins zwei. Drei ß. Vier."), of("b", "Eins zwei. Neun."));
        let mixed = [one[0].clone(), other[1].clone(), one[2].clone(), one[1].clone()];
        let context: PassageContext = "late".parse().unwrap();
        let passage = |text, start, end| v1::DocumentPassage { text, start, end };
        let expected = [
            v1::PassageDocument {
                text: "Eins zwei. Drei ß. Vier.".into(),
                passages: vec![passage(0, 0, 10), passage(2, 20, 25), passage(3, 11, 19)],
            },
            v1::PassageDocument {
                text: "Eins zwei. Neun.".into(),
                passages: vec![passage(1, 11, 16)],
            },
        ];
        assert_eq!(passage_documents(&mixed, context).unwrap(), expected);
        assert!(passage_documents(&mixed, PassageContext::default()).unwrap().is_empty());
        let whole = Document {
            key: "w".into(),
            text: "No passage.".into(),
            ..Document::default()
        };
        let error = passage_documents(&[whole], context).unwrap_err().to_string();
        assert!(
            error.contains("`w`") && error.contains("--context late:0.5") && error.contains("--split"),
            "{error}"
        );
    }
}

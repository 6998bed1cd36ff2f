//! Documents of which texts to embed are passages.

use super::fields::CheckFields as _;
use super::violations::Check;
use crate::v1;

/// Each text has to be a passage of one document, where there are documents.
pub(super) fn passages(check: &mut Check, request: &v1::EncodeRequest) {
    let v1::EncodeRequest {
        texts,
        documents,
        late_weight,
        ..
    } = request;
    if documents.is_empty() {
        if *late_weight != 0.0 {
            check.fail(
                "late_weight",
                format!("expected 0, for there are no `documents`, got {late_weight}"),
            );
        }
        return;
    }
    if *late_weight == 0.0 {
        check.fail("late_weight", "expected a weight, for there are `documents`, got 0");
    }
    if request.dimensions > 0 {
        check.fail(
            "dimensions",
            format!("expected 0, for there are `documents`, got {}", request.dimensions),
        );
    }
    let mut is_passage = vec![false; texts.len()];
    for (at, document) in documents.iter().enumerate() {
        document.check_fields(check, &format!("documents[{at}]."));
        let v1::PassageDocument { text, passages } = document;
        for (number, passage) in passages.iter().enumerate() {
            let field = |name: &str| format!("documents[{at}].passages[{number}].{name}");
            match is_passage.get_mut(passage.text as usize) {
                None => check.fail(
                    field("text"),
                    format!("expected below {}, got {}", texts.len(), passage.text),
                ),
                Some(true) => {
                    check.fail(
                        field("text"),
                        format!("expected each text once, got {} again", passage.text),
                    );
                }
                Some(is_passage) => *is_passage = true,
            }
            if text.get(passage.start as usize..passage.end as usize).is_none() {
                let got = format!("{} to {}", passage.start, passage.end);
                let expected = format!("the bytes of characters within {} bytes", text.len());
                check.fail(field("start"), format!("expected {expected}, got {got}"));
            }
        }
    }
    if let Some(alone) = is_passage.iter().position(|is| !is) {
        check.fail(
            "documents",
            format!("expected each text to be a passage of one of them, got none for texts[{alone}]"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode_request;
    use super::*;
    use crate::limits;

    /// What is changed of a request that is right, and what is told of that.
    type PassagesCase<'a> = (&'a dyn Fn(&mut v1::EncodeRequest), &'a str);

    #[test]
    fn each_text_is_a_passage_of_one_document() {
        let passage = |text, start, end| v1::DocumentPassage { text, start, end };
        let told = |change: &dyn Fn(&mut v1::EncodeRequest)| {
            let document = |text: &str, passages| v1::PassageDocument {
                text: text.into(),
                passages,
            };
            let mut request = v1::EncodeRequest {
                tower: 2,
                texts: vec!["Eins.".into(), "Zwei ß.".into(), "Drei.".into()],
                documents: vec![
                    document("Eins. Zwei ß.", vec![passage(1, 6, 14), passage(0, 0, 5)]),
                    document("Drei.", vec![passage(2, 0, 5)]),
                ],
                late_weight: 0.5,
                ..Default::default()
            };
            change(&mut request);
            encode_request(&request).map_or_else(|violations| violations.to_string(), |()| "fine".to_owned())
        };
        assert_eq!(told(&|_| ()), "fine");
        let cases: [PassagesCase<'_>; 9] = [
            (
                &|r| r.late_weight = 0.0,
                "`late_weight`: expected a weight, for there are `documents`, got 0",
            ),
            (
                &|r| r.late_weight = f32::NAN,
                "`late_weight`: expected 0 for none, or a number from 0.01 to 10, got NaN",
            ),
            (
                &|r| r.documents.clear(),
                "`late_weight`: expected 0, for there are no `documents`, got 0.5",
            ),
            (&|r| r.dimensions = 8, "`dimensions`: expected 0"),
            (
                &|r| _ = r.documents.pop(),
                "expected each text to be a passage of one of them, got none for texts[2]",
            ),
            (
                &|r| r.documents[1].passages[0].text = 3,
                "`documents[1].passages[0].text`: expected below 3, got 3",
            ),
            (
                &|r| r.documents[1].passages[0].text = 1,
                "expected each text once, got 1 again",
            ),
            (
                &|r| r.documents[0].passages[0].end = 12,
                "`documents[0].passages[0].start`: expected the bytes of characters within 14 bytes, got 6 to 12",
            ),
            (
                &|r| r.documents[0].text = "a".repeat(limits::MAX_DOCUMENT_BYTES + 1),
                "`documents[0].text`: expected at most 1048576 bytes, got 1048577",
            ),
        ];
        for (change, expected) in cases {
            let got = told(change);
            assert!(got.contains(expected), "{got}");
        }
    }
}

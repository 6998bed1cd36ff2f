//! SQuAD's articles, and the collection of sentences that is made of them.

use super::super::*;
use super::{file, passage, read_with, refusal, skipping};
use crate::error::Error;
use crate::{qrels, queries};

const SQUAD: &str = r#"{"version": "v2.0", "data": [
 {"title": "T", "paragraphs": [
  {"context": "Zürich is a city. It lies in Switzerland. It lies in Switzerland.", "qas": [
   {"id": "q1", "question": "Where is Zürich?", "answers": [{"text": "Switzerland", "answer_start": 29}, {"text": "city", "answer_start": 12}]},
   {"id": "q2", "question": "Which crosses?", "answers": [{"text": "city. It", "answer_start": 12}]},
   {"id": "q3", "question": "None?", "answers": [], "is_impossible": true}]}]},
 {"title": "U", "paragraphs": [{"context": "No questions here.", "qas": []}]},
 {"title": "V", "paragraphs": [{"context": "Zürich is a city. Basel too.", "qas": [
   {"id": "q4", "question": "What is?", "answers": [{"text": "Basel", "answer_start": 0}]}]}]}
]}"#;

#[test]
fn squad_becomes_questions_and_answer_sentences() {
    let (folder, path) = file("train-v2.0.json", SQUAD);
    let (found, skipped) = read_with(&path, &ExampleOptions::default()).unwrap();
    let positives = |at: usize| found[at].positives.clone();
    assert_eq!(
        found
            .iter()
            .map(|example| example.key.as_deref().unwrap())
            .collect::<Vec<_>>(),
        ["q1", "q4"]
    );
    assert_eq!(
        positives(0),
        [
            passage("a1", "", "It lies in Switzerland."),
            passage("a0", "", "Zürich is a city.")
        ]
    );
    assert_eq!(
        positives(1),
        [passage("a3", "", "Basel too.")],
        "found though its offset is wrong"
    );
    assert_eq!((skipped.crossing, skipped.unanswerable, skipped.total()), (1, 1, 2));

    let out = folder.path().join("reqa");
    let summary = write_reqa(&path, &out, "test").unwrap();
    assert_eq!(
        (
            summary.candidates,
            summary.questions,
            summary.judgements,
            summary.skipped.total()
        ),
        (4, 2, 3, 2)
    );
    let corpus: Vec<String> = crate::CorpusReader::open(&out, &crate::ReadOptions::default())
        .unwrap()
        .map(|document| document.unwrap().value.text)
        .collect();
    assert_eq!(
        corpus,
        [
            "Zürich is a city.",
            "It lies in Switzerland.",
            "No questions here.",
            "Basel too."
        ]
    );
    assert_eq!(queries::read(&out.join("queries.jsonl")).unwrap()[1].text, "What is?");
    assert_eq!(qrels::read(&out.join("qrels/test.tsv")).unwrap()["q1"].len(), 2);
    let (again, _) = read_with(
        &out,
        &ExampleOptions {
            split: "test".into(),
            ..ExampleOptions::default()
        },
    )
    .unwrap();
    assert_eq!(
        again[1].positives, found[1].positives,
        "the folder gives the same examples"
    );
    assert!(matches!(write_reqa(&path, &out, "test"), Err(Error::Exists { .. })));
}

#[test]
fn broken_squad_is_refused_by_question_and_leaves_nothing() {
    let missing = SQUAD.replace("\"Basel\"", "\"Bern\"");
    assert!(refusal("s.json", &missing).ends_with("question `q4`: answer `Bern` is not in its paragraph. Correct the record, or ask for such records to be skipped"));
    let (_folder, path) = file("s.json", &missing);
    let (found, skipped) = read_with(&path, &skipping()).unwrap();
    assert_eq!((found.len(), skipped.broken), (1, 1));
    let untyped = SQUAD.replacen("\"question\": \"What is?\"", "\"question\": 7", 1);
    assert!(
        refusal("s.json", untyped).contains("question `q4`: not a record of this format: invalid type: integer `7`")
    );
    assert!(
        refusal("s.json", SQUAD.replacen("\"context\": \"No", "\"text\": \"No", 1))
            .contains("s.json:7: not a record of this format: missing field `context`")
    );
    let (folder, path) = file("s.json", &SQUAD[..SQUAD.len() - 40]);
    let out = folder.path().join("reqa");
    assert!(write_reqa(&path, &out, "test").is_err());
    assert_eq!(
        fs_err::read_dir(folder.path()).unwrap().count(),
        1,
        "nothing half-written stays"
    );
}

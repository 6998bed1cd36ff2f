//! The judged questions of a BEIR folder.

use super::super::*;
use super::{passage, read_with};

#[test]
fn a_beir_folder_gives_its_judged_questions() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| fs_err::write(folder.path().join(name), content).unwrap();
    fs_err::create_dir(folder.path().join("qrels")).unwrap();
    write(
        "corpus.jsonl",
        "{\"_id\":\"d1\",\"title\":\"T\",\"text\":\"a\"}\n{\"_id\":\"d2\",\"text\":\"b\"}\n{\"_id\":\"d3\",\"text\":\"c\"}\n",
    );
    write(
        "queries.jsonl",
        "{\"_id\":\"q2\",\"text\":\"two\"}\n{\"_id\":\"q1\",\"text\":\"one\"}\n{\"_id\":\"q9\",\"text\":\"unjudged\"}\n",
    );
    write(
        "qrels/train.tsv",
        "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td3\t1\nq2\td2\t1\nq2\td1\t0\n",
    );
    let (found, _) = read_with(folder.path(), &ExampleOptions::default()).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].key.as_deref(), found[0].question.as_str()),
        (Some("q2"), "two")
    );
    assert_eq!(
        (&found[0].positives[..], &found[0].negatives[..]),
        (&[passage("d2", "", "b")][..], &[passage("d1", "T", "a")][..])
    );
    assert_eq!(found[1].positives, [passage("d1", "T", "a"), passage("d3", "", "c")]);

    write("qrels/bad.tsv", "q1\td1\t1\nq2\td2\t0\nq9\td8\t1\nq7\td1\t1\n");
    let of = |flawed| ExampleOptions {
        split: "bad".into(),
        flawed,
        ..ExampleOptions::default()
    };
    let error = read_with(folder.path(), &of(Flawed::Refuse)).unwrap_err().to_string();
    assert!(error.ends_with("split `bad`, question `q2`: the record has no positive passage. Give it one, or ask for such records to be skipped"), "{error}");
    let (found, skipped) = read_with(folder.path(), &of(Flawed::Skip)).unwrap();
    assert_eq!(
        (
            found.len(),
            skipped.without_positives,
            skipped.unknown_documents,
            skipped.broken
        ),
        (1, 1, 1, 1)
    );
    let none = ExampleOptions {
        split: "dev".into(),
        ..ExampleOptions::default()
    };
    assert!(
        read_with(folder.path(), &none)
            .unwrap_err()
            .to_string()
            .contains("has no split `dev`")
    );
}

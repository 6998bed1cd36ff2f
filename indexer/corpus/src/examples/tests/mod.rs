//! Every form that is read, every refusal and its text.

mod beir;
mod hostile;
mod spans;
mod squad;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::TempDir;

use super::*;
use crate::error::Error;

fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs_err::write(&path, content).unwrap();
    (folder, path)
}

fn read_with(path: &Path, options: &ExampleOptions) -> Result<(Vec<TrainingExample>, Skipped), Error> {
    let mut reader = ExampleReader::open(path, options)?;
    let examples = reader.by_ref().collect::<Result<_, _>>()?;
    Ok((examples, reader.skipped().clone()))
}

fn read(name: &str, content: impl AsRef<[u8]>) -> Vec<TrainingExample> {
    let (_folder, path) = file(name, content);
    read_with(&path, &ExampleOptions::default()).unwrap().0
}

fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    let (folder, path) = file(name, content);
    let error = read_with(&path, &ExampleOptions::default()).unwrap_err().to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

fn skipping() -> ExampleOptions {
    ExampleOptions {
        flawed: Flawed::Skip,
        ..ExampleOptions::default()
    }
}

fn example(question: &str, positives: &[&str], negatives: &[&str]) -> TrainingExample {
    let passages = |texts: &[&str]| texts.iter().map(|text| Passage::from_text(*text)).collect();
    TrainingExample {
        question: question.into(),
        positives: passages(positives),
        negatives: passages(negatives),
        key: None,
    }
}

fn passage(key: &str, title: &str, text: &str) -> Passage {
    Passage {
        key: Some(key.into()),
        title: title.into(),
        text: text.into(),
        ..Passage::default()
    }
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn pairs_come_in_every_shape() {
    let lines = concat!(
        "{\"question\":\"q1\",\"answer\":\"a1\"}\n\n",
        "{\"anchor\":\"q2\",\"positive\":\"a2\",\"negative\":\"n2\"}\n",
        "{\"query\":\"q3\",\"pos\":[\"a3\",\"b3\"],\"neg\":[\"n3\"],\"type\":\"x\",\"prompt\":\"p\"}\n",
        "{\"query\":\"q4\",\"positive\":\"a4\",\"negative_1\":\"n4\",\"negative_2\":\"m4\"}\n",
        "[\"q5\",\"a5\",\"n5\",\"m5\"]\n",
    );
    let expected = [
        example("q1", &["a1"], &[]),
        example("q2", &["a2"], &["n2"]),
        example("q3", &["a3", "b3"], &["n3"]),
        example("q4", &["a4"], &["n4", "m4"]),
        example("q5", &["a5"], &["n5", "m5"]),
    ];
    assert_eq!(read("pairs.jsonl", lines), expected);
    assert_eq!(read("pairs.jsonl.gz", gzip(lines)), expected);
    assert_eq!(
        read("pairs.json.zst", zstd::encode_all(lines.as_bytes(), 3).unwrap()),
        expected
    );
    let values: Vec<&str> = lines.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(
        read("pairs.json", format!("\u{feff} [\n{}\n]\n", values.join(" ,\n"))),
        expected
    );
}

#[test]
fn titles_belong_to_the_one_positive() {
    let found = read(
        "medquad.jsonl",
        "{\"question\":\"q\",\"answer\":\"a\",\"title\":\"T\",\"id\":7}\n",
    );
    assert_eq!(
        found[0].positives,
        [Passage {
            title: "T".into(),
            ..Passage::from_text("a")
        }]
    );
    assert_eq!(
        (found[0].positives[0].passage().as_ref(), found[0].key.as_deref()),
        ("T a", Some("7"))
    );
}

#[test]
fn teachers_scores_are_read_as_they_are_written() {
    let scores = |line: &str| -> Vec<Option<f32>> {
        let found = read("s.jsonl", line).remove(0);
        found
            .positives
            .iter()
            .chain(&found.negatives)
            .map(|passage| passage.score)
            .collect()
    };
    let some = |values: &[f32]| values.iter().copied().map(Some).collect::<Vec<_>>();
    let of = |more: &str| format!("{{\"query\":\"q\",\"pos\":[\"a\"],\"neg\":[\"b\",\"c\"]{more}}}");
    assert_eq!(scores(&of("")), [None; 3]);
    assert_eq!(
        scores(&of(",\"pos_scores\":[3],\"neg_scores\":[2,1.5]")),
        some(&[3.0, 2.0, 1.5])
    );
    assert_eq!(scores(&of(",\"scores\":[3,2,1]")), some(&[3.0, 2.0, 1.0]));
    assert_eq!(scores(&of(",\"label\":[0.5,2]")), some(&[0.0, -0.5, -2.0]));
    assert_eq!(
        refusal("s.jsonl", of(",\"scores\":[3,2]")),
        "s.jsonl:1: field `scores` must hold one score per passage: expected 3, got 2"
    );
    assert_eq!(scores("{\"query\":\"q\",\"positive\":\"a\",\"label\":1}"), [None]);
    let (_folder, path) = file(
        "l.jsonl",
        "{\"query\":\"q\",\"positive\":\"a\",\"label\":0}\n{\"query\":\"q\",\"positive\":\"a\",\"label\":1.0}\n",
    );
    let (found, skipped) = read_with(&path, &skipping()).unwrap();
    assert_eq!(
        (found.len(), skipped.without_positives),
        (1, 1),
        "a pair that is none has no positive"
    );
}

#[test]
fn tevatron_is_read_in_both_forms_and_written_in_one() {
    let older = "{\"query_id\":12,\"query\":\"q\",\"positive_passages\":[{\"docid\":\"d1\",\"title\":\"T\",\"text\":\"a\",\"score\":0.5}],\
                 \"negative_passages\":[{\"docid\":2,\"title\":\"\",\"text\":\"n\"}]}";
    let found = read("t.jsonl", older);
    let positive = Passage {
        score: Some(0.5),
        ..passage("d1", "T", "a")
    };
    let expected = TrainingExample {
        key: Some("12".into()),
        question: "q".into(),
        positives: vec![positive],
        negatives: vec![passage("2", "", "n")],
    };
    assert_eq!(found, std::slice::from_ref(&expected));
    assert_eq!(read("t.jsonl", to_tevatron(&expected)), [expected]);

    let (folder, path) = file(
        "newer.jsonl",
        "{\"query_id\":\"q1\",\"query_text\":\"q\",\"positive_document_ids\":[\"d1\"],\"negative_document_ids\":[2]}\n",
    );
    let error = read_with(&path, &ExampleOptions::default()).unwrap_err().to_string();
    assert!(
        error.ends_with("names its passages by key. Also name the corpus that holds them"),
        "{error}"
    );
    let corpus = folder.path().join("corpus.jsonl");
    fs_err::write(&corpus, "{\"docid\":\"d1\",\"title\":\"T\",\"text\":\"a\"}\n{\"docid\":2,\"text\":\"n\"}\n{\"docid\":3,\"text\":\"m\"}\n").unwrap();
    let options = ExampleOptions {
        corpus: Some(corpus.clone()),
        ..ExampleOptions::default()
    };
    let (found, _) = read_with(&path, &options).unwrap();
    assert_eq!(
        (&found[0].positives[..], &found[0].negatives[..]),
        (&[passage("d1", "T", "a")][..], &[passage("2", "", "n")][..])
    );
    fs_err::write(&corpus, "{\"docid\":\"d1\",\"text\":\"a\"}\n").unwrap();
    let error = read_with(&path, &options).unwrap_err().to_string();
    assert!(
        error.contains("newer.jsonl:1: document `2` is not in the corpus"),
        "{error}"
    );
}

#[test]
fn dpr_arrays_are_read_one_record_at_a_time() {
    let record = |number: usize| {
        format!(
            "  {{\n \"question\": \"q{number} \\\"[{{\\\\\", \"answers\": [\"x\"],\n \"positive_ctxs\": [{{\"title\":\"T\",\"text\":\"a\",\
             \"score\":1000,\"title_score\":1,\"passage_id\":\"p{number}\"}}],\n \"negative_ctxs\": [{{\"title\":\"\",\"text\":\"n\"}}],\n \
             \"hard_negative_ctxs\": [{{\"title\":\"\",\"text\":\"h\",\"score\":\"3.5\"}}]}}"
        )
    };
    let content = format!("[{}]", (0..300).map(record).collect::<Vec<_>>().join(",\n"));
    let found = read("nq-train.json", &content);
    assert_eq!(found.len(), 300);
    assert_eq!(found[7].question, "q7 \"[{\\");
    assert_eq!(
        found[7].positives,
        [passage("p7", "T", "a")],
        "a retriever's score is no teacher's"
    );
    assert_eq!(
        found[7].negatives,
        [Passage::from_text("h"), Passage::from_text("n")],
        "the hard ones come first"
    );
    assert_eq!(read("nq-train.json.gz", gzip(&content)), found);

    let broken = content
        .replacen("\"answers\": [\"x\"]", "\"answers\": [x]", 2)
        .replacen("[x]", "[\"x\"]", 1);
    assert_eq!(
        refusal("nq.json", &broken),
        "nq.json:7: not a record of this format: expected value at column 39"
    );
    let (_folder, path) = file("nq.json", &broken);
    let (found, skipped) = read_with(&path, &skipping()).unwrap();
    assert_eq!((found.len(), skipped.broken, skipped.total()), (299, 1, 1));
    assert!(skipped.first.unwrap().contains("nq.json:7"));
    for (content, expected) in [
        (
            "[{\"positive_ctxs\":[]},{\"a",
            "nq.json:1: not an array of records: expected the end of the record",
        ),
        (
            "[{\"positive_ctxs\":[]} {}]",
            "nq.json:1: not an array of records: expected `,` or `]`, got `{`",
        ),
        (
            "[{\"positive_ctxs\":[]},\n]",
            "nq.json:2: not an array of records: expected a record, got `]`",
        ),
        (
            "[{\"positive_ctxs\":[]},",
            "nq.json:1: not an array of records: expected a record, got the end of the file",
        ),
    ] {
        let (folder, path) = file("nq.json", content);
        let error = read_with(&path, &skipping()).unwrap_err().to_string();
        let error = error.replace(&format!("{}/", folder.path().display()), "");
        assert!(error.starts_with(expected), "{content}: {error}");
    }
    assert_eq!(refusal("nq.json", "[ ]"), "`nq.json` holds no examples");
}

#[test]
fn flawed_records_are_refused_by_line_or_skipped_and_counted() {
    let good = "{\"question\":\"q\",\"answer\":\"a\"}\n";
    let after = |line: &str| refusal("p.jsonl", format!("{good}{line}\n"));
    assert!(after("{\"question\":\"q\"").starts_with("p.jsonl:2: not a record of this format: EOF while parsing"));
    assert_eq!(
        after("{\"question\":\" \",\"answer\":\"a\"}"),
        "p.jsonl:2: the question is empty. Give the record a question, or ask for such records to be skipped"
    );
    assert_eq!(
        after("{\"question\":\"q\",\"positive\":[]}"),
        "p.jsonl:2: the record has no positive passage. Give it one, or ask for such records to be skipped"
    );
    assert_eq!(
        after("{\"question\":\"q\",\"answer\":\"a\",\"neg\":[\"n\",\"\"]}"),
        "p.jsonl:2: negative passage 2 is empty. Give it a text, or ask for such records to be skipped"
    );
    assert_eq!(
        after("{\"answer\":\"a\"}"),
        "p.jsonl:2: a field is missing: expected `question` or `query` or `anchor`, got `answer`"
    );
    assert!(after("{\"question\":\"q\"}").starts_with("p.jsonl:2: a field is missing: expected `positive` or "));
    assert_eq!(
        after("{\"question\":\"q\",\"answer\":7}"),
        "p.jsonl:2: field `answer` has the wrong type: expected a text or an object with `text`, got an integer"
    );
    assert!(after("[\"q\"]").starts_with("p.jsonl:2: wrong number of columns: expected question, positive"));
    assert!(after("3").contains("expected an object or an array of texts, got an integer"));

    let bad = [
        "{\"question\":\"q\"",
        "{\"question\":\" \",\"answer\":\"a\"}",
        "{\"question\":\"q\",\"answer\":\"\"}",
        "[]",
    ];
    let (_folder, path) = file("p.jsonl", [good, &bad.join("\n"), "\n", good].concat());
    let (found, skipped) = read_with(&path, &skipping()).unwrap();
    assert_eq!((found.len(), skipped.total()), (2, 4));
    assert_eq!(
        (skipped.broken, skipped.empty_questions, skipped.empty_passages),
        (2, 1, 1)
    );
    let (_folder, path) = file("p.jsonl", bad.join("\n"));
    assert!(
        read_with(&path, &skipping())
            .unwrap_err()
            .to_string()
            .ends_with("holds no examples")
    );
    assert!(refusal("p.jsonl.gz", &gzip(good)[..20]).contains("is cut short: its gzip stream ends in the middle"));
    assert!(refusal("pairs.parquet", "PAR1\u{15}\u{4}").starts_with("`pairs.parquet` is a Parquet file."));
}

#[test]
fn columns_are_question_answer_negatives() {
    let expected = [example("q1", &["a1"], &[]), example("q2", &["a2"], &["n", "m"])];
    assert_eq!(read("p.tsv", "q1\ta1\nq2\ta2\tn\tm\n"), expected);
    assert_eq!(
        read(
            "p.tsv.gz",
            gzip("negative_1\tquestion\tanswer\tnegative_2\nn\tq2\ta2\tm\n")
        ),
        expected[1..]
    );
    let quoted = read("p.tsv", "query\tpositive\tnegative\n\"q\t\"\"1\"\"\"\ta\t\n");
    assert_eq!(quoted, [example("q\t\"1\"", &["a"], &[])]);
    assert_eq!(
        refusal("p.tsv", "q\n"),
        "p.tsv:1: wrong number of columns: expected 2 or more between tabs: question<TAB>answer[<TAB>negative ...], got 1"
    );
    assert!(
        refusal("p.tsv", "question\tanswer\nq\ta\tn\n").contains("expected 2 between tabs, as the header has, got 3")
    );
    assert!(refusal("p.tsv", "q\t \n").contains("positive passage 1 is empty"));
}

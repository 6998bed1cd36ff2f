//! Judgements in every form that is read, and what is refused.

use super::*;

fn read_text(content: &str) -> Result<Qrels, Error> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.tsv");
    fs_err::write(&path, content).unwrap();
    read(&path)
}

fn refusal(content: &str) -> String {
    read_text(content)
        .unwrap_err()
        .to_string()
        .split_once("test.tsv")
        .unwrap()
        .1
        .to_owned()
}

#[test]
fn reads_beir_trec_and_ms_marco_forms_alike() {
    let expected = Qrels::from([
        (
            "q1".to_owned(),
            BTreeMap::from([("d1".to_owned(), 2), ("d2".to_owned(), -1)]),
        ),
        ("q2".to_owned(), BTreeMap::from([("d1".to_owned(), 0)])),
    ]);
    let beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n";
    assert_eq!(read_text(beir).unwrap(), expected);
    assert_eq!(read_text("q1 0 d1 2\nq1  Q0 d2 -1\nq2 0 d1 0").unwrap(), expected);
    assert_eq!(
        read_text("q1\t0\td1\t2\nq1\t0\td2\t-1\nq2\t0\td1\t0\nq2\t0\td1\t0\n").unwrap(),
        expected
    );
}

#[test]
fn headers_of_other_writers_say_where_the_columns_are() {
    let expected = Qrels::from([(
        "q1".to_owned(),
        BTreeMap::from([("d1".to_owned(), 2), ("d2".to_owned(), -1)]),
    )]);
    for content in [
        "query_id\tdoc_id\trelevance\nq1\td1\t2\nq1\td2\t-1\n",
        "query_id\tdoc_id\trelevance\titeration\nq1\td1\t2\t0\nq1\td2\t-1\tQ0\n",
        "qid iter docno rel\nq1 0 d1 2\nq1 0 d2 -1\n",
        "DocID\tQueryID\tLabel\nd1\tq1\t2.0\nd2\tq1\t-1.0\n",
        "\n\nquery-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\n",
        "q1\td1\t2e0\nq1\td2\t-1.000\n",
        "topics\tparagraph\tscore\nq1\td1\t2\nq1\td2\t-1\n",
        "\"query_id\"\t\"doc_id\"\t\"relevance\"\n\"q1\"\t\"d1\"\t\"2\"\n\"q1\"\t\"d2\"\t-1\n",
    ] {
        assert_eq!(read_text(content).unwrap(), expected, "{content}");
    }
    for (header, told) in [
        ("query_id doc_id rank score relevance", "`score` and `relevance`"),
        ("query\tquery_id\tdoc_id\tscore", "`query` and `query_id`"),
        ("a\tb\tc", "a header names a column of queries (`query_id`"),
    ] {
        let message = refusal(&format!("{header}\nq1\td1\t2\n"));
        assert!(message.starts_with(":1: ") && message.contains(told), "{message}");
    }
    let message = refusal("query_id\tdoc_id\trelevance\nq1\td1\n");
    assert!(message.contains("expected 3, as the header has, got 2"), "{message}");
    for grade in ["0.5", "NaN", "inf", "1e10", ""] {
        let message = refusal(&format!("q1\td1\t1\nq1\td2\t{grade}\n"));
        assert!(
            message.contains("a whole number such as 1 or 1.0"),
            "{grade}: {message}"
        );
    }
}

#[test]
fn refuses_by_line() {
    assert_eq!(
        refusal("q1 d1 1\n"),
        ":1: wrong number of columns: expected 3 between tabs (query-id, corpus-id, score) or 4 between whitespace \
             (qid, iter, docno, rel), got 3"
    );
    assert_eq!(
        refusal("q1\td1\t1\nq1\td2\tyes\n"),
        ":2: column `score` is not a whole number such as 1 or 1.0: yes"
    );
    assert_eq!(
        refusal("q1\td1\t1\nq1\td1\t2\n"),
        ":2: query `q1` and document `d1` were already judged 1, now 2. Remove one of the two"
    );
    assert_eq!(refusal("query-id\tcorpus-id\tscore\n"), "` holds no judgements");
}

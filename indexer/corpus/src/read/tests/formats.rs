//! Parquet, TREC, patterns of files, fields of other names, passages.

use serde_json::{Value, json};

use super::*;
use crate::Metadata;

/// Ten rows in groups of four, compressed with zstd, by pyarrow 26.0.1:
///
/// ```text
/// table = pa.table({"doc_id": pa.array(range(100, 110), pa.int64()),
///     "heading": pa.array([None if i == 3 else f"Title {i}" for i in range(10)], pa.string()),
///     "body": pa.array([f"Text number {i}: the river and the city." for i in range(10)], pa.large_string()),
///     "lang": pa.array(["en", "de"] * 5).dictionary_encode(), "year": pa.array([2000 + i for i in range(10)], pa.int32()),
///     "tags": pa.array([["a", "b"], []] * 5, pa.list_(pa.string())),
///     "metadata": pa.array([{"source": f"s{i}", "score": i / 2} for i in range(10)]),
///     "vector": pa.array([[float(i), 1.0] for i in range(10)], pa.list_(pa.float32()))})
/// pq.write_table(table, "documents.parquet", compression="zstd", row_group_size=4)
/// ```
fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/documents.parquet")
}

fn named(key: &str, title: &str, text: &str, metadata: &[&str]) -> ReadOptions {
    let fields = FieldNames {
        key: Some(key.to_owned()),
        title: Some(title.to_owned()),
        text: Some(text.to_owned()),
        metadata: metadata.iter().map(|&name| name.to_owned()).collect(),
    };
    ReadOptions {
        fields,
        ..ReadOptions::default()
    }
}

#[test]
fn what_pyarrow_writes_is_read() {
    let options = named("doc_id", "heading", "body", &["lang", "year", "tags", "doc_id"]);
    let mut reader = CorpusReader::open(&golden(), &options).unwrap();
    let documents: Vec<Located<Document>> = reader.by_ref().map(Result::unwrap).collect();
    assert_eq!(documents.len(), 10);
    for (at, Located { value, line }) in documents.iter().enumerate() {
        assert_eq!((*line, &value.key), (at as u64 + 1, &(100 + at).to_string()));
        assert_eq!(value.title, if at == 3 { String::new() } else { format!("Title {at}") });
        assert_eq!(value.text, format!("Text number {at}: the river and the city."));
        let tags: &[&str] = if at % 2 == 0 { &["a", "b"] } else { &[] };
        let lang = if at % 2 == 0 { "en" } else { "de" };
        let expected = json!({
            "source": format!("s{at}"), "score": at as f64 / 2.0, "lang": lang, "year": 2000 + at, "tags": tags,
            "doc_id": 100 + at,
        });
        let metadata = value.metadata.as_ref().unwrap().as_json();
        assert_eq!(serde_json::from_str::<Value>(metadata).unwrap(), expected);
    }
    assert_eq!(reader.warnings(), ["fields outside `metadata` are not stored: vector"]);
    assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
    let error = read_with(&golden(), &ReadOptions::default()).unwrap_err().to_string();
    assert!(
        error.contains("documents.parquet:1: a field is missing: expected `_id` or `id`")
            && error.contains(". Other columns are `doc_id`, `heading`, `body`, ")
            && error.contains(": name the one that is meant with `--key-field` or `--text-field`"),
        "{error}"
    );
}

/// A misspelt name would lose titles or metadata silently.
#[test]
fn a_named_field_that_no_record_has_is_refused_and_a_rare_one_is_not() {
    let records = "{\"_id\":\"a\",\"text\":\"x\",\"headline\":\"h\",\"lang\":null}\n{\"_id\":\"b\",\"text\":\"y\",\"site\":\"s\",\"metadata\":{\"inner\":1}}\n";
    let (_folder, path) = file("c.jsonl", records);
    let read = |title: &str, metadata: &[&str]| {
        let options = ReadOptions {
            unseen_fields: UnseenFieldPolicy::Refused,
            ..named("_id", title, "text", metadata)
        };
        read_with(&path, &options)
    };
    assert_eq!(read("headline", &["site", "lang", "inner"]).unwrap().len(), 2);
    let error = read("titel", &["sitee"]).unwrap_err().to_string();
    assert!(
        error.contains("c.jsonl` has the field `titel`, `sitee`")
            && error.contains("are not stored: `headline`, `site`"),
        "{error}"
    );
    let part = named("_id", "titel", "text", &[]);
    assert_eq!(read_with(&path, &part).unwrap().len(), 2);
}

/// Every third byte of a Parquet file is changed in turn: it is read, or refused.
#[test]
fn damaged_parquet_is_no_panic() {
    let whole = fs_err::read(golden()).unwrap();
    let options = named("doc_id", "heading", "body", &["tags"]);
    let (_folder, path) = file("d.parquet", "");
    let mut refused = 0;
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        fs_err::write(&path, damaged).unwrap();
        refused += usize::from(read_with(&path, &options).is_err());
    }
    assert!(refused > whole.len() / 30, "{refused} of {}", whole.len());
    for length in [0, 4, 100, whole.len() - 1] {
        fs_err::write(&path, &whole[..length]).unwrap();
        let error = read_with(&path, &options).unwrap_err().to_string();
        assert!(error.contains("d.parquet") && error.contains("Parquet"), "{error}");
    }
}

/// As the collections of TREC's disks 4 and 5 are written (Financial Times and FBIS), in the words of nobody.
const TREC: &str = "<DOC>\n<DOCNO>FT911-1</DOCNO>\n<PROFILE>_AN-BENBQAD8FT</PROFILE>\n<DATE>910514\n</DATE>\n<HEADLINE>\nFT 14 MAY 91 / A bank &amp; its river\n\
    </HEADLINE>\n<TEXT>\nTHE river rose &lt; 3 metres.\n\n<P>The bank did not.</P>\n</TEXT>\n<PUB>The Financial Times\n</PUB>\n</DOC>\n\
    <DOC>\n<DOCNO> FBIS3-1 </DOCNO>\n<TEXT type=\"a\">\nfirst\n</TEXT>\n<TEXT>\nsecond\n</TEXT>\n</DOC>\n\
    <doc><docno>small</docno><title>A title</title>No element of its own</doc>\n";

#[test]
fn trec_collections_are_read() {
    let line = |of: &str| TREC[..TREC.find(of).unwrap()].lines().count() as u64;
    let expected = [
        (
            1,
            document(
                "FT911-1",
                "FT 14 MAY 91 / A bank & its river",
                "THE river rose < 3 metres.\n The bank did not.",
            ),
        ),
        (line("<DOCNO> FBIS3-1"), document("FBIS3-1", "", "first\nsecond")),
        (line("<docno>"), document("small", "A title", "No element of its own")),
    ];
    assert_eq!(read("ft.trec", TREC).unwrap(), expected);
    // Any name, with its format said; compressed, too.
    let (_folder, path) = file("fr940104.0z", gzip(TREC));
    let options = ReadOptions {
        format: CorpusFormat::Trec,
        ..ReadOptions::default()
    };
    assert_eq!(read_with(&path, &options).unwrap().len(), 3);
}

#[test]
fn trec_documents_may_share_lines() {
    let one = |key: &str| format!("<DOC><DOCNO>{key}</DOCNO><TEXT>of {key}</TEXT></DOC>");
    let keys = |text: &str| {
        read("t.trec", text)
            .unwrap()
            .into_iter()
            .map(|(line, found)| (line, found.key, found.text))
            .collect::<Vec<_>>()
    };
    let expected = |line: u64, key: &str| (line, key.to_owned(), format!("of {key}"));
    assert_eq!(keys(&(one("a") + &one("b"))), [expected(1, "a"), expected(1, "b")]);
    let text =
        "<DOC>\n<DOCNO>a</DOCNO><TEXT>of a</TEXT>\n</DOC><DOC>\n<DOCNO>b</DOCNO><TEXT>of b</TEXT></DOC> between\n";
    assert_eq!(
        keys(&(text.to_owned() + &one("c"))),
        [expected(1, "a"), expected(3, "b"), expected(5, "c")]
    );
    // A key that stands in the text, too.
    let found = read(
        "t.trec",
        "<DOC><DOCNO>apollo-11</DOCNO><TITLE>apollo</TITLE>The apollo-11 mission</DOC>",
    )
    .unwrap();
    assert_eq!(found, [(1, document("apollo-11", "apollo", "The apollo-11 mission"))]);
}

#[test]
fn flawed_trec_documents_are_skipped_or_told() {
    // One that does not end is told, and the next one is read; so is one after a line that is no text, wherever that
    // stands.
    let (_folder, path) = file(
        "t.trec",
        "<DOC><DOCNO>a</DOCNO>\n<DOC><DOCNO>b</DOCNO><TEXT>of b</TEXT></DOC>\n",
    );
    let lenient = ReadOptions {
        max_bad: Some(9),
        ..ReadOptions::default()
    };
    let keys = |path: &Path| -> Vec<String> {
        read_with(path, &lenient)
            .unwrap()
            .into_iter()
            .map(|(_, found)| found.key)
            .collect()
    };
    assert_eq!(keys(&path), ["b"]);
    let bad = b"between \xff\n<DOC><DOCNO>a</DOCNO>x</DOC>\n<DOC><DOCNO>b</DOCNO>\n\xff</DOC>\n<DOC><DOCNO>c</DOCNO>x</DOC>\n";
    fs_err::write(&path, bad).unwrap();
    assert_eq!(keys(&path), ["a", "c"]);
    let cut = TREC.replace("</doc>", "");
    assert!(
        refusal("t.trec", &cut).contains("no </DOC> after <DOC>"),
        "{}",
        refusal("t.trec", &cut)
    );
    let without = TREC.replace("<DOCNO> FBIS3-1 </DOCNO>", "");
    let (_folder, path) = file("t.trec", &without);
    let options = ReadOptions {
        max_bad: Some(1),
        ..ReadOptions::default()
    };
    let mut reader = CorpusReader::open(&path, &options).unwrap();
    let keys: Vec<String> = reader.by_ref().map(|item| item.unwrap().value.key).collect();
    assert_eq!(
        (keys, reader.rejected()),
        (vec!["FT911-1".to_owned(), "small".to_owned()], 1)
    );
    assert!(
        reader.warnings()[0].contains("expected <DOCNO>"),
        "{:?}",
        reader.warnings()
    );
    // Bytes that are no text spoil their document alone.
    let mut bytes = TREC.as_bytes().to_vec();
    let at = TREC.find("rose").unwrap();
    bytes[at] = 0xff;
    fs_err::write(&path, bytes).unwrap();
    let found = read_with(&path, &options).unwrap();
    assert_eq!(
        found
            .iter()
            .map(|(_, document)| document.key.as_str())
            .collect::<Vec<_>>(),
        ["FBIS3-1", "small"]
    );
}

#[test]
fn a_pattern_names_files_that_are_read_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs_err::write(folder.path().join(name), content).unwrap();
    write("b.jsonl", br#"{"_id":"3","text":"three"}"#);
    write(
        "a.jsonl.gz",
        &gzip("{\"_id\":\"1\",\"text\":\"one\"}\n{\"_id\":\"2\",\"text\":\"two\"}\n"),
    );
    write("c.tsv", b"4\tfour\n");
    write("other.xml", b"<nothing/>");
    let keys = |pattern: &str, options: &ReadOptions| -> Result<Vec<String>, Error> {
        let mut reader = CorpusReader::open(&folder.path().join(pattern), options)?;
        let keys = reader
            .by_ref()
            .map(|item| item.map(|located| located.value.key))
            .collect::<Result<_, _>>();
        if keys.is_ok() {
            assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
        }
        keys
    };
    let usual = ReadOptions::default();
    assert_eq!(keys("*.jsonl*", &usual).unwrap(), ["1", "2", "3"]);
    assert_eq!(keys("[a-c].*", &usual).unwrap(), ["1", "2", "3", "4"]);
    assert!(matches!(keys("*.html", &usual), Err(Error::NoMatch { .. })));
    assert!(matches!(keys("*", &usual), Err(Error::UnknownFormat { .. })));
    // Keys are unique over all files, and the message names the earlier one.
    write("d.jsonl", br#"{"_id":"2","text":"again"}"#);
    let error = keys("*.jsonl*", &usual).unwrap_err().to_string();
    assert!(
        error.contains("d.jsonl:1: key `2` was already used in `") && error.contains("a.jsonl.gz`, line 2"),
        "{error}"
    );
    assert_eq!(
        keys(
            "*.jsonl*",
            &ReadOptions {
                repeated_keys: true,
                ..usual.clone()
            }
        )
        .unwrap()
        .len(),
        4
    );
    // A file of that very name is that file.
    write("[a].jsonl", br#"{"_id":"x","text":"bracket"}"#);
    assert_eq!(keys("[a].jsonl", &usual).unwrap(), ["x"]);
}

#[test]
fn rejects_overwrite_no_file_of_a_pattern() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.jsonl", "b.jsonl"] {
        fs_err::write(
            folder.path().join(name),
            format!("{{\"_id\":\"{name}\",\"text\":\"x\"}}\n"),
        )
        .unwrap();
    }
    let rejects = Some(folder.path().join("b.jsonl"));
    let options = ReadOptions {
        rejects,
        ..ReadOptions::default()
    };
    let error = CorpusReader::open(&folder.path().join("*.jsonl"), &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("is the corpus itself"), "{error}");
    assert_eq!(
        read_with(&folder.path().join("*.jsonl"), &ReadOptions::default())
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn fields_have_the_names_that_are_given() {
    let line = r#"{"url":"u","body":"text","head":"T","site":"s","n":3,"metadata":{"a":1}}"#;
    let (_folder, path) = file("x.jsonl", line);
    let found = read_with(&path, &named("url", "head", "body", &["site", "n", "url"])).unwrap();
    let metadata = Metadata::parse(r#"{"a":1,"site":"s","n":3,"url":"u"}"#).unwrap();
    assert_eq!(
        found,
        [(
            1,
            Document {
                metadata,
                ..document("u", "T", "text")
            }
        )]
    );
    let error = read_with(&path, &named("id", "head", "body", &[]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("expected `id`"), "{error}");
    // The object that fields are stored in is not stored in itself.
    let (_folder, path) = file("x.jsonl", r#"{"_id":"u","text":"t","metadata":{"metadata":1.50}}"#);
    let found = read_with(&path, &named("_id", "title", "text", &["metadata"])).unwrap();
    assert_eq!(found[0].1.metadata.as_ref().unwrap().as_json(), r#"{"metadata":1.50}"#);
}

#[test]
fn documents_are_read_as_passages() {
    let lines = "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"One two. Three four. Five.\"}\n{\"_id\":\"b\",\"text\":\" \"}\n{\"_id\":\"c\",\"title\":\"only\"}\n{\"_id\":\"a\",\"text\":\"again\"}\n";
    let (_folder, path) = file("x.jsonl", lines);
    let split = Some(Split::new(3, 0).unwrap());
    let options = ReadOptions {
        split,
        max_bad: Some(3),
        ..ReadOptions::default()
    };
    let mut reader = CorpusReader::open(&path, &options).unwrap();
    let found: Vec<Located<Document>> = reader.by_ref().map(Result::unwrap).collect();
    let shown: Vec<(u64, &str, String)> = found
        .iter()
        .map(|found| (found.line, found.value.key.as_str(), found.value.passage().into_owned()))
        .collect();
    assert_eq!(
        shown,
        [
            (1, "a#0", "T One two.".to_owned()),
            (1, "a#1", "T Three four. Five.".to_owned())
        ]
    );
    // No text, no field of a text, and a key that was there.
    assert_eq!(reader.rejected(), 3);
    // A longer document of a key that was there is one flaw, and none of its passages is read.
    let lines = "{\"_id\":\"a\",\"text\":\"One two.\"}\n{\"_id\":\"a\",\"text\":\"One two. Three four. Five six.\"}\n";
    fs_err::write(&path, lines).unwrap();
    let split = Some(Split::new(2, 0).unwrap());
    let found = read_with(
        &path,
        &ReadOptions {
            split,
            max_bad: Some(1),
            ..ReadOptions::default()
        },
    )
    .unwrap();
    assert_eq!(
        found.iter().map(|(_, found)| found.key.as_str()).collect::<Vec<_>>(),
        ["a#0"]
    );
}

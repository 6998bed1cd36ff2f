//! Every form that is read, every refusal and its text.

mod csv;
mod flawed;
mod formats;
mod html;
mod passages;
mod table;
mod texts;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::document::{Document, Located};
use crate::error::Error;

/// A file in a folder of its own.
fn file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs_err::write(&path, content).unwrap();
    (folder, path)
}

fn read_with(path: &Path, options: &ReadOptions) -> Result<Vec<(u64, Document)>, Error> {
    CorpusReader::open(path, options)?
        .map(|item| item.map(|located| (located.line, located.value)))
        .collect()
}

fn read(name: &str, content: impl AsRef<[u8]>) -> Result<Vec<(u64, Document)>, Error> {
    let (_folder, path) = file(name, content);
    read_with(&path, &ReadOptions::default())
}

/// The error's text without the folder.
fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    let (folder, path) = file(name, content);
    let error = read_with(&path, &ReadOptions::default()).unwrap_err().to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

fn document(key: &str, title: &str, text: &str) -> Document {
    Document {
        key: key.into(),
        title: title.into(),
        text: text.into(),
        metadata: None,
        place: None,
    }
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &str) -> Vec<u8> {
    zstd::encode_all(content.as_bytes(), 3).unwrap()
}

const TWO: &str = "{\"_id\":\"a\",\"title\":\"T\",\"text\":\"one\"}\n{\"_id\":\"b\",\"text\":\"two\"}\n";

fn two() -> Vec<(u64, Document)> {
    vec![(1, document("a", "T", "one")), (2, document("b", "", "two"))]
}

#[test]
fn jsonl_takes_the_names_in_use_and_ignores_the_rest() {
    let content = concat!(
        "\u{feff}{\"_id\":\"a\",\"id\":\"x\",\"title\":null,\"text\":\"one\",\"contents\":\"x\",\"url\":7}\r\n",
        "\n  \n",
        "{\"id\":42,\"contents\":\"two\",\"metadata\":{}}\n",
        "{\"docid\":\"c\",\"title\":\"only a title\",\"text\":\"\",\"metadata\":null}\n",
        "{\"key\":\"d\",\"text\":\"four\",\"metadata\":{\"z\":1,\"a\":[null]}}",
    );
    let found = read("corpus.jsonl", content).unwrap();
    assert_eq!(found[0], (1, document("a", "", "one")));
    assert_eq!(found[1], (4, document("42", "", "two")));
    assert_eq!(found[2], (5, document("c", "only a title", "")));
    assert_eq!((found[3].0, found[3].1.key.as_str()), (6, "d"));
    let metadata = found[3].1.metadata.as_ref().unwrap();
    assert_eq!(metadata.as_json(), "{\"z\":1,\"a\":[null]}", "metadata keeps its order");
}

#[test]
fn broken_lines_are_named() {
    let line = |text: &str| refusal("c.jsonl", format!("{TWO}{text}\n"));
    assert_eq!(
        line("{\"_id\":\"c\",\"text\":\"x\""),
        "c.jsonl:3: not a JSON object: EOF while parsing an object at column 21: the record does not end on its line. Either the file is cut short, or `jq -c . FILE` writes one record per line"
    );
    assert_eq!(
        line("7"),
        "c.jsonl:3: not a JSON object: invalid type: integer `7`, expected a map at column 1"
    );
    let array = "a JSON array: expected one JSON object per line. `jq -c '.[]' FILE` writes the elements of an array one per line";
    assert_eq!(line("[1]"), format!("c.jsonl:3: {array}"));
    // Nothing of such a file can be read, and that is said once.
    assert_eq!(
        refusal("c.json", format!("[\n{}]\n", TWO.replacen("}\n", "},\n", 1))),
        format!("c.json:1: {array}")
    );
    assert_eq!(
        line("{\"text\":\"x\"}"),
        "c.jsonl:3: a field is missing: expected `_id` or `id` or `docid` or `key`, got `text`"
    );
    assert_eq!(
        line("{\"_id\":\"c\"}"),
        "c.jsonl:3: a field is missing: expected `text` or `contents`, got no other field"
    );
    assert_eq!(
        line("{\"_id\":\"c\",\"text\":null}"),
        "c.jsonl:3: field `text` is null. Give it a value, or remove the record"
    );
    assert_eq!(
        line("{\"_id\":null,\"text\":\"x\"}"),
        "c.jsonl:3: field `_id` is null. Give it a value, or remove the record"
    );
    assert_eq!(
        line("{\"_id\":1.5,\"text\":\"x\"}"),
        "c.jsonl:3: field `_id` has the wrong type: expected a string or an integer, got a fractional or too large number"
    );
    assert_eq!(
        line("{\"_id\":\"c\",\"text\":[\"x\"]}"),
        "c.jsonl:3: field `text` has the wrong type: expected a string, got an array"
    );
    assert_eq!(
        line("{\"_id\":\"c\",\"text\":\"x\",\"metadata\":\"m\"}"),
        "c.jsonl:3: field `metadata` has the wrong type: expected an object, got a string"
    );
    assert_eq!(
        line("{\"_id\":\" \",\"text\":\"x\"}"),
        "c.jsonl:3: the key is empty. Give every record a key of its own"
    );
    assert_eq!(
        line("{\"_id\":\"a\",\"text\":\"x\"}"),
        "c.jsonl:3: key `a` was already used on line 1. Keys must be unique; remove one of the two"
    );
    assert_eq!(
        line("{\"_id\":\"c\",\"title\":\"\\t\",\"text\":\" \\n\\u00a0\"}"),
        "c.jsonl:3: the text of key `c` is empty. Remove the record or give it a text"
    );
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    assert_eq!(
        line(&format!("{{\"_id\":\"{long}\",\"text\":\"x\"}}")),
        "c.jsonl:3: the key is too long: 4097 bytes, limit 4096. Use shorter keys"
    );
    assert_eq!(
        refusal("c.jsonl", b"{\"_id\":\"a\",\"text\":\"\xff\"}\n"),
        "c.jsonl:1: not valid UTF-8 at byte 19 of the line. Convert the file to UTF-8"
    );
}

#[test]
fn metadata_have_a_limit_and_keys_can_be_named_in_a_line() {
    let of = |bytes: usize| {
        let value = "x".repeat(bytes - r#"{"a":""}"#.len());
        format!("{{\"_id\":\"k\",\"text\":\"x\",\"metadata\": {{ \"a\" : \"{value}\" }} }}\n")
    };
    assert_eq!(read("c.jsonl", of(MAX_METADATA_BYTES)).unwrap().len(), 1);
    assert_eq!(
        refusal("c.jsonl", of(MAX_METADATA_BYTES + 1)),
        "c.jsonl:1: the metadata of document `k` are too large: 1048577 bytes as compact JSON, limit 1048576. Keep large values elsewhere"
    );
    for letter in ["\\n", "\\r", "\\u0000"] {
        let refused = refusal("c.jsonl", format!("{{\"_id\":\"a{letter}b\",\"text\":\"x\"}}\n"));
        assert!(
            refused.contains("c.jsonl:1: the key has a line break or a zero byte"),
            "{refused}"
        );
    }
}

#[test]
fn long_texts_are_refused_with_size_limit_and_fix() {
    let of = |bytes: usize| {
        format!(
            "{{\"_id\":\"a\",\"title\":\"t\",\"text\":\"{}\"}}\n",
            "x".repeat(bytes - 2)
        )
    };
    assert_eq!(read("c.jsonl", of(1 << 20)).unwrap().len(), 1);
    assert_eq!(
        refusal("c.jsonl", of((1 << 20) + 1)),
        "c.jsonl:1: the text of key `a` is too long: 1048577 bytes, limit 1048576. Split it into passages"
    );
    let (_folder, path) = file("c.jsonl", of(100));
    let options = |max_text_bytes| ReadOptions {
        max_text_bytes,
        ..ReadOptions::default()
    };
    assert!(
        read_with(&path, &options(99))
            .unwrap_err()
            .to_string()
            .contains("100 bytes, limit 99")
    );
    assert_eq!(read_with(&path, &options(100)).unwrap().len(), 1);
    assert_eq!(
        refusal("c.jsonl", vec![b'x'; (16 << 20) + 1]),
        "c.jsonl:1: the line is longer than 16777216 bytes. Split the document into passages"
    );
}

#[test]
fn tsv_is_key_and_text_or_what_its_header_says() {
    let ms_marco = "7\tThe \"presence\" of\tcommunication".replacen("\tcommunication", " communication", 1);
    assert_eq!(
        read("collection.tsv", ms_marco).unwrap(),
        [(1, document("7", "", "The \"presence\" of communication"))]
    );
    // First lines of DPR's psgs_w100.tsv, shortened; made by Python's csv.writer(delimiter="\t").
    let dpr = "id\ttext\ttitle\n1\t\"Aaron ( or ; \"\"Ahärôn\"\") is\ta prophet\"\tAaron\n2\tplain\t\"Q\"\"\"\r\n3\t\"left open\tt\n";
    let found = read("psgs.tsv", dpr).unwrap();
    assert_eq!(
        found[0],
        (2, document("1", "Aaron", "Aaron ( or ; \"Ahärôn\") is\ta prophet"))
    );
    assert_eq!(found[1], (3, document("2", "Q\"", "plain")));
    assert_eq!(found[2], (4, document("3", "t", "\"left open")));
    assert_eq!(
        refusal("c.tsv", "a\tone\nb\ttwo\tthree\n"),
        "c.tsv:2: wrong number of columns: expected 2 between tabs: key<TAB>text \
         (other columns need a header line such as id<TAB>text<TAB>title), got 3"
    );
    assert_eq!(
        refusal("c.tsv", "id\ttitle\ttext\na\tone\n"),
        "c.tsv:2: wrong number of columns: expected 3 between tabs: key<TAB>title<TAB>text, got 2"
    );
    assert_eq!(
        refusal("c.tsv", "a\tone\n\t\n"),
        "c.tsv:2: the key is empty. Give every record a key of its own"
    );
    assert_eq!(refusal("c.tsv", "id\ttext\n"), "`c.tsv` holds no documents");
}

proptest! {
    /// Python's csv.writer quotes what holds a tab or a quote; whatever it writes on one line comes back.
    #[test]
    fn quoted_columns_come_back(fields in prop::collection::vec("[a\"\t ]{1,8}", 3)) {
        let quoted = |field: &String| {
            if field.contains(['"', '\t']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.clone() }
        };
        let line = fields.iter().map(quoted).collect::<Vec<_>>().join("\t");
        let columns = Columns::from_header("id\ttext\ttitle").unwrap();
        let found = columns.document(&line).unwrap();
        prop_assert_eq!([found.key, found.text, found.title].to_vec(), fields);
    }

    /// Whatever a file holds, it is read or refused.
    #[test]
    fn no_bytes_make_it_panic(content in prop::collection::vec(any::<u8>(), 0..200), name in "c\\.(jsonl|tsv)(\\.gz)?") {
        let _ = read(&name, &content);
        let magic = [&[0x1f, 0x8b, 8, 0][..], &content].concat();
        prop_assert!(read(&name, magic).is_err());
        let magic = [&[0x28, 0xb5, 0x2f, 0xfd][..], &content].concat();
        prop_assert!(read(&name, magic).is_err());
    }
}

#[test]
fn compression_is_told_by_content_in_all_its_forms() {
    let (first, second) = TWO.split_at(TWO.find('\n').unwrap() + 1);
    for content in [
        TWO.as_bytes().to_vec(),
        gzip(TWO),
        [gzip(first), gzip(second)].concat(),
        zstd(TWO),
        [zstd(first), zstd(second)].concat(),
    ] {
        for name in ["c.jsonl", "c.jsonl.gz", "c.json.zst", "c.NDJSON"] {
            assert_eq!(read(name, &content).unwrap(), two(), "{name}");
        }
    }
}

#[test]
fn a_stream_that_is_cut_short_anywhere_is_refused() {
    for (name, content) in [("c.jsonl.gz", gzip(TWO)), ("c.jsonl.zst", zstd(TWO))] {
        for end in 4..content.len() {
            let refusal = refusal(name, &content[..end]);
            assert!(
                refusal.starts_with(&format!("`{name}` is cut short: its ")),
                "{end}: {refusal}"
            );
        }
    }
    assert_eq!(
        refusal("c.jsonl.gz", &gzip(TWO)[..40]),
        "`c.jsonl.gz` is cut short: its gzip stream ends in the middle, after line 0. Fetch the file or compress it again"
    );
    let garbage = refusal("c.jsonl.gz", [gzip(TWO), b"trailing garbage".to_vec()].concat());
    assert!(
        garbage.starts_with("cannot read `c.jsonl.gz` after line 2: "),
        "{garbage}"
    );
}

#[test]
fn a_beir_folder_is_found_in_any_form() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let options = ReadOptions {
        format: CorpusFormat::Beir,
        ..ReadOptions::default()
    };
    let missing = read_with(root, &options).unwrap_err().to_string();
    assert!(missing.ends_with("has no corpus.jsonl: expected corpus.jsonl, corpus.jsonl.gz or corpus.jsonl.zst"));
    fs_err::write(root.join("corpus.jsonl.zst"), zstd(TWO)).unwrap();
    assert_eq!(read_with(root, &ReadOptions::default()).unwrap(), two());
    fs_err::write(root.join("corpus.jsonl"), "{\"_id\":\"plain\",\"text\":\"first\"}").unwrap();
    assert_eq!(
        read_with(root, &options).unwrap(),
        [(1, document("plain", "", "first"))]
    );

    let beir = BeirFolder::open(root).unwrap();
    assert!(
        beir.qrels("test")
            .unwrap_err()
            .to_string()
            .ends_with("has no split `test`. The splits there: none")
    );
    fs_err::create_dir(root.join("qrels")).unwrap();
    for name in ["test.tsv", "dev.tsv.gz", "notes.md"] {
        fs_err::write(root.join("qrels").join(name), "").unwrap();
    }
    assert_eq!(beir.splits().unwrap(), ["dev", "test"]);
    assert_eq!(beir.qrels("dev").unwrap(), root.join("qrels/dev.tsv.gz"));
    let error = beir.qrels("train").unwrap_err().to_string();
    assert!(
        error.ends_with("has no split `train`. The splits there: dev, test"),
        "{error}"
    );
    assert!(beir.queries().unwrap_err().to_string().contains("has no queries.jsonl"));
    let error = BeirFolder::open(&root.join("corpus.jsonl")).unwrap_err().to_string();
    assert!(error.contains("is not a folder"), "{error}");
}

#[test]
fn a_corpus_without_documents_is_refused() {
    assert_eq!(refusal("c.jsonl", ""), "`c.jsonl` holds no documents");
    assert_eq!(refusal("c.jsonl.gz", gzip("\n \n")), "`c.jsonl.gz` holds no documents");
}

#[test]
fn what_cannot_be_opened_says_why() {
    assert!(refusal("corpus.xml", "x").starts_with("cannot tell the format of `corpus.xml`: expected a BEIR folder"));
    assert!(refusal("corpus.xml", "x").ends_with("Name it with `--format`, as in `--format tsv`, or rename the file"));
    let missing = read_with(Path::new("no/such/corpus.parquet"), &ReadOptions::default())
        .unwrap_err()
        .to_string();
    assert_eq!(missing, "no file or directory `no/such/corpus.parquet`");
    let unmatched = read_with(Path::new("no/such/corpus-*.jsonl"), &ReadOptions::default());
    assert_eq!(
        unmatched.unwrap_err().to_string(),
        "no file matches `no/such/corpus-*.jsonl`"
    );
    assert_eq!(
        BeirFolder::open(Path::new("scifact")).unwrap_err().to_string(),
        "no BEIR folder at `scifact`: expected corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
    );
    let folder = tempfile::tempdir().unwrap();
    let options = ReadOptions {
        format: CorpusFormat::Jsonl,
        ..ReadOptions::default()
    };
    let error = read_with(folder.path(), &options).unwrap_err().to_string();
    assert!(error.starts_with("expected a file, got a folder: "), "{error}");
}

#[test]
fn progress_is_counted_on_disk_and_an_error_ends_the_reader() {
    let (_folder, path) = file("c.jsonl.gz", gzip(TWO));
    let mut reader = CorpusReader::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(reader.by_ref().filter_map(Result::ok).count(), 2);
    assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
    assert_eq!(reader.total_bytes(), Some(gzip(TWO).len() as u64));

    let (_folder, path) = file("c.jsonl", format!("{TWO}broken\n{{\"_id\":\"z\",\"text\":\"z\"}}\n"));
    let found: Vec<bool> = CorpusReader::open(&path, &ReadOptions::default())
        .unwrap()
        .map(|item| item.is_ok())
        .collect();
    assert_eq!(found, [true, true, false]);
}

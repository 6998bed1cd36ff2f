//! Flawed records: reported together, skipped up to a number, listed; and fields that are not stored.

use std::path::Path;

use tempfile::TempDir;

use super::super::*;
use crate::error::Error;

/// Good and flawed records in turn: five documents, and an empty text, a key twice, broken UTF-8, a line too long, a
/// number.
fn mixed() -> (TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.jsonl");
    let good = |key: &str| format!("{{\"_id\":\"{key}\",\"text\":\"text of {key}\"}}\n").into_bytes();
    let long = [vec![b'x'; (16 << 20) + 1], b"\n".to_vec()].concat();
    let lines = [
        good("a"),
        b"{\"_id\":\"b\",\"text\":\" \"}\n".to_vec(),
        good("c"),
        good("a"),
        b"{\"_id\":\"\xff\",\"text\":\"x\"}\n".to_vec(),
        good("d"),
        long,
        // The key of a flawed record is free.
        good("b"),
        b"7\n".to_vec(),
        good("e"),
    ];
    fs_err::write(&path, lines.concat()).unwrap();
    (folder, path)
}

fn options(max_bad: Option<u64>) -> ReadOptions {
    ReadOptions {
        max_bad,
        ..ReadOptions::default()
    }
}

fn read(path: &Path, options: &ReadOptions) -> Result<Vec<(u64, String)>, Error> {
    CorpusReader::open(path, options)?
        .map(|item| item.map(|found| (found.line, found.value.key)))
        .collect()
}

#[test]
fn all_flaws_of_a_corpus_are_told_at_once() {
    let (folder, path) = mixed();
    let told = |options: &ReadOptions| {
        let message = read(&path, options).unwrap_err().to_string();
        message.replace(&format!("{}/", folder.path().display()), "")
    };
    let flaws = "\n  c.jsonl:2: the text of key `b` is empty. Remove the record or give it a text\
                 \n  c.jsonl:4: key `a` was already used on line 1. Keys must be unique; remove one of the two\
                 \n  c.jsonl:5: not valid UTF-8 at byte 8 of the line. Convert the file to UTF-8\
                 \n  c.jsonl:7: the line is longer than 16777216 bytes. Split the document into passages\
                 \n  c.jsonl:9: not a JSON object: invalid type: integer `7`, expected a map at column 1\n";
    assert_eq!(
        told(&options(Some(0))),
        format!("5 bad records in `c.jsonl`:{flaws}Correct them, or skip them with `--max-bad 5`")
    );
    assert_eq!(
        told(&options(Some(4))),
        format!(
            "5 bad records in `c.jsonl`, and `--max-bad` allows 4:{flaws}Correct them, or skip them with `--max-bad 5`"
        )
    );
    // No option is named to who has none.
    assert_eq!(
        told(&options(None)),
        format!("5 bad records in `c.jsonl`:{flaws}Correct them")
    );
}

#[test]
fn flawed_records_are_skipped_up_to_a_number_and_listed() {
    let (folder, path) = mixed();
    let rejects = folder.path().join("rejects.jsonl");
    let with_list = |max_bad| ReadOptions {
        rejects: Some(rejects.clone()),
        ..options(Some(max_bad))
    };
    let mut reader = CorpusReader::open(&path, &with_list(5)).unwrap();
    let found: Vec<(u64, String)> = reader
        .by_ref()
        .map(|item| item.map(|found| (found.line, found.value.key)).unwrap())
        .collect();
    assert_eq!(
        found,
        [(1, "a"), (3, "c"), (6, "d"), (8, "b"), (10, "e")].map(|(line, key)| (line, key.to_owned()))
    );
    let warnings = reader.warnings();
    assert_eq!(warnings.len(), 1);
    let start = format!(
        "skipped 5 bad records; the first: {}:2: the text of key `b` is empty",
        path.display()
    );
    assert!(warnings[0].starts_with(&start), "{warnings:?}");

    let listed = fs_err::read_to_string(&rejects).unwrap();
    let listed: Vec<serde_json::Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<u64> = listed.iter().map(|reject| reject["line"].as_u64().unwrap()).collect();
    assert_eq!(lines, [2, 4, 5, 7, 9]);
    assert_eq!(listed[1]["file"], path.display().to_string());
    assert_eq!(
        listed[1]["reason"],
        "key `a` was already used on line 1. Keys must be unique; remove one of the two"
    );

    // What is too many is listed to the end, too.
    fs_err::remove_file(&rejects).unwrap();
    read(&path, &with_list(1)).unwrap_err();
    assert_eq!(fs_err::read_to_string(&rejects).unwrap().lines().count(), 5);
    // A clean corpus leaves an empty list in place of an old one.
    fs_err::write(&path, "{\"_id\":\"a\",\"text\":\"x\"}\n").unwrap();
    read(&path, &with_list(0)).unwrap();
    assert_eq!(fs_err::read_to_string(&rejects).unwrap(), "");
}

#[test]
fn the_corpus_is_no_list_of_its_own_rejects() {
    let (_folder, path) = mixed();
    let before = fs_err::metadata(&path).unwrap().len();
    let onto_itself = ReadOptions {
        rejects: Some(path.clone()),
        ..options(Some(9))
    };
    let error = CorpusReader::open(&path, &onto_itself).unwrap_err().to_string();
    assert!(
        error.ends_with("is the corpus itself. Give `--rejects` another file"),
        "{error}"
    );
    assert_eq!(fs_err::metadata(&path).unwrap().len(), before);
}

#[test]
fn many_flaws_take_little_memory_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.tsv");
    let flawed: Vec<String> = (0..1_000).map(|number| format!("{number}\n")).collect();
    let content = format!("a\tone\n{}", flawed.concat());
    fs_err::write(&path, &content).unwrap();
    let told = read(&path, &options(Some(0))).unwrap_err().to_string();
    assert!(
        told.starts_with("1000 bad records in ") && told.contains("\n  and 980 more\n"),
        "{told}"
    );
    assert!(
        told.ends_with("with `--max-bad 1000`; `--rejects FILE` lists them all"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1 + 20 + 2);
    assert_eq!(read(&path, &options(Some(1_000))).unwrap().len(), 1);

    // A truncated stream is always refused, and the flaws before its end are reported with it.
    let mut packed = zstd::encode_all(content.as_bytes(), 3).unwrap();
    packed.truncate(packed.len() - 4);
    fs_err::write(&path, &packed).unwrap();
    let cut = read(&path, &options(Some(5_000))).unwrap_err();
    assert!(matches!(cut, Error::CutShort { .. }), "{cut}");
    // Nothing but flawed records is no corpus.
    fs_err::write(&path, "1\n2\n").unwrap();
    assert!(matches!(
        read(&path, &options(Some(2))).unwrap_err(),
        Error::Empty { .. }
    ));
    assert!(matches!(
        read(&path, &options(Some(1))).unwrap_err(),
        Error::Flaws { total: 2, .. }
    ));
}

#[test]
fn fields_that_are_not_stored_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.jsonl");
    let lines = [
        "{\"_id\":\"a\",\"text\":\"x\",\"url\":\"http://x\",\"metadata\":{\"lang\":\"en\"}}",
        "{\"_id\":\"b\",\"id\":7,\"text\":\"x\",\"url\":\"http://y\",\"title\":null,\"note\":null}",
    ];
    fs_err::write(&path, lines.join("\n")).unwrap();
    let mut reader = CorpusReader::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(reader.by_ref().filter_map(Result::ok).count(), 2);
    assert_eq!(reader.warnings(), ["fields outside `metadata` are not stored: url, id"]);
}

/// What would mend all records is said with each of the first.
#[test]
fn the_option_that_a_corpus_needs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs_err::write(&path, content).unwrap();
        let error = read(&path, &options(Some(0))).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    };
    let line = "{\"docid\":\"d\",\"headline\":\"A river\",\"body\":\"The river flows.\"}\n";
    assert_eq!(
        refused("c.jsonl", line),
        "c.jsonl:1: a field is missing: expected `text` or `contents`, got `body`, `headline`. \
         If `body` is meant, use `--text-field body`"
    );
    let many = refused("c.jsonl", &line.repeat(3));
    assert!(many.starts_with("3 bad records in `c.jsonl`:\n"), "{many}");
    assert_eq!(many.matches("use `--text-field body`").count(), 3, "{many}");
    let key = refused("c.jsonl", "{\"DocumentId\":\"d\",\"text\":\"x\"}\n");
    assert!(
        key.ends_with("If `DocumentId` is meant, use `--key-field DocumentId`"),
        "{key}"
    );
    let prose = refused("c.txt", "A river\nflows.\n");
    assert!(prose.starts_with("2 bad records in `c.txt`:\n"), "{prose}");
    assert_eq!(
        prose
            .matches(", got 1. If each file is a document, use `--format text`\n")
            .count(),
        2,
        "{prose}"
    );
}

#[test]
fn a_field_of_two_types_is_warned_of_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.jsonl");
    let years = ["2024", "\"2024\"", "1999", "\"about 1900\"", "1.5"];
    let lines = years.iter().enumerate();
    let lines: Vec<String> = lines
        .map(|(number, year)| {
            format!("{{\"_id\":\"{number}\",\"text\":\"x y. z\",\"metadata\":{{\"year\":{year},\"n\":1}}}}\n")
        })
        .collect();
    // A flawed record is no document, whatever its values.
    fs_err::write(
        &path,
        format!(
            "{}{{\"_id\":\"9\",\"text\":\"\",\"metadata\":{{\"n\":\"1\"}}}}\n",
            lines.concat()
        ),
    )
    .unwrap();
    for split in [None, Some(crate::Split::new(1, 0).unwrap())] {
        let with_split = ReadOptions {
            split,
            ..options(Some(1))
        };
        let mut reader = CorpusReader::open(&path, &with_split).unwrap();
        assert!(reader.by_ref().all(|found| found.is_ok()));
        let warnings = reader.warnings();
        assert_eq!(
            warnings[1..],
            [
                "metadata field `year` is a number in 3 documents (such as 2024) and a text in 2 (such as \"2024\"), \
              and a filter finds only the ones or the others. Write it the same way in all documents"
            ]
        );
    }
}

//! Comma-separated values: what is read, what is refused, and hostile files.

use super::*;

fn fields(key: &str, title: &str, text: &str, metadata: &[&str]) -> ReadOptions {
    ReadOptions {
        fields: FieldNames {
            key: Some(key.to_owned()),
            title: Some(title.to_owned()),
            text: Some(text.to_owned()),
            metadata: metadata.iter().map(|&name| name.to_owned()).collect(),
        },
        ..ReadOptions::default()
    }
}

#[test]
fn records_are_read_by_the_names_of_json() {
    let content = "\u{feff}text,url,_id,title,id\r\n\
        \"one, two\",http://x,a,\"A \"\"title\"\"\",9\r\n\r\n\
        \"first line\n\nthird\",,b,,\n\
        plain \"quoted\",,42,\"\",\n  \n\
        last,,c,T,";
    let expected = [
        (2, document("a", "A \"title\"", "one, two")),
        (4, document("b", "", "first line\n\nthird")),
        (7, document("42", "", "plain \"quoted\"")),
        (9, document("c", "T", "last")),
    ];
    for bytes in [content.as_bytes().to_vec(), gzip(content), zstd(content)] {
        for name in ["c.csv", "c.csv.gz", "c.CSV.zst"] {
            assert_eq!(read(name, &bytes).unwrap(), expected, "{name}");
        }
    }
    let (_folder, path) = file("c.csv", content);
    let mut reader = CorpusReader::open(&path, &ReadOptions::default()).unwrap();
    assert_eq!(reader.by_ref().filter_map(Result::ok).count(), 4);
    assert_eq!(reader.warnings(), ["fields outside `metadata` are not stored: url, id"]);
    assert_eq!(Some(reader.bytes_read()), reader.total_bytes());
}

#[test]
fn columns_have_the_names_that_are_given_and_values_are_texts() {
    let content = "Nr,head,body,year,site,metadata\n1,H,\"a,b\",2024,,\"{\"\"n\"\": 1.50}\"\n2,,c,,s,\n";
    let (_folder, path) = file("c.csv", content);
    let options = ReadOptions {
        unseen_fields: UnseenFieldPolicy::Refused,
        ..fields("Nr", "head", "body", &["year", "site", "Nr"])
    };
    let found = read_with(&path, &options).unwrap();
    let shown: Vec<(&str, &str, &str, &str)> = super::texts::shown(&found);
    assert_eq!(
        shown,
        [
            ("1", "H", "a,b", r#"{"n":1.50,"year":"2024","Nr":"1"}"#),
            ("2", "", "c", r#"{"site":"s","Nr":"2"}"#)
        ]
    );
    let unseen = ReadOptions {
        unseen_fields: UnseenFieldPolicy::Refused,
        ..fields("Nr", "head", "body", &["yaer"])
    };
    let error = read_with(&path, &unseen).unwrap_err().to_string();
    assert!(
        error.contains("has the field `yaer`") && error.contains("are not stored: `year`, `site`"),
        "{error}"
    );
}

#[test]
fn a_header_line_has_to_say_where_keys_and_texts_are() {
    assert_eq!(
        refusal("c.csv", "docid,headline,body\n1,a b,c d e\n"),
        "c.csv:1: the header line has no such column: expected `text` or `contents`, got `docid`, `headline`, `body`. \
         Let the first line name the columns, such as id,title,text, or name this one with `--text-field`"
    );
    assert_eq!(
        refusal("c.csv", "7,The text\n8,Another\n"),
        "c.csv:1: the header line has no such column: expected `_id` or `id` or `docid` or `key`, got `7`, `The text`. \
         Let the first line name the columns, such as id,title,text, or name this one with `--key-field`"
    );
    for (separator, name) in [(";", "a semicolon"), ("\t", "a tab")] {
        let error = refusal("c.csv", ["id", "text\na", "b\n"].join(separator));
        assert!(
            error.ends_with(&format!("Separate columns by commas, not by {name}")),
            "{error}"
        );
    }
    assert_eq!(
        refusal("c.csv", "id,text,text\na,b,c\n"),
        "c.csv:1: the header line has the column `text` twice: expected one, got several. Rename or remove the others"
    );
    // Of columns that are not read, nothing is lost; pandas leaves the name of its row numbers empty.
    assert_eq!(
        read("c.csv", ",id,text,x,x\n0,a,b,c,d\n").unwrap(),
        [(2, document("a", "", "b"))]
    );
    for empty in ["", "\n\n", "id,text\n", "id,text"] {
        assert_eq!(refusal("c.csv", empty), "`c.csv` holds no documents", "{empty:?}");
    }
}

#[test]
fn a_file_without_a_header_is_no_bad_record_among_those_of_others() {
    let folder = super::texts::folder(&[("a.csv", b"id,text\na,one\n"), ("b.csv", b"b,two\nc,three\n")]);
    let options = ReadOptions {
        max_bad: Some(9),
        ..ReadOptions::default()
    };
    let error = read_with(&folder.path().join("*.csv"), &options)
        .unwrap_err()
        .to_string();
    assert!(error.contains("b.csv:1: the header line has no such column"), "{error}");
}

#[test]
fn flawed_records_are_told_by_their_first_lines_and_may_be_skipped() {
    let content = "id,text\na,one\nb\nc,two,three\n\"d\nd\",x\n,four\na,again\ne,\nf,\"f\nf\"\n";
    let (folder, path) = file("c.csv", content);
    let options = |max_bad| ReadOptions {
        max_bad: Some(max_bad),
        ..ReadOptions::default()
    };
    let error = read_with(&path, &options(0)).unwrap_err().to_string();
    let error = error.replace(&format!("{}/", folder.path().display()), "");
    for told in [
        "6 bad records in `c.csv`",
        "c.csv:3: wrong number of columns: expected 2 between commas, as the header has (`id`, `text`), got 1",
        "c.csv:4: wrong number of columns: expected 2 between commas, as the header has (`id`, `text`), got 3",
        "c.csv:5: the key has a line break or a zero byte",
        "c.csv:7: the key is empty",
        "c.csv:8: key `a` was already used on line 2",
        "c.csv:9: the text of key `e` is empty",
        "skip them with `--max-bad 6`",
    ] {
        assert!(error.contains(told), "{told}: {error}");
    }
    assert_eq!(
        read_with(&path, &options(6)).unwrap(),
        [(2, document("a", "", "one")), (10, document("f", "", "f\nf"))]
    );
}

#[test]
fn hostile_files_are_refused_and_what_can_be_read_is_read() {
    let two = |flawed: &[u8]| [b"id,text\na,one\n", flawed, b"\nz,last\n"].concat();
    let options = ReadOptions {
        max_bad: Some(1),
        ..ReadOptions::default()
    };
    let read_and_refusal = |flawed: &[u8]| {
        let (_folder, path) = file("c.csv", two(flawed));
        let keys: Vec<String> = read_with(&path, &options)
            .unwrap()
            .into_iter()
            .map(|(_, found)| found.key)
            .collect();
        (keys.join(" "), refusal("c.csv", two(flawed)))
    };
    let (keys, error) = read_and_refusal(b"b,caf\xe9");
    assert_eq!(keys, "a z");
    assert_eq!(
        error,
        "c.csv:3: column `text` is not valid UTF-8 at byte 3 of its value. Convert the file to UTF-8"
    );
    let (keys, error) = read_and_refusal(format!("b,\"{}\"", "x\n".repeat(9 << 20)).as_bytes());
    assert_eq!(keys, "a z");
    assert!(
        error.starts_with("c.csv:3: the record is longer than 16777216 bytes. "),
        "{error}"
    );
    let (keys, error) = read_and_refusal("b,".repeat(5_000).as_bytes());
    assert_eq!(keys, "a z");
    assert_eq!(
        error,
        "c.csv:3: wrong number of columns: expected at most 4096, got 5001"
    );
    // The last record goes to the end of the file.
    let (keys, error) = read_and_refusal(b"b,\"open");
    assert_eq!(keys, "a");
    assert!(
        error.starts_with("c.csv:3: a double quote opens a field and is never closed. "),
        "{error}"
    );
    // A text may have a zero byte, as in JSON, and a key may not.
    assert_eq!(
        read("c.csv", "id,text\na,x\0y\n").unwrap(),
        [(2, document("a", "", "x\0y"))]
    );
    assert!(refusal("c.csv", "id,text\na\0,x\n").starts_with("c.csv:2: the key has a line break or a zero byte"));
    assert_eq!(
        refusal("c.csv", b"id,t\xffext\na,x\n"),
        "c.csv:1: column 2 is not valid UTF-8 at byte 1 of its value. Convert the file to UTF-8"
    );
    assert!(refusal("c.csv", b"\xff\xfei\0d\0").contains("UTF-16, not UTF-8"));
    assert!(refusal("c.csv", format!("{}\n", "x,".repeat(5_000))).contains("expected at most 4096, got 5001"));
    assert!(refusal("c.csv", "id,text,metadata\na,b,{x\n").contains("c.csv:2: not a JSON object: column `metadata`: "));
    assert!(
        refusal("c.csv", "id,text,metadata\na,b,x\n").contains("`metadata` has the wrong type: expected an object")
    );
}

proptest! {
    /// Whatever the writer of the crate `csv` writes comes back.
    #[test]
    fn what_a_writer_writes_is_read(
        texts in prop::collection::vec("[a-c,\"\r\n \t;é\u{0}\u{1f600}]{0,12}", 1..8),
        crlf in any::<bool>(),
        always in any::<bool>(),
    ) {
        let mut writer = ::csv::WriterBuilder::new()
            .terminator(if crlf { ::csv::Terminator::CRLF } else { ::csv::Terminator::Any(b'\n') })
            .quote_style(if always { ::csv::QuoteStyle::Always } else { ::csv::QuoteStyle::Necessary })
            .from_writer(Vec::new());
        writer.write_record(["title", "other", "id", "text"]).unwrap();
        for (number, text) in texts.iter().enumerate() {
            writer.write_record([text.as_str(), "x", &number.to_string(), &format!("t{text}")]).unwrap();
        }
        let found = read("c.csv", writer.into_inner().unwrap()).unwrap();
        let found: Vec<Document> = found.into_iter().map(|(_, document)| document).collect();
        let expected = texts.iter().enumerate();
        let expected: Vec<Document> =
            expected.map(|(number, text)| document(&number.to_string(), text, &format!("t{text}"))).collect();
        prop_assert_eq!(found, expected);
    }

    /// Whatever a file holds, it is read or refused, and read as the reader of the crate `csv` reads it.
    #[test]
    fn any_file_is_read_as_others_read_it(rows in "[ab,\"\r\n ]{0,40}") {
        let content = format!("id,text\n{rows}");
        let options = ReadOptions { max_bad: Some(99), repeated_keys: true, ..ReadOptions::default() };
        let (_folder, path) = file("c.csv", &content);
        let found: Vec<(String, String)> = read_with(&path, &options)
            .unwrap_or_default()
            .into_iter()
            .map(|(_, document)| (document.key, document.text))
            .collect();
        let records = ::csv::ReaderBuilder::new().flexible(true).from_reader(content.as_bytes()).into_records();
        let mut expected: Vec<(String, String)> = records
            .map(Result::unwrap)
            .filter(|record| record.len() == 2)
            .map(|record| (record[0].to_owned(), record[1].to_owned()))
            .filter(|(key, text)| check_key(key).is_ok() && !text.trim().is_empty())
            .collect();
        // A quote that is never closed is refused here.
        if found.len() + 1 == expected.len() {
            expected.pop();
        }
        prop_assert_eq!(found, expected);
    }
}

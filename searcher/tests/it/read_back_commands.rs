//! `dyad-searcher scroll`, `count` and `fields`: what they print is what the index has, and a corpus again.

use std::collections::BTreeMap;

use dyad_corpus::{CorpusReader, Document, ReadOptions};
use serde_json::{Value, json};

use crate::command_line::run_beside;
use crate::read_back::changed;

#[tokio::test(flavor = "multi_thread")]
async fn scroll_prints_a_corpus_of_what_the_index_has() {
    let (server, expected) = changed().await;
    let scroll = async |more: &[&str]| {
        let first = ["scroll", "--server", &server.url];
        run_beside(&[&first[..], more].concat()).await
    };
    let (code, out, error) = scroll(&["--page-size", "7"]).await;
    assert_eq!(code, Some(0), "{error}");
    let corpus = tempfile::NamedTempFile::with_suffix(".jsonl").unwrap();
    fs_err::write(corpus.path(), &out).unwrap();
    let mut reader = CorpusReader::open(corpus.path(), &ReadOptions::default()).unwrap();
    let read: Vec<Document> = reader.by_ref().map(|one| one.unwrap().value).collect();
    // Nothing is left unread: the one warning is of a field that has texts and numbers.
    let warnings = reader.warnings();
    assert!(
        warnings.iter().all(|warning| warning.contains("`year`")),
        "{warnings:?}"
    );
    let keys: Vec<&String> = read.iter().map(|document| &document.key).collect();
    assert_eq!(keys, expected.keys().collect::<Vec<_>>());
    for Document {
        key,
        title,
        text,
        metadata,
        ..
    } in &read
    {
        let metadata = metadata
            .as_ref()
            .map_or(json!({}), |metadata| serde_json::from_str(metadata.as_json()).unwrap());
        assert_eq!((title.as_str(), &(text.clone(), metadata)), ("Title", &expected[key]));
    }

    let narrow = ["--filter", "thing=metal", "--after", "doc-30", "--fields", "thing"];
    let (_, out, _) = scroll(&narrow).await;
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted = expected
        .iter()
        .filter(|(key, (_, metadata))| key.as_str() > "doc-30" && metadata["thing"] == "metal");
    let wanted: Vec<Value> = wanted
        .map(|(key, _)| json!({"key": key, "title": "", "text": "", "metadata": {"thing": "metal"}}))
        .collect();
    assert_eq!(lines, wanted);
    let (code, _, error) = scroll(&["--page-size", "1001"]).await;
    assert!(
        code == Some(2) && error.contains("`page_size`: expected 1 to 1000"),
        "{error}"
    );
    let (code, _, error) = scroll(&["--index", "none", "--after", "k"]).await;
    assert!(
        code == Some(1) && error.contains("`k`: `--after` with this key"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn count_and_fields_print_numbers() {
    let (server, expected) = changed().await;
    let (code, out, error) = run_beside(&["count", "--server", &server.url, "--filter", "year exists"]).await;
    assert_eq!((code, out.as_str()), (Some(0), "6\n"), "{error}");
    let (_, out, _) = run_beside(&["count", "--server", &server.url, "--json"]).await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json, json!({"documents": expected.len(), "generation": 3}));
    let (code, out, error) = run_beside(&["fields", "--server", &server.url]).await;
    assert_eq!(code, Some(0), "{error}");
    let rows: BTreeMap<&str, Vec<&str>> = out
        .lines()
        .filter_map(|line| {
            let mut cells = line.split_whitespace();
            Some((cells.next()?, cells.collect()))
        })
        .collect();
    assert_eq!(rows["field"], ["documents", "texts", "numbers", "flags"]);
    assert_eq!(rows["year"], ["6", "3", "3", "0"]);
    assert_eq!(rows["metadata.title"], ["3", "3", "0", "0"]);
    assert_eq!(rows["of"], ["55", "documents"]);
    let (_, out, _) = run_beside(&["fields", "--server", &server.url, "--json"]).await;
    let json: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["fields"].as_array().unwrap().len(), rows.len() - 2);
}

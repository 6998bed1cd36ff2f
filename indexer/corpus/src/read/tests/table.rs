//! The table of formats: complete, of one meaning, and named where a user looks for them.

use std::collections::HashSet;

use super::*;
use crate::read::format::{
    CorpusFormat, FORMATS, FormatEntry, endings_of_questions, format_in_folder, format_of_questions,
};

/// The names that `serde` derives of the enum: each variant, whether the table has it or not.
fn variants() -> Vec<String> {
    let refused = serde_json::from_str::<CorpusFormat>("\"none\"")
        .unwrap_err()
        .to_string();
    let names = refused.split_once("expected one of ").unwrap().1;
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_table_has_each_format_once_by_the_name_that_is_stored() {
    let names: Vec<&str> = FORMATS.iter().map(|entry| entry.name).collect();
    assert_eq!(variants(), names);
    for entry in &FORMATS {
        assert_eq!(entry.name.parse(), Ok(entry.format));
        assert_eq!(entry.format.to_string(), entry.name);
        assert_eq!(serde_json::to_value(entry.format).unwrap(), entry.name);
    }
    assert_eq!(
        "x".parse::<CorpusFormat>(),
        Err(format!(
            "format must be {} or text, got: x",
            names[..names.len() - 1].join(", ")
        ))
    );
}

#[test]
fn an_ending_says_one_format() {
    let by = |endings: fn(&FormatEntry) -> &'static [&'static str]| FORMATS.iter().flat_map(endings).copied();
    for endings in [
        by(|entry| entry.endings).collect::<Vec<_>>(),
        by(|entry| entry.folder_endings).collect(),
    ] {
        assert_eq!(endings.iter().collect::<HashSet<_>>().len(), endings.len());
    }
    for (name, format) in [
        ("a/b.JSONL.gz", Some(CorpusFormat::Jsonl)),
        ("queries.dev.tsv.zst", Some(CorpusFormat::Tsv)),
        ("b.txt", Some(CorpusFormat::Tsv)),
        ("b.xml", None),
        ("jsonl", None),
    ] {
        assert_eq!(CorpusFormat::of_name(Path::new(name)), format, "{name}");
    }
    for (name, format, can_be_cut) in [
        ("a.NDJSON", CorpusFormat::Auto, true),
        ("a.jsonl", CorpusFormat::Jsonl, true),
        ("a.jsonl", CorpusFormat::Text, false),
        ("a.jsonl.gz", CorpusFormat::Auto, false),
        ("a.tsv", CorpusFormat::Auto, false),
        ("a.txt", CorpusFormat::Jsonl, false),
    ] {
        assert_eq!(format.can_be_cut(Path::new(name)), can_be_cut, "{name} {format}");
    }
    assert_eq!(format_in_folder(Path::new("a/b.TXT.gz")), Some(CorpusFormat::Text));
    assert_eq!(endings_of_questions(), ".jsonl, .ndjson, .json, .tsv or .txt");
    assert_eq!(format_of_questions(Path::new("q.parquet")), None);
}

/// Where a user looks for the formats, each is named: a row of the table as `` `name` `` with its endings, and the
/// list of the first page by what a sentence calls it.
#[test]
fn the_documentation_names_each_format() {
    let read = |path: &str| fs_err::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
    let indexer = read("../README.md");
    let table = indexer.split_once("## Corpus\n").unwrap().1;
    let table = table.split_once("\n* ").unwrap().0;
    let readme = read("../../README.md");
    let list = readme.split_once("* **Corpus**").unwrap().1;
    let list = list.split_once("\n* ").unwrap().0;
    for entry in FORMATS.iter().filter(|entry| entry.format != CorpusFormat::Auto) {
        assert!(
            table.contains(&format!("`{}` |", entry.name)),
            "indexer/README.md: {}",
            entry.name
        );
        let endings = entry.endings.iter().chain(entry.folder_endings);
        for ending in endings {
            assert!(table.contains(&format!("`.{ending}`")), "indexer/README.md: .{ending}");
        }
        assert!(list.contains(entry.title), "README.md: {}", entry.title);
    }
}

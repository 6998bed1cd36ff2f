//! Columns against the stored documents.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::language::TextLanguage;
use crate::lexical::{ColumnValue, FieldValue, TextDocument, TextShard, TextWriter};
use dyad_files::Never;

fn shard(metadata: &[String]) -> (tempfile::TempDir, TextShard) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = TextWriter::create(dir.path(), TextLanguage::English).unwrap();
    for (number, metadata_json) in metadata.iter().enumerate() {
        let (key, title) = (format!("k{number:04}"), if number % 3 == 0 { "" } else { "one" });
        writer
            .add(TextDocument {
                key: &key,
                title,
                text: "text",
                metadata_json,
            })
            .unwrap();
    }
    writer.finish().unwrap();
    let shard = TextShard::open(dir.path()).unwrap();
    (dir, shard)
}

/// Documents with the same number have the same value, those with different numbers have different ones, and a document
/// without a value has none.
#[test]
fn a_column_tells_equal_values_from_others() {
    let long = |end: &str| format!("\"{}{end}\"", "x".repeat(1024));
    let values = [
        "1",
        "1.0",
        "-1",
        "0",
        "-0.0",
        "\"1\"",
        "true",
        "false",
        "null",
        "[]",
        "{}",
        "[1,1]",
        "[1,2]",
        "[2,1]",
        "\"a\"",
        "\"\"",
        "9007199254740991",
        "9007199254740992",
        "9007199254740993",
        "1e300",
        "[\"a\"]",
        &long(""),
        &long("a"),
        &long("b"),
    ];
    let metadata: Vec<String> = (0..values.len() * 5)
        .map(|at| format!("{{\"f\":{}}}", values[at * 7 % values.len()]))
        .collect();
    let (_dir, shard) = shard(&metadata);
    for field in ["f", "metadata.f", "title", "none", "key"] {
        let column = shard.column(field, &Never).unwrap().unwrap();
        let mut by_number: HashMap<u32, Option<FieldValue>> = HashMap::new();
        let (mut absent, mut stored) = (0, 0);
        for node in 0..metadata.len() as u32 {
            let value = shard.document(node).unwrap().value(field);
            match column.value(node) {
                ColumnValue::Absent => {
                    absent += 1;
                    assert_eq!(value, None, "{field} of {node}");
                }
                ColumnValue::Stored => stored += 1,
                ColumnValue::Shared(number) => {
                    assert!(value.is_some() && number < column.values(), "{field} of {node}");
                    assert_eq!(
                        by_number.entry(number).or_insert_with(|| value.clone()),
                        &value,
                        "{field} of {node}"
                    );
                }
            }
        }
        let all: Vec<_> = by_number.values().collect();
        assert!(
            all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)),
            "{field}: {all:?}"
        );
        // Two different values, large numbers and long texts are read.
        let expected = match field {
            "title" => (metadata.len().div_ceil(3), 0, 1),
            "none" => (metadata.len(), 0, 0),
            "key" => (0, metadata.len(), 0),
            _ => (3 * 5, 7 * 5, 10),
        };
        assert_eq!((absent, stored, all.len()), expected, "{field}");
    }
}

#[test]
fn columns_of_the_last_fields_are_kept() {
    let metadata: Vec<String> = (0..20)
        .map(|n| format!(r#"{{"a":{n},"b":{n},"c":{n},"d":{n},"e":{n}}}"#))
        .collect();
    let (_dir, shard) = shard(&metadata);
    let first = shard.column("a", &Never).unwrap().unwrap();
    for field in ["b", "c", "none", "d"] {
        assert!(shard.column(field, &Never).unwrap().is_some());
    }
    assert!(Arc::ptr_eq(&first, &shard.column("a", &Never).unwrap().unwrap()));
    assert!(shard.kept_column("none").is_none(), "it takes the place of none");
    _ = shard.column("e", &Never).unwrap();
    let kept = ["a", "b", "c", "d", "e"].map(|field| shard.kept_column(field).is_some());
    assert_eq!(
        kept,
        [true, false, true, true, true],
        "that which was asked for longest ago goes"
    );
    assert!(
        shard.column("b", &AtomicBool::new(true)).unwrap().is_none(),
        "cancelled"
    );
}

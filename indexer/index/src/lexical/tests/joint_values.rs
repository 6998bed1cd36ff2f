//! Numbers of values that several text indexes share.

use std::sync::atomic::AtomicBool;

use super::super::joint_values::{JointValues, WholeValue};
use super::*;

/// Values of three text indexes, of which two have one in common, and one that no dictionary tells.
#[test]
fn equal_values_of_several_indexes_have_one_number() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(2000);
    let values = [
        vec!["\"b\"", "\"a\"", "3", "true"],
        vec!["\"c\"", "\"b\"", "3.0"],
        vec![],
    ];
    let shards: Vec<TextShard> = (0..3)
        .map(|number| {
            let path = dir.path().join(number.to_string());
            let mut writer = TextWriter::create(&path, TextLanguage::English).unwrap();
            for value in &values[number] {
                let metadata_json = format!("{{\"document\":{value}}}");
                writer
                    .add(TextDocument {
                        key: value,
                        title: "",
                        text: "",
                        metadata_json: &metadata_json,
                    })
                    .unwrap();
            }
            writer.finish().unwrap();
            TextShard::open(&path).unwrap()
        })
        .collect();
    let text = |text: &str| WholeValue::from(&FieldValue::Text(text.to_owned()));
    let wanted = [text("c"), text(&long), text(&long)];
    let texts: Vec<&TextShard> = shards.iter().collect();
    let joint = JointValues::read(&texts, "document", wanted, &Never).unwrap().unwrap();
    let number = |shard: usize, value: &str| {
        let node = values[shard].iter().position(|other| *other == value).unwrap() as u32;
        let column = shards[shard].column("document", &Never).unwrap().unwrap();
        let ColumnValue::Shared(number) = column.value(node) else {
            panic!("{value}")
        };
        joint.of_column(shard, number).unwrap()
    };
    assert_eq!(
        (number(0, "\"b\""), number(0, "3")),
        (number(1, "\"b\""), number(1, "3.0"))
    );
    assert_eq!(joint.of_wanted(&text("c")), Some(number(1, "\"c\"")));
    let mut all = vec![
        number(0, "\"a\""),
        number(0, "\"b\""),
        number(0, "3"),
        number(0, "true"),
        number(1, "\"c\""),
    ];
    all.push(joint.of_wanted(&text(&long)).unwrap());
    all.sort_unstable();
    assert_eq!((all, joint.len()), ((0..6).collect(), 6));
    assert!(
        JointValues::read(&texts, "document", [], &AtomicBool::new(true))
            .unwrap()
            .is_none()
    );
}

//! Filters against the same conditions evaluated on the JSON itself.

use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::filter_oracle::{documents, exactly, passes, shard};
use crate::language::TextLanguage;
use crate::lexical::analyzer::Analyzer;
use crate::lexical::schema::schema;
use crate::lexical::{DocumentFilter, FieldValue, StoredDocument, TextShard, facts};

const NUMBERS: [&str; 20] = [
    "-3",
    "-1",
    "-0",
    "0",
    "2",
    "7.0",
    "40",
    "1e300",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "1234567890123456768",
    "1234567890123456789",
    "1234567890123456790",
    "18446744073709551614",
    "18446744073709551615",
    "-9223372036854775808",
    "-9223372036854775807",
    "1e20",
    "-1e19",
];

pub(super) fn value() -> impl Strategy<Value = FieldValue> {
    const TEXTS: [&str; 10] = ["en", "de", "fr", "2", "a", "title 3", "title", "k010", "k150", ""];
    prop_oneof![
        prop::sample::select(&TEXTS[..]).prop_map(|text| FieldValue::Text(text.to_owned())),
        prop::sample::select(&NUMBERS[..]).prop_map(exactly),
        any::<bool>().prop_map(FieldValue::Flag),
    ]
}

fn bound() -> impl Strategy<Value = Bound<FieldValue>> {
    prop_oneof![
        value().prop_map(Bound::Included),
        value().prop_map(Bound::Excluded),
        Just(Bound::Unbounded)
    ]
}

pub(super) fn filter() -> impl Strategy<Value = DocumentFilter> {
    let field = || {
        prop::sample::select(
            &[
                "lang", "deep", "deep.n", "id", "flag", "empty", "only", "only.x", "title", "key", "absent",
            ][..],
        )
    };
    let leaf = prop_oneof![
        (field(), prop::collection::vec(value(), 0..4)).prop_map(|(field, values)| DocumentFilter::OneOf {
            field: field.into(),
            values
        }),
        (field(), bound(), bound()).prop_map(|(field, min, max)| DocumentFilter::Range {
            field: field.into(),
            min,
            max
        }),
        field().prop_map(|field| DocumentFilter::Exists { field: field.into() }),
        (
            field(),
            prop::sample::select(&["e", "en", "title", "k0", "k01", "2", "a", "\0", ""][..])
        )
            .prop_map(|(field, prefix)| DocumentFilter::Prefix {
                field: field.into(),
                prefix: prefix.into()
            }),
        prop::collection::vec(
            prop::sample::select(&["k000", "k001", "k077", "k159", "none"][..]),
            0..4
        )
        .prop_map(|keys| DocumentFilter::Keys(keys.into_iter().map(String::from).collect())),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(DocumentFilter::All),
            prop::collection::vec(inner.clone(), 0..3).prop_map(DocumentFilter::Any),
            inner.prop_map(|filter| DocumentFilter::Not(Box::new(filter))),
        ]
    })
}

#[test]
fn a_filter_lets_pass_what_its_definition_does() {
    let documents = documents();
    let (_dir, shard) = shard(&documents);
    let stored: Vec<StoredDocument> = (0..160).map(|node| shard.document(node).unwrap()).collect();
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tried = runner.run(&filter(), |filter| {
        let expected: Vec<u32> = (0u32..)
            .zip(&documents)
            .filter(|(_, document)| passes(&filter, document))
            .map(|(node, _)| node)
            .collect();
        let nodes = filter.nodes(&shard, &|| false).unwrap().unwrap();
        prop_assert_eq!(&nodes.iter().collect::<Vec<_>>(), &expected);
        prop_assert_eq!(nodes.nodes(), documents.len());
        let by_themselves: Vec<u32> = (0u32..)
            .zip(&stored)
            .filter(|(_, document)| filter.matches(document))
            .map(|(node, _)| node)
            .collect();
        prop_assert_eq!(by_themselves, expected);
        Ok(())
    });
    tried.unwrap();
    every_range_of_numbers(&documents, &shard);
}

/// Between any two numbers, also where the smallest is above the largest and where both have the same nearest double.
fn every_range_of_numbers(documents: &[(String, String, Value)], shard: &TextShard) {
    let ends = |number: &str| {
        [
            Bound::Included(exactly(number)),
            Bound::Excluded(exactly(number)),
            Bound::Unbounded,
        ]
    };
    for (min, max) in NUMBERS.iter().flat_map(|min| NUMBERS.iter().map(move |max| (min, max))) {
        for (min, max) in ends(min)
            .into_iter()
            .flat_map(|min| ends(max).map(|max| (min.clone(), max)))
        {
            let filter = DocumentFilter::Range {
                field: "id".into(),
                min,
                max,
            };
            let all = (0u32..).zip(documents);
            let expected: Vec<u32> = all
                .filter(|(_, document)| passes(&filter, document))
                .map(|(node, _)| node)
                .collect();
            let nodes = filter.nodes(shard, &|| false).unwrap().unwrap();
            assert_eq!(nodes.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        }
    }
}

/// The shard as releases wrote it that indexed the nearest doubles of numbers alone.
fn shard_of_doubles(documents: &[(String, String, Value)]) -> (tempfile::TempDir, TextShard) {
    let dir = tempfile::tempdir().unwrap();
    let (schema, fields) = schema();
    let tokenizers = tantivy::tokenizer::TokenizerManager::default();
    let analyzer = Analyzer::Of(TextLanguage::English);
    tokenizers.register(analyzer.name(), analyzer.build());
    let directory = tantivy::directory::MmapDirectory::open(dir.path()).unwrap();
    let index = tantivy::Index::builder().schema(schema).tokenizers(tokenizers);
    let mut writer: tantivy::SingleSegmentIndexWriter = index.single_segment_index_writer(directory, 64 << 20).unwrap();
    for (key, title, metadata) in documents {
        let metadata = if metadata.is_null() {
            String::new()
        } else {
            metadata.to_string()
        };
        let mut document = tantivy::TantivyDocument::new();
        document.add_text(fields.key, key);
        document.add_text(fields.title, title);
        document.add_text(fields.metadata, &metadata);
        let is_exact = |term: &Vec<u8>| term.iter().skip_while(|byte| **byte != 0).nth(1) == Some(&b'w');
        for fact in facts::terms(title, &metadata)
            .into_iter()
            .filter(|term| !is_exact(term))
        {
            document.add_bytes(fields.facts, &fact);
        }
        writer.add_document(document).unwrap();
    }
    writer.finalize().unwrap();
    let shard = TextShard::open(dir.path()).unwrap();
    (dir, shard)
}

#[test]
fn a_shard_that_knows_doubles_alone_lets_pass_the_same() {
    let documents = documents();
    let (_dir, shard) = shard_of_doubles(&documents);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let tried = runner.run(&filter(), |filter| {
        let expected: Vec<u32> = (0u32..)
            .zip(&documents)
            .filter(|(_, document)| passes(&filter, document))
            .map(|(node, _)| node)
            .collect();
        prop_assert_eq!(
            filter
                .nodes(&shard, &|| false)
                .unwrap()
                .unwrap()
                .iter()
                .collect::<Vec<_>>(),
            expected
        );
        Ok(())
    });
    tried.unwrap();
    every_range_of_numbers(&documents, &shard);
    let id = || vec![exactly("1234567890123456789")];
    let filter = DocumentFilter::OneOf {
        field: "id".into(),
        values: id(),
    };
    assert!(
        filter.nodes(&shard, &|| true).unwrap().is_none(),
        "it stops where it reads what is stored"
    );
}

#[test]
fn a_shard_without_documents_lets_nothing_pass() {
    let (_dir, shard) = shard(&[]);
    let all = DocumentFilter::All(Vec::new());
    let one = DocumentFilter::OneOf {
        field: "lang".into(),
        values: vec![FieldValue::Text("en".into())],
    };
    for filter in [
        all,
        one.clone(),
        DocumentFilter::Not(Box::new(one)),
        DocumentFilter::Keys(vec!["k".into()]),
    ] {
        assert!(filter.nodes(&shard, &|| false).unwrap().unwrap().is_empty());
    }
}

#[test]
fn a_text_longer_than_filters_may_name_equals_none_and_keeps_its_place() {
    let long = "x".repeat(3000);
    let documents = vec![
        ("k".to_owned(), long.clone(), Value::Null),
        ("l".to_owned(), "y".to_owned(), Value::Null),
    ];
    let (_dir, shard) = shard(&documents);
    let limit = FieldValue::Text("x".repeat(super::MAX_TEXT_BYTES));
    let of = |filter: DocumentFilter| {
        filter
            .nodes(&shard, &|| false)
            .unwrap()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    };
    assert!(
        of(DocumentFilter::OneOf {
            field: "title".into(),
            values: vec![limit.clone()]
        })
        .is_empty()
    );
    assert_eq!(
        of(DocumentFilter::Range {
            field: "title".into(),
            min: Bound::Included(limit.clone()),
            max: Bound::Unbounded
        }),
        [0, 1]
    );
    assert!(
        of(DocumentFilter::Range {
            field: "title".into(),
            min: Bound::Unbounded,
            max: Bound::Included(limit)
        })
        .is_empty()
    );
}

#[test]
fn a_filter_that_is_told_to_stop_reads_no_further() {
    let documents: Vec<_> = (0..9_000)
        .map(|n| (format!("{n:05}"), String::new(), json!({"n": n})))
        .collect();
    let (_dir, shard) = shard(&documents);
    let looks = AtomicU32::new(0);
    let filter = DocumentFilter::Range {
        field: "n".to_owned(),
        min: Bound::Included(exactly("0")),
        max: Bound::Unbounded,
    };
    let after = |patience: u32| {
        looks.store(0, Ordering::Relaxed);
        filter
            .nodes(&shard, &|| looks.fetch_add(1, Ordering::Relaxed) == patience)
            .unwrap()
    };
    assert_eq!(after(0), None);
    assert_eq!(after(2), None);
    assert_eq!(after(3).map(|nodes| nodes.len()), Some(9_000));
    assert_eq!(looks.load(Ordering::Relaxed), 3);
}

#[test]
fn fields_and_types_that_no_document_has_are_told() {
    let documents = documents();
    // Halves, so that what one shard lacks the other may have.
    let (_first, first) = shard(&documents[..1]);
    let (_rest, rest) = shard(&documents[1..]);
    let (_empty, empty) = shard(&[]);
    let notes = |filter: &DocumentFilter| filter.notes(&[&empty, &first, &rest]).unwrap();
    let one = |field: &str, value| DocumentFilter::OneOf {
        field: field.into(),
        values: vec![value],
    };
    let text = |text: &str| FieldValue::Text(text.into());
    for (field, value) in [
        ("lang", text("zz")),
        ("metadata.lang", exactly("1")),
        ("deep.n", FieldValue::Flag(false)),
        ("title", text("any")),
        ("key", text("any")),
        ("flag", FieldValue::Flag(true)),
    ] {
        assert!(notes(&one(field, value)).is_empty(), "{field}");
    }
    assert_eq!(notes(&one("absent", text("x"))), ["no document has a field `absent`"]);
    assert_eq!(
        notes(&one("deep", text("x"))),
        ["no document has a field `deep`; there is `deep.n`"]
    );
    assert_eq!(
        notes(&one("title", exactly("3"))),
        ["no document has a number in field `title`, which holds texts"]
    );
    assert_eq!(
        notes(&one("key", exactly("3"))),
        ["no document has a number in field `key`, which holds texts"]
    );
    let exists = |field: &str| notes(&DocumentFilter::Exists { field: field.into() });
    assert!(
        ["key", "title", "lang", "deep", "metadata.deep.n", "only.x"]
            .iter()
            .all(|field| exists(field).is_empty())
    );
    assert_eq!(exists("dee"), ["no document has a field `dee`"]);
    let range = DocumentFilter::Range {
        field: "lang".into(),
        min: Bound::Unbounded,
        max: Bound::Excluded(FieldValue::Flag(true)),
    };
    assert_eq!(
        notes(&range),
        ["no document has a flag in field `lang`, which holds texts and numbers"]
    );
    // Inside of others, each once, and not without end.
    let same = DocumentFilter::Not(Box::new(DocumentFilter::Any(vec![
        one("absent", text("x")),
        one("absent", text("y")),
        range,
    ])));
    assert_eq!(notes(&same).len(), 2);
    let many = DocumentFilter::All((0..100).map(|at| one(&format!("f{at}"), text("x"))).collect());
    assert_eq!(notes(&many).len(), 16);
    assert!(
        one("absent", text("x")).notes(&[&empty]).unwrap().is_empty(),
        "no notes without documents"
    );
}

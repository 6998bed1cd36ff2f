//! Values of metadata are what was written: as they are read, staged, stored, merged and embedded again, and by
//! filters.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dyad_files::Never;
use dyad_index::Snapshot;
use dyad_index::lexical::{DocumentFilter, ExactNumber, FieldValue};
use dyad_indexer::change::{Operation, merge, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::job::build_index;

use crate::fixture::Fixture;
use crate::hash_source::HashSource;
use crate::reembed::config;

/// Texts of numbers: random doubles of all exponents by their shortest digits and by 17, floats of 32 bits as doubles,
/// numbers with more digits than a double has, and whole numbers of 64 bits and more.
fn numbers() -> Vec<String> {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state ^ state >> 29
    };
    let mut numbers = Vec::new();
    while numbers.len() < 600 {
        let (double, single) = (f64::from_bits(random()), f32::from_bits(random() as u32));
        if !double.is_finite() || !single.is_finite() {
            continue;
        }
        let unit = (random() >> 11) as f64 / (1_u64 << 53) as f64;
        numbers.extend([
            format!("{double:e}"),
            format!("{double:.16e}"),
            format!("{}", f64::from(single)),
        ]);
        numbers.extend([
            format!("{unit:?}"),
            format!("{unit:.25}"),
            random().to_string(),
            (random() as i64).to_string(),
        ]);
        numbers.push(format!("{}{}", random() | 1, random()));
    }
    let known = [
        "1.50",
        "1E5",
        "-0.0",
        "0",
        "0.1",
        "0.1000000000000000055511151231257827021181583404541015625",
        "12345678901234567890123",
        "-12345678901234567890123",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "9007199254740992",
        "9007199254740993",
        "1e20",
        "100000000000000000000",
        "100000000000000000001",
        "5e-324",
        "1.7976931348623157e308",
    ];
    numbers.extend(known.map(str::to_owned));
    numbers
}

fn stored(fixture: &Fixture) -> BTreeMap<String, String> {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let mut all = BTreeMap::new();
    for (at, shard) in snapshot.shards().iter().enumerate() {
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            let document = snapshot.document(at, node).unwrap();
            all.insert(document.key, document.metadata_json);
        }
    }
    all
}

#[test]
fn numbers_are_stored_as_they_are_written_and_found_by_their_values() {
    let (fixture, numbers) = (Fixture::new(1), numbers());
    let mut lines = String::new();
    let mut written = BTreeMap::new();
    for (at, number) in numbers.iter().enumerate() {
        let key = format!("k{at:04}");
        let metadata = format!(r#"{{"x": {number}, "in": [{{"y": {number}}}]}}"#);
        writeln!(
            lines,
            r#"{{"_id": "{key}", "text": "text {at}", "metadata": {metadata}}}"#
        )
        .unwrap();
        written.insert(key, metadata.replace(' ', ""));
    }
    fs_err::write(fixture.path("corpus.jsonl"), &lines).unwrap();
    build_index(&fixture.config(), &mut HashSource::default(), JobControl::silent()).unwrap();
    assert_eq!(stored(&fixture), written);
    // The same file changes nothing, and publishes nothing.
    let again = || {
        let mut source = HashSource::default();
        let config = fixture.upsert_config(Operation::Upsert);
        let outcome = fixture
            .upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent())
            .unwrap();
        (outcome.manifest.is_some(), outcome.change.unchanged, source.embedded)
    };
    assert_eq!(again(), (false, numbers.len() as u64, 0));
    check_filters(&fixture, &numbers);
    // Through the staged batch.
    let text = lines.replace("\"text ", "\"another text ");
    fs_err::write(fixture.path("corpus.jsonl"), text).unwrap();
    assert_eq!(again(), (true, 0, numbers.len()));
    assert_eq!(stored(&fixture), written);
    merge(&fixture.merge_config(true), JobControl::silent()).unwrap();
    assert_eq!(stored(&fixture), written);
    reembed(
        &config(&fixture, 10_000),
        &mut HashSource::with_fingerprint("beef"),
        JobControl::silent(),
    )
    .unwrap();
    assert_eq!(stored(&fixture), written);
    check_filters(&fixture, &numbers);
}

/// A filter by the value of a document finds those with the same number, and no others.
fn check_filters(fixture: &Fixture, numbers: &[String]) {
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let value = |number: &String| ExactNumber::parse(number).unwrap();
    for number in numbers {
        for field in ["x", "in.y"] {
            let values = vec![FieldValue::Number(value(number))];
            let allowed = snapshot
                .allowed(
                    &DocumentFilter::OneOf {
                        field: field.into(),
                        values,
                    },
                    &Never,
                )
                .unwrap()
                .unwrap();
            let mut found: Vec<String> = Vec::new();
            for (at, nodes) in allowed.iter().enumerate() {
                found.extend(nodes.iter().map(|node| snapshot.document(at, node).unwrap().key));
            }
            found.sort_unstable();
            let same = (0..).zip(numbers).filter(|(_, other)| value(other) == value(number));
            let expected: Vec<String> = same.map(|(at, _): (usize, _)| format!("k{at:04}")).collect();
            assert_eq!(found, expected, "{number} in {field}");
        }
    }
}

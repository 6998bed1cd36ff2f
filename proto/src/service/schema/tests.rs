//! The check against the decoder itself, over intact, cut and changed messages.

use proptest::prelude::*;
use prost::Message;
use tonic::Code;

use super::*;
use crate::rules::{OTHER_LIMITS, RULED_FIELDS};
use crate::{limits, v1};

fn schema() -> Schema {
    Schema::new(&[v1::FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET]).unwrap()
}

fn value(text: &str) -> v1::FilterValue {
    v1::FilterValue {
        value: Some(v1::filter_value::Value::Text(text.to_owned())),
    }
}

fn filter(values: usize) -> v1::Filter {
    let values = (0..values).map(|number| value(&number.to_string())).collect();
    let one_of = v1::filter::Condition::OneOf(v1::FieldOneOf {
        field: "year".into(),
        values,
    });
    let not = v1::filter::Condition::Not(Box::new(v1::Filter {
        condition: Some(one_of),
    }));
    let list = v1::FilterList {
        filters: vec![v1::Filter { condition: Some(not) }; 2],
    };
    v1::Filter {
        condition: Some(v1::filter::Condition::All(list)),
    }
}

fn search() -> v1::SearchRequest {
    v1::SearchRequest {
        query: "who".into(),
        k: 10,
        target_recall: Some(0.9),
        filter: Some(filter(3)),
        vector: vec![0.5, -1.0],
        ..Default::default()
    }
}

fn check(path: &str, bytes: &[u8]) -> Result<usize, Status> {
    let schema = schema();
    schema.check(schema.method(path).unwrap(), bytes)
}

#[test]
fn every_maximum_names_a_field_that_exists() {
    let schema = schema();
    let maxima = schema.messages.iter().flatten().filter(|field| field.most < usize::MAX);
    let lists = RULED_FIELDS.iter().filter(|ruled| ruled.rules.max_items.is_some());
    assert_eq!(maxima.count(), lists.count());
    for path in [
        "Encoder/Encode",
        "Searcher/SearchBatch",
        "Searcher/Search",
        "Searcher/GetDocuments",
        "Searcher/SampleDocuments",
        "Searcher/ScrollDocuments",
        "Searcher/CountDocuments",
    ] {
        let method = schema.method(&format!("/dyad.v1.{path}")).unwrap();
        assert!(method.bytes > OTHER_LIMITS.bytes as usize && !method.streams, "{path}");
    }
    for path in ["Searcher/SearchStream", "Index/Upsert", "Index/Delete"] {
        let method = schema.method(&format!("/dyad.v1.{path}")).unwrap();
        assert!(method.bytes > OTHER_LIMITS.bytes as usize && method.streams, "{path}");
    }
    assert_eq!(
        schema.method("/grpc.health.v1.Health/Check").unwrap().bytes,
        OTHER_LIMITS.bytes as usize
    );
    assert_eq!(schema.method("/dyad.v1.Searcher/Nothing"), None);
}

#[test]
fn legal_requests_pass() {
    let batch = v1::SearchBatchRequest {
        requests: vec![search(); limits::MAX_BATCH],
    };
    let elements = check("/dyad.v1.Searcher/SearchBatch", &batch.encode_to_vec()).unwrap();
    assert!(elements > 20 * limits::MAX_BATCH, "{elements}");
    let large = v1::SearchRequest {
        filter: Some(filter(limits::MAX_FILTER_VALUES / 2)),
        ..search()
    };
    check("/dyad.v1.Searcher/Search", &large.encode_to_vec()).unwrap();
    let vector = v1::SearchRequest {
        vector: vec![1.0; limits::MAX_DIM],
        ..search()
    };
    check("/dyad.v1.Searcher/Search", &vector.encode_to_vec()).unwrap();
    // One byte of a value is missing.
    let status = check("/dyad.v1.Searcher/Search", &[0x72, 3, 0, 0, 0]).unwrap_err();
    assert!(status.message().contains("in the middle of a field"), "{status}");
    let texts = v1::EncodeRequest {
        texts: vec!["text".into(); limits::MAX_TEXTS],
        ..Default::default()
    };
    check("/dyad.v1.Encoder/Encode", &texts.encode_to_vec()).unwrap();
}

#[test]
fn empty_elements_are_counted_before_they_are_decoded() {
    let batch = [0x0a, 0x00].repeat(1 << 20);
    let status = check("/dyad.v1.Searcher/SearchBatch", &batch).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(
        status.message().contains("`requests`: expected at most 1024 elements"),
        "{status}"
    );
    let status = check("/dyad.v1.Encoder/Encode", &[0x1a, 0x00].repeat(1 << 20)).unwrap_err();
    assert!(status.message().contains("`texts`: expected at most 1024"), "{status}");
    // Many short lists: none is too long by itself, all together are.
    let list = v1::Filter {
        condition: Some(v1::filter::Condition::All(v1::FilterList {
            filters: vec![filter(40); 100],
        })),
    };
    let many = v1::FilterList {
        filters: vec![list; 20],
    };
    let condition = Some(v1::filter::Condition::Any(many));
    let request = v1::SearchRequest {
        filter: Some(v1::Filter { condition }),
        ..search()
    };
    let status = check("/dyad.v1.Searcher/Search", &request.encode_to_vec()).unwrap_err();
    assert!(
        status.message().contains("more than 32768 strings and messages"),
        "{status}"
    );
}

#[test]
fn nesting_ends_where_the_decoder_ends_it() {
    let mut filter = v1::Filter::default();
    for _ in 0..120 {
        filter = v1::Filter {
            condition: Some(v1::filter::Condition::Not(Box::new(filter))),
        };
    }
    let bytes = v1::SearchRequest {
        filter: Some(filter),
        ..search()
    }
    .encode_to_vec();
    assert!(v1::SearchRequest::decode(bytes.as_slice()).is_err());
    assert!(
        check("/dyad.v1.Searcher/Search", &bytes)
            .unwrap_err()
            .message()
            .contains("nested too deep")
    );
}

proptest! {
    /// Whatever the decoder refuses is refused before; what passes decodes.
    #[test]
    fn what_passes_is_decoded(
        cut in 0usize..200,
        place in 0usize..200,
        byte: u8,
        noise in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = search().encode_to_vec();
        bytes.truncate(cut.max(1));
        let places = bytes.len();
        bytes[place % places] = byte;
        bytes.extend(noise);
        let decoded = v1::SearchRequest::decode(bytes.as_slice());
        if check("/dyad.v1.Searcher/Search", &bytes).is_ok() {
            prop_assert!(decoded.is_ok(), "{decoded:?}");
        }
    }

    /// Sound messages with fields that this release does not know pass.
    #[test]
    fn unknown_fields_pass(number in 1000u32..100_000, content in prop::collection::vec(any::<u8>(), 0..20)) {
        let mut bytes = search().encode_to_vec();
        prost::encoding::bytes::encode(number, &content, &mut bytes);
        prop_assert!(check("/dyad.v1.Searcher/Search", &bytes).is_ok());
        prop_assert!(v1::SearchRequest::decode(bytes.as_slice()).is_ok());
    }
}

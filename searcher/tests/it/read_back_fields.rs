//! The fields that an index lists, compared with those of the metadata in memory.

use std::collections::{BTreeMap, BTreeSet};

use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use serde_json::{Value, json};

use crate::read_back::{Expected, changed, condition, update};

/// Names of the fields of a document's metadata and the types of their values, as the contract has them.
fn fields_of(metadata: &Value) -> BTreeSet<(String, &'static str)> {
    fn add(at: &str, value: &Value, found: &mut BTreeSet<(String, &'static str)>) {
        let inside = |name: &String| {
            if at.is_empty() {
                name.clone()
            } else {
                format!("{at}.{name}")
            }
        };
        match value {
            Value::Object(members) => members
                .iter()
                .for_each(|(name, value)| add(&inside(name), value, found)),
            Value::Array(values) => values.iter().for_each(|value| add(at, value, found)),
            Value::String(_) => _ = found.insert((at.to_owned(), "texts")),
            Value::Number(_) => _ = found.insert((at.to_owned(), "numbers")),
            Value::Bool(_) => _ = found.insert((at.to_owned(), "flags")),
            Value::Null => {}
        }
    }
    let mut found = BTreeSet::new();
    add("", metadata, &mut found);
    found
}

/// The fields of some documents as a reply lists them.
fn listed<'a>(documents: impl Iterator<Item = &'a Value> + Clone) -> Vec<v1::FieldInfo> {
    let mut counts: BTreeMap<String, (BTreeSet<usize>, v1::FieldTypes)> = BTreeMap::new();
    for (number, metadata) in documents.clone().enumerate() {
        for (name, kind) in fields_of(metadata) {
            let (of_field, types) = counts.entry(name).or_default();
            of_field.insert(number);
            let of_kind = match kind {
                "texts" => &mut types.texts,
                "numbers" => &mut types.numbers,
                _ => &mut types.flags,
            };
            *of_kind = Some(of_kind.unwrap_or_default() + 1);
        }
    }
    let name_of = |name: String| {
        let is_other = ["key", "title", "text"].contains(&name.as_str()) || name.starts_with("metadata.");
        if is_other { format!("metadata.{name}") } else { name }
    };
    let info = |(name, (of_field, types)): (String, (BTreeSet<usize>, v1::FieldTypes))| v1::FieldInfo {
        name: name_of(name),
        documents: of_field.len() as u64,
        types: Some(types),
    };
    let mut all: Vec<v1::FieldInfo> = counts.into_iter().map(info).collect();
    let titles = documents.count() as u64;
    let types = v1::FieldTypes {
        texts: Some(titles),
        ..Default::default()
    };
    all.push(v1::FieldInfo {
        name: "title".into(),
        documents: titles,
        types: Some(types),
    });
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_those_of_the_documents_that_are_there() {
    let (server, expected) = changed().await;
    let reply = server
        .client
        .list_fields(v1::ListFieldsRequest::default())
        .await
        .unwrap();
    assert_eq!(reply.fields, listed(expected.values().map(|(_, metadata)| metadata)));
    assert_eq!((reply.documents, reply.generation, reply.has_more), (55, 3, false));
    // The second time they are known.
    let again = server.client.list_fields(v1::ListFieldsRequest::default()).await;
    assert_eq!(again.unwrap(), reply);
    // Filters find by these names as many documents, but for fields that are objects as well.
    for field in reply.fields.iter().filter(|field| field.name != "a") {
        let exists = v1::CountDocumentsRequest {
            filter: Some(condition(Condition::Exists(v1::FieldExists {
                field: field.name.clone(),
            }))),
            ..Default::default()
        };
        let count = server.client.count_documents(exists).await.unwrap();
        assert_eq!(count.documents, field.documents, "{}", field.name);
    }
    // As many as are listed, in their order.
    let many: serde_json::Map<String, Value> = (0..1100).map(|at| (format!("f{at:04}"), json!(at))).collect();
    update(
        server.index.path(),
        &json!({"key": "doc-02", "metadata": many}).to_string(),
    );
    server.engine.reload("").await.unwrap();
    let reply = server
        .client
        .list_fields(v1::ListFieldsRequest::default())
        .await
        .unwrap();
    let mut all: Expected = expected;
    all.get_mut("doc-02").unwrap().1 = Value::Object(many);
    let wanted = listed(all.values().map(|(_, metadata)| metadata));
    assert_eq!((reply.fields.as_slice(), reply.has_more), (&wanted[..1000], true));
}

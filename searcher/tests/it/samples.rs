//! Samples of an index's documents.

use dyad_proto::v1;

use crate::fixture::{documents, searcher};

#[tokio::test]
async fn a_sample_is_that_of_its_seed_and_of_what_its_filter_allows() {
    let server = searcher().await;
    let sample = async |request: v1::SampleDocumentsRequest| server.client.sample_documents(request).await;
    let of = |count, seed| v1::SampleDocumentsRequest {
        count,
        seed,
        ..Default::default()
    };
    let keys = |reply: &v1::SampleDocumentsResponse| -> Vec<String> {
        reply.documents.iter().map(|document| document.key.clone()).collect()
    };
    let ten = sample(of(10, 7)).await.unwrap();
    assert_eq!((ten.documents.len(), ten.of, ten.generation), (10, 60, 1));
    assert!(
        ten.documents
            .iter()
            .all(|document| !document.text.is_empty() && !document.metadata_json.is_empty())
    );
    assert_eq!(keys(&ten), keys(&sample(of(10, 7)).await.unwrap()));
    assert_ne!(keys(&ten), keys(&sample(of(10, 8)).await.unwrap()));
    // A smaller sample of a seed is the beginning of a larger one.
    assert_eq!(keys(&ten)[..4], keys(&sample(of(4, 7)).await.unwrap()));
    let mut all = keys(&sample(of(1000, 7)).await.unwrap());
    all.sort();
    assert_eq!(all, documents().into_iter().map(|(key, _)| key).collect::<Vec<_>>());

    let value = Some(v1::FilterValue {
        value: Some(v1::filter_value::Value::Text("metal".into())),
    });
    let metal = v1::filter::Condition::Equals(v1::FieldEquals {
        field: "thing".into(),
        value,
    });
    let filter = Some(v1::Filter { condition: Some(metal) });
    let reply = sample(v1::SampleDocumentsRequest {
        filter,
        fields: vec!["title".into()],
        ..of(3, 7)
    })
    .await
    .unwrap();
    assert_eq!((reply.documents.len(), reply.of), (3, 10));
    for document in reply.documents {
        assert_eq!(document.key.trim_start_matches("doc-").parse::<u32>().unwrap() % 6, 4);
        assert_eq!(
            (
                document.title.as_str(),
                document.text.as_str(),
                document.metadata_json.as_str()
            ),
            ("Title", "", "")
        );
    }
    let refused = sample(of(1001, 0)).await.unwrap_err().to_string();
    assert!(refused.contains("`count`: expected 1 to 1000, got 1001"), "{refused}");
    let refused = sample(v1::SampleDocumentsRequest {
        index: "none".into(),
        ..of(1, 0)
    })
    .await
    .unwrap_err()
    .to_string();
    assert!(refused.contains("none"), "{refused}");
}

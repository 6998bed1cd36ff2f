//! What an API key with a filter reads back: its own documents, counts and fields.

use std::collections::BTreeMap;

use dyad_proto::access::Role;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use serde_json::json;

use crate::fixture::{THINGS, documents};
use crate::guarded::{equals, guarded};
use crate::read_back::{condition, keys, page_of, scrolled, update};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reads_back_its_own_documents_alone() {
    let server = guarded().await;
    let index = server.keys.with_file_name("all");
    // A planet, and documents of others, get fields of their own, and one that both have.
    let given = [("doc-02", "planets"), ("doc-03", "composers"), ("doc-04", "metals")];
    let lines = given.map(|(key, own)| {
        let thing = documents().iter().position(|(other, _)| other == key).unwrap();
        let thing = THINGS[thing % THINGS.len()];
        json!({"key": key, "metadata": {"thing": thing, (own): key, "shared": own}}).to_string()
    });
    update(&index, &lines.join("\n"));
    let admin = server.admin(&server.key(Role::Admin, &[], None).await).await;
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let client = server.searcher(&key).await;
    // What was listed for others is not told, and the other way round.
    let all = server.searcher(&server.key(Role::Read, &[], None).await).await;
    let listed = all.list_fields(v1::ListFieldsRequest::default()).await.unwrap();
    assert!(listed.fields.iter().any(|field| field.name == "metals") && listed.documents == 60);
    let mine: Vec<String> = (0..10).map(|number| format!("doc-{:02}", 6 * number + 2)).collect();
    let not_planets = condition(Condition::Not(Box::new(equals("thing", "planet"))));
    for size in [1, 3, 100] {
        assert_eq!(keys(&scrolled(&client, page_of(size, None)).await), mine);
        assert!(
            scrolled(&client, page_of(size, Some(not_planets.clone())))
                .await
                .is_empty()
        );
    }
    let place = client
        .scroll_documents(page_of(1, None))
        .await
        .unwrap()
        .documents
        .remove(0);
    let place = place.place.unwrap();
    assert_eq!((place.end - place.start) as usize, documents()[2].1.len());
    for (filter, wanted) in [
        (None, 10),
        (Some(not_planets), 0),
        (Some(equals("shared", "metals")), 0),
    ] {
        let request = v1::CountDocumentsRequest {
            filter,
            ..Default::default()
        };
        assert_eq!(client.count_documents(request).await.unwrap().documents, wanted);
    }
    let reply = client.list_fields(v1::ListFieldsRequest::default()).await.unwrap();
    let counts: BTreeMap<&str, u64> = reply
        .fields
        .iter()
        .map(|field| (field.name.as_str(), field.documents))
        .collect();
    let wanted = [
        ("lang", 9),
        ("place.hundred", 9),
        ("place.number", 9),
        ("planets", 1),
        ("shared", 1),
        ("tenant", 9),
        ("thing", 10),
        ("title", 10),
        ("value", 9),
    ];
    assert_eq!((counts, reply.documents), (BTreeMap::from(wanted), 10));
    // Over HTTP too, and no index but the key's.
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let page = server.http.send("POST", "/v1/scroll", &headers, "{}").await.json;
    assert_eq!(page["documents"].as_array().unwrap().len(), 10);
    let count = server.http.send("POST", "/v1/count", &headers, "{}").await.json;
    assert_eq!(count["documents"], 10);
    let fields = server.http.send("GET", "/v1/fields", &headers, "").await.json;
    assert_eq!(fields["fields"].as_array().unwrap().len(), wanted.len());
    for (method, path, body) in [
        ("POST", "/v1/scroll", r#"{"index": "others"}"#),
        ("POST", "/v1/count", r#"{"index": "others"}"#),
        ("GET", "/v1/fields?index=others", ""),
    ] {
        assert_eq!(
            server.http.send(method, path, &headers, body).await.status,
            404,
            "{path}"
        );
        let without = "Content-Type: application/json\r\n";
        assert_eq!(
            server.http.send(method, path, without, body).await.status,
            401,
            "{path}"
        );
    }
    assert_eq!(all.list_fields(v1::ListFieldsRequest::default()).await.unwrap(), listed);
}

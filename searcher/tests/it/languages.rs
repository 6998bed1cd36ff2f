//! What replies say of words that the language of an index does not analyse.

use dyad_proto::v1;

use crate::fixture::{request, searcher};

#[tokio::test(flavor = "multi_thread")]
async fn words_in_other_scripts_are_told() {
    let server = searcher().await;
    let listed = server
        .admin()
        .await
        .list_indexes(v1::ListIndexesRequest {})
        .await
        .unwrap();
    assert_eq!(listed.indexes[0].language, "en");
    for (question, told) in [
        ("river 首都", Some("in Han only where they stand between spaces")),
        (
            "столица",
            Some("in Cyrillic only in the form in which they are written"),
        ),
        ("river столица", None),
        ("naïve river", None),
    ] {
        for mode in [v1::Mode::Bm25, v1::Mode::Hybrid] {
            let reply = server.client.search(request(mode, question, 3)).await.unwrap();
            let of_scripts: Vec<&String> = reply
                .notes
                .iter()
                .filter(|note| note.contains("BM25 of this index"))
                .collect();
            assert_eq!(
                of_scripts.len(),
                usize::from(told.is_some()),
                "{question}: {of_scripts:?}"
            );
            assert!(
                told.is_none_or(|told| of_scripts[0].contains(told)),
                "{question}: {of_scripts:?}"
            );
        }
        let dense = server
            .client
            .search(request(v1::Mode::Dense, question, 3))
            .await
            .unwrap();
        assert_eq!(dense.notes, Vec::<String>::new());
    }
}

//! A learned fusion: from judged questions to a running searcher.

use std::fmt::Write as _;

use dyad_index::storage::WriteLock;
use dyad_index::{FUSION_FILE, FusionMethod, FusionRecord, LearnedFrom};
use dyad_proto::v1::{self, Fusion, Mode};

use crate::command_line::run_beside;
use crate::fixture::{documents, keys, request, searcher};

/// A BEIR folder: for each of `count` documents a question with two of its words, judged to be answered by it.
pub(crate) fn beir_folder(count: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (mut queries, mut qrels) = (String::new(), "query-id\tcorpus-id\tscore\n".to_owned());
    for (key, text) in documents().iter().take(count) {
        let words: Vec<&str> = text.split(' ').collect();
        writeln!(
            queries,
            "{{\"_id\": \"q-{key}\", \"text\": \"{} number {}\"}}",
            words[2], words[4]
        )
        .unwrap();
        writeln!(qrels, "q-{key}\t{key}\t1").unwrap();
    }
    fs_err::create_dir(dir.path().join("qrels")).unwrap();
    fs_err::write(
        dir.path().join("corpus.jsonl"),
        "{\"_id\": \"doc-00\", \"text\": \"t\"}\n",
    )
    .unwrap();
    fs_err::write(dir.path().join("queries.jsonl"), queries).unwrap();
    fs_err::write(dir.path().join("qrels/dev.tsv"), qrels).unwrap();
    dir
}

pub(crate) fn record(fingerprint: &str, method: FusionMethod, dense_weight: f64) -> FusionRecord {
    let (data, split) = ("set".to_owned(), "dev".to_owned());
    let learned_from = LearnedFrom {
        data,
        split,
        questions: 30,
        dense: 0.5,
        bm25: 0.4,
        default: 0.6,
        learned: 0.7,
    };
    FusionRecord::new(fingerprint.to_owned(), method, dense_weight, learned_from)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_learned_is_written_and_used_after_a_reload() {
    let server = searcher().await;
    let index = server.index.path().to_str().unwrap().to_owned();
    let folder = beir_folder(40);
    let learn = [
        "learn",
        "--index",
        &index,
        "--question-tower",
        &server.encoder.url,
        "--data",
    ];
    let data = folder.path().to_str().unwrap();
    let (code, out, error) = run_beside(&[&learn[..], &[data, "--dry-run"]].concat()).await;
    assert!(
        code == Some(0) && out.starts_with("nDCG@10 of 40 questions of "),
        "{out}{error}"
    );
    assert!(!server.index.path().join(FUSION_FILE).exists());

    let (code, out, error) = run_beside(&[&learn[..], &[data]].concat()).await;
    assert!(
        code == Some(0) && out.contains("by 5-fold cross-validation") && out.contains("fusion.json"),
        "{out}{error}"
    );
    let learned = FusionRecord::load(server.index.path(), "f00d").unwrap().unwrap();
    let LearnedFrom {
        questions,
        default,
        learned: after,
        dense,
        bm25,
        ..
    } = learned.learned_from.clone();
    assert_eq!(questions, 40);
    assert!(
        after >= default && [dense, bm25, default].iter().all(|mean| *mean > 0.1 && *mean <= 1.0),
        "{learned:?}"
    );

    server.admin().await.reload(v1::ReloadRequest::default()).await.unwrap();
    let reply = server
        .client
        .search(request(Mode::Hybrid, "number 37", 5))
        .await
        .unwrap();
    let method = match learned.method {
        FusionMethod::Rrf => Fusion::Rrf,
        FusionMethod::WeightedSum => Fusion::WeightedSum,
        FusionMethod::MinMax => Fusion::MinMax,
        FusionMethod::LogOdds => Fusion::LogOdds,
    };
    assert_eq!(
        (reply.fusion(), reply.dense_weight.to_bits()),
        (method, learned.dense_weight.to_bits())
    );

    let (code, _, error) = run_beside(&[&learn[..], &[beir_folder(24).path().to_str().unwrap()]].concat()).await;
    assert!(
        code == Some(1) && error.contains("expected at least 25 judged questions, got 24"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_before_the_index_and_the_index_before_the_default() {
    let server = searcher().await;
    let index = server.index.path();
    let ask = async |change: &dyn Fn(&mut v1::SearchRequest)| {
        let mut asked = request(Mode::Hybrid, "the silent river number 12", 20);
        change(&mut asked);
        server.client.search(asked).await.unwrap()
    };
    let by = |reply: &v1::SearchResponse| (reply.fusion(), (reply.dense_weight * 100.0).round() as u32);
    assert_eq!(by(&ask(&|_| ()).await), (Fusion::WeightedSum, 70));
    assert_eq!(by(&ask(&|asked| asked.rrf_k = 10).await), (Fusion::Rrf, 50));
    assert_eq!(
        by(&ask(&|asked| asked.set_mode(Mode::Dense)).await),
        (Fusion::Unspecified, 0)
    );

    record("f00d", FusionMethod::Rrf, 0.9)
        .save(index, &WriteLock::acquire(index).unwrap())
        .unwrap();
    let admin = server.admin().await;
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!(by(&ask(&|_| ()).await), (Fusion::Rrf, 90));
    assert_eq!(
        by(&ask(&|asked| asked.set_fusion(Fusion::WeightedSum)).await),
        (Fusion::WeightedSum, 70)
    );
    // All weight on one ranking gives that ranking.
    let single = |mode| request(mode, "the silent river number 12", 20);
    let dense = server.client.search(single(Mode::Dense)).await.unwrap();
    assert_eq!(
        keys(&ask(&|asked| asked.dense_weight = Some(1.0)).await.hits),
        keys(&dense.hits)
    );
    let bm25 = server.client.search(single(Mode::Bm25)).await.unwrap();
    let first = ask(&|asked| asked.dense_weight = Some(0.0)).await;
    let sure = bm25.hits.len() - 1;
    assert!(sure > 1);
    assert_eq!(keys(&first.hits)[..sure], keys(&bm25.hits)[..sure]);

    // What another model has taught does not count, and a file that cannot be read is refused: what is served stays.
    record("beef", FusionMethod::Rrf, 0.9)
        .save(index, &WriteLock::acquire(index).unwrap())
        .unwrap();
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!(by(&ask(&|_| ()).await), (Fusion::WeightedSum, 70));
    fs_err::write(index.join(FUSION_FILE), "{").unwrap();
    let refused = admin
        .reload(v1::ReloadRequest::default())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("fusion.json") && refused.contains("dyad-searcher learn"),
        "{refused}"
    );
    assert_eq!(by(&ask(&|_| ()).await), (Fusion::WeightedSum, 70));
}

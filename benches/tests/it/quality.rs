//! What is measured on known answers.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use dyad_bench::quality::{METRICS, RankingMode, measure};
use dyad_corpus::metrics::{Average, RankingMetric, evaluate};
use dyad_corpus::run;
use tempfile::tempdir;

use crate::server::{FINGERPRINT, QUESTIONS, client, prepare, start_honest};

const ALL: [RankingMode; 3] = [RankingMode::Dense, RankingMode::Bm25, RankingMode::Hybrid];

/// The mean of `value` over all questions.
fn mean(value: impl Fn(u32) -> f64) -> f64 {
    (0..QUESTIONS).map(value).sum::<f64>() / f64::from(QUESTIONS)
}

fn assert_close(got: f64, expected: f64, what: &str) {
    assert!((got - expected).abs() < 1e-12, "{what}: expected {expected}, got {got}");
}

#[tokio::test]
async fn figures_runs_and_loss_follow_from_the_answers() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (judged, job) = prepare(folder.path(), &ALL);
    let heard = Mutex::new(Vec::new());
    let watch = |system: dyad_bench::quality::RankingSystem, answered| heard.lock().unwrap().push((system, answered));
    let report = measure(&client(&server.url).await, &judged, &job, &watch)
        .await
        .unwrap();

    let names: Vec<String> = report.rows.iter().map(|row| row.system.to_string()).collect();
    assert_eq!(names, ["dense", "dense exact", "bm25", "hybrid", "hybrid exact"]);
    assert_eq!(
        (report.queries, report.k, report.metrics.as_slice()),
        (150, 100, &METRICS[..])
    );
    assert_eq!(report.served.as_ref().unwrap().generation, 7);
    assert_eq!(report.served.as_ref().unwrap().fingerprint, FINGERPRINT);

    let rank = |n: u32| f64::from(n % 4 + 1);
    let walked = |n: u32| if n.is_multiple_of(5) { 0.0 } else { 1.0 };
    let [dense, exact, bm25, hybrid, hybrid_exact] = report.rows.as_slice() else {
        panic!("five rows")
    };
    // MRR, P@1, R@1, R@5, R@10, R@100, nDCG@10 of one relevant document at a known rank.
    let at_one = |n: u32| f64::from(u8::from(n.is_multiple_of(4)));
    let gain = |n: u32| 1.0 / (rank(n) + 1.0).log2();
    let expected_exact = [
        mean(|n| 1.0 / rank(n)),
        mean(at_one),
        mean(at_one),
        1.0,
        1.0,
        1.0,
        mean(gain),
    ];
    let expected_dense = [
        mean(|n| walked(n) / rank(n)),
        mean(|n| walked(n) * at_one(n)),
        mean(|n| walked(n) * at_one(n)),
        mean(walked),
        mean(walked),
        mean(walked),
        mean(|n| walked(n) * gain(n)),
    ];
    for (index, (metric, ..)) in METRICS.iter().enumerate() {
        assert_close(
            exact.means[index],
            expected_exact[index],
            &format!("dense exact {metric}"),
        );
        assert_close(dense.means[index], expected_dense[index], &format!("dense {metric}"));
        assert_close(
            bm25.means[index],
            0.5,
            &format!("bm25 {metric}: half of the questions have no hit and count 0"),
        );
        assert_close(hybrid.means[index], 1.0, &format!("hybrid {metric}"));
        assert_close(hybrid_exact.means[index], 1.0, &format!("hybrid exact {metric}"));
        assert_close(
            report.losses[0].means[index],
            expected_exact[index] - expected_dense[index],
            &format!("loss {metric}"),
        );
    }
    // Of exact search's first ten, the walk misses the document where n % 5 == 0, and has the other nine.
    assert_eq!(
        report.losses.iter().map(|loss| loss.mode).collect::<Vec<_>>(),
        [RankingMode::Dense, RankingMode::Hybrid]
    );
    assert_close(
        report.losses[0].overlap,
        mean(|n| if n.is_multiple_of(5) { 0.9 } else { 1.0 }),
        "overlap dense",
    );
    assert_close(report.losses[1].overlap, 1.0, "overlap hybrid");

    let heard = heard.into_inner().unwrap();
    assert_eq!(
        heard.iter().map(|(_, answered)| answered).sum::<usize>(),
        5 * QUESTIONS as usize
    );

    // A run read again gives the very same figures: scores come back bit by bit.
    for row in &report.rows {
        let read = run::read(&row.run).unwrap();
        let again = evaluate(
            &read,
            &judged.qrels,
            &METRICS.map(|(metric, ..)| metric),
            Average::Complete,
        );
        assert_eq!(again.means, row.means, "{}", row.system);
    }
    let bm25_run = run::read(&bm25.run).unwrap();
    assert_eq!(bm25_run.len(), QUESTIONS as usize / 2);
    assert_eq!(bm25_run["0"], [("0".to_owned(), 1.0f32 / 3.0)]);
    let first = fs_err::read_to_string(&exact.run).unwrap();
    assert_eq!(first.lines().next().unwrap(), "0 Q0 0 1 0.333333343 dyad-dense-exact");
}

#[tokio::test]
async fn questions_go_in_bounded_batches_of_which_some_are_under_way_together() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (judged, mut job) = prepare(folder.path(), &[RankingMode::Dense]);
    job.concurrency = 2;
    measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap();

    assert_eq!(server.seen.most_under_way.load(Ordering::SeqCst), 2);
    let batches = server.seen.batches.lock().unwrap();
    let mut sizes: Vec<usize> = batches.iter().map(Vec::len).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [22, 22, 64, 64, 64, 64]);
    let requests = || batches.iter().flatten();
    assert!(requests().all(|request| request.keys_only && request.k == 100));
    assert_eq!(requests().filter(|request| request.exact).count(), QUESTIONS as usize);
}

#[tokio::test]
async fn the_querys_own_document_is_dropped_and_its_place_filled() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (judged, mut job) = prepare(folder.path(), &[RankingMode::Dense]);
    (job.drop_identical_ids, job.k) = (true, 10);
    let report = measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap();

    assert!(
        report.rows.iter().all(|row| row.means.iter().all(|mean| *mean == 0.0)),
        "{report:?}"
    );
    assert!(
        server
            .seen
            .batches
            .lock()
            .unwrap()
            .iter()
            .flatten()
            .all(|request| request.k == 11)
    );
    let exact = run::read(&report.rows[1].run).unwrap();
    assert!(exact.values().all(|hits| hits.len() == 10), "ten are left of eleven");
}

#[tokio::test]
async fn a_table_and_json_say_the_same() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (judged, mut job) = prepare(folder.path(), &ALL);
    job.k = 50;
    let mut report = measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap();
    for row in &mut report.rows {
        row.queries_per_s = 1234.56;
    }
    let mut table = Vec::new();
    report.write_table(&mut table).unwrap();
    // The figures by Python: mean over n in range(150) of 1/(n%4+1), n%4==0, 1/log2(n%4+2), each times n%5!=0 for
    // dense.
    let table = String::from_utf8(table)
        .unwrap()
        .replace(folder.path().to_str().unwrap(), "DATA");
    assert_eq!(
        table,
        "\
DATA, split test: 150 queries, k 50, index generation 7, model 0123456789ab

                 MRR     P@1     R@1     R@5    R@10  nDCG@10  queries/s
dense         0.4167  0.2000  0.2000  0.8000  0.8000   0.5123     1234.6
dense exact   0.5239  0.2533  0.2533  1.0000  1.0000   0.6427     1234.6
bm25          0.5000  0.5000  0.5000  0.5000  0.5000   0.5000     1234.6
hybrid        1.0000  1.0000  1.0000  1.0000  1.0000   1.0000     1234.6
hybrid exact  1.0000  1.0000  1.0000  1.0000  1.0000   1.0000     1234.6

ANN loss: exact minus ANN      MRR      P@1      R@1      R@5     R@10  nDCG@10  overlap@10
dense                      +0.1072  +0.0533  +0.0533  +0.2000  +0.2000  +0.1304      0.9800
hybrid                     +0.0000  +0.0000  +0.0000  +0.0000  +0.0000  +0.0000      1.0000

All judged queries count, those without results as 0 (trec_eval -c).
Left out, because k is only 50: R@100.
Runs: DATA/runs
"
    );

    let json = report.to_json();
    assert_eq!(json["systems"][1]["metrics"]["recip_rank"], report.rows[1].means[0]);
    assert_eq!(json["systems"][1]["exact"], true);
    assert_eq!(json["systems"][0]["metrics"].as_object().unwrap().len(), 6);
    assert_eq!(json["ann_loss"][0]["mode"], "dense");
    assert_eq!(
        json["ann_loss"][0]["metrics"][RankingMetric::Ndcg(10).to_string()],
        report.losses[0].means[5]
    );
    assert_eq!(json["ann_loss"][0]["overlap"]["depth"], 10);
    assert_eq!(
        (json["generation"].as_u64(), json["fingerprint"].as_str()),
        (Some(7), Some(FINGERPRINT))
    );
}

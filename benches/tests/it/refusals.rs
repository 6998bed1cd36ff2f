//! What is not measured, and what is said.

use std::sync::Mutex;

use dyad_bench::error::BenchError;
use dyad_bench::quality::{JudgedQuestions, RankingMode, measure};
use dyad_proto::v1;
use tempfile::tempdir;

use crate::server::{Spoil, client, prepare, start, start_honest, start_strange, write_folder};

/// What is said of a server that answers like this, with its address replaced.
async fn refusal(spoil: Spoil) -> String {
    let folder = tempdir().unwrap();
    let server = start(spoil).await;
    let (judged, job) = prepare(folder.path(), &[RankingMode::Hybrid]);
    let error = measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap_err();
    assert!(
        !folder.path().join("runs/hybrid.run").exists(),
        "no run of half a measurement"
    );
    error.to_string().replace(&server.url, "URL")
}

#[tokio::test]
async fn degraded_answers_are_counted_and_the_first_reason_named() {
    let message = refusal(|n, response| {
        if n == 3 || n == 100 {
            response.degraded = true;
            response.degraded_reason = format!("no vector for question {n}");
        }
    });
    assert_eq!(
        message.await,
        "`URL` gave degraded answers to 2 of 150 questions in mode hybrid, query `3` first: no vector for question 3. \
         Restore the server, then measure again"
    );
}

#[tokio::test]
async fn an_index_that_changes_is_no_index_to_measure() {
    let message = refusal(|n, response| {
        if n >= 70 {
            response.generation = 8;
        }
    });
    assert_eq!(
        message.await,
        "`URL` changed its index during the measurement: expected generation 7, model 0123456789ab, got generation 8, \
         model 0123456789ab. Measure again"
    );
}

#[tokio::test]
async fn answers_that_no_run_could_hold_are_refused() {
    let hint = ". Check that client and server are of the same release";
    let twice: Spoil = |n, response| {
        if n == 5 {
            response.hits.push(v1::Hit {
                rank: 2,
                ..response.hits[0].clone()
            });
        }
    };
    assert_eq!(
        refusal(twice).await,
        format!("`URL` answered query `5` against the contract: hit 2 is empty or a duplicate: `5`{hint}")
    );
    let not_a_number: Spoil = |_, response| response.hits[0].score = f32::NAN;
    assert_eq!(
        refusal(not_a_number).await,
        format!("`URL` answered query `0` against the contract: the score of `0` is not finite: NaN{hint}")
    );
    let another_mode: Spoil = |_, response| response.mode = v1::Mode::Bm25.into();
    assert_eq!(
        refusal(another_mode).await,
        format!("`URL` answered query `0` against the contract: expected mode hybrid, got MODE_BM25{hint}")
    );
    let spaces: Spoil = |_, response| response.hits[0].key = "two words".to_owned();
    assert_eq!(
        refusal(spaces).await,
        "document `two words` cannot be written to a TREC run: it is empty or contains whitespace. Use keys without \
         whitespace"
    );
}

#[tokio::test]
async fn an_index_of_other_documents_is_not_measured() {
    let folder = tempdir().unwrap();
    let server = start_strange().await;
    let (judged, job) = prepare(folder.path(), &[RankingMode::Bm25]);
    let error = measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap_err();
    let (url, data) = (&server.url, folder.path().display());
    assert_eq!(
        error.to_string(),
        format!(
            "none of the 150 judged documents is in the index that `{url}` serves. Serve an index of the corpus of `{data}`, \
             or name its folder with `--data`"
        )
    );
    assert!(
        server.seen.batches.lock().unwrap().is_empty(),
        "before any question is asked"
    );
}

#[tokio::test]
async fn a_server_that_goes_away_in_the_middle_is_named() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (judged, mut job) = prepare(folder.path(), &[RankingMode::Dense]);
    job.concurrency = 1;
    let client = client(&server.url).await;
    let stop = Mutex::new(Some(server.stop));
    let watch = |_, _| {
        if let Some(stop) = stop.lock().unwrap().take() {
            stop.send(()).unwrap();
        }
    };
    let error = measure(&client, &judged, &job, &watch).await.unwrap_err();
    assert!(matches!(error, BenchError::Client(_)), "{error}");
    let start = format!("no server answers at `{}` (2 attempts): ", server.url);
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(!folder.path().join("runs/dense.run").exists());
}

#[tokio::test]
async fn a_question_that_no_server_takes_is_named_before_any_is_asked() {
    let folder = tempdir().unwrap();
    let server = start_honest().await;
    let (mut judged, job) = prepare(folder.path(), &[RankingMode::Dense]);
    judged.questions[9].text = "x".repeat((32 << 10) + 1);
    let error = measure(&client(&server.url).await, &judged, &job, &|_, _| ())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "query `9`: invalid request: `query`: expected at most 32768 bytes, got 32769"
    );
    assert!(server.seen.batches.lock().unwrap().is_empty());
}

#[test]
fn judgements_without_their_question_are_refused() {
    let folder = tempdir().unwrap();
    write_folder(folder.path());
    let path = folder.path().join("qrels/test.tsv");
    let qrels = fs_err::read_to_string(&path).unwrap();
    fs_err::write(&path, format!("{qrels}q7\td1\t1\nq8\td1\t0\n")).unwrap();
    let message = JudgedQuestions::read(folder.path(), "test").unwrap_err().to_string();
    assert_eq!(
        message.replace(folder.path().to_str().unwrap(), "DATA"),
        "`DATA/qrels/test.tsv` judges query `q7`, which `DATA/queries.jsonl` does not hold; queries missing in all: 2. Take \
         both files from the same release of the set"
    );
}

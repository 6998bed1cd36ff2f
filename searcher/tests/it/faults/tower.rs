//! A question tower that is killed, slow, hanging, or overrun.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dyad_proto::v1::{self, Mode};
use tonic::Code;

use super::process::{REQUESTS, Server, Tower, until};
use crate::fixture::write_index;

const MINUTE: Duration = Duration::from_mins(1);

async fn over(tower: &Tower) -> (tempfile::TempDir, Server) {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    let server = Server::start(index.path(), &tower.service.url, &[]).await;
    (index, server)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tower_that_is_killed_fails_its_requests_and_may_return() {
    let tower = Tower::start("127.0.0.1:0").await;
    let url = tower.service.url.clone();
    let (_index, server) = over(&tower).await;
    let (right, threads) = (server.answers().await, server.number("Threads"));

    // In the middle of as many requests as are taken.
    let asked = tower.asked();
    let killed = async {
        until("all requests are with the tower", async || {
            tower.asked() >= asked + REQUESTS
        })
        .await;
        drop(tower);
    };
    let (answers, ()) = tokio::join!(server.ask(REQUESTS, Mode::Dense, "wait number 4", MINUTE), killed);
    for answer in answers {
        assert_eq!(answer.code, Code::Unavailable, "{answer:?}");
        assert!(
            answer.message.contains("question tower: ") && answer.message.contains(&url),
            "{answer:?}"
        );
    }
    // While it is away. On a busy machine the first requests may still meet the connection that broke.
    until("the connection is given up", async || {
        server.ask(1, Mode::Dense, "number 12", MINUTE).await[0]
            .message
            .contains("no server answers")
    })
    .await;
    for answer in server.ask(REQUESTS, Mode::Dense, "number 12", MINUTE).await {
        assert_eq!(answer.code, Code::Unavailable, "{answer:?}");
        assert!(answer.message.contains("no server answers"), "{answer:?}");
    }
    for answer in server.ask(REQUESTS, Mode::Hybrid, "number 12", MINUTE).await {
        assert_eq!(
            (answer.code, answer.keys[0].as_str()),
            (Code::Ok, "doc-12"),
            "{answer:?}"
        );
        assert!(answer.degraded.contains("no server answers"), "{answer:?}");
    }
    for answer in server.ask(REQUESTS, Mode::Bm25, "number 12", MINUTE).await {
        assert_eq!((answer.code, answer.degraded.as_str()), (Code::Ok, ""), "{answer:?}");
    }

    let _back = Tower::start(&url).await;
    until("the tower is found again", async || {
        server
            .ask(2, Mode::Dense, "number 12", MINUTE)
            .await
            .iter()
            .all(|answer| answer.code == Code::Ok)
    })
    .await;
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tower_costs_vectors_and_no_deadline_is_missed() {
    let tower = Tower::start("127.0.0.1:0").await;
    let (_index, server) = over(&tower).await;
    let (right, threads) = (server.answers().await, server.number("Threads"));
    let time = Duration::from_secs(2);
    // One that is too busy is not one that is gone.
    for answer in server.ask(REQUESTS, Mode::Dense, "crowd", time).await {
        assert_eq!(
            (answer.code, answer.has_hint),
            (Code::ResourceExhausted, true),
            "{answer:?}"
        );
    }
    for answer in server.ask(REQUESTS, Mode::Dense, "sleep number 4", time).await {
        assert_eq!(answer.code, Code::DeadlineExceeded, "{answer:?}");
    }
    // BM25 answers in time for what hybrid lacks.
    for answer in server.ask(REQUESTS, Mode::Hybrid, "sleep number 4", time).await {
        assert_eq!(
            (answer.code, answer.keys[0].as_str()),
            (Code::Ok, "doc-04"),
            "{answer:?}"
        );
        assert!(answer.degraded.contains("no question vector"), "{answer:?}");
    }
    server.answers_soon().await;
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

/// Questions wait until the circuit breaker opens, then none does.
#[tokio::test(flavor = "multi_thread")]
async fn no_question_waits_for_a_tower_that_hangs() {
    const OPEN: &str = "its last calls were not answered in time, so none is made";
    let tower = Tower::start("127.0.0.1:0").await;
    let (_index, mut server) = over(&tower).await;
    let (right, threads) = (server.answers().await, server.number("Threads"));
    tower.service.hangs.store(true, Ordering::SeqCst);
    let time = Duration::from_secs(5);
    until("the circuit is open", async || {
        let answers = server.ask(REQUESTS, Mode::Hybrid, "number 12", time).await;
        for answer in &answers {
            assert_eq!((answer.code, answer.message.as_str()), (Code::Ok, ""), "{answer:?}");
            assert_eq!(answer.keys[0], "doc-12");
            assert!(answer.degraded.contains("no question vector"), "{answer:?}");
        }
        answers.iter().any(|answer| answer.degraded.contains(OPEN))
    })
    .await;
    let (asked, started) = (tower.asked(), Instant::now());
    for _ in 0..10 {
        for answer in server.ask(REQUESTS, Mode::Hybrid, "number 12", time).await {
            assert_eq!((answer.code, answer.message.as_str()), (Code::Ok, ""), "{answer:?}");
            assert!(answer.degraded.contains(OPEN), "{answer:?}");
        }
    }
    for answer in server.ask(REQUESTS, Mode::Dense, "number 12", time).await {
        assert_eq!((answer.code, answer.has_hint), (Code::Unavailable, true), "{answer:?}");
        assert!(answer.message.contains(OPEN), "{answer:?}");
    }
    // One probe a second, for 88 questions.
    let (calls, seconds) = (tower.asked() - asked, started.elapsed().as_secs() as usize);
    assert!(calls <= seconds + 1, "{calls} calls in {seconds} s");
    // It still says which model it has.
    let status = server
        .admin
        .status(v1::StatusRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(
        status.question_tower_error.contains(OPEN),
        "{}",
        status.question_tower_error
    );

    tower.service.hangs.store(false, Ordering::SeqCst);
    server.answers_soon().await;
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

/// What is too much is refused at once with a retry hint; what was taken is answered, and so is everything afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn overload_is_shed_and_over_as_soon_as_it_ends() {
    let tower = Tower::start("127.0.0.1:0").await;
    let (_index, server) = over(&tower).await;
    let (right, threads) = (server.answers().await, server.number("Threads"));
    let asked = tower.asked();
    let full = server.ask(REQUESTS, Mode::Hybrid, "wait number 4", MINUTE);
    let more = async {
        until("all places are taken", async || tower.asked() >= asked + REQUESTS).await;
        let mut refused = Vec::new();
        for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
            refused.extend(server.ask(3 * REQUESTS, mode, "number 12", MINUTE).await);
        }
        tower.service.released.send_replace(true);
        refused
    };
    let (taken, refused) = tokio::join!(full, more);
    for answer in taken {
        assert_eq!(
            (answer.code, answer.keys[0].as_str(), answer.degraded.as_str()),
            (Code::Ok, "doc-04", "")
        );
    }
    for answer in refused {
        assert_eq!(
            (answer.code, answer.has_hint),
            (Code::ResourceExhausted, true),
            "{answer:?}"
        );
        assert!(
            answer
                .message
                .contains("all 8 places for single searches are taken, of 16"),
            "{answer:?}"
        );
        assert!(answer.message.contains("`--max-requests`"), "{answer:?}");
    }
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

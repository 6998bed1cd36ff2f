//! What was learned on one side, on both, and removed; what cannot be read.

use std::sync::Arc;

use dyad_index::{FUSION_FILE, FusionMethod, FusionRecord, LearnedFrom, RERANK_FILE};
use object_store::memory::InMemory;
use tempfile::TempDir;

use super::*;
use crate::fixture::Pushing;
use crate::pull::{PullOptions, Pulled, pull};
use crate::push::push;
use crate::transfers::PushOptions;

fn learn(index: &Path, dense_weight: f64) {
    let (data, split) = ("d".to_owned(), "dev".to_owned());
    let from = LearnedFrom {
        data,
        split,
        questions: 1,
        dense: 0.1,
        bm25: 0.2,
        default: 0.3,
        learned: 0.4,
    };
    let record = FusionRecord::new("f".to_owned(), FusionMethod::WeightedSum, dense_weight, from);
    record.save(index, &WriteLock::acquire(index).unwrap()).unwrap();
}

fn weight(index: &Path) -> Option<f64> {
    FusionRecord::load(index, "f")
        .unwrap()
        .map(|record| record.dense_weight)
}

struct Sides {
    index: Pushing,
    replica: TempDir,
    remote: RemoteStore,
}

impl Sides {
    fn new() -> Self {
        let index = Pushing::new();
        index.publish(1, &["a"]);
        let remote = RemoteStore::from_store("memory://x", Arc::new(InMemory::new()), "x");
        Self {
            index,
            replica: TempDir::new().unwrap(),
            remote,
        }
    }

    async fn push_from(&self, directory: &Path) -> Vec<LearnedOutcome> {
        let pushed = push(directory, &self.remote, &PushOptions::default(), &dyad_files::Never)
            .await
            .unwrap();
        pushed.learned.into_iter().map(|learned| learned.outcome).collect()
    }

    async fn push(&self) -> Vec<LearnedOutcome> {
        self.push_from(self.index.path()).await
    }

    async fn pulled(&self) -> Pulled {
        pull(
            &self.remote,
            self.replica.path(),
            &PullOptions::default(),
            &dyad_files::Never,
        )
        .await
        .unwrap()
    }

    async fn pull(&self) -> Vec<LearnedOutcome> {
        self.pulled()
            .await
            .learned
            .into_iter()
            .map(|learned| learned.outcome)
            .collect()
    }

    async fn mirror(&self) -> Vec<LearnedOutcome> {
        let moves = move_learned(self.replica.path(), &self.remote, Direction::Mirror).await;
        moves.into_iter().map(|learned| learned.outcome).collect()
    }
}

#[tokio::test]
async fn what_is_learned_on_one_side_goes_to_the_other() {
    let sides = Sides::new();
    let (index, replica) = (sides.index.path(), sides.replica.path());
    assert_eq!((sides.push().await, sides.pull().await), (vec![], vec![]));
    // After the generation was pushed, and once more.
    for dense_weight in [0.7, 0.6] {
        learn(index, dense_weight);
        assert_eq!(
            (sides.push().await, sides.push().await),
            (vec![LearnedOutcome::Moved], vec![])
        );
        let pulled = sides.pulled().await;
        let expected = [LearnedMove {
            file: FUSION_FILE,
            outcome: LearnedOutcome::Moved,
        }];
        assert_eq!((pulled.is_new, &pulled.learned[..]), (false, &expected[..]));
        assert_eq!(weight(replica), Some(dense_weight));
        assert_eq!(sides.pull().await, []);
    }
    // The other way, which a push of the older one does not undo.
    learn(replica, 0.3);
    assert_eq!((sides.pull().await, weight(replica)), (vec![], Some(0.3)));
    assert_eq!(sides.push_from(replica).await, [LearnedOutcome::Moved]);
    assert_eq!((sides.push().await, weight(index)), (vec![], Some(0.6)));
    assert_eq!((sides.pull().await, weight(replica)), (vec![], Some(0.3)));
    // Both kinds of files.
    let rerank = br#"{"format_version":1,"fingerprint":"f","reranker_fingerprint":"r","reranker":"r","depth":9,"measured_on":{"data":"d","split":"s","questions":9,"before":0.5,"after":0.6,"p":0.1}}"#;
    fs_err::write(replica.join(RERANK_FILE), rerank).unwrap();
    assert_eq!(sides.push_from(replica).await, [LearnedOutcome::Moved]);
    assert_eq!(sides.remote.read(RERANK_FILE).await.unwrap().unwrap(), rerank);
}

#[tokio::test]
async fn what_was_learned_apart_is_kept_on_both_sides() {
    let sides = Sides::new();
    let (index, replica) = (sides.index.path(), sides.replica.path());
    sides.push().await;
    sides.pull().await;
    learn(replica, 0.3);
    learn(index, 0.7);
    assert_eq!(sides.push().await, [LearnedOutcome::Moved]);
    assert_eq!(
        (sides.pull().await, weight(replica)),
        (vec![LearnedOutcome::Kept], Some(0.3))
    );
    assert_eq!(sides.push_from(replica).await, [LearnedOutcome::Kept]);
    // A mirror has the store's.
    assert_eq!(
        (sides.mirror().await, weight(replica)),
        (vec![LearnedOutcome::Moved], Some(0.7))
    );
}

#[tokio::test]
async fn what_is_removed_on_one_side_goes_on_the_other() {
    let sides = Sides::new();
    let (index, replica) = (sides.index.path(), sides.replica.path());
    learn(index, 0.7);
    sides.push().await;
    sides.pull().await;
    fs_err::remove_file(index.join(FUSION_FILE)).unwrap();
    assert_eq!(sides.push().await, [LearnedOutcome::Removed]);
    assert_eq!(
        (sides.pull().await, weight(replica)),
        (vec![LearnedOutcome::Removed], None)
    );
    assert_eq!((sides.push().await, sides.pull().await), (vec![], vec![]));
    // A mirror that was given none by the store keeps what somebody has put there.
    learn(replica, 0.2);
    assert_eq!((sides.mirror().await, weight(replica)), (vec![], Some(0.2)));
    learn(index, 0.7);
    sides.push().await;
    assert_eq!(sides.mirror().await, [LearnedOutcome::Moved]);
    sides.remote.remove(&[FUSION_FILE.to_owned()]).await.unwrap();
    assert_eq!(
        (sides.mirror().await, weight(replica)),
        (vec![LearnedOutcome::Removed], None)
    );
}

#[tokio::test]
async fn what_cannot_be_read_takes_no_place_and_ends_nothing() {
    let sides = Sides::new();
    sides.push().await;
    sides.remote.put(FUSION_FILE, b"{".to_vec()).await.unwrap();
    let pulled = sides.pulled().await;
    assert!(pulled.is_new);
    let [
        LearnedMove {
            file: FUSION_FILE,
            outcome: LearnedOutcome::Failed(reason),
        },
    ] = &pulled.learned[..]
    else {
        panic!("it is damaged")
    };
    assert!(
        reason.contains("memory://x") && reason.contains("fusion.json"),
        "{reason}"
    );
    assert_eq!(weight(sides.replica.path()), None);
    // Nor is one put there.
    let index = sides.index.path();
    sides.remote.remove(&[FUSION_FILE.to_owned()]).await.unwrap();
    fs_err::write(index.join(FUSION_FILE), "{").unwrap();
    let [LearnedOutcome::Failed(reason)] = &sides.push().await[..] else {
        panic!("it is damaged")
    };
    assert!(reason.contains("dyad-searcher learn"), "{reason}");
    assert_eq!(sides.remote.read(FUSION_FILE).await.unwrap(), None);
}

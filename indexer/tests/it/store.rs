//! Indexes in an object store: pushed and pulled whole, ended in the middle, damaged, raced.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyad_index::manifest;
use dyad_index::verify::verify_current;
use dyad_store::{Error, Pushed, RemoteStore, pull, push};
use object_store::ObjectStoreExt as _;
use object_store::path::Path as ObjectPath;

use crate::fixture::Fixture;
use crate::life::{APPEND, Life, check, document};
use crate::store_fixture::{OPTIONS, PARTS, Place, copy, relative};

#[tokio::test]
async fn what_is_pulled_is_what_was_pushed_generation_after_generation() {
    let (place, replica) = (Place::new(), Fixture::empty());
    let mut life = Life::begin(71, 40);
    let index = life.fixture.index();
    let error = place.pull(&replica.index()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Absent { .. }) && error.to_string().contains("memory://tests/some/prefix"),
        "{error}"
    );
    let first = place.push(&index).await.unwrap();
    assert!(
        first.is_new && first.generation == 1 && first.present == 0 && first.files > 4,
        "{first:?}"
    );
    assert_eq!(
        place.push(&index).await.unwrap(),
        Pushed {
            files: 0,
            bytes: 0,
            present: first.files,
            is_new: false,
            ..first.clone()
        }
    );
    let pulled = place.pull(&replica.index()).await.unwrap();
    assert_eq!(
        (pulled.generation, pulled.files, pulled.bytes, pulled.present),
        (1, first.files, first.bytes, 0)
    );
    check(&replica, &life.model);
    assert_eq!(relative(&replica), relative(&life.fixture));
    // Deletions, changed metadata and a new shard: only these move.
    let more: Vec<_> = (100..110).map(|number| document(number, &mut life.random)).collect();
    life.fixture.upsert(APPEND, &more).unwrap();
    life.model
        .extend(more.iter().map(|document| (document.key.clone(), document.clone())));
    life.fixture.delete(&["k0001".to_owned(), "k0105".to_owned()]).unwrap();
    life.model.retain(|key, _| key != "k0001" && key != "k0105");
    let mut described = life.model["k0010"].clone();
    described.metadata = crate::fixture::metadata(&serde_json::json!({ "n": 9 }));
    life.fixture.update_metadata(std::slice::from_ref(&described)).unwrap();
    life.model.insert(described.key.clone(), described);
    let second = place.push(&index).await.unwrap();
    assert!(
        second.generation == 4 && second.present == first.files && second.files > 4,
        "{second:?}"
    );
    let pulled = place.pull(&replica.index()).await.unwrap();
    assert_eq!(
        (pulled.files, pulled.present, pulled.is_new),
        (second.files, first.files, true)
    );
    check(&replica, &life.model);
    assert!(!place.pull(&replica.index()).await.unwrap().is_new);
    let left = fs_err::read_dir(replica.index().join(".pull"))
        .unwrap()
        .map(|entry| entry.unwrap());
    assert!(
        left.into_iter().all(|entry| entry.file_type().unwrap().is_file()),
        "nothing but its lock"
    );
    // Back, too: generation 3 was never pushed, and its files are there all the same.
    dyad_indexer::rollback::roll_back(&index, Some(1), false).unwrap();
    assert_eq!(place.push(&index).await.unwrap().generation, 1);
    let pulled = place.pull(&replica.index()).await.unwrap();
    assert_eq!((pulled.generation, pulled.files, pulled.is_new), (1, 0, true));
    assert_eq!(manifest::current(&replica.index()).unwrap().generation, 1);
}

#[tokio::test]
async fn transfers_that_are_ended_leave_what_was_and_go_on() {
    let life = Life::begin(72, 30);
    let index = life.fixture.index();
    let (place, replica) = (Place::new(), Fixture::empty());
    place.push(&index).await.unwrap();
    place.pull(&replica.index()).await.unwrap();
    let (mut life, before) = (life, relative(&replica));
    let more: Vec<_> = (100..130).map(|number| document(number, &mut life.random)).collect();
    life.fixture.upsert(APPEND, &more).unwrap();
    life.model
        .extend(more.iter().map(|document| (document.key.clone(), document.clone())));
    // Each time one step further.
    let (mut pushes, mut pulls) = (0, 0);
    for steps in 0.. {
        let left = AtomicUsize::new(steps);
        let cancel = || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
        };
        match push(&index, &place.remote, &PARTS, &cancel).await {
            Ok(pushed) => {
                assert_eq!(pushed.generation, 2);
                break;
            }
            Err(error) => assert!(matches!(error, Error::Interrupted), "{error}"),
        }
        pushes += 1;
        // No file is there in part, and a reader finds the generation before.
        let manifest = manifest::current(&index).unwrap();
        for file in manifest
            .shards
            .iter()
            .flat_map(|shard| shard.files.iter().map(move |file| (shard, file)))
        {
            let path = ObjectPath::from(format!("some/prefix/shards/{}/{}", file.0.id, file.1.path));
            assert!(
                place
                    .store
                    .head(&path)
                    .await
                    .is_ok_and(|found| found.size == file.1.bytes)
                    || place.store.head(&path).await.is_err()
            );
        }
        assert!(!place.pull(&replica.index()).await.unwrap().is_new);
    }
    for steps in 0.. {
        let left = AtomicUsize::new(steps);
        let cancel = || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_err()
        };
        match pull(&place.remote, &replica.index(), &OPTIONS, &cancel).await {
            Ok(_) => break,
            Err(error) => assert!(matches!(error, Error::Interrupted), "{error}"),
        }
        pulls += 1;
        assert_eq!(relative(&replica), before);
        assert_eq!(verify_current(&replica.index()).unwrap().problems, [""; 0]);
    }
    assert!(pushes > 20 && pulls > 2, "{pushes} {pulls}");
    check(&replica, &life.model);
    assert_eq!(relative(&replica), relative(&life.fixture));
}

#[tokio::test]
async fn damage_is_found_before_anything_is_published() {
    let life = Life::begin(73, 30);
    let index = life.fixture.index();
    life.fixture.delete(&["k0002".to_owned()]).unwrap();
    let manifest = manifest::current(&index).unwrap();
    let shard = &manifest.shards[0];
    let deleted = manifest.shards.iter().find_map(|shard| shard.deleted.as_ref()).unwrap();
    for name in [
        format!("shards/{}/dense.dyad", shard.id),
        format!("deletions/{}", deleted.file.path),
        "manifest-000002.json".to_owned(),
        "CURRENT".to_owned(),
    ] {
        let (place, replica) = (Place::new(), Fixture::empty());
        place.push(&index).await.unwrap();
        place.damage(&name).await;
        let error = place.pull(&replica.index()).await.unwrap_err().to_string();
        assert!(error.contains(name.as_str()) || name == "CURRENT", "{name}: {error}");
        assert!(error.contains("expected"), "{error}");
        assert!(manifest::current(&replica.index()).is_err());
    }
    // A file of the index that has changed under its manifest is not put.
    let place = Place::new();
    let dense = index.join("shards").join(&shard.id).join("dense.dyad");
    let mut bytes = fs_err::read(&dense).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs_err::write(&dense, bytes).unwrap();
    let error = place.push(&index).await.unwrap_err().to_string();
    assert!(
        error.contains("dense.dyad") && error.contains("dyad-indexer verify"),
        "{error}"
    );
    assert!(place.remote.current().await.unwrap().is_none());
}

#[tokio::test]
async fn indexes_of_other_lines_are_not_overwritten_and_one_of_two_pushes_wins() {
    let mut life = Life::begin(74, 20);
    let place = Place::new();
    place.push(&life.fixture.index()).await.unwrap();
    let other = copy(&life.fixture);
    let mut documents = |number: usize| vec![document(number, &mut life.random)];
    let (mine, theirs) = (documents(100), documents(101));
    life.fixture.upsert(APPEND, &mine).unwrap();
    other.upsert(APPEND, &theirs).unwrap();
    // Both have made a generation 2 of the same first one, and push at once.
    let (first, second) = (life.fixture.index(), other.index());
    let (one, two) = tokio::join!(place.push(&first), place.push(&second));
    let (won, lost, index) = if one.is_ok() {
        (one, two, &first)
    } else {
        (two, one, &second)
    };
    assert_eq!(won.unwrap().generation, 2);
    let error = lost.unwrap_err();
    assert!(
        matches!(error, Error::OtherLineage { generation: 2, .. } | Error::Raced { .. }),
        "{error}"
    );
    let replica = Fixture::empty();
    place.pull(&replica.index()).await.unwrap();
    assert_eq!(
        fs_err::read(replica.index().join("manifest-000002.json")).unwrap(),
        fs_err::read(index.join("manifest-000002.json")).unwrap()
    );
    assert_eq!(verify_current(&replica.index()).unwrap().problems, [""; 0]);
    // Nor is the loser's index by a pull.
    let loser = if index == &first { &second } else { &first };
    let error = place.pull(loser).await.unwrap_err();
    assert!(matches!(error, Error::OtherLineage { generation: 2, .. }), "{error}");
    // An index that has nothing to do with it is refused before anything is put.
    let stranger = Life::begin(75, 10);
    let error = place.push(&stranger.fixture.index()).await.unwrap_err();
    assert!(matches!(error, Error::OtherLineage { generation: 2, .. }), "{error}");
}

#[tokio::test]
async fn a_push_that_was_overtaken_says_so() {
    let mut life = Life::begin(78, 20);
    let (place, index) = (Place::new(), life.fixture.index());
    place.push(&index).await.unwrap();
    let more = vec![document(100, &mut life.random)];
    life.fixture.upsert(APPEND, &more).unwrap();
    // While generation 2 is on its way, a copy of the index pushes it, and a generation 3.
    let other = copy(&life.fixture);
    other.delete(&["k0004".to_owned()]).unwrap();
    let faster = AtomicUsize::new(0);
    let push_other = || {
        if faster.fetch_add(1, Ordering::Relaxed) == 2 {
            let (place, other) = (&place, other.index());
            let pushed = std::thread::scope(|scope| {
                let push = move || {
                    tokio::runtime::Runtime::new()
                        .unwrap()
                        .block_on(place.push(&other))
                        .unwrap()
                };
                scope.spawn(push).join().unwrap()
            });
            assert_eq!(pushed.generation, 3);
        }
        false
    };
    let error = push(&index, &place.remote, &PARTS, &push_other).await.unwrap_err();
    assert!(matches!(&error, Error::Raced { generation: 3, .. }), "{error}");
    assert_eq!(place.remote.current().await.unwrap().unwrap().manifest.generation, 3);
    // From here on it is another line.
    let error = place.push(&index).await.unwrap_err();
    assert!(matches!(&error, Error::OtherLineage { generation: 3, .. }), "{error}");
}

#[tokio::test]
async fn what_was_not_pushed_is_not_pulled_over() {
    let mut life = Life::begin(79, 20);
    let (place, replica) = (Place::new(), Fixture::empty());
    place.push(&life.fixture.index()).await.unwrap();
    place.pull(&replica.index()).await.unwrap();
    let more = vec![document(100, &mut life.random)];
    replica.upsert(APPEND, &more).unwrap();
    let error = place.pull(&replica.index()).await.unwrap_err();
    assert!(matches!(&error, Error::NotPushed { generation: 2, .. }), "{error}");
    assert_eq!(manifest::current(&replica.index()).unwrap().generation, 2);
    // An index whose generations of before `gc` has removed is still known by what it has pushed.
    for key in ["k0001", "k0002", "k0003"] {
        life.fixture.delete(&[key.to_owned()]).unwrap();
    }
    dyad_indexer::gc::gc(&life.fixture.index(), 1, Duration::ZERO, false).unwrap();
    assert_eq!(manifest::generations(&life.fixture.index()).unwrap(), [4]);
    assert_eq!(place.push(&life.fixture.index()).await.unwrap().generation, 4);
    // A file that has gone from a directory is fetched again.
    let replica = Fixture::empty();
    place.pull(&replica.index()).await.unwrap();
    let shard = manifest::current(&replica.index()).unwrap().shards[0].id.clone();
    fs_err::remove_file(replica.index().join("shards").join(shard).join("dense.dyad")).unwrap();
    let pulled = place.pull(&replica.index()).await.unwrap();
    assert_eq!((pulled.files, pulled.is_new), (1, true));
    assert_eq!(verify_current(&replica.index()).unwrap().problems, [""; 0]);
}

#[test]
fn urls_are_checked_and_a_directory_is_a_store_too() {
    for (url, expected) in [
        ("index", "no place in an object store"),
        ("ftp://host/x", "ftp://host/x"),
        ("s3://key:secret@bucket/x", "credentials belong into the environment"),
    ] {
        let error = RemoteStore::open(url).unwrap_err().to_string();
        assert!(
            error.contains(expected) && error.contains("s3://BUCKET/PREFIX"),
            "{error}"
        );
    }
    let error = RemoteStore::open("s3://key:secret@bucket/x").unwrap_err().to_string();
    assert!(!error.contains("secret") && !error.contains("key:"), "{error}");
    let mut life = Life::begin(76, 15);
    let replica = Fixture::empty();
    let url = format!("file://{}", replica.path("store").display());
    let command = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_dyad-indexer"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (index, copy) = (
        life.fixture.index().display().to_string(),
        replica.index().display().to_string(),
    );
    let push = || command(&["push", "--index", &index, "--to", &url]);
    let pull = || command(&["pull", "--index", &copy, "--from", &url, "--json"]);
    assert!(push().starts_with("pushed generation 1"));
    let pulled: serde_json::Value = serde_json::from_str(&pull()).unwrap();
    assert_eq!(
        (&pulled["generation"], &pulled["documents"], &pulled["is_new"]),
        (&1.into(), &15.into(), &true.into())
    );
    check(&replica, &life.model);
    assert!(push().starts_with("nothing to do"));
    life.fixture.delete(&["k0003".to_owned()]).unwrap();
    life.model.remove("k0003");
    assert!(push().contains("1 files"), "only the deletions");
    pull();
    check(&replica, &life.model);
}

//! Mirrors of a store's index: what is kept within a limit, refused, resumed, and read without the store. The files are
//! no shards; nothing here opens them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod parts;
mod place;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dyad_files::{Cancel, DirLock, Never};
use dyad_index::manifest;
use dyad_index::manifest::ReaderLock;
use dyad_index::storage::WriteLock;
use dyad_store::{Cache, Error, Mirror, RemoteStore};
use object_store::ObjectStoreExt as _;
use object_store::memory::InMemory;
use object_store::path::Path as ObjectPath;

use place::{Place, SHARD};

/// Cancelled once it has been polled `steps` times.
fn cancelled_after(steps: usize) -> impl Cancel {
    let left = AtomicUsize::new(steps);
    move || {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err()
    }
}

/// What is in a folder, between spaces.
fn names(folder: &Path) -> String {
    let Ok(entries) = fs_err::read_dir(folder) else {
        return String::new();
    };
    let names: BTreeSet<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// Generations and shards of a mirror.
fn kept(mirror: &Mirror) -> (Vec<u64>, String) {
    (
        manifest::generations(mirror.directory()).unwrap(),
        names(&mirror.directory().join("shards")),
    )
}

fn expected(generations: &[u64], shards: &str) -> (Vec<u64>, String) {
    (generations.to_vec(), shards.to_owned())
}

#[tokio::test]
async fn the_oldest_generations_make_room_and_what_is_read_stays() {
    let place = Place::new();
    let mirror = place.mirror(Some(3));
    for (generation, ids) in [(1, ["a", "b"]), (2, ["b", "c"])] {
        place.push(generation, &ids).await;
        mirror.refresh(&Never).await.unwrap();
    }
    assert_eq!(kept(&mirror), expected(&[1, 2], "a b c"));
    // The next generation needs one shard more: only `a` goes, for another generation names `b`.
    place.push(3, &["c", "d"]).await;
    let reading = ReaderLock::acquire(mirror.directory(), 2).unwrap();
    let pulled = mirror.refresh(&Never).await.unwrap();
    assert_eq!((pulled.generation, pulled.files, pulled.present), (3, 1, 1));
    assert_eq!(kept(&mirror), expected(&[2, 3], "b c d"));
    // A generation that is read is not removed for the next one; once nobody reads it, it is.
    place.push(4, &["d", "e"]).await;
    let error = mirror.refresh(&Never).await.unwrap_err();
    assert!(matches!(error, Error::NoRoom { generation: 4, .. }), "{error}");
    assert_eq!(
        (kept(&mirror), mirror.generation()),
        (expected(&[2, 3], "b c d"), Some(3))
    );
    drop(reading);
    // Nor is anything of a neighbour that cannot be read.
    let damaged = place.cache().join("damaged");
    fs_err::create_dir_all(damaged.join("shards/x")).unwrap();
    fs_err::write(damaged.join("CURRENT"), "?").unwrap();
    fs_err::write(damaged.join("manifest-000001.json"), "?").unwrap();
    mirror.refresh(&Never).await.unwrap();
    assert_eq!(
        (kept(&mirror), names(&damaged.join("shards"))),
        (expected(&[3, 4], "c d e"), "x".to_owned())
    );
    // A generation of files that are there: nothing is fetched, nor removed.
    place.push(5, &["c", "d"]).await;
    assert_eq!(mirror.refresh(&Never).await.unwrap().files, 0);
    assert_eq!(kept(&mirror), expected(&[3, 4, 5], "c d e"));
}

#[tokio::test]
async fn what_does_not_fit_is_refused_with_the_figures() {
    let place = Place::new();
    place.push(1, &["a"]).await;
    let mirror = place.mirror(Some(2));
    mirror.refresh(&Never).await.unwrap();
    place.push(2, &["b", "c"]).await;
    let error = mirror.refresh(&Never).await.unwrap_err();
    let Error::NoRoom {
        needed, held, limit, ..
    } = &error
    else {
        unreachable!("{error}")
    };
    assert_eq!((*needed, *limit), (2 * SHARD, 2 * SHARD + SHARD / 2));
    assert!(*held >= SHARD && *held < SHARD + SHARD / 10, "{held}");
    let text = error.to_string();
    for part in [
        "generation 2 of memory://wiki",
        "195.3 KiB",
        "244.1 KiB",
        "--cache-bytes",
        "/cache`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!error.is_transient());
    assert_eq!((kept(&mirror), mirror.generation()), (expected(&[1], "a"), Some(1)));
    // Another index of the cache counts, and what it has no use for any more makes room for this one.
    let other = Cache::new(&place.cache(), None).mirror(place.remote("memory://news"));
    assert!(other.directory() != mirror.directory());
    other.refresh(&Never).await.unwrap();
    let error = place.mirror(Some(4)).refresh(&Never).await.unwrap_err();
    assert!(
        matches!(&error, Error::NoRoom { held, .. } if *held > 3 * SHARD),
        "{error}"
    );
    place.push(3, &["c"]).await;
    other.refresh(&Never).await.unwrap();
    assert_eq!(kept(&other), expected(&[2, 3], "b c"));
    place.mirror(Some(3)).refresh(&Never).await.unwrap();
    assert_eq!(
        (kept(&other), kept(&mirror)),
        (expected(&[3], "c"), expected(&[1, 3], "a c"))
    );
}

#[tokio::test]
async fn a_restart_fetches_what_is_missing_and_needs_no_store_for_what_it_has() {
    let place = Place::new();
    let error = place.mirror(None).refresh(&Never).await.unwrap_err();
    assert!(
        matches!(&error, Error::Absent { .. }) && error.is_transient(),
        "{error}"
    );
    assert_eq!(place.mirror(None).generation(), None);
    place.push(1, &["a", "b", "c", "d", "e", "f"]).await;
    // Ended, and the next process goes on.
    let error = place.mirror(Some(6)).refresh(&cancelled_after(2)).await.unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    let mirror = place.mirror(Some(6));
    assert_eq!(mirror.generation(), None);
    let other = DirLock::acquire(&mirror.directory().join(".pull"), Duration::ZERO).unwrap();
    let error = mirror.refresh(&Never).await.unwrap_err();
    assert!(matches!(error, Error::Held { .. }) && error.is_transient(), "{error}");
    drop(other);
    let pulled = mirror.refresh(&Never).await.unwrap();
    assert!(pulled.files >= 1 && pulled.files <= 4 && pulled.is_new, "{pulled:?}");
    assert_eq!(
        (kept(&mirror), mirror.generation()),
        (expected(&[1], "a b c d e f"), Some(1))
    );
    let pointer = mirror.look().await.unwrap();
    assert_eq!(
        pointer,
        fs_err::read_to_string(mirror.directory().join("CURRENT")).unwrap()
    );
    assert!(place.mirror(None).has(&pointer) && !mirror.is_rolled_back(&pointer));
    // What was fetched of a generation is not kept for another one, but for what both have.
    place.push(2, &["a", "g", "h", "j"]).await;
    place.mirror(None).refresh(&cancelled_after(2)).await.unwrap_err();
    let staged = mirror.directory().join(".pull/shards");
    assert_eq!(names(&staged), "g h j");
    place.push(3, &["h", "i"]).await;
    let pulled = place.mirror(None).refresh(&Never).await.unwrap();
    assert_eq!((pulled.generation, pulled.files), (3, 1));
    assert_eq!(
        (kept(&mirror), names(&staged)),
        (expected(&[1, 3], "a b c d e f h i"), String::new())
    );
    // Back to the generation before, which a refresh ends.
    let back = || manifest::point_to(mirror.directory(), 1, &WriteLock::acquire(mirror.directory()).unwrap());
    back().unwrap();
    let newest = mirror.look().await.unwrap();
    assert!(newest != pointer && mirror.has(&newest) && place.mirror(None).is_rolled_back(&newest));
    assert!(!mirror.is_rolled_back(&pointer), "the store has another one");
    assert!(mirror.refresh(&Never).await.unwrap().is_new && !mirror.is_rolled_back(&newest));
    // A file that is gone is fetched again.
    fs_err::remove_file(mirror.directory().join("shards/h/dense.dyad")).unwrap();
    assert_eq!(mirror.refresh(&Never).await.unwrap().files, 1);
    // Without the store.
    let gone = RemoteStore::from_store("memory://wiki", Arc::new(InMemory::new()), "wiki");
    let restarted = Cache::new(&place.cache(), None).mirror(gone);
    assert!(restarted.look().await.unwrap_err().is_transient());
    assert_eq!(
        (restarted.generation(), restarted.directory()),
        (Some(3), mirror.directory())
    );
}

/// The second begins while the first fetches, and waits for it.
#[tokio::test]
async fn two_that_share_a_cache_fetch_each_file_once_and_none_replaces_what_the_other_serves() {
    use std::os::unix::fs::MetadataExt as _;
    let place = Place::new();
    place.push(1, &["a", "b", "c", "d", "e", "f"]).await;
    let (mirror, second) = (place.mirror(None), Arc::new(place.mirror(None)));
    let began = std::sync::Once::new();
    let other = std::sync::Mutex::new(None);
    let begin_other = || {
        let second = Arc::clone(&second);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let fetch = move || loop {
            match runtime.block_on(second.refresh(&Never)) {
                Err(Error::Held { .. }) => {}
                pulled => return pulled.unwrap(),
            }
        };
        let (ready, begun) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            ready.send(()).unwrap();
            fetch()
        });
        begun.recv().unwrap();
        // It has looked at what is missing by then, and waits for the lock; where it has not, the files are there when
        // it does.
        std::thread::sleep(Duration::from_millis(100));
        *other.lock().unwrap() = Some(thread);
    };
    let begin_other = || {
        began.call_once(begin_other);
        false
    };
    let pulled = mirror.refresh(&begin_other).await.unwrap();
    let inode = || {
        fs_err::metadata(mirror.directory().join("shards/a/dense.dyad"))
            .unwrap()
            .ino()
    };
    let served = inode();
    let thread = other.lock().unwrap().take().unwrap();
    let of_other = thread.join().unwrap();
    assert_eq!(
        (pulled.files, of_other.files, of_other.bytes, of_other.present),
        (6, 0, 0, 6)
    );
    assert_eq!((of_other.generation, inode()), (1, served));
}

#[tokio::test]
async fn one_generation_before_the_current_one_is_kept_and_leftovers_go() {
    let place = Place::new();
    let mirror = place.mirror(None);
    assert_eq!(mirror.tidy(None).unwrap(), [0; 0]);
    for (generation, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
        place.push(generation, &[id]).await;
        mirror.refresh(&Never).await.unwrap();
    }
    let reading = ReaderLock::acquire(mirror.directory(), 1).unwrap();
    assert_eq!(mirror.tidy(Some(2)).unwrap(), [3]);
    assert_eq!(kept(&mirror), expected(&[1, 2, 4], "a b d"));
    drop(reading);
    // As a process leaves them that was killed while it pulled, or removed.
    for left in ["shards/x", "shards/y", ".removed/shards/x"] {
        let left = mirror.directory().join(left);
        fs_err::create_dir_all(&left).unwrap();
        fs_err::write(left.join("dense.dyad"), "x").unwrap();
    }
    assert_eq!(mirror.tidy(None).unwrap(), [1]);
    assert_eq!(kept(&mirror), expected(&[2, 4], "b d"));
    assert!(!mirror.directory().join(".removed").exists());
}

#[tokio::test]
async fn another_index_under_the_same_url_is_told() {
    let place = Place::new();
    place.push(1, &["a"]).await;
    let mirror = place.mirror(None);
    mirror.refresh(&Never).await.unwrap();
    // The store was emptied, and another index was pushed there.
    let another = Place::new();
    another.push(1, &["b"]).await;
    for name in ["CURRENT", "manifest-000001.json", "shards/b/dense.dyad"] {
        let path = ObjectPath::from(format!("wiki/{name}"));
        let bytes = another.store.get(&path).await.unwrap().bytes().await.unwrap();
        place.store.put(&path, bytes.into()).await.unwrap();
    }
    let error = mirror.refresh(&Never).await.unwrap_err();
    assert!(
        matches!(&error, Error::OtherIndex { generation: 1, .. }) && !error.is_transient(),
        "{error}"
    );
    assert!(
        error.to_string().contains(&mirror.directory().display().to_string()),
        "{error}"
    );
    assert_eq!((kept(&mirror), mirror.generation()), (expected(&[1], "a"), Some(1)));
}

#[test]
fn no_message_repeats_what_could_be_a_secret() {
    for url in [
        "s3://key:secret@bucket/x",
        "s3://key:sec/ret@bucket/x",
        "az://container/x?sig=secret",
        "s3://bucket/x#secret",
        "s3://key:secret?a@bucket/x",
        "az://container/x?sig=a@secret",
        "ftp://key:secret@host/x?sig=secret",
    ] {
        let error = RemoteStore::open(url).unwrap_err().to_string();
        assert!(error.contains("is no place in an object store"), "{error}");
        assert!(!error.contains("secret") && !error.contains("sec/ret"), "{error}");
    }
}

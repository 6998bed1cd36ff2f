//! Parts of generations: the files of some shards are fetched, and others go again, unless a process has them open.

use dyad_files::Never;
use dyad_index::manifest;
use dyad_index::manifest::ReaderLock;
use dyad_index::shard::RemovalLock;
use dyad_store::{Error, Mirror, PullOptions, Pulled, pull_part};

use super::place::{Place, SHARD};
use super::{cancelled_after, expected, kept, names};

/// Fetches a part of the store's current generation.
async fn refresh(mirror: &Mirror, numbers: &[usize]) -> Pulled {
    let there = mirror.current().await.unwrap();
    let pulled = mirror.refresh_part(&there, numbers, &Never).await.unwrap();
    assert!(mirror.has_part(&there.pointer, numbers) && !mirror.has(&there.pointer));
    assert_eq!(mirror.part().as_deref(), Some(numbers));
    pulled
}

/// What a reader of a shard holds; the files of these tests are none that it could open.
fn open(mirror: &Mirror, id: &str) -> fs_err::File {
    let file = fs_err::File::open(mirror.directory().join(format!("shards/{id}/dense.dyad"))).unwrap();
    file.file().lock_shared().unwrap();
    file
}

#[tokio::test]
async fn only_the_files_of_a_part_are_fetched_and_a_part_may_change() {
    let place = Place::new();
    place.push_with_deletions(1, &["a", "b", "c", "d"]).await;
    let mirror = place.mirror(None);
    assert_eq!(mirror.part(), None);
    let pulled = refresh(&mirror, &[1, 3]).await;
    assert_eq!((pulled.generation, pulled.files, pulled.present), (1, 4, 0));
    assert!(pulled.is_new);
    let deletions = || names(&mirror.directory().join("deletions"));
    assert_eq!(kept(&mirror), expected(&[1], "b d"));
    assert_eq!(deletions(), "000001-b.dyad 000001-d.dyad");
    assert_eq!(mirror.generation(), Some(1));
    assert_eq!(manifest::current(mirror.directory()).unwrap().shards.len(), 4);
    let pulled = refresh(&mirror, &[1, 3]).await;
    assert_eq!((pulled.files, pulled.present, pulled.is_new), (0, 4, false));
    let there = mirror.current().await.unwrap();
    assert!(!mirror.has_part(&there.pointer, &[1]) && !mirror.has_part(&there.pointer, &[1, 2, 3]));
    // Another part of the same generation: what is no longer of it goes, but for what is open.
    let reading = (ReaderLock::acquire(mirror.directory(), 1).unwrap(), open(&mirror, "b"));
    let pulled = refresh(&mirror, &[0, 3]).await;
    assert_eq!((pulled.files, pulled.present, pulled.is_new), (2, 2, true));
    assert_eq!(kept(&mirror), expected(&[1], "a b d"));
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[1], "a b d"));
    assert_eq!(deletions(), "000001-a.dyad 000001-b.dyad 000001-d.dyad");
    drop(reading.1);
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[1], "a d"));
    assert_eq!(deletions(), "000001-a.dyad 000001-d.dyad");
    // A smaller one: there is nothing to fetch, and it is noted.
    assert_eq!(refresh(&mirror, &[3]).await.files, 0);
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[1], "d"));
    // None at all, and the whole generation.
    refresh(&mirror, &[]).await;
    mirror.tidy(None).unwrap();
    assert_eq!((kept(&mirror), deletions()), (expected(&[1], ""), String::new()));
    assert_eq!(mirror.refresh(&Never).await.unwrap().files, 8);
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[1], "a b c d"));
    assert!(mirror.has(&there.pointer) && mirror.part().is_none());
}

#[tokio::test]
async fn a_file_of_a_part_that_is_gone_or_damaged_is_fetched_again() {
    let place = Place::new();
    place.push_with_deletions(1, &["a", "b", "c"]).await;
    let mirror = place.mirror(None);
    refresh(&mirror, &[0, 2]).await;
    fs_err::remove_file(mirror.directory().join("shards/c/dense.dyad")).unwrap();
    assert_eq!(mirror.part(), Some(vec![0]));
    assert_eq!(refresh(&mirror, &[0, 2]).await.files, 1);
    fs_err::write(mirror.directory().join("deletions/000001-a.dyad"), "000001-A.dyad").unwrap();
    assert_eq!(mirror.part(), Some(vec![2]));
    assert_eq!(refresh(&mirror, &[0, 2]).await.files, 1);
    assert_eq!(kept(&mirror), expected(&[1], "a c"));
}

#[tokio::test]
async fn a_pull_of_a_part_that_was_ended_goes_on() {
    let place = Place::new();
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h"];
    place.push(1, &ids).await;
    let mirror = place.mirror(None);
    let there = mirror.current().await.unwrap();
    let part = [0, 2, 3, 4, 6, 7];
    let error = mirror.refresh_part(&there, &part, &cancelled_after(2)).await;
    assert!(matches!(error, Err(Error::Interrupted)));
    assert_eq!((mirror.generation(), mirror.part()), (None, None));
    let staged = || names(&mirror.directory().join(".pull/shards"));
    assert!(!staged().is_empty() && staged().split(' ').all(|id| "a c d e g h".contains(id)));
    let pulled = refresh(&mirror, &part).await;
    assert!((1..=4).contains(&pulled.files) && pulled.present == 0, "{pulled:?}");
    assert_eq!(kept(&mirror), expected(&[1], "a c d e g h"));
    // What was fetched of a part is not kept for another one, but for what both have; nor is any of the two removed.
    let error = mirror
        .refresh_part(&there, &[0, 1, 5], &cancelled_after(1))
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert!(!mirror.has_part(&there.pointer, &[0, 1, 5]) && !mirror.has_part(&there.pointer, &part));
    assert!(!mirror.has_part(&there.pointer, &[0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(mirror.part().as_deref(), Some(&part[..]), "all of which is there");
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[1], "a c d e g h"));
    let pulled = refresh(&mirror, &[0, 5]).await;
    assert!(pulled.files <= 1 && pulled.present == 1, "{pulled:?}");
    mirror.tidy(None).unwrap();
    assert_eq!((kept(&mirror), staged()), (expected(&[1], "a f"), String::new()));
}

#[tokio::test]
async fn of_a_new_generation_only_changed_shards_of_the_part_are_fetched_and_the_old_one_is_read_on() {
    let place = Place::new();
    place.push_with_deletions(1, &["a", "b", "c"]).await;
    let mirror = place.mirror(None);
    refresh(&mirror, &[0, 1]).await;
    let reading = (
        ReaderLock::acquire(mirror.directory(), 1).unwrap(),
        open(&mirror, "a"),
        open(&mirror, "b"),
    );
    // `a` has other deletions and stays, `b` goes to another leaf, `d` comes to this one.
    place.push_with_deletions(2, &["a", "b", "d"]).await;
    let pulled = refresh(&mirror, &[0, 2]).await;
    assert_eq!((pulled.generation, pulled.files, pulled.present), (2, 3, 1));
    assert_eq!(mirror.tidy(None).unwrap(), [0; 0]);
    let deletions = || names(&mirror.directory().join("deletions"));
    assert_eq!(kept(&mirror), expected(&[1, 2], "a b d"));
    assert_eq!(deletions(), "000001-a.dyad 000001-b.dyad 000002-a.dyad 000002-d.dyad");
    // The generation before is kept, without shards that nobody has open.
    drop((reading.0, reading.2));
    assert_eq!(mirror.tidy(None).unwrap(), [0; 0]);
    assert_eq!(kept(&mirror), expected(&[1, 2], "a d"));
    assert_eq!(deletions(), "000001-a.dyad 000002-a.dyad 000002-d.dyad");
    place.push_with_deletions(3, &["d"]).await;
    refresh(&mirror, &[0]).await;
    assert_eq!(mirror.tidy(None).unwrap(), [1]);
    assert_eq!(kept(&mirror), expected(&[2, 3], "a d"), "`a` is open");
    drop(reading.1);
    mirror.tidy(None).unwrap();
    assert_eq!(kept(&mirror), expected(&[2, 3], "d"));
}

#[tokio::test]
async fn a_limit_is_of_the_part_and_shards_that_are_no_longer_of_it_make_room() {
    let place = Place::new();
    place.push(1, &["a", "b", "c", "d", "e", "f"]).await;
    let mirror = place.mirror(Some(3));
    let error = mirror.refresh(&Never).await.unwrap_err();
    assert!(matches!(error, Error::NoRoom { needed, .. } if needed == 6 * SHARD));
    refresh(&mirror, &[0, 1]).await;
    refresh(&mirror, &[1, 2]).await;
    assert_eq!(kept(&mirror), expected(&[1], "a b c"));
    // `a` goes for `d`, without a call to tidy.
    refresh(&mirror, &[1, 2, 3]).await;
    assert_eq!(kept(&mirror), expected(&[1], "b c d"));
    // What is open cannot go, and what is not open goes for a part that would not fit next to it.
    let reading = (open(&mirror, "b"), open(&mirror, "c"));
    let there = mirror.current().await.unwrap();
    let error = mirror.refresh_part(&there, &[4, 5], &Never).await.unwrap_err();
    assert!(
        matches!(error, Error::NoRoom { needed, held, .. } if needed == 2 * SHARD && held >= 2 * SHARD),
        "{error}"
    );
    assert_eq!(kept(&mirror), expected(&[1], "b c"));
    assert_eq!(mirror.part(), Some(vec![1, 2]));
    drop(reading.0);
    refresh(&mirror, &[4, 5]).await;
    assert_eq!(kept(&mirror), expected(&[1], "c e f"));
    // Another mirror of the cache removes nothing that this one holds.
    let other =
        dyad_store::Cache::new(&place.cache(), Some(4 * SHARD + SHARD / 2)).mirror(place.remote("memory://news"));
    let there = other.current().await.unwrap();
    drop(reading.1);
    other.refresh_part(&there, &[0, 1], &Never).await.unwrap();
    assert_eq!(
        (kept(&mirror), kept(&other)),
        (expected(&[1], "e f"), expected(&[1], "a b"))
    );
    let error = other.refresh_part(&there, &[0, 1, 2], &Never).await.unwrap_err();
    assert!(matches!(error, Error::NoRoom { .. }), "{error}");
    assert_eq!(
        (kept(&mirror), kept(&other)),
        (expected(&[1], "e f"), expected(&[1], "a b"))
    );
}

#[tokio::test]
async fn shards_that_the_generation_does_not_have_are_refused_before_anything_is_fetched() {
    let place = Place::new();
    place.push(1, &["a", "b"]).await;
    let mirror = place.mirror(None);
    let there = mirror.current().await.unwrap();
    for numbers in [&[2][..], &[1, 0], &[1, 1]] {
        let error = mirror.refresh_part(&there, numbers, &Never).await.unwrap_err();
        assert!(
            error.to_string().contains("ascending numbers below 2, each once") && !error.is_transient(),
            "{error}"
        );
    }
    assert!(!mirror.directory().exists());
    // Into a directory that is no mirror.
    let (folder, options) = (place.folder.path().join("own"), PullOptions::default());
    let pulled = pull_part(mirror.remote(), &there, &[1], &folder, &options, &Never)
        .await
        .unwrap();
    assert_eq!((pulled.files, names(&folder.join("shards"))), (1, "b".to_owned()));
    assert!(RemovalLock::acquire(&folder.join("shards/b")).unwrap().is_some());
}

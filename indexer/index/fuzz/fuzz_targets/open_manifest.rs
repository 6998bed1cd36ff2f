//! `CURRENT` and a manifest: whatever they hold, they are read or refused without a panic, no name leads out of the
//! index, and what was read can be written and read again.

#![no_main]

use std::path::{Component, Path};

use dyad_index::manifest::{self, Manifest, SHARDS_DIR};
use dyad_index::storage::WriteLock;
use dyad_index::{Snapshot, verify};
use dyad_index_fuzz::{Script, edited_manifest};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut script = Script::new(bytes);
    let [mode, pointer_len] = script.array();
    let root = Path::new("/dev/shm");
    let dir = if root.is_dir() {
        tempfile::tempdir_in(root)
    } else {
        tempfile::tempdir()
    }
    .expect("a directory");
    let index = dir.path();
    // Pointers of the fuzzer's own, or one that fits; manifests of the fuzzer's own, or a valid one with edits.
    let pointer = (mode & 1 == 1).then(|| {
        let len = usize::from(pointer_len).min(script.clone().rest().len());
        (0..len).map(|_| script.byte()).collect::<Vec<u8>>()
    });
    let text = if mode & 2 == 2 {
        script.rest().to_vec()
    } else {
        edited_manifest(&mut script)
    };
    let name = if mode & 4 == 4 {
        "manifest-18446744073709551615.json"
    } else {
        "manifest-000001.json"
    };
    std::fs::write(index.join(name), &text).expect("a manifest");
    let pointer = pointer.unwrap_or_else(|| format!("{name} {:08x}\n", crc32c::crc32c(&text)).into_bytes());
    std::fs::write(index.join("CURRENT"), pointer).expect("a pointer");
    // Empty shards, so that the manifest's statements about them are checked.
    std::fs::create_dir_all(index.join(SHARDS_DIR).join("abc").join("text")).expect("a shard");
    std::fs::write(index.join(SHARDS_DIR).join("abc").join("dense.dyad"), b"xy").expect("a file");

    let _ = manifest::current_generation(index);
    let _ = manifest::generations(index);
    let _ = manifest::load(index, 1);
    let _ = Snapshot::open(index);
    let _ = verify::verify_current(index);
    let Ok(read) = manifest::current(index) else { return };
    reads_as_written(index, read);
});

/// What a manifest says stays inside the index, and survives being published.
fn reads_as_written(index: &Path, read: Manifest) {
    read.documents();
    for shard in &read.shards {
        for name in shard.files.iter().map(|file| &file.path).chain([&shard.id]) {
            assert!(
                Path::new(name)
                    .components()
                    .all(|part| matches!(part, Component::Normal(_))),
                "{name}"
            );
        }
    }
    let lock = WriteLock::acquire(index).expect("no other writer");
    let next = Manifest { generation: 2, ..read };
    manifest::publish(index, &next, &[], &lock).expect("what was read can be published");
    assert_eq!(manifest::current(index).expect("what was published can be read"), next);
    let _ = manifest::point_to(index, 1, &lock);
    let _ = manifest::current(index);
}

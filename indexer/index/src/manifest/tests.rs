//! Publishing, going back, and damaged pointers and manifests.

use super::*;
use crate::error::Error;
use crate::shard::ShardMeta;
use crate::storage::WriteLock;

fn manifest(generation: u64) -> Manifest {
    let model = crate::model::ModelRecord {
        name: "m".into(),
        fingerprint: "f".into(),
        dim: 3,
        metric: crate::model::Metric::Cosine,
        max_tokens: 8,
    };
    let files = vec![FileEntry { path: "text/meta.json".into(), bytes: 2, crc32c: 3 }];
    let shards = vec![ShardEntry { id: "abc".into(), documents: 7, files }];
    Manifest { format_version: 1, generation, created_unix_s: 5, tool: "t".into(), model, shards }
}

fn index() -> (tempfile::TempDir, WriteLock) {
    let dir = tempfile::tempdir().unwrap();
    let lock = WriteLock::acquire(dir.path()).unwrap();
    (dir, lock)
}

#[test]
fn the_pointer_moves_forward_and_back() {
    let (dir, lock) = index();
    assert!(matches!(current(dir.path()).unwrap_err(), Error::NoIndex { .. }));
    assert_eq!(current_generation(dir.path()).unwrap(), None);
    for generation in 1..=3 {
        publish(dir.path(), &manifest(generation), &lock).unwrap();
        assert_eq!(current(dir.path()).unwrap(), manifest(generation));
    }
    point_to(dir.path(), 1, &lock).unwrap();
    assert_eq!(current_generation(dir.path()).unwrap(), Some(1));
    assert_eq!(generations(dir.path()).unwrap(), [1, 2, 3]);
    let error = point_to(dir.path(), 9, &lock).unwrap_err().to_string();
    assert!(error.contains("no generation 9. Present: 1, 2, 3"), "{error}");
    assert_eq!(current(dir.path()).unwrap().documents(), 7);
}

#[test]
fn damage_is_found() {
    let (dir, lock) = index();
    publish(dir.path(), &manifest(1), &lock).unwrap();
    let path = dir.path().join("manifest-000001.json");
    let sound = fs_err::read_to_string(&path).unwrap();
    let pointer = fs_err::read_to_string(dir.path().join("CURRENT")).unwrap();
    fs_err::write(&path, sound.replace("\"documents\": 7", "\"documents\": 8")).unwrap();
    assert!(current(dir.path()).unwrap_err().to_string().contains("checksum in `CURRENT`"));
    let republish = |text: String| {
        fs_err::write(&path, text).unwrap();
        point_to(dir.path(), 1, &lock).unwrap_err()
    };
    assert!(matches!(
        republish(sound.replace("\"format_version\": 1", "\"format_version\": 2")),
        Error::Newer { got: 2, .. }
    ));
    assert!(republish(sound.replace("\"abc\"", "\"../abc\"")).to_string().contains("names inside the index"));
    assert!(republish(sound.replace("text/meta.json", "/etc/passwd")).to_string().contains("names inside the index"));
    assert!(republish("{".into()).to_string().contains("expected a manifest"));
    assert_eq!(fs_err::read_to_string(dir.path().join("CURRENT")).unwrap(), pointer, "a refused publish moves nothing");
    for broken in ["", "x", "manifest-000001.json", "manifest-000001.json zz", "../m 00000000"] {
        fs_err::write(dir.path().join("CURRENT"), broken).unwrap();
        assert!(current(dir.path()).is_err(), "{broken}");
    }
}

/// Found by the fuzz target `open_manifest`: counts that add up to more than a number holds.
#[test]
fn too_many_documents_are_counted_as_most() {
    let mut manifest = manifest(1);
    manifest.shards[0].documents = u64::MAX;
    manifest.shards.push(manifest.shards[0].clone());
    assert_eq!(manifest.documents(), u64::MAX);
}

/// What older releases have written stays readable.
#[test]
fn records_keep_their_names() {
    let json = serde_json::to_value(manifest(1)).unwrap();
    assert_eq!(json["model"]["metric"], "cosine");
    assert_eq!(json["shards"][0]["files"][0]["crc32c"], 3);
    let meta: Result<ShardMeta, _> = serde_json::from_str(
        r#"{"model":{"name":"a","fingerprint":"b","dim":1,"metric":"cosine","max_tokens":2},
            "build":{"builder":"hnsw_rs","m":16,"ef_construction":200,"seed":1,"threads":2,"tool":"dyad-indexer 0.1.0"}}"#,
    );
    assert_eq!(meta.unwrap().build.m, 16);
}

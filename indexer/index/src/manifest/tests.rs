//! Publishing, going back, and damaged pointers and manifests.

use super::*;
use crate::error::Error;
use crate::language::TextLanguage;
use crate::shard::ShardMeta;
use crate::storage::WriteLock;

fn manifest(generation: u64) -> Manifest {
    let model = crate::model::ModelRecord {
        name: "m".into(),
        fingerprint: "f".into(),
        dim: 3,
        full_dim: None,
        metric: crate::model::Metric::Cosine,
        max_tokens: 8,
    };
    let files = vec![FileEntry {
        path: "text/meta.json".into(),
        bytes: 2,
        crc32c: 3,
    }];
    let shards = vec![ShardEntry {
        id: "abc".into(),
        documents: 7,
        files,
        deleted: None,
        metadata: None,
        calibration: None,
    }];
    Manifest {
        format_version: 2,
        generation,
        parent: None,
        created_unix_s: 5,
        tool: "t".into(),
        model,
        context: None,
        logit_scale: None,
        min_recall: None,
        language: TextLanguage::English,
        change: None,
        shards,
    }
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
        publish(dir.path(), &manifest(generation), &[], &lock).unwrap();
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
fn a_logit_scale_that_no_model_has_is_refused() {
    let text = |scale: f64| {
        serde_json::to_vec(&Manifest {
            logit_scale: Some(scale),
            ..manifest(1)
        })
        .unwrap()
    };
    let path = std::path::Path::new("manifest");
    assert_eq!(parse(path, &text(22.5)).unwrap().logit_scale, Some(22.5));
    for scale in [0.0, -22.5, 1e308] {
        let refused = parse(path, &text(scale)).unwrap_err().to_string();
        assert!(
            refused.contains("logit_scale") && refused.contains("a number above 0, at most 1000"),
            "{refused}"
        );
    }
}

#[test]
fn damage_is_found() {
    let (dir, lock) = index();
    publish(dir.path(), &manifest(1), &[], &lock).unwrap();
    let path = dir.path().join("manifest-000001.json");
    let intact = fs_err::read_to_string(&path).unwrap();
    let pointer = fs_err::read_to_string(dir.path().join("CURRENT")).unwrap();
    fs_err::write(&path, intact.replace("\"documents\": 7", "\"documents\": 8")).unwrap();
    assert!(
        current(dir.path())
            .unwrap_err()
            .to_string()
            .contains("checksum in `CURRENT`")
    );
    let republish = |text: String| {
        fs_err::write(&path, text).unwrap();
        point_to(dir.path(), 1, &lock).unwrap_err()
    };
    assert!(matches!(
        republish(intact.replace("\"format_version\": 2", "\"format_version\": 5")),
        Error::Newer { got: 5, .. }
    ));
    assert!(
        republish(intact.replace("\"abc\"", "\"../abc\""))
            .to_string()
            .contains("names inside the index")
    );
    assert!(
        republish(intact.replace("text/meta.json", "/etc/passwd"))
            .to_string()
            .contains("names inside the index")
    );
    assert!(republish("{".into()).to_string().contains("expected a manifest"));
    assert_eq!(
        fs_err::read_to_string(dir.path().join("CURRENT")).unwrap(),
        pointer,
        "a refused publish moves nothing"
    );
    for broken in [
        "",
        "x",
        "manifest-000001.json",
        "manifest-000001.json zz",
        "../m 00000000",
    ] {
        fs_err::write(dir.path().join("CURRENT"), broken).unwrap();
        assert!(current(dir.path()).is_err(), "{broken}");
    }
}

/// What a process leaves that ends at each step of a publish, and what the next one makes of it.
#[test]
fn a_generation_that_was_never_published_is_none() {
    let (dir, lock) = index();
    let index = dir.path();
    let path = |name: &str| index.join(name);
    for generation in 1..=2 {
        publish(
            index,
            &Manifest {
                parent: (generation > 1).then_some(1),
                ..manifest(generation)
            },
            &[],
            &lock,
        )
        .unwrap();
    }
    // Killed between the manifest and `CURRENT`.
    let third = Manifest {
        parent: Some(2),
        ..manifest(3)
    };
    let text = serde_json::to_vec(&third).unwrap();
    fs_err::write(path(".publishing-000003"), "").unwrap();
    fs_err::write(path("manifest-000003.json"), &text).unwrap();
    assert_eq!(generations(index).unwrap(), [1, 2]);
    let refused = load(index, 3).unwrap_err().to_string();
    assert!(refused.contains("no generation 3. Present: 1, 2"), "{refused}");
    assert!(point_to(index, 3, &lock).is_err());
    assert!(!path("manifest-000003.json").exists() && !path(".publishing-000003").exists());
    assert_eq!(next_generation(index, &lock).unwrap(), 3);
    // Killed between `CURRENT` and the removal of the mark: that one was published, and stays so after a roll-back.
    publish(index, &third, &[], &lock).unwrap();
    fs_err::write(path(".publishing-000003"), "").unwrap();
    assert_eq!(generations(index).unwrap(), [1, 2, 3]);
    point_to(index, 1, &lock).unwrap();
    assert!(!path(".publishing-000003").exists());
    assert_eq!(
        (generations(index).unwrap(), next_generation(index, &lock).unwrap()),
        (vec![1, 2, 3], 4)
    );
    assert_eq!(load(index, 3).unwrap(), third);
    // A mark without a manifest.
    fs_err::write(path(".publishing-000004"), "").unwrap();
    settle(index, &lock).unwrap();
    assert!(!path(".publishing-000004").exists());
    // It is unknown what a damaged pointer named.
    fs_err::write(path(".publishing-000003"), "").unwrap();
    fs_err::write(path("CURRENT"), "rubbish").unwrap();
    assert_eq!(generations(index).unwrap(), [1, 2, 3]);
}

#[test]
fn the_predecessor_is_what_was_current_before() {
    let (dir, lock) = index();
    let index = dir.path();
    for (generation, parent) in [(1, None), (2, Some(1)), (3, Some(2)), (5, Some(2)), (6, None)] {
        publish(
            index,
            &Manifest {
                parent,
                ..manifest(generation)
            },
            &[],
            &lock,
        )
        .unwrap();
    }
    let before: Vec<u64> = [2, 3, 5]
        .into_iter()
        .map(|generation| predecessor(index, generation).unwrap())
        .collect();
    assert_eq!(before, [1, 2, 2], "3 was rolled back from when 5 was published");
    assert_eq!(
        predecessor(index, 6).unwrap(),
        5,
        "of an earlier release, which wrote no parent"
    );
    assert_eq!(predecessor(index, 4).unwrap(), 3, "of a manifest that is gone");
    fs_err::remove_file(index.join("manifest-000002.json")).unwrap();
    assert_eq!(predecessor(index, 5).unwrap(), 3, "whose parent is gone");
    let error = predecessor(index, 1).unwrap_err().to_string();
    assert!(
        error.contains("nothing to roll back to: generation 1 is the oldest"),
        "{error}"
    );
}

#[test]
fn names_that_no_build_writes_are_no_generations() {
    let (dir, lock) = index();
    publish(dir.path(), &manifest(1), &[], &lock).unwrap();
    for name in [
        "manifest-+5.json",
        "manifest-7.json",
        "manifest-0000008.json",
        "manifest-99999999999999999999.json",
    ] {
        fs_err::write(dir.path().join(name), "{}").unwrap();
    }
    assert_eq!(generations(dir.path()).unwrap(), [1]);
    fs_err::write(dir.path().join("CURRENT"), "manifest-+1.json 00000000").unwrap();
    assert!(
        current(dir.path())
            .unwrap_err()
            .to_string()
            .contains("CURRENT`, content")
    );
    fs_err::write(dir.path().join(format!("manifest-{}.json", u64::MAX)), "{}").unwrap();
    let error = next_generation(dir.path(), &lock).unwrap_err().to_string();
    assert!(
        error.contains("manifest-18446744073709551615.json") && error.contains("remove the file"),
        "{error}"
    );
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
    assert!(
        json.get("parent").is_none(),
        "an index of an earlier release reads as it was"
    );
    assert_eq!(
        serde_json::to_value(Manifest {
            parent: Some(4),
            ..manifest(5)
        })
        .unwrap()["parent"],
        4
    );
    assert_eq!(json["shards"][0]["files"][0]["crc32c"], 3);
    let meta: Result<ShardMeta, _> = serde_json::from_str(
        r#"{"model":{"name":"a","fingerprint":"b","dim":1,"metric":"cosine","max_tokens":2},
            "build":{"builder":"hnsw_rs","m":16,"ef_construction":200,"seed":1,"threads":2,"tool":"dyad-indexer 0.1.0"}}"#,
    );
    assert_eq!(meta.unwrap().build.m, 16);
}

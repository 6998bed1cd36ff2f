//! Shards replaced by garbage, a directory that is gone, and a generation of another model, while clients search.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_index::shard::{DENSE_FILE, TEXT_DIR};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use tonic::{Code, Status};

use super::process::{Load, Server, Tower};
use crate::fixture::write_index;

struct Fault {
    index: tempfile::TempDir,
    _tower: Tower,
    server: Arc<Server>,
    threads: usize,
}

async fn before() -> Fault {
    let (index, tower) = (tempfile::tempdir().unwrap(), Tower::start("127.0.0.1:0").await);
    write_index(index.path(), 1, "f00d");
    let server = Arc::new(Server::start(index.path(), &tower.service.url, &[]).await);
    // One call of each kind, so that its threads are there.
    server.answers().await;
    reload(&server).await.unwrap();
    let threads = server.number("Threads");
    Fault {
        index,
        _tower: tower,
        server,
        threads,
    }
}

async fn reload(server: &Server) -> Result<u64, Status> {
    Ok(server
        .admin
        .clone()
        .reload(v1::ReloadRequest::default())
        .await?
        .into_inner()
        .generation)
}

async fn status(server: &Server) -> v1::StatusResponse {
    server
        .admin
        .clone()
        .status(v1::StatusRequest::default())
        .await
        .unwrap()
        .into_inner()
}

async fn verify(server: &Server) -> Result<v1::VerifyResponse, Status> {
    Ok(server
        .admin
        .clone()
        .verify(v1::VerifyRequest::default())
        .await?
        .into_inner())
}

/// Puts a file there as a whole, under the name of another.
fn put(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs_err::write(&new, bytes).unwrap();
    fs_err::rename(new, path).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs_err::copy(&path, &to).unwrap();
        }
    }
}

/// The files of the second shard.
fn files(index: &Path) -> Vec<PathBuf> {
    let shard = index.join("shards/g1-1");
    let texts = fs_err::read_dir(shard.join(TEXT_DIR))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = texts.chain([shard.join(DENSE_FILE)]).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_replaced_by_garbage_is_not_served_and_an_intact_one_is() {
    let Fault {
        index,
        _tower,
        server,
        threads,
    } = before().await;
    let right = server.answers().await;
    let load = Load::start(&server, Mode::Hybrid);
    for path in files(index.path()) {
        let intact = fs_err::read(&path).unwrap();
        let garbage = [
            ("as long", vec![0xFF; intact.len()]),
            ("zeros", vec![0; intact.len()]),
            ("shorter", intact[..intact.len() / 2].to_vec()),
            ("empty", Vec::new()),
        ];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for (what, bytes) in garbage {
            put(&path, &bytes);
            let refused = reload(&server).await.unwrap_err();
            assert_eq!(refused.code(), Code::DataLoss, "{name} {what}: {refused}");
            assert!(refused.message().contains("g1-1"), "{name} {what}: {refused}");
            put(&path, &intact);
            assert_eq!(reload(&server).await.unwrap(), 1, "{name} {what}");
        }
    }
    load.stop().await;
    assert!(verify(&server).await.unwrap().intact);
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

/// A file that is overwritten where it is, as by `cp`: the process reads garbage from its map.
#[tokio::test(flavor = "multi_thread")]
async fn a_shard_overwritten_in_place_is_told_as_damage_and_the_process_lives() {
    let Fault {
        index,
        _tower,
        mut server,
        threads,
    } = before().await;
    let right = server.answers().await;
    let path = index.path().join("shards/g1-1").join(DENSE_FILE);
    let intact = fs_err::read(&path).unwrap();
    let file = fs_err::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(file.file(), &vec![0xFF; intact.len()], 0).unwrap();
    for mode in [Mode::Dense, Mode::Hybrid, Mode::Bm25] {
        for answer in server
            .ask(4, mode, "the old river number 0", std::time::Duration::from_mins(1))
            .await
        {
            // Documents of the other shard are found; what is lost is told.
            assert_eq!(answer.code, Code::Ok, "{mode:?}: {answer:?}");
            assert!(answer.degraded.contains("g1-1"), "{mode:?}: {answer:?}");
            assert!(!answer.keys.is_empty(), "{mode:?}: {answer:?}");
        }
    }
    assert!(!verify(&server).await.unwrap().intact);
    assert!(Arc::get_mut(&mut server).unwrap().runs());
    put(&path, &intact);
    reload(&server).await.unwrap();
    assert!(verify(&server).await.unwrap().intact);
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_whose_directory_is_gone_is_served_until_it_is_back() {
    let Fault {
        index,
        _tower,
        server,
        threads,
    } = before().await;
    let right = server.answers().await;
    let kept = tempfile::tempdir().unwrap();
    copy(index.path(), kept.path());
    let load = Load::start(&server, Mode::Hybrid);
    fs_err::remove_dir_all(index.path()).unwrap();
    for _ in 0..6 {
        let refused = reload(&server).await.unwrap_err();
        assert_eq!(refused.code(), Code::NotFound, "{refused}");
        assert!(refused.message().contains(index.path().to_str().unwrap()), "{refused}");
    }
    let rollback = v1::RollbackRequest {
        generation: 1,
        ..Default::default()
    };
    let refused = server.admin.clone().rollback(rollback).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    let told = status(&server).await;
    assert!(
        told.index_error.contains(index.path().to_str().unwrap()) && told.generation == 1,
        "{}",
        told.index_error
    );
    assert!(!verify(&server).await.unwrap().intact);
    assert_eq!(server.answers().await, right);
    copy(kept.path(), index.path());
    assert_eq!(reload(&server).await.unwrap(), 1);
    load.stop().await;
    assert_eq!(status(&server).await.index_error, "");
    assert!(verify(&server).await.unwrap().intact);
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_of_another_model_is_not_served_and_the_served_one_stays() {
    let Fault {
        index,
        _tower,
        server,
        threads,
    } = before().await;
    let right = server.answers().await;
    let load = Load::start(&server, Mode::Hybrid);
    write_index(index.path(), 2, "beef");
    let rollback = || v1::RollbackRequest {
        generation: 2,
        ..Default::default()
    };
    for _ in 0..6 {
        for refused in [
            reload(&server).await.unwrap_err(),
            server.admin.clone().rollback(rollback()).await.unwrap_err(),
        ] {
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            assert!(refused.message().contains("fingerprint beef") && refused.message().contains("fingerprint f00d"));
        }
    }
    load.stop().await;
    assert_eq!(
        (status(&server).await.generation, server.answers().await),
        (1, right.clone())
    );
    server.settles(1, threads).await;
    // The way out that the message names.
    let rollback = v1::RollbackRequest {
        generation: 1,
        ..Default::default()
    };
    assert_eq!(
        server
            .admin
            .clone()
            .rollback(rollback)
            .await
            .unwrap()
            .into_inner()
            .generation,
        1
    );
    assert_eq!(dyad_index::manifest::current_generation(index.path()).unwrap(), Some(1));
    assert_eq!(server.answers().await, right);
    server.admits_all().await;
    server.settles(1, threads).await;
}

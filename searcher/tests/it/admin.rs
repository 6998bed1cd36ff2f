//! Status, reload, roll-back, verification.

use dyad_proto::v1;
use dyad_proto::v1::Mode;

use crate::fixture::{request, searcher, write_index};

#[tokio::test]
async fn status_names_index_models_and_shards() {
    let server = searcher().await;
    let status = server.admin().await.status(v1::StatusRequest {}).await.unwrap();
    assert_eq!((status.generation, status.documents, status.shards.len()), (1, 60, 2));
    assert_eq!(status.index_model.unwrap().fingerprint, "f00d");
    assert_eq!(status.question_model.unwrap().name, "words");
    assert!(status.shards.iter().all(|shard| shard.documents == 30 && shard.dense_bytes > 0 && shard.text_bytes > 0));
}

#[tokio::test]
async fn a_new_generation_is_served_after_reload_and_the_old_one_after_rollback() {
    let server = searcher().await;
    let admin = server.admin().await;
    write_index(server.index.path(), 2, "f00d");
    let served = async || server.client.search(request(Mode::Dense, "river", 1)).await.unwrap().generation;
    assert_eq!(served().await, 1);
    let reply = admin.reload(v1::ReloadRequest {}).await.unwrap();
    assert_eq!((reply.previous_generation, reply.generation, served().await), (1, 2, 2));
    let reply = admin.rollback(v1::RollbackRequest { generation: 0 }).await.unwrap();
    assert_eq!((reply.previous_generation, reply.generation, served().await), (2, 1, 1));
    assert_eq!(dyad_index::manifest::current_generation(server.index.path()).unwrap(), Some(1));
    let error = admin.rollback(v1::RollbackRequest { generation: 7 }).await.unwrap_err().to_string();
    assert!(error.contains("no generation 7. Present: 1, 2"), "{error}");
    let error = admin.rollback(v1::RollbackRequest { generation: 0 }).await.unwrap_err().to_string();
    assert!(error.contains("no generation 0"), "{error}");
}

#[tokio::test]
async fn a_generation_of_another_model_is_not_served() {
    let server = searcher().await;
    write_index(server.index.path(), 2, "beef");
    let error = server.admin().await.reload(v1::ReloadRequest {}).await.unwrap_err().to_string();
    assert!(error.contains("fingerprint beef") && error.contains("fingerprint f00d"), "{error}");
    let reply = server.client.search(request(Mode::Dense, "river", 1)).await.unwrap();
    assert_eq!(reply.generation, 1);
}

#[tokio::test]
async fn verification_finds_damage_and_names_the_file() {
    let server = searcher().await;
    let admin = server.admin().await;
    let reply = admin.verify(v1::VerifyRequest {}).await.unwrap();
    assert!(reply.sound && reply.problems.is_empty() && reply.bytes_read > 0);
    // A copy is damaged and put in place, as a bad disk would: the served map keeps the old file.
    let path = server.index.path().join("shards/g1-0/dense.dyad");
    let mut bytes = fs_err::read(&path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs_err::remove_file(&path).unwrap();
    fs_err::write(&path, bytes).unwrap();
    admin.reload(v1::ReloadRequest {}).await.unwrap();
    let reply = admin.verify(v1::VerifyRequest {}).await.unwrap();
    assert!(!reply.sound && reply.problems[0].contains("g1-0/dense.dyad"), "{:?}", reply.problems);
}

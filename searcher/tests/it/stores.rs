//! The binary over an index in a store, which is a directory here: followed under load, lost and found again, restarted
//! without it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dyad_index::storage::WriteLock;
use dyad_index::{FUSION_FILE, FusionMethod, FusionRecord, manifest};
use dyad_proto::client::{AdminClient, ClientConfig, SearcherClient};
use dyad_proto::v1;
use dyad_store::{PushOptions, RemoteStore, push};
use tempfile::TempDir;

use crate::configuration::{PATIENCE, Server, dyad_searcher, run};
use crate::fixture::{request, write_index, write_index_of};
use crate::learn::record;

/// An index, the store that it is pushed to, and a searcher's cache.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(TempDir::new().unwrap());
        fs_err::create_dir(place.at("index")).unwrap();
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn url(&self) -> String {
        format!("file://{}", self.at("store").display())
    }

    /// Publishes a generation and pushes it.
    async fn push(&self, generation: u64) {
        let text = format!("the text of generation {generation}");
        let documents: Vec<_> = (0..20)
            .map(|number| (format!("doc-{number:02}"), text.clone()))
            .collect();
        write_index_of(&documents, &self.at("index"), generation, "f00d");
        self.push_current().await;
    }

    async fn push_current(&self) {
        let remote = RemoteStore::open(&self.url()).unwrap();
        push(&self.at("index"), &remote, &PushOptions::default(), &dyad_files::Never)
            .await
            .unwrap();
    }

    /// A searcher that serves the store.
    fn start(&self, more: &str) -> Server {
        Server::start(&self.configured(more))
    }

    fn configured(&self, more: &str) -> PathBuf {
        let file = self.at("searcher.toml");
        let (url, cache) = (self.url(), self.at("cache").display().to_string());
        let base =
            format!("index = \"wiki={url}\"\ncache = {cache:?}\nquestion-tower = \"none\"\nlisten = \"127.0.0.1:0\"\n");
        fs_err::write(&file, base + more).unwrap();
        file
    }

    /// The directory below the cache from which the index is served.
    fn mirror(&self) -> PathBuf {
        let mut entries = fs_err::read_dir(self.at("cache")).unwrap();
        entries.next().unwrap().unwrap().path()
    }
}

async fn client(server: &Server) -> SearcherClient {
    let config = ClientConfig {
        attempts: 1,
        ..ClientConfig::default()
    };
    SearcherClient::connect(&server.url, config).await.unwrap()
}

async fn admin(server: &Server) -> AdminClient {
    AdminClient::connect(&server.url, ClientConfig::default())
        .await
        .unwrap()
}

/// The generation that answers.
async fn served(client: &SearcherClient) -> u64 {
    let reply = client
        .search(request(v1::Mode::Bm25, "text of generation", 3))
        .await
        .unwrap();
    assert_eq!(reply.hits.len(), 3);
    reply.generation
}

async fn until<F: Future<Output = bool>>(what: &str, mut is: impl FnMut() -> F) {
    let late = Instant::now() + PATIENCE;
    while !is().await {
        assert!(Instant::now() < late, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn generations(mirror: &Path) -> Vec<u64> {
    manifest::generations(mirror).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_followed_without_a_failed_request_and_survived() {
    let place = Place::new();
    place.push(1).await;
    let server = place.start("watch = 1\nhttp = \"127.0.0.1:0\"\n");
    let client = client(&server).await;
    assert_eq!(served(&client).await, 1);
    let reloads = async |outcome| {
        let (_, scrape) = server.http.as_ref().unwrap().text("GET", "/metrics").await;
        let series = format!("dyad_searcher_index_reloads_total{{index=\"wiki\",outcome=\"{outcome}\"}} ");
        scrape
            .lines()
            .find_map(|line| line.strip_prefix(&series))
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    // Another searcher with the same cache.
    let second = place.start("watch = 1\n");
    let of_second = self::client(&second).await;
    // Questions all the time, also while generations are pushed, fetched, and removed.
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = Vec::new();
    for _ in 0..2 {
        let (client, stop, asked) = (client.clone(), Arc::clone(&stop), Arc::clone(&asked));
        clients.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                served(&client).await;
                asked.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for generation in 2..=4 {
        place.push(generation).await;
        for client in [&client, &of_second] {
            until("the new generation is served", async || {
                served(client).await == generation
            })
            .await;
        }
    }
    // One generation is kept for a rollback, which lasts until the store has another one, or a reload.
    let mirror = place.mirror();
    until("old generations are removed", async || generations(&mirror) == [3, 4]).await;
    let admin = admin(&server).await;
    admin
        .rollback(v1::RollbackRequest {
            generation: 3,
            index: String::new(),
        })
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(served(&client).await, 3);
    drop(second);
    let second = place.start("watch = 1\n");
    let of_second = self::client(&second).await;
    assert_eq!(served(&of_second).await, 3);
    let reloaded = admin.reload(v1::ReloadRequest { index: "wiki".into() }).await.unwrap();
    assert_eq!((reloaded.generation, served(&client).await), (4, 4));
    // Three that were pushed, a rollback and a reload; it may have been noticed before, too, that `CURRENT` had moved.
    assert!(reloads("taken over").await >= 5 && reloads("failed").await == 0);
    // The store disappears, and comes back with another generation.
    fs_err::rename(place.at("store"), place.at("gone")).unwrap();
    server.logged("cannot follow a store; what is served is served on");
    let error = admin
        .reload(v1::ReloadRequest { index: "wiki".into() })
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("index `wiki`: there is no index at file://"), "{error}");
    assert_eq!((served(&client).await, generations(&mirror)), (4, vec![3, 4]));
    assert!(reloads("failed").await >= 2);
    fs_err::rename(place.at("gone"), place.at("store")).unwrap();
    place.push(5).await;
    for client in [&client, &of_second] {
        until("it is followed again", async || served(client).await == 5).await;
    }
    server.logged("can be followed again");
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    assert!(asked.load(Ordering::Relaxed) > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_needs_no_store_for_what_it_has_and_a_first_start_waits_for_one() {
    let place = Place::new();
    write_index(&place.at("index"), 1, "f00d");
    let (code, _, error) = run(dyad_searcher().args(["serve", "--config"]).arg(place.configured("")));
    assert!(
        code == Some(1) && error.contains("index `wiki`: there is no index at file://"),
        "{error}"
    );
    assert!(error.contains("dyad-indexer push"), "{error}");
    // It is pushed while a searcher waits.
    let file = place.configured("wait-s = 60\n");
    let starting = tokio::task::spawn_blocking(move || Server::start(&file));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    place.push_current().await;
    let server = starting.await.unwrap();
    let answer = client(&server)
        .await
        .search(request(v1::Mode::Bm25, "number 37", 1))
        .await
        .unwrap();
    assert_eq!((answer.hits[0].key.as_str(), answer.generation), ("doc-37", 1));
    // Without `watch`, a reload fetches.
    place.push(2).await;
    admin(&server).await.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!(served(&client(&server).await).await, 2);
    // So does one after `learn` and a push of the same generation.
    let (index, mirror) = (place.at("index"), place.mirror());
    let learned = record("f00d", FusionMethod::Rrf, 0.9);
    learned.save(&index, &WriteLock::acquire(&index).unwrap()).unwrap();
    place.push_current().await;
    assert_eq!(FusionRecord::load(&mirror, "f00d").unwrap(), None);
    admin(&server).await.reload(v1::ReloadRequest::default()).await.unwrap();
    assert_eq!(FusionRecord::load(&mirror, "f00d").unwrap(), Some(learned));
    server.logged("`fusion.json` was transferred");
    // What the store cannot have meant is told, and not served.
    fs_err::write(place.at("store").join(FUSION_FILE), "{").unwrap();
    admin(&server).await.reload(v1::ReloadRequest::default()).await.unwrap();
    server.logged("`fusion.json` stays as it was");
    fs_err::remove_file(place.at("store").join(FUSION_FILE)).unwrap();
    drop(server);
    // With nothing to fetch, nothing is.
    let server = place.start("");
    let before = server.logged("all indexes are open");
    assert!(
        !before.iter().any(|line| line.contains("fetched from a store")),
        "{before:?}"
    );
    drop(server);
    fs_err::remove_dir_all(place.at("store")).unwrap();
    let server = place.start("watch = true\n");
    server.logged("serving what was fetched before");
    assert_eq!(served(&client(&server).await).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_does_not_fit_into_the_cache_is_refused_with_the_figures() {
    let place = Place::new();
    place.push(1).await;
    let shards = manifest::current(&place.at("index")).unwrap().shards;
    let bytes: u64 = shards
        .iter()
        .flat_map(|shard| &shard.files)
        .map(|file| file.bytes)
        .sum();
    // Room for one generation and a half.
    let server = place.start(&format!("watch = 1\ncache-bytes = \"{}\"\n", bytes * 3 / 2));
    let client = client(&server).await;
    place.push(2).await;
    server.logged("does not fit into the cache");
    let error = admin(&server)
        .await
        .reload(v1::ReloadRequest::default())
        .await
        .unwrap_err()
        .to_string();
    let expected = [
        "generation 2 of file://",
        "does not fit into the cache",
        "have to be fetched",
        "the limit is",
    ];
    assert!(expected.iter().all(|part| error.contains(part)), "{error}");
    assert_eq!((served(&client).await, generations(&place.mirror())), (1, vec![1]));
    // With room for both the same cache goes on.
    drop(server);
    let server = place.start(&format!("cache-bytes = \"{}\"\n", bytes * 3));
    server.logged("fetched from a store");
    assert_eq!(served(&self::client(&server).await).await, 2);
}

#[test]
fn what_cannot_be_mirrored_is_a_usage_error_and_secrets_are_not_printed() {
    let serve = |arguments: &[&str]| {
        let mut command: Command = dyad_searcher();
        run(command
            .args(["serve", "--question-tower", "none", "--listen", "127.0.0.1:0"])
            .args(arguments))
    };
    for (arguments, expected) in [
        (
            &["--index", "s3://bucket/wiki"][..],
            "`s3://bucket/wiki` is in an object store: expected `--cache DIR`",
        ),
        (
            &["--index", "s3://key:secret@bucket/wiki", "--cache", "c"],
            "credentials belong into the environment",
        ),
        (
            &["--index", "az://box/wiki?sig=secret", "--cache", "c"],
            "`az://box/wiki` is no place in an object store",
        ),
        (
            &["--index", "file:///wiki", "--cache", "c", "--cache-bytes", "4GB"],
            "got `4GB`",
        ),
        (&["--index", "wiki", "--cache-bytes", "4GiB"], "--cache <DIR>"),
        (
            &["--index", "file:///wiki", "--cache", "c", "--generation", "2"],
            "got one in an object store",
        ),
    ] {
        let (code, out, error) = serve(arguments);
        assert!(code == Some(2) && error.contains(expected), "{arguments:?}: {error}");
        assert!(!error.contains("secret") && !out.contains("secret"), "{error}");
    }
    let mut command = dyad_searcher();
    command.args([
        "config",
        "print",
        "--question-tower",
        "none",
        "--cache",
        "c",
        "--cache-bytes",
        "4GiB",
    ]);
    let (code, out, _) = run(command.args([
        "--index",
        "w=s3://key:secret@bucket/w",
        "--index",
        "az://box/w?sig=secret",
    ]));
    assert_eq!(code, Some(0));
    assert!(
        out.contains(r#"index = ["w=s3://***@bucket/w", "az://box/w?***"]"#) && !out.contains("secret"),
        "{out}"
    );
    assert!(out.contains("cache-bytes = \"4GiB\" # command line"), "{out}");
}

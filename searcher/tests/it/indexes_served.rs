//! `dyad-searcher serve` with several indexes, as a user runs it; and how long a thousand take to open.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use crate::command_line::run_beside;
use crate::encoder_service::encoder;
use crate::fixture::write_index_of;

/// Writes a folder with indexes of 50 documents, named `NAME-000` and so on: copies of one.
fn write(directory: &Path, name: &str, count: usize) {
    let documents: Vec<_> = (0..50)
        .map(|number| (format!("doc-{number}"), format!("the old river {name} {number}")))
        .collect();
    let first = directory.join(format!("{name}-000"));
    fs_err::create_dir_all(&first).unwrap();
    write_index_of(&documents, &first, 1, "f00d");
    for number in 1..count {
        copy(&first, &directory.join(format!("{name}-{number:03}")));
    }
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

/// A searcher that ends when dropped, and where it listens.
struct Server {
    process: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts the binary through a shell, which sets limits first.
async fn serve(before: &str, arguments: &[&str]) -> Server {
    let mut process = shell(before, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = process.stdout.take().unwrap();
    let line = tokio::task::spawn_blocking(move || BufReader::new(out).lines().next().unwrap().unwrap())
        .await
        .unwrap();
    let url = format!("http://{}", line.strip_prefix("listening on ").unwrap());
    Server { process, url }
}

fn shell(before: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        &format!("{before}exec \"$@\""),
        "sh",
        env!("CARGO_BIN_EXE_dyad-searcher"),
        "serve",
    ]);
    command
        .args(arguments)
        .args(["--listen", "127.0.0.1:0"])
        .env("RUST_LOG", "error");
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_served_by_name_and_asked_by_name() {
    let (directory, tower) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    write(directory.path(), "wiki", 2);
    write(&directory.path().join("all"), "news", 2);
    fs_err::create_dir_all(directory.path().join("all/no index")).unwrap();
    fs_err::write(directory.path().join("all/notes.txt"), "no folder").unwrap();
    let named = format!("main={}", path("wiki-000"));
    let arguments = [
        "--index",
        &named,
        "--index",
        &path("wiki-001"),
        "--indexes",
        &path("all"),
        "--question-tower",
        &tower.url,
    ];
    let server = serve("", &arguments).await;

    let admin = async |arguments: &[&str]| run_beside(&[&["admin", "--server", &server.url], arguments].concat()).await;
    let (code, out, error) = admin(&["list"]).await;
    assert_eq!(code, Some(0), "{error}");
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    let told: Vec<&str> = lines[1..]
        .iter()
        .map(|words| if words[0] == "*" { words[1] } else { words[0] })
        .collect();
    assert_eq!(told, ["main", "news-000", "news-001", "wiki-001"], "{out}");
    assert_eq!((lines[1][0], lines[1].last()), ("*", Some(&"f00d")), "{out}");

    let query = async |index: &str| {
        run_beside(&["query", "--server", &server.url, "--json", "--index", index, "river 7"]).await
    };
    for (index, answered, word) in [
        ("", "main", "wiki"),
        ("news-001", "news-001", "news"),
        ("wiki-001", "wiki-001", "wiki"),
    ] {
        let (code, out, error) = query(index).await;
        assert_eq!(code, Some(0), "{error}");
        let reply: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(reply["index"], answered);
        let text = reply["hits"][0]["document"]["text"].as_str().unwrap();
        assert!(text.contains(word), "{text}");
    }
    let (code, _, error) = query("sea").await;
    assert!(
        code == Some(1) && error.contains("There are `main`, `news-000`, `news-001`, `wiki-001`"),
        "{error}"
    );
    let (code, _, error) = query("a/b").await;
    assert!(
        code == Some(2) && error.contains("`index`: expected the name of an index"),
        "{error}"
    );
    let get = ["get", "--server", &server.url, "--index", "news-000", "doc-3"];
    assert!(run_beside(&get).await.1.contains("the old river news 3"));
    let explain = [
        "explain",
        "--server",
        &server.url,
        "--index",
        "news-000",
        "--key",
        "doc-3",
        "river news 3",
    ];
    assert!(run_beside(&explain).await.1.contains("hit            rank"));
    // Before the action or after it.
    assert_eq!(admin(&["--index", "wiki-001", "reload"]).await.1, "generation 1 -> 1\n");
    let (_, out, _) = admin(&["status", "--index", "wiki-001"]).await;
    assert!(
        out.contains("\nindex           wiki-001: ") && out.contains("(50 documents)"),
        "{out}"
    );
    let (code, _, error) = admin(&["rollback", "--index", "news-001"]).await;
    assert!(code == Some(1) && error.contains("nothing to roll back to"), "{error}");
    assert!(
        admin(&["verify", "--index", "news-001"])
            .await
            .1
            .starts_with("intact: ")
    );
    let (code, _, error) = admin(&["verify", "--index", "a b"]).await;
    assert!(
        code == Some(2) && error.contains("`index`: expected the name of an index"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_is_said_before_the_port_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    write(directory.path(), "wiki", 2);
    let refused = async |arguments: &[&str]| {
        let all = ["serve", "--question-tower", "none", "--listen", "127.0.0.1:0"];
        let (code, _, error) = run_beside(&[&all, arguments].concat()).await;
        (code, error)
    };
    let (code, error) = refused(&[]).await;
    assert!(code == Some(2) && error.contains("--index"), "{error}");
    let (one, other) = (path("wiki-000"), path("wiki-001"));
    let (code, error) = refused(&["--index", &format!("a={one}"), "--index", &format!("a={other}")]).await;
    assert!(
        code == Some(1) && error.contains("two indexes are named `a`"),
        "{error}"
    );
    let (code, error) = refused(&["--index", &format!("a b={one}")]).await;
    assert!(
        code == Some(2) && error.contains("expected the name of an index"),
        "{error}"
    );
    let (code, error) = refused(&["--index", &one, "--index", &other, "--generation", "1"]).await;
    assert!(
        code == Some(2) && error.contains("--generation: expected one index, got 2"),
        "{error}"
    );
    let (code, error) = refused(&["--indexes", &one]).await;
    assert!(
        code == Some(1) && error.contains("has no folder that is an index. Build one with"),
        "{error}"
    );
    fs_err::write(directory.path().join("wiki-001/CURRENT"), "nonsense").unwrap();
    let (code, error) = refused(&["--indexes", directory.path().to_str().unwrap()]).await;
    assert!(
        code == Some(1) && error.contains("index `wiki-001`: ") && error.contains("CURRENT"),
        "{error}"
    );
}

/// Sixty indexes have more files than these limits: the soft one is raised, the hard one is named.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_open_files_is_raised_or_named() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "tenant", 60);
    let arguments = [
        "--indexes",
        directory.path().to_str().unwrap(),
        "--question-tower",
        "none",
    ];
    let server = serve("ulimit -Sn 64; ", &arguments).await;
    let (_, out, error) = run_beside(&["admin", "--server", &server.url, "list"]).await;
    assert_eq!(out.lines().count(), 61, "{error}");
    let refused = shell("ulimit -Sn 64; ulimit -Hn 64; ", &arguments).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    let limit = "This process may open 64 files (`ulimit -Hn`, `LimitNOFILE=` of systemd";
    assert!(
        refused.status.code() == Some(1) && error.contains(limit) && error.contains("for 60 indexes"),
        "{error}"
    );
}

/// `cargo test --release -p dyad-searcher --test it a_thousand -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: the time in which a thousand small indexes open, and their memory"]
async fn a_thousand_small_indexes_open() {
    let (directory, tower) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    write(directory.path(), "tenant", 1000);
    for (name, tower) in [("none", "none"), ("a service", tower.url.as_str())] {
        let arguments = [
            "--indexes",
            directory.path().to_str().unwrap(),
            "--question-tower",
            tower,
        ];
        let started = Instant::now();
        let server = serve("", &arguments).await;
        let took = started.elapsed();
        let process = format!("/proc/{}", server.process.id());
        let files = fs_err::read_dir(format!("{process}/fd")).unwrap().count();
        let maps = fs_err::read_to_string(format!("{process}/maps"))
            .unwrap()
            .lines()
            .count();
        println!("question tower {name}: listening after {took:.1?}, {files} open files, {maps} maps");
        let status = fs_err::read_to_string(format!("{process}/status")).unwrap();
        for line in status.lines().filter(|line| {
            ["VmRSS", "VmHWM", "RssAnon", "RssFile", "Threads"]
                .iter()
                .any(|name| line.starts_with(name))
        }) {
            println!("  {line}");
        }
    }
}

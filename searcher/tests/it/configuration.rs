//! A searcher that is configured by a file, variables and flags, and follows the file.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use dyad_proto::v1;
use dyad_proto::v1::searcher_client::SearcherClient;

use crate::encoder_service::encoder;
use crate::fixture::{request, write_index};
use crate::http_client::Http;

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The binary, without the variables of this process that would configure it.
pub(crate) fn dyad_searcher() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-searcher"));
    command.env_remove("RUST_LOG").env_remove("DYAD_LOG_FORMAT");
    command
}

/// A server that ends with this value.
pub(crate) struct Server {
    child: Child,
    log: Receiver<String>,
    pub(crate) url: String,
    /// Where the configuration asks for it.
    pub(crate) http: Option<Http>,
}

impl Server {
    pub(crate) fn start(config: &Path) -> Self {
        let mut command = dyad_searcher();
        command
            .args(["serve", "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut told = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let Some(first) = told.next() else {
            unreachable!("it does not listen: {:?}", log.iter().collect::<Vec<_>>())
        };
        let url = first.replace("listening on ", "http://");
        let has_http = fs_err::read_to_string(config).unwrap().contains("\nhttp = ");
        let http = has_http.then(|| Http::at(told.next().unwrap().replace("HTTP on ", "").parse().unwrap()));
        Self { child, log, url, http }
    }

    /// Waits for a line of the log.
    fn line(&self, wanted: &str) -> String {
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(wanted) => return line,
                Ok(_) => {}
                Err(error) => unreachable!("no `{wanted}` ({error})"),
            }
        }
    }

    /// Waits for a line of the log, and returns those until it.
    pub(crate) fn logged(&self, wanted: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(wanted) => return before,
                Ok(line) => before.push(line),
                Err(error) => unreachable!("no `{wanted}` ({error}) after {before:?}"),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_searcher_follows_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let (index, config) = (directory.path().join("index"), directory.path().join("searcher.toml"));
    fs_err::create_dir(&index).unwrap();
    write_index(&index, 1, "f00d");
    let tower = encoder("f00d").await;
    let write = |more: &str| {
        let base = format!(
            "index = {:?}\nquestion-tower = [{:?}]\nlisten = \"127.0.0.1:0\"\n",
            index, tower.url
        );
        // As an editor does: readers see the file before or after.
        let next = directory.path().join("next.toml");
        fs_err::write(&next, base + more).unwrap();
        fs_err::rename(&next, &config).unwrap();
    };
    write("log = \"error\"\ndefault-timeout-ms = 600_000\n");
    let server = Server::start(&config);
    let mut client = SearcherClient::connect(server.url.clone()).await.unwrap();

    // The line is of the level that the file now asks for.
    write("log = \"info\"\ndefault-timeout-ms = 100\nmax-requests = 9\n");
    let before = server.logged("configuration read again changed=\"max-requests, default-timeout-ms, log\"");
    assert_eq!(before, [""; 0], "nothing below an error was logged before");
    server.logged("these have changed and need a restart keys=\"max-requests\"");
    // The tower answers this question never, and the client sets no deadline.
    let asked = client.search(request(v1::Mode::Dense, "wait", 3));
    let error = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap_err();
    assert_eq!(error.code(), tonic::Code::DeadlineExceeded, "{error}");

    write("default-timeout = 5\n");
    server.logged("the configuration cannot be used, the one before stays");
    let answer = client
        .search(request(v1::Mode::Bm25, "number 37", 1))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.hits[0].key, "doc-37");
    write("default-timeout-ms = 600_000\n");
    let before = server.logged("configuration read again changed=\"max-requests, default-timeout-ms, log\"");
    assert_eq!(before, [""; 0], "the mistake was logged once");
    let hang_up = Command::new("kill")
        .args(["-HUP", &server.child.id().to_string()])
        .status()
        .unwrap();
    assert!(hang_up.success());
    server.logged("configuration: nothing has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_requests_have_a_line_without_their_text() {
    let directory = tempfile::tempdir().unwrap();
    let (index, config) = (directory.path().join("index"), directory.path().join("searcher.toml"));
    fs_err::create_dir(&index).unwrap();
    write_index(&index, 1, "f00d");
    let tower = encoder("f00d").await;
    let write = |slow: &str| {
        let text = format!(
            "index = [\"main={}\"]\nquestion-tower = [{:?}]\nlisten = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\ncors-origin = [\"*\"]\nlog = \"info\"\n{slow}",
            index.display(),
            tower.url
        );
        let next = directory.path().join("next.toml");
        fs_err::write(&next, text).unwrap();
        fs_err::rename(&next, &config).unwrap();
    };
    write("slow-ms = 0\n");
    let server = Server::start(&config);
    let mut client = SearcherClient::connect(server.url.clone()).await.unwrap();
    server.logged("`--cors-origin *` without API keys");

    let mut asked = tonic::Request::new(request(v1::Mode::Hybrid, "number 37", 3));
    asked.metadata_mut().insert("x-request-id", "mine-1".parse().unwrap());
    client.search(asked).await.unwrap();
    let line = server.line("slow request");
    for part in [
        "method=\"Searcher.Search\"",
        "index=\"main\"",
        "request_id=\"mine-1\"",
        "status=\"OK\"",
        "mode=\"hybrid\" k=3 filter=false questions=1",
        "embed_us=",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("number") && !line.contains("dense_us=0"), "{line}");

    let batch = v1::SearchBatchRequest {
        requests: ["number 1", "number 2"]
            .map(|query| request(v1::Mode::Bm25, query, 2))
            .into(),
    };
    client.search_batch(batch).await.unwrap();
    let line = server.line("slow request");
    assert!(
        line.contains("SearchBatch") && line.contains("mode=\"bm25\" k=2 filter=false questions=2"),
        "{line}"
    );

    let keys = v1::GetDocumentsRequest {
        keys: vec!["doc-1".to_owned()],
        ..Default::default()
    };
    client.get_documents(keys).await.unwrap();
    assert!(server.line("slow request").contains("Searcher.GetDocuments"));

    // Its client leaves: the tower answers this question never.
    let mut left = tonic::Request::new(request(v1::Mode::Dense, "wait", 3));
    left.set_timeout(Duration::from_millis(50));
    client.search(left).await.unwrap_err();
    let line = server.line("slow request");
    assert!(
        line.contains("status=\"CANCELLED\"") || line.contains("status=\"DEADLINE_EXCEEDED\""),
        "{line}"
    );

    // None is slow by the new file, nor without the key.
    write("slow-ms = 3_600_000\n");
    server.logged("configuration read again changed=\"slow-ms\"");
    client.search(request(v1::Mode::Bm25, "number 37", 3)).await.unwrap();
    write("");
    let before = server.logged("configuration read again changed=\"slow-ms\"");
    assert_eq!(before, [""; 0]);
}

/// Exit code, standard output and standard error.
pub(crate) fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn config_print_tells_values_and_origins_and_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("searcher.toml");
    fs_err::write(
        &config,
        "index = [\"a=/x\", \"b=/y\"]\ndrain-s = 5\nwatch = true\nthreads = 3\n",
    )
    .unwrap();
    let flags = ["--question-tower", "http://me:secret@127.0.0.1:1", "--drain-s", "7"];
    let mut command = dyad_searcher();
    command
        .args(["config", "print", "--config"])
        .arg(&config)
        .args(flags)
        .env("DYAD_THREADS", "4");
    let (code, out, error) = run(&mut command);
    assert_eq!((code, &*error), (Some(0), ""));
    let from_file = format!("# file {}", config.display());
    for line in [
        &*format!("index = [\"a=/x\", \"b=/y\"] {from_file}"),
        &format!("watch = 1 {from_file}"),
        "question-tower = [\"http://***@127.0.0.1:1\"] # command line",
        "threads = 4 # environment DYAD_THREADS",
        "drain-s = 7 # command line",
        "listen = \"127.0.0.1:7700\" # default",
        "# http is not set",
    ] {
        assert!(out.lines().any(|printed| printed == line), "{line}: {out}");
    }
    let again = directory.path().join("printed.toml");
    fs_err::write(&again, &out).unwrap();
    let mut command = dyad_searcher();
    let (code, printed, error) = run(command
        .args(["config", "print", "--config"])
        .arg(&again)
        .env("DYAD_HTPT", "x"));
    let warning = "warning: the variable `DYAD_HTPT` is unknown and sets nothing, did you mean `DYAD_HTTP`?\n";
    assert_eq!((code, &*error), (Some(0), warning));
    let values = |printed: &str| -> Vec<String> {
        printed
            .lines()
            .filter_map(|line| Some(line.rsplit_once(" # ")?.0.to_owned()))
            .collect()
    };
    assert_eq!(values(&printed), values(&out));
}

#[test]
fn a_configuration_that_cannot_be_used_is_a_usage_error() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("searcher.toml");
    fs_err::write(
        &config,
        "question-tower = \"none\"\nindex = \".\"\nwatch = 5\nlistn = \"x\"\n",
    )
    .unwrap();
    let serve = || {
        let mut command = dyad_searcher();
        command.args(["serve", "--config"]).arg(&config);
        command
    };
    let (code, _, error) = run(&mut serve());
    let expected = format!(
        "error: {}:4: unknown key `listn`, did you mean `listen`?\n",
        config.display()
    );
    assert_eq!((code, error), (Some(2), expected));
    fs_err::write(&config, "question-tower = \"none\"\nindex = \".\"\nwatch = 5\n").unwrap();
    let (code, _, error) = run(serve().args(["--generation", "3"]));
    let from = format!("`--watch` comes from {}:3\n", config.display());
    assert!(
        code == Some(2) && error.contains("cannot be used with") && error.ends_with(&from),
        "{error}"
    );
    let (code, _, error) = run(serve().args(["--config", "/nowhere.toml"]));
    assert!(
        code == Some(2) && error.contains("cannot be used multiple times"),
        "{error}"
    );
    let (code, _, error) = run(dyad_searcher()
        .args(["serve"])
        .env("DYAD_SEARCHER_CONFIG", "/nowhere.toml"));
    assert!(code == Some(2) && error.contains("/nowhere.toml"), "{error}");
}

#[test]
fn the_configuration_of_the_unit_can_be_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/searcher.toml");
    let (code, out, error) = run(dyad_searcher().args(["config", "print", "--config", path]));
    assert_eq!((code, &*error), (Some(0), ""));
    assert!(
        out.contains(&format!("index = [\"/var/lib/dyad/index\"] # file {path}\n")),
        "{out}"
    );
}

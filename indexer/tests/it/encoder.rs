//! Builds that embed through an encoder service, which answers out of order, is full, changes, or dies.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel};
use dyad_index::verify::verify_current as verify;
use dyad_indexer::control::JobControl;
use dyad_indexer::source::{RemoteConfig, RemoteSource};
use dyad_indexer::{Error, job};
use dyad_proto::client::ClientConfig;

use crate::command_line::{dyad_indexer, text};
use crate::encoder_service::{Mood, encoder_service, own_encoder, start};
use crate::fixture::{Fixture, documents, header};

pub(crate) fn connect(url: &str) -> Result<RemoteSource, Error> {
    connect_all(&[url], Duration::from_mins(1), &JobCancellation::new())
}

fn connect_all(urls: &[&str], away: Duration, cancel: &JobCancellation) -> Result<RemoteSource, Error> {
    let client = ClientConfig {
        attempts: 3,
        first_wait: Duration::from_millis(10),
        call_timeout: Duration::from_secs(20),
        ..ClientConfig::default()
    };
    let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
    RemoteSource::connect_all(
        &urls,
        RemoteConfig {
            batch_texts: 16,
            in_flight: 4,
            away,
            client,
            ..RemoteConfig::default()
        },
        cancel,
    )
}

/// Builds generation 1 from files, then fails to build generation 2 from the service.
fn refused(mood: Mood) -> String {
    let fixture = Fixture::new(200);
    fixture.build().unwrap();
    let before = fixture.files();
    let server = start(mood);
    let error = anyhow::Error::from(fixture.build_from(&mut connect(&server.url).unwrap()).unwrap_err());
    assert!(fixture.files() == before);
    let text = format!("{error:#}");
    assert!(text.contains(&server.url), "{text}");
    text
}

#[test]
fn an_index_is_the_same_from_a_service_as_from_files() {
    let from_files = Fixture::new(200);
    from_files.build().unwrap();
    let counts = |fixture: &Fixture| {
        let change = dyad_index::manifest::current(&fixture.index()).unwrap().change.unwrap();
        (change.indexed, change.truncated)
    };
    assert_eq!(counts(&from_files), (200, Some(29)), "every seventh");
    let dense = |fixture: &Fixture| {
        let files = fixture
            .files()
            .into_iter()
            .filter(|(path, _)| path.ends_with("dense.dyad"));
        files.map(|(_, bytes)| bytes).collect::<Vec<_>>()
    };
    for mood in [Mood::Well, Mood::OutOfOrder, Mood::Full] {
        let fixture = Fixture::new(200);
        let server = start(mood);
        fixture.build_from(&mut connect(&server.url).unwrap()).unwrap();
        assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
        assert!(dense(&fixture) == dense(&from_files));
        assert_eq!(counts(&fixture), counts(&from_files));
    }
}

#[test]
fn a_service_that_dies_in_the_middle_is_named_with_the_documents() {
    let error = refused(Mood::Dies(5));
    // The number of the batch depends on the replies still in flight.
    assert!(
        error.contains("documents `doc-00") && error.contains("could not be embedded"),
        "{error}"
    );
    assert!(error.contains("no server answers at"), "{error}");
}

#[test]
fn a_service_that_changes_its_model_is_refused() {
    let error = refused(Mood::Changes(3));
    assert!(error.contains("expected fingerprint f00d, got beef"), "{error}");
}

#[test]
fn a_service_that_answers_too_little_is_refused() {
    let error = refused(Mood::Short);
    assert!(error.contains("documents `doc-0000` to `doc-0015`"), "{error}");
    assert!(error.contains("16 vectors of 24"), "{error}");
}

#[test]
fn a_service_that_is_not_there_creates_no_index() {
    let error = connect("http://127.0.0.1:9").unwrap_err().to_string();
    assert!(
        error.contains("no server answers at `http://127.0.0.1:9` (3 attempts)"),
        "{error}"
    );
    let error = connect("https://127.0.0.1:9").unwrap_err().to_string();
    assert!(error.contains("no server answers at `https://127.0.0.1:9`"), "{error}");
}

#[test]
fn waiting_for_a_service_can_be_cancelled() {
    let fixture = Fixture::new(50);
    let server = start(Mood::Hangs);
    let cancel = JobCancellation::new();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        let mut source = connect(&server.url).unwrap();
        let control = JobControl {
            cancel: &cancel,
            ..JobControl::silent()
        };
        job::build_index(&fixture.config(), &mut source, control).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert!(fixture.files().is_empty());
}

#[test]
fn a_service_that_stays_away_is_asked_by_the_first_batches_alone() {
    let fixture = Fixture::new(640);
    let (well, away) = (start(Mood::Well), start(Mood::Refuses(usize::MAX)));
    let mut source = connect_all(&[&well.url, &away.url], Duration::from_mins(1), &JobCancellation::new()).unwrap();
    job::build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    verify(&fixture.index()).unwrap();
    // Of 40 batches every second would be its own; eight are under way when it is found away, each with three attempts.
    let (of_well, of_away) = (well.calls.load(Ordering::Relaxed), away.calls.load(Ordering::Relaxed));
    assert_eq!(of_well, 40);
    assert!((3..=24).contains(&of_away), "{of_away}");
}

#[test]
fn a_service_that_is_back_gets_its_batches_again() {
    let fixture = Fixture::new(640);
    let (well, away) = (start(Mood::Well), start(Mood::Refuses(3)));
    let soon = Duration::from_millis(1);
    let mut source = connect_all(&[&well.url, &away.url], soon, &JobCancellation::new()).unwrap();
    job::build_index(&fixture.config(), &mut source, JobControl::silent()).unwrap();
    verify(&fixture.index()).unwrap();
    let (of_well, of_away) = (well.calls.load(Ordering::Relaxed), away.calls.load(Ordering::Relaxed));
    assert_eq!(of_well + of_away - 3, 40);
    assert!(of_away > 13, "{of_away}");
}

#[test]
fn a_connection_to_a_service_can_be_cancelled() {
    // It accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let cancel = JobCancellation::new();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        connect_all(&[&url], Duration::from_mins(1), &cancel).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
}

#[test]
fn batches_are_limited_by_name() {
    let config = RemoteConfig {
        batch_texts: 5_000,
        ..RemoteConfig::default()
    };
    let error = RemoteSource::connect("http://127.0.0.1:9", config, &JobCancellation::new())
        .unwrap_err()
        .to_string();
    assert_eq!(error, "`batch-texts` must be between 1 and 1024: 5000");
}

/// `--model` in place of `--encoder`: the command starts a service and ends it.
#[test]
fn commands_start_an_encoder_of_their_own() {
    let (fixture, service) = (Fixture::new(20), encoder_service());
    let other = EmbeddingsHeader {
        model: EmbeddingsModel {
            fingerprint: "before".to_owned(),
            ..header().model
        },
        ..header()
    };
    fixture.write_embeddings("before", other, &documents(20));
    let (program, log) = own_encoder(&fixture, &service);
    let run = |command: &str, more: &[&str]| {
        let own = ["--model", "m", "--encoder-program", &program, "--threads", "1"];
        let index = fixture.index().display().to_string();
        let output = dyad_indexer()
            .args([command, "--index", &index])
            .args(own)
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let corpus = fixture.path("corpus.jsonl").display().to_string();
    assert!(run("build", &["--corpus", &corpus]).contains("20 documents"));
    fixture.write_corpus(&documents(23)[20..]);
    assert!(run("append", &["--corpus", &corpus]).contains("23"));
    // An index of another model, by `--embeddings`; then by the model again, for which a sample says what it takes.
    fixture.write_corpus(&documents(20));
    fs_err::remove_dir_all(fixture.index()).unwrap();
    let index = fixture.index().display().to_string();
    let before = fixture.path("before").display().to_string();
    let built = dyad_indexer()
        .args(["build", "--index", &index, "--corpus", &corpus, "--embeddings", &before])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let planned = run("reembed", &["--dry-run"]);
    assert!(
        planned.contains("dry run: 20 documents") && planned.contains(" tokens; embedding"),
        "{planned}"
    );
    assert!(run("reembed", &[]).contains("re-embedded 20 documents by `hash` (fingerprint f00d)"));
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
    let log = fs_err::read_to_string(log).unwrap();
    assert_eq!(
        log.matches("serve --model m --listen 127.0.0.1:0 --while-input\n")
            .count(),
        4,
        "{log}"
    );
    // Either, and one of them.
    let refused = |more: &[&str]| {
        let output = dyad_indexer()
            .args(["reembed", "--index", &index])
            .args(more)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(refused(&[]).contains("--encoder"));
    assert!(refused(&["--model", "m", "--encoder", &service.url]).contains("cannot be used with"));
}

//! What is refused, and the words.

use super::super::layers::ConfigRefusal;
use super::{configuration, merge};

fn refused(arguments: &[&str], variables: &[(&str, &str)], file: &str) -> String {
    let arguments = ["serve", "--config", "t.toml"].iter().chain(arguments).copied();
    merge(&configuration(arguments, variables), Some(file))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_file_is_refused_with_line_key_expected_and_got() {
    let cases = [
        ("listn = 1", "t.toml:1: unknown key `listn`, did you mean `listen`?"),
        (
            "\nmax_count = 1",
            "t.toml:2: unknown key `max_count`, did you mean `max-count`?",
        ),
        (
            "max-conut = 1",
            "t.toml:1: unknown key `max-conut`, did you mean `max-count`?",
        ),
        (
            "config = \"other.toml\"",
            "t.toml:1: unknown key `config`: expected the long name of an option of `serve`",
        ),
        ("help = true", "t.toml:1: unknown key `help`"),
        ("[serve]\nlisten = \"x\"", "t.toml:1: unknown key `serve`"),
        ("listen = 5", "t.toml:1: `listen`: expected a string, got the integer 5"),
        (
            "listen = [\"a\"]",
            "t.toml:1: `listen`: expected a string, got an array",
        ),
        (
            "listen = 2026-01-01",
            "t.toml:1: `listen`: expected a string, got a date",
        ),
        (
            "listen.host = \"a\"",
            "t.toml:1: `listen`: expected a string, got a table",
        ),
        (
            "max-count = \"5\"",
            "t.toml:1: `max-count`: expected an integer, got the string \"5\"",
        ),
        (
            "max-count = 5.0",
            "t.toml:1: `max-count`: expected an integer, got the float 5.0",
        ),
        (
            "# first\n\nmax-count = 0",
            "t.toml:3: `max-count`: expected a value that `--max-count` accepts, got the integer 0: 0 is not in 1..=1000",
        ),
        (
            "ratio = true",
            "t.toml:1: `ratio`: expected a number, got the boolean true",
        ),
        (
            "names = [\"a\", 1]",
            "t.toml:1: `names`: expected a string, or an array of them, got the integer 1",
        ),
        (
            "names = []",
            "t.toml:1: `names`: expected a string, or an array of them, got an empty array. Leave the key out",
        ),
        (
            "switch = 1",
            "t.toml:1: `switch`: expected a boolean, got the integer 1",
        ),
        (
            "watch = \"1\"",
            "t.toml:1: `watch`: expected an integer, true or false, got the string \"1\"",
        ),
        (
            "watch = -1",
            "t.toml:1: `watch`: expected a value that `--watch` accepts, got the integer -1: invalid digit",
        ),
        (
            "size = \"huge\"",
            "t.toml:1: `size`: expected a value that `--size` accepts, got the string \"huge\": it is none of big, small",
        ),
        (
            "log = \"=\"",
            "t.toml:1: `log`: expected a value that `--log` accepts, got the string \"=\"",
        ),
        ("listen = \"a\"\nlisten = \"b\"", "t.toml:2: duplicate key"),
        ("listen = \"a", "t.toml:1: invalid basic string"),
    ];
    for (file, expected) in cases {
        let error = refused(&["--names=a"], &[], file);
        assert!(error.starts_with(expected), "{file}: {error}");
        // Also where a flag would win.
        let error = refused(
            &["--names=a", "--listen=b", "--max-count=2", "--watch", "--ratio=2"],
            &[],
            file,
        );
        assert!(error.starts_with(expected), "{file}: {error}");
    }
}

#[test]
fn a_variable_is_refused_by_its_name() {
    let cases = [
        (
            ("DYAD_MAX_COUNT", "many"),
            "DYAD_MAX_COUNT: expected an integer, got the string \"many\"",
        ),
        (
            ("DYAD_TESTER_MAX_COUNT", "0"),
            "DYAD_TESTER_MAX_COUNT: expected a value that `--max-count` accepts, got",
        ),
        (
            ("DYAD_SWITCH", "on"),
            "DYAD_SWITCH: expected a boolean, got the string \"on\"",
        ),
        (
            ("DYAD_WATCH", "yes"),
            "DYAD_WATCH: expected an integer, true or false, got the string \"yes\"",
        ),
    ];
    for (variable, expected) in cases {
        let error = refused(&["--names=a"], &[variable], "");
        assert!(error.starts_with(expected), "{variable:?}: {error}");
    }
}

#[test]
fn a_variable_that_looks_misspelt_is_warned_of() {
    let warnings = |name: &str| configuration(["serve"], &[(name, "1")]).warnings();
    let warned = |name: &str, near: &str| {
        let expected = format!("the variable `{name}` is unknown and sets nothing, did you mean `{near}`?");
        assert_eq!(warnings(name), [expected]);
    };
    warned("DYAD_LISTN", "DYAD_LISTEN");
    warned("DYAD_TESTER_MAX_COUNTS", "DYAD_TESTER_MAX_COUNT");
    warned("DYAD_KERNEL", "DYAD_KERNELS");
    warned("DYAD_CONFIGS", "DYAD_CONFIG");
    for known in [
        "DYAD_LISTEN",
        "DYAD_TESTER_LISTEN",
        "DYAD_OF_NAMES",
        "DYAD_CONFIG",
        "DYAD_LOG",
        "DYAD_LOG_FORMAT",
    ] {
        assert_eq!(warnings(known), [""; 0]);
    }
    for other in [
        "DYAD_DATA",
        "DYAD_MODEL",
        "DYAD_PYTHON",
        "DYAD_SERVER",
        "DYAD_ENCODER_LISTEN",
        "LISTN",
    ] {
        assert_eq!(warnings(other), [""; 0]);
    }
    assert_eq!(configuration(["ask", "x"], &[("DYAD_LISTN", "1")]).warnings(), [""; 0]);
}

#[test]
fn a_conflict_names_the_layers() {
    let conflict = "the argument '--watch [<WATCH>]' cannot be used with '--generation <GENERATION>'; ";
    let error = refused(&["--names=a", "--generation", "7"], &[], "\nwatch = 5");
    assert_eq!(error, format!("{conflict}`--watch` comes from t.toml:2"));
    let variables = [("DYAD_GENERATION", "7")];
    let error = refused(&["--names=a"], &variables, "watch = true");
    let both = "`--watch` comes from t.toml:1; `--generation` comes from the environment DYAD_GENERATION";
    assert_eq!(error, format!("{conflict}{both}"));
    // A variable takes the file's entry away.
    let arguments = ["serve", "--config", "t.toml", "--names=a", "--generation", "7"];
    let merged = merge(&configuration(arguments, &[("DYAD_WATCH", "false")]), Some("watch = 5"));
    assert_eq!(merged.unwrap().watch, None);
}

#[test]
fn what_the_command_line_says_wrong_is_told_by_clap() {
    let missing = refused(&[], &[], "switch = true");
    assert!(
        missing.starts_with("the following required arguments were not provided: --names <NAMES>"),
        "{missing}"
    );
    // A flag after the wrong one is in the file too: the wrong one is told.
    let wrong = refused(
        &["--max-count", "none", "--listen", "b"],
        &[],
        "listen = \"a\"\nnames = [\"a\"]",
    );
    assert!(
        wrong.starts_with("invalid value 'none' for '--max-count <MAX_COUNT>'"),
        "{wrong}"
    );
    let wrong = refused(&["--names"], &[], "listen = \"a\"");
    assert!(
        wrong.starts_with("a value is required for '--names <NAMES>'"),
        "{wrong}"
    );
    let help = configuration(
        ["serve", "--help"],
        &[("DYAD_CONFIG", "missing.toml"), ("DYAD_MAX_COUNT", "none")],
    );
    assert_eq!(help.text(), None);
    let Err(ConfigRefusal::CommandLine(error, _)) = merge(&help, None) else {
        unreachable!("help is no configuration")
    };
    let help = error.to_string();
    assert!(
        error.exit_code() == 0 && help.contains("--config <FILE>") && help.contains("DYAD_TESTER_DRAIN_S"),
        "{help}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let missing = configuration(["serve", "--names=a", "--config", "/nowhere/t.toml"], &[]);
    let text = missing.text().unwrap();
    let error = missing.merge(Some(&text)).unwrap_err().to_string();
    assert!(
        error.contains("--config: ") && error.contains("/nowhere/t.toml"),
        "{error}"
    );
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("large.toml");
    fs_err::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
    let large = configuration(["serve".into(), "--config".into(), path.into_os_string()], &[]);
    let error = large.text().unwrap().unwrap_err();
    assert!(error.contains("expected at most 1048576 bytes, got more"), "{error}");
}

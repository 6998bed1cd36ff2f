//! Texts of errors name options: those that their commands have.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

use super::IndexerArguments;

/// Options that texts name without a command, and the commands that print these texts.
const BARE: [(&str, &[&str]); 19] = [
    ("--context", &["build", "append", "upsert", "reembed"]),
    ("--documents", &["build", "append", "upsert"]),
    ("--embeddings", &["build", "append", "upsert"]),
    ("--language", &["build", "bulk plan"]),
    ("--allow-empty", &["build"]),
    ("--vector-type", &["build", "bulk plan"]),
    (
        "--skip-space-check",
        &["build", "append", "upsert", "merge", "purge", "reembed"],
    ),
    ("--on-long", &["build", "append", "upsert", "bulk plan"]),
    ("--split", &["build", "append", "upsert", "bulk plan"]),
    ("--memory", &["build", "merge", "purge", "reembed"]),
    (
        "--index",
        &[
            "build", "append", "upsert", "delete", "merge", "purge", "gc", "pull", "rollback",
        ],
    ),
    ("--out", &["bulk plan"]),
    ("--queries", &["build", "append", "upsert", "compare", "calibrate"]),
    ("--qrels", &["compare"]),
    ("--vectors", &["build", "append", "upsert"]),
    ("--corpus", &["build", "append", "upsert"]),
    (
        "--encoder",
        &["build", "append", "upsert", "reembed", "serve", "calibrate"],
    ),
    ("--older-than", &["gc"]),
    // Of `dyad-searcher serve`.
    ("--cache-bytes", &[]),
];
/// Other programs, whose options are not known here.
const OTHERS: [&str; 4] = ["dyad-encoder", "dyad-searcher", "dyad-bench", "cargo"];

/// Sources of texts: all of this library and of those below it, but for command lines, whose texts name their own
/// options.
fn sources() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut left: Vec<PathBuf> = ["src", "index/src", "files/src", "store/src"]
        .map(|dir| root.join(dir))
        .into();
    let mut found = Vec::new();
    while let Some(dir) = left.pop() {
        for entry in fs_err::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "cli" && name != "tests" {
                left.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    found
}

/// What a source names between backticks, outside of comments and tests, if it holds an option.
fn named(source: &Path) -> Vec<String> {
    let text = fs_err::read_to_string(source).unwrap();
    let text = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("//"))
        .collect();
    let code = code.join(" ").replace("\\ ", "");
    let named = code.split('`').skip(1).step_by(2).filter(|named| named.contains("--"));
    named.map(str::to_owned).collect()
}

fn has(command: &Command, option: &str) -> bool {
    command
        .get_arguments()
        .any(|argument| argument.get_long() == option.strip_prefix("--"))
}

/// The command of some words, such as `bulk plan`.
fn find<'a>(all: &'a Command, words: &[&str]) -> Option<&'a Command> {
    words
        .iter()
        .try_fold(all, |command, word| command.find_subcommand(word))
}

#[test]
fn options_that_texts_name_are_those_of_their_commands() {
    let mut all = IndexerArguments::command();
    all.build();
    let (mut wrong, mut seen) = (BTreeSet::new(), 0);
    for named in sources().iter().flat_map(|source| named(source)) {
        let words: Vec<&str> = named.split_whitespace().collect();
        let begin = usize::from(words.first() == Some(&"dyad-indexer"));
        let end = words
            .iter()
            .position(|word| word.starts_with("--"))
            .unwrap_or(words.len());
        let command = words.get(begin..end).unwrap_or_default();
        if command
            .first()
            .is_some_and(|program| OTHERS.contains(program) || program.contains('='))
        {
            continue;
        }
        let is_option = |word: &&&str| word.starts_with("--") && !word.contains('{');
        for option in words.iter().filter(is_option) {
            seen += 1;
            let known = match command {
                [] => BARE.iter().any(|(bare, _)| bare == option),
                command => find(&all, command).is_some_and(|command| has(command, option)),
            };
            if !known {
                wrong.insert(named.clone());
            }
        }
    }
    assert!(
        wrong.is_empty() && seen > 20,
        "no such options, or no command before them: {wrong:#?}"
    );
    for (option, commands) in BARE {
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(
                find(&all, &words).is_some_and(|command| has(command, option)),
                "`{command}` has no {option}"
            );
        }
    }
}

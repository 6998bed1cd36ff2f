//! The binary's commands that change an index: what they print.

use std::process::Output;

use crate::command_line::{build, dyad_indexer, text};
use crate::fixture::{Fixture, document};

#[test]
fn keys_and_filters_say_what_is_deleted() {
    let fixture = Fixture::new(30);
    fixture.build().unwrap();
    let run = |more: &[&str]| run(&fixture, "delete", more);
    // Every third document has a number.
    let some = ["--json", "--filter", "number>=21", "--filter", "source=tests"];
    let dry = json(&run(&[&some[..], &["--dry-run"]].concat()));
    assert_eq!(
        (&dry["generation"], &dry["documents_after"]),
        (&serde_json::Value::Null, &27.into())
    );
    let deleted = json(&run(&some));
    assert_eq!(
        (&deleted["generation"], &deleted["documents_after"]),
        (&2.into(), &27.into())
    );
    assert_eq!(
        (&deleted["change"]["read"], &deleted["change"]["indexed"]),
        (&3.into(), &3.into())
    );
    let none = json(&run(&some));
    assert_eq!(
        (&none["generation"], &none["change"]["read"]),
        (&serde_json::Value::Null, &0.into())
    );
    let keys = fixture.path("keys");
    fs_err::write(&keys, "doc-0001\n").unwrap();
    let files = ["--json", "--keys", keys.to_str().unwrap()];
    let deleted = json(&run(&[&files[..], &["--key", "doc-0002", "--key", "doc-0004"]].concat()));
    assert_eq!(
        (&deleted["change"]["indexed"], &deleted["documents_after"]),
        (&3.into(), &24.into())
    );
    for (wrong, expected) in [
        (&["--filter", "number"][..], "there is no operator"),
        (&["--filter", "number=1", "--key", "a"], "cannot be used with"),
        (&["--filter", "number^=\"\""], "`filter.prefix.prefix`"),
        (&[], "required"),
    ] {
        let output = run(wrong);
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(expected), "{told}");
    }
}

#[test]
fn changes_say_what_they_did() {
    let fixture = Fixture::new(30);
    assert_eq!(build(&fixture, &["--min-recall", "0.5"]).status.code(), Some(0));
    append_and_replace(&fixture);
    delete_and_merge(&fixture);
    purge_and_collect(&fixture);
}

fn run(fixture: &Fixture, command: &str, more: &[&str]) -> Output {
    let mut program = dyad_indexer();
    program.arg(command).arg("--index").arg(fixture.index());
    program.args(more).output().unwrap()
}

fn said(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&said(output)).unwrap()
}

fn append_and_replace(fixture: &Fixture) {
    let run = |command: &str, more: &[&str]| run(fixture, command, more);
    let batch: Vec<_> = (28..33).map(document).collect();
    fixture.write_corpus(&batch);
    fixture.write_embeddings("more", crate::fixture::header(), &batch);
    let (corpus, vectors) = (fixture.path("corpus.jsonl"), fixture.path("more"));
    let source = [
        "--corpus",
        corpus.to_str().unwrap(),
        "--embeddings",
        vectors.to_str().unwrap(),
    ];
    let refused = run("append", &source);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("2 documents are in the index already"),
        "{}",
        text(&refused.stderr)
    );
    let dry = json(&run(
        "append",
        &[&source[..], &["--skip-existing", "--dry-run", "--json"]].concat(),
    ));
    assert_eq!(
        (&dry["generation"], &dry["documents_after"]),
        (&serde_json::Value::Null, &33.into())
    );
    let added = said(&run("append", &[&source[..], &["--skip-existing"]].concat()));
    assert!(
        added.contains("generation 2") && added.contains("30 -> 33 documents"),
        "{added}"
    );
    assert!(added.contains("5 read, 3 indexed, 2 unchanged"), "{added}");
    let replaced = said(&run("upsert", &source));
    assert!(replaced.contains("5 read, 5 indexed, 5 deleted"), "{replaced}");
}

fn delete_and_merge(fixture: &Fixture) {
    let run = |command: &str, more: &[&str]| run(fixture, command, more);
    let keys = fixture.path("keys");
    fs_err::write(&keys, "doc-0000\r\n\ndoc-0001\nabsent\n").unwrap();
    let refused = run("delete", &["--dry-run", "--keys", keys.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("no document of the index has (1): `absent`"),
        "{}",
        text(&refused.stderr)
    );
    let deleted = json(&run(
        "delete",
        &["--json", "--allow-missing", "--keys", keys.to_str().unwrap()],
    ));
    let change = &deleted["change"];
    assert_eq!(
        (&change["read"], &change["indexed"], &change["rejected"]),
        (&3.into(), &2.into(), &1.into())
    );
    let report = json(&run("inspect", &["--json"]));
    assert_eq!(
        (&report["documents"], &report["debt"]["deleted"]),
        (&31.into(), &4.into())
    );
    assert_eq!(
        (&report["change"]["operation"], &report["min_recall"]["recall"]),
        (&"delete".into(), &0.5.into())
    );
    assert!(said(&run("inspect", &[])).contains("4 deleted documents"));
    let merged = said(&run("merge", &["--all", "--threads", "1"]));
    assert!(
        merged.contains("generation 5") && merged.contains("31 -> 31 documents"),
        "{merged}"
    );
}

fn purge_and_collect(fixture: &Fixture) {
    let run = |command: &str, more: &[&str]| run(fixture, command, more);
    let keys = fixture.path("keys");
    fs_err::write(&keys, "doc-0007\nabsent\nabsent\n").unwrap();
    let purged = json(&run(
        "purge",
        &["--json", "--allow-missing", "--keys", keys.to_str().unwrap()],
    ));
    assert_eq!(
        purged["collected"]["removed"],
        serde_json::json!([1, 2, 3, 4, 5]),
        "each of them holds the document"
    );
    let counts = |name: &str| purged["change"][name].as_u64();
    assert_eq!(
        [
            counts("read"),
            counts("indexed"),
            counts("superseded"),
            counts("rejected")
        ],
        [Some(3), Some(1), Some(1), Some(1)]
    );
    let back = run("rollback", &[]);
    assert!(
        text(&back.stderr).contains("nothing to roll back to"),
        "{}",
        text(&back.stderr)
    );
    let kept = said(&run("gc", &["--older-than", "1h"]));
    assert!(
        kept.contains("removed no generation") && kept.contains("generations 6 are left"),
        "{kept}"
    );
    assert_eq!(run("gc", &["--older-than", "soon"]).status.code(), Some(2));
    assert_eq!(json(&run("verify", &["--json"]))["problems"], serde_json::json!([]));
    let absent = dyad_indexer().args(["gc", "--index", "/nowhere"]).output().unwrap();
    assert!(
        text(&absent.stderr).contains("holds no index"),
        "{}",
        text(&absent.stderr)
    );
}

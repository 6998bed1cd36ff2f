//! A bulk job on a real S3 server whose tasks are killed again and again.

use std::collections::BTreeSet;
use std::time::Duration;

use dyad_corpus::Document;
use serde_json::Value;

use crate::bulk::{model_of, some};
use crate::encoder_service::encoder_service;
use crate::fixture::{Fixture, line_of};
use crate::life::check;
use crate::store_s3::S3;

#[test]
fn a_job_on_s3_ends_whole_whatever_is_killed() {
    let Some(mut s3) = S3::start("a_job_on_s3_ends_whole_whatever_is_killed") else {
        return;
    };
    let (all, local, service) = (some(0..120), Fixture::empty(), encoder_service());
    put_inputs(&mut s3, &local, &all);
    let scratch = local.path("scratch").display().to_string();
    let plan = [
        "bulk",
        "plan",
        "--input",
        "s3://bucket/input/*.jsonl",
        "--encoder",
        &service.url,
        "--index",
        "s3://bucket/index",
        "--out",
        "s3://bucket/job",
        "--docs-per-partition",
        "20",
        "--docs-per-shard",
        "50",
        "--scratch",
        &scratch,
        "--vector-type",
        "f32",
    ];
    let step = |name: &str, option: Option<(&str, usize)>| -> Vec<String> {
        let mut arguments: Vec<String> = ["bulk", name, "--plan", "s3://bucket/job", "--scratch", &scratch]
            .map(str::to_owned)
            .to_vec();
        if name == "embed" {
            arguments.extend(["--encoder".to_owned(), service.url.clone()]);
        }
        arguments.extend(
            option
                .into_iter()
                .flat_map(|(option, number)| [format!("--{option}"), number.to_string()]),
        );
        arguments
    };
    let mut killed = 0;
    // Some attempts that are killed, and one that is not.
    let mut run = |arguments: &[&str], attempts: u64| {
        for attempt in 0..attempts {
            let mut child = s3.command(arguments).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(3 + 11 * attempt));
            // SIGKILL.
            child.kill().unwrap();
            killed += usize::from(!child.wait().unwrap().success());
        }
        let output = s3.command(arguments).output().unwrap();
        let (out, error) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(output.status.success(), "{arguments:?}: {out} {error}");
        assert!(!format!("{out}{error}").contains("secret"), "{error}");
        out
    };
    run(&plan, 6);
    let status = |run: &mut dyn FnMut(&[&str], u64) -> String| -> Value {
        serde_json::from_str(&run(&["bulk", "status", "--plan", "s3://bucket/job", "--json"], 0)).unwrap()
    };
    let planned = status(&mut run);
    let (partitions, shards) = (
        planned["partitions"].as_u64().unwrap(),
        planned["shards"].as_u64().unwrap(),
    );
    assert!(partitions >= 6 && shards >= 2, "{planned}");
    for partition in 0..usize::try_from(partitions).unwrap() {
        let arguments = step("embed", Some(("partition", partition)));
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 4);
    }
    for shard in 0..usize::try_from(shards).unwrap() {
        let arguments = step("shard", Some(("shard", shard)));
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), 8);
    }
    let commit = step("commit", None);
    let commit: Vec<&str> = commit.iter().map(String::as_str).collect();
    run(&commit, 6);
    assert!(run(&commit, 0).starts_with("nothing to do"));
    let done = status(&mut run);
    assert_eq!(
        (&done["committed"], &done["documents"]),
        (&Value::from(true), &Value::from(120))
    );
    run(&["bulk", "gc", "--plan", "s3://bucket/job", "--older-than", "0s"], 0);
    let index = local.index().display().to_string();
    run(&["pull", "--index", &index, "--from", "s3://bucket/index"], 0);
    assert!(killed > 30, "{killed} were killed in time");
    check(&local, &model_of(&all));
    nothing_else_is_there(&mut s3, &local, partitions, shards);
}

/// The store holds the index and nothing else, and of the job what its records name.
fn nothing_else_is_there(s3: &mut S3, local: &Fixture, partitions: u64, shards: u64) {
    let mut expected: BTreeSet<String> = local
        .files()
        .keys()
        .map(|path| path.strip_prefix(local.index()).unwrap().display().to_string())
        .collect();
    expected.retain(|name| !name.starts_with('.'));
    let there: BTreeSet<String> = s3
        .list("index/")
        .into_iter()
        .map(|name| name.trim_start_matches("index/").to_owned())
        .collect();
    assert_eq!(there, expected);
    let job = s3.list("job/");
    let records = job.iter().filter(|name| name.ends_with("DONE.json")).count() as u64;
    assert_eq!(records, partitions + shards);
    let folders: BTreeSet<&str> = job
        .iter()
        .filter(|name| name.contains("/partitions/"))
        .filter_map(|name| name.rsplit_once('/').map(|(folder, _)| folder))
        .collect();
    // Of each partition: its record's folder, and the one that it names.
    assert_eq!(folders.len() as u64, 2 * partitions, "{job:#?}");
}

fn put_inputs(s3: &mut S3, local: &Fixture, documents: &[Document]) {
    for (number, documents) in documents.chunks(30).enumerate() {
        let text: Vec<String> = documents
            .iter()
            .map(|document| format!("{}\n", line_of(document)))
            .collect();
        let path = local.path(&format!("{number}.jsonl"));
        fs_err::write(&path, text.concat()).unwrap();
        s3.put(&path, &format!("input/{number}.jsonl"));
    }
    // Puts are done when the server answers.
    assert_eq!(s3.list("input/").len(), 4);
}

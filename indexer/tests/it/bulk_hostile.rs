//! Bulk jobs over other inputs, and next to others: records that somebody else has written, files that are gone, other
//! jobs, rollbacks, changes of the index.

use std::time::Duration;

use dyad_index::{Metric, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::bulk::{self, PlanConfig, VectorOrigin};
use dyad_indexer::change::merge;
use dyad_indexer::control::JobControl;
use dyad_indexer::rollback::roll_back;
use dyad_indexer::source::{DeclaredModel, VectorSource};
use serde_json::{Value, json};

use crate::bulk::{Job, model_of, some};
use crate::command_line::{dyad_indexer, text};
use crate::encoder_service::own_encoder;
use crate::fixture::documents;
use crate::life::{APPEND, check};

/// Changes a record of a job.
fn change(job: &Job, name: &str, field: &str, value: Value) -> Vec<u8> {
    let path = job.fixture.path("job").join(name);
    let before = fs_err::read(&path).unwrap();
    let mut record: Value = serde_json::from_slice(&before).unwrap();
    *record.pointer_mut(field).unwrap() = value;
    fs_err::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
    before
}

#[test]
fn records_that_lie_are_refused_and_lead_nowhere() {
    let job = Job::new(&[("a.jsonl", &some(0..30))]);
    let plan = job.plan(&job.config()).unwrap().plan;
    for partition in 0..plan.job.partitions.len() {
        job.embed(partition).unwrap();
    }
    let record = format!("partitions/{}/DONE.json", plan.job.partitions[0].name);
    let lies = [
        ("/files/0/path", json!("../../../pwned")),
        ("/files/0/path", json!("/tmp/pwned")),
        ("/folder", json!("../..")),
        ("/read", json!(7)),
        ("/documents", json!(u64::MAX)),
        ("/files/0/bytes", json!(-1)),
    ];
    for (field, value) in lies {
        let before = change(&job, &record, field, value.clone());
        let refused = job.shard(0).unwrap_err().to_string();
        assert!(
            refused.contains("DONE.json`") && refused.contains("expected"),
            "{field} {value}: {refused}"
        );
        fs_err::write(job.fixture.path("job").join(&record), before).unwrap();
    }
    assert!(!job.fixture.path("pwned").exists());
    let lies = [
        ("/job/shards", json!([u64::MAX, 3])),
        ("/job/shards", json!([0, 1])),
        ("/job/reading/split", json!({ "words": 0, "overlap": 0 })),
        ("/job/model/dim", json!(0)),
        ("/job/partitions/0/name", json!("000000-../../../../x")),
        ("/job/partitions/0/slices/0/first", json!(u64::MAX)),
        ("/generation", json!(u64::MAX)),
    ];
    for (field, value) in lies {
        let before = change(&job, "plan.json", field, value.clone());
        let refused = [
            job.embed(0).unwrap_err(),
            job.shard(0).unwrap_err(),
            job.commit().unwrap_err(),
        ];
        for refused in refused.map(|error| error.to_string()) {
            assert!(
                refused.contains("plan.json`, ") && refused.contains("expected"),
                "{field} {value}: {refused}"
            );
        }
        fs_err::write(job.fixture.path("job/plan.json"), before).unwrap();
    }
    job.run().unwrap();
    check(&job.fixture, &model_of(&some(0..30)));
}

#[test]
fn what_is_gone_is_made_again() {
    let all = some(0..60);
    let job = Job::new(&[("a.jsonl", &all)]);
    let plan = job.plan(&job.config()).unwrap().plan;
    for partition in 0..plan.job.partitions.len() {
        assert!(job.embed(partition).unwrap());
    }
    let folder = job
        .fixture
        .path("job")
        .join("partitions")
        .join(&plan.job.partitions[1].name);
    for entry in fs_err::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
    {
        fs_err::remove_dir_all(entry).unwrap();
    }
    assert!(job.embed(1).unwrap() && !job.embed(1).unwrap());
    assert!(job.shard(0).unwrap() && job.shard(1).unwrap());
    // Of an index in a directory, what no generation names goes with the next change.
    fs_err::remove_dir_all(job.fixture.index().join("shards")).unwrap();
    assert!(job.shard(0).unwrap() && job.shard(1).unwrap() && !job.shard(0).unwrap());
    assert!(job.commit().unwrap());
    check(&job.fixture, &model_of(&all));
}

#[test]
fn two_jobs_of_one_index_do_not_collect_each_other() {
    let all = some(0..50);
    let job = Job::new(&[("a.jsonl", &all)]);
    let other = PlanConfig {
        out: job.url("other"),
        max_bad: 1,
        ..job.config()
    };
    let (scratch, control) = (job.fixture.path("scratch"), JobControl::silent());
    let plan = job.plan(&job.config()).unwrap().plan;
    job.plan(&other).unwrap();
    for partition in 0..plan.job.partitions.len() {
        job.embed(partition).unwrap();
    }
    for shard in 0..plan.job.shards.len() {
        job.shard(shard).unwrap();
    }
    // What is the user's stays, whatever its name.
    let user = job.fixture.path("other/partitions/mine.parquet");
    fs_err::create_dir_all(user.parent().unwrap()).unwrap();
    fs_err::write(&user, "mine").unwrap();
    assert_eq!(bulk::gc(&other.out, Duration::ZERO, false, control).unwrap().files, 0);
    assert!(user.exists() && job.commit().unwrap());
    check(&job.fixture, &model_of(&all));
    assert_eq!(
        bulk::gc(&job.url("job"), Duration::ZERO, false, control).unwrap().files,
        0
    );
    // The other one was planned on no generation.
    for partition in 0..plan.job.partitions.len() {
        let mut source = || Err(Error::NoVectors);
        assert!(bulk::embed(&other.out, partition, &scratch, &mut source, control).is_err());
    }
}

#[test]
fn a_job_after_a_rollback_takes_the_next_number() {
    let all = some(0..30);
    let job = Job::new(&[("a.jsonl", &all)]);
    job.run().unwrap();
    job.fixture.upsert(APPEND, &some(30..32)).unwrap();
    roll_back(&job.fixture.index(), None, false).unwrap();
    let config = PlanConfig {
        out: job.url("job2"),
        ..job.config()
    };
    let plan = job.plan(&config).unwrap().plan;
    assert_eq!(plan.generation, 3);
    let (scratch, control) = (job.fixture.path("scratch"), JobControl::silent());
    let mut connect = || Ok(Box::new(job.source()?) as Box<dyn VectorSource>);
    for partition in 0..plan.job.partitions.len() {
        bulk::embed(&config.out, partition, &scratch, &mut connect, control).unwrap();
    }
    for shard in 0..plan.job.shards.len() {
        bulk::shard(&config.out, shard, &scratch, 1, control).unwrap();
    }
    let done = bulk::commit(&config.out, &scratch, control).unwrap();
    assert_eq!((done.manifest.generation, done.manifest.parent), (3, Some(1)));
    check(&job.fixture, &model_of(&all));
    // It was published, also where the manifests between it and the current one are gone.
    job.fixture.upsert(APPEND, &some(30..31)).unwrap();
    merge(&job.fixture.merge_config(true), control).unwrap();
    dyad_indexer::gc::gc(&job.fixture.index(), 0, Duration::ZERO, false).unwrap();
    assert!(!bulk::commit(&config.out, &scratch, control).unwrap().is_new);
    assert!(bulk::status(&config.out, control).unwrap().1.committed);
}

#[test]
fn a_job_has_a_place_of_its_own_and_inputs_are_what_they_are() {
    let all = some(0..30);
    let job = Job::new(&[("a.jsonl", &all)]);
    let refused = job
        .plan(&PlanConfig {
            out: job.url("index"),
            ..job.config()
        })
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("`--out` and `--index` are the same place"),
        "{refused}"
    );
    let secret = PlanConfig {
        input: "az://container/x.jsonl?sig=SECRET".to_owned(),
        ..job.config()
    };
    let refused = job.plan(&secret).unwrap_err().to_string();
    assert!(
        !refused.contains("SECRET") && refused.contains("credentials belong into the environment"),
        "{refused}"
    );
    // Packed, whatever its name: it is read whole.
    let plain = fs_err::read(job.fixture.path("input/a.jsonl")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &plain).unwrap();
    fs_err::write(job.fixture.path("input/a.jsonl"), packed.finish().unwrap()).unwrap();
    let plan = job
        .plan(&PlanConfig {
            partition_documents: 3,
            ..job.config()
        })
        .unwrap()
        .plan;
    assert_eq!(plan.job.partitions.len(), 1);
    assert!(job.embed(0).unwrap() && job.shard(0).unwrap() && job.commit().unwrap());
    check(&job.fixture, &model_of(&all));
}

/// Texts and vectors that another program (pyarrow) has written are a job's input without any encoder.
#[test]
fn parquet_files_with_vectors_are_inputs() {
    for metric in [Metric::Cosine, Metric::Dot, Metric::L2] {
        let job = Job::new(&[]);
        let input = job.fixture.path("input");
        fs_err::create_dir_all(&input).unwrap();
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/embedded.parquet");
        fs_err::copy(golden, input.join("part-1.parquet")).unwrap();
        // As a worker without rows leaves it.
        fs_err::copy(golden.replace("embedded", "no-rows"), input.join("part-0.parquet")).unwrap();
        let declared = DeclaredModel {
            name: "other",
            fingerprint: None,
            metric,
        };
        let planned = bulk::plan(&job.config(), VectorOrigin::Input(declared), JobControl::silent()).unwrap();
        assert!(planned.plan.job.has_vectors && planned.plan.estimate.tokens.is_none());
        let (scratch, mut connect) = (job.fixture.path("scratch"), || Err(Error::NoVectors));
        for partition in 0..planned.plan.job.partitions.len() {
            let url = job.url("job");
            assert!(
                bulk::embed(&url, partition, &scratch, &mut connect, JobControl::silent())
                    .unwrap()
                    .is_new
            );
        }
        assert!(job.shard(0).unwrap() && job.commit().unwrap());
        let snapshot = Snapshot::open(&job.fixture.index()).unwrap();
        let model = &snapshot.manifest().model;
        assert_eq!(
            (model.name.as_str(), model.metric, snapshot.manifest().documents()),
            ("other", metric, 5)
        );
        let (shard, node) = snapshot.find("doc-0002").unwrap().unwrap();
        let stored = snapshot.document(shard, node).unwrap();
        assert_eq!(
            (stored.title, stored.text),
            (documents(3)[2].title.clone(), documents(3)[2].text.clone())
        );
    }
}

/// A step with a model starts the encoder's program, and ends it.
#[test]
fn a_step_starts_an_encoder_of_its_own() {
    let all = some(0..30);
    let job = Job::new(&[("a.jsonl", &all)]);
    let (program, log) = own_encoder(&job.fixture, &job.service);
    let (input, scratch) = (
        format!("{}/*", job.fixture.path("input").display()),
        job.fixture.path("scratch").display().to_string(),
    );
    let (url, index) = (job.url("job"), job.url("index"));
    let own = [
        [
            "--model",
            "m",
            "--device",
            "cuda:1",
            "--dtype",
            "bf16",
            "--answer-prompt",
            "- passage: ",
        ],
        [
            "--prompts",
            "dyad",
            "--encoder-program",
            &program,
            "--scratch",
            &scratch,
            "--question-prompt",
            "",
        ],
    ]
    .concat();
    let run = |step: &[&str]| {
        let output = dyad_indexer().arg("bulk").args(step).args(&own).output().unwrap();
        assert!(output.status.success(), "{step:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    run(&[
        "plan",
        "--input",
        &input,
        "--index",
        &index,
        "--out",
        &url,
        "--vector-type",
        "f32",
    ]);
    assert!(run(&["embed", "--plan", &url, "--partition", "0"]).contains("30 documents"));
    assert!(run(&["embed", "--plan", &url, "--partition", "0"]).contains("nothing to do"));
    assert!(job.shard(0).unwrap() && job.commit().unwrap());
    check(&job.fixture, &model_of(&all));
    let started = "serve --model m --listen 127.0.0.1:0 --while-input --device=cuda:1 --dtype=bf16 --question-prompt= \
                   --answer-prompt=- passage:  --prompts=dyad\n";
    let logged = || fs_err::read_to_string(&log).unwrap();
    assert_eq!(
        logged().matches(started).count(),
        2,
        "not where nothing is to be done: {}",
        logged()
    );
    let named = ["--question-prompt-name", "query", "--answer-prompt-name", "document"];
    let output = dyad_indexer()
        .args([
            "bulk",
            "plan",
            "--input",
            &input,
            "--index",
            &index,
            "--out",
            &job.url("named"),
        ])
        .args(["--model", "m", "--encoder-program", &program])
        .args(named)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        logged().contains("--question-prompt-name=query --answer-prompt-name=document\n"),
        "{}",
        logged()
    );
    // A program that is none.
    let output = dyad_indexer()
        .args([
            "bulk",
            "plan",
            "--input",
            &input,
            "--index",
            &index,
            "--out",
            &job.url("x"),
            "--model",
            "m",
        ])
        .args(["--encoder-program", "/nowhere/encoder"])
        .output()
        .unwrap();
    assert!(
        text(&output.stderr).contains("cannot start `/nowhere/encoder`. Name it with"),
        "{}",
        text(&output.stderr)
    );
}

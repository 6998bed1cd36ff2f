//! What bulk jobs refuse: steps before their time, bad records, keys that come twice.

use std::io::Write as _;

use dyad_corpus::{CorpusFormat, Document, ReadOptions};
use dyad_indexer::Error;
use dyad_indexer::bulk::{self, PlanConfig};
use dyad_indexer::control::JobControl;
use dyad_indexer::source::VectorSource;

use crate::bulk::{Job, model_of, some};
use crate::life::check;

#[test]
fn steps_that_cannot_be_taken_say_what_is_missing() {
    let all = some(0..40);
    let job = Job::new(&[("a.jsonl", &all)]);
    let told = |error: Error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        text
    };
    assert!(told(job.embed(0).unwrap_err()).contains("there is no job at file://"));
    let plan = job.plan(&job.config()).unwrap().plan;
    let count = plan.job.partitions.len();
    assert_eq!(
        told(job.embed(99).unwrap_err()),
        format!("`--partition`: expected a number below {count}, got 99")
    );
    let refused = told(job.shard(0).unwrap_err());
    assert!(
        refused.contains("partitions are not done, such as 000000-") && refused.contains("bulk embed"),
        "{refused}"
    );
    let refused = told(job.commit().unwrap_err());
    assert!(
        refused.starts_with("2 of 2 shards are not done, such as 0, 1. Run `dyad-indexer bulk shard`"),
        "{refused}"
    );
    let other = PlanConfig {
        max_bad: 3,
        ..job.config()
    };
    let refused = told(job.plan(&other).unwrap_err());
    assert!(
        refused.contains("another job") && refused.contains("--max-bad `0`, got `3`"),
        "{refused}"
    );
    assert!(!job.plan(&job.config()).unwrap().is_new);
    // The input is another one by now.
    let mut changed = all.clone();
    changed[0].text = changed[0].text.replace(' ', "_");
    job.write("a.jsonl", &changed);
    let refused = told(job.embed(0).unwrap_err());
    assert!(
        refused.contains("has changed since it was planned: expected xxh3:"),
        "{refused}"
    );
    assert!(told(job.plan(&job.config()).unwrap_err()).contains("partitions `"));
    job.write("a.jsonl", &all);
    // Another model answers.
    let header = dyad_corpus::embeddings::EmbeddingsHeader {
        model: dyad_corpus::embeddings::EmbeddingsModel {
            fingerprint: "beef".into(),
            ..crate::fixture::header().model
        },
        ..crate::fixture::header()
    };
    job.fixture.write_embeddings("other", header, &all);
    let other = job.fixture.path("other");
    let mut connect = || Ok(Box::new(dyad_indexer::source::FileSource::open(&other)?) as Box<dyn VectorSource>);
    let scratch = job.fixture.path("scratch");
    let refused = told(bulk::embed(&job.url("job"), 0, &scratch, &mut connect, JobControl::silent()).unwrap_err());
    assert!(
        refused.contains("fingerprint f00d") && refused.contains("fingerprint beef"),
        "{refused}"
    );
    // A record that is none.
    let record = job
        .fixture
        .path("job")
        .join(format!("partitions/{}/DONE.json", plan.job.partitions[0].name));
    fs_err::create_dir_all(record.parent().unwrap()).unwrap();
    fs_err::write(&record, "{\"format_version\": 9}").unwrap();
    let refused = told(job.shard(0).unwrap_err());
    assert!(
        refused.contains("DONE.json`, format_version: expected 1, got 9"),
        "{refused}"
    );
    fs_err::remove_file(record).unwrap();
    // Damage is found before anything is published.
    for partition in 0..count {
        job.embed(partition).unwrap();
    }
    let folder = job
        .fixture
        .path("job")
        .join("partitions")
        .join(&plan.job.partitions[0].name);
    let inner = fs_err::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let intact = fs_err::read(inner.join("documents.jsonl")).unwrap();
    let mut damaged = intact.clone();
    damaged[5] ^= 1;
    fs_err::write(inner.join("documents.jsonl"), damaged).unwrap();
    assert!(
        told(job.shard(0).unwrap_err()).contains("length and checksum"),
        "damage"
    );
    fs_err::write(inner.join("documents.jsonl"), intact).unwrap();
    job.run().unwrap();
    check(&job.fixture, &model_of(&all));
}

#[test]
fn bad_records_are_counted_over_all_partitions() {
    let all = some(0..40);
    let job = Job::new(&[("a.jsonl", &all[..20]), ("b.jsonl", &all[20..])]);
    for name in ["a.jsonl", "b.jsonl"] {
        let path = job.fixture.path("input").join(name);
        writeln!(
            fs_err::OpenOptions::new().append(true).open(path).unwrap(),
            "{{\"_id\": \"x\"}}"
        )
        .unwrap();
    }
    // An input of bad records alone.
    fs_err::write(job.fixture.path("input").join("c.jsonl"), "{\n").unwrap();
    let config = PlanConfig {
        max_bad: 3,
        partition_documents: 1_000,
        ..job.config()
    };
    let plan = job.plan(&config).unwrap().plan;
    assert_eq!(plan.job.partitions.len(), 1);
    assert!(job.embed(0).unwrap() && job.shard(0).unwrap() && job.commit().unwrap());
    let status = job.status();
    assert_eq!((status.read, status.documents, status.rejected), (43, 40, 3));
    assert_eq!(status.rejected_by_partition.into_iter().collect::<Vec<_>>(), [(0, 3)]);
    check(&job.fixture, &model_of(&all));
    let folder = job
        .fixture
        .path("job")
        .join("partitions")
        .join(&plan.job.partitions[0].name);
    let inner = fs_err::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let text = fs_err::read_to_string(inner.join("rejects.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 3);
    assert!(
        text.contains("/input/a.jsonl\"") && text.contains("/input/c.jsonl\"") && text.contains("\"line\":21"),
        "{text}"
    );
    // One less is allowed, in partitions of their own: none of them has more, all together have.
    let config = PlanConfig {
        max_bad: 2,
        out: job.url("fewer"),
        index: job.url("fewer-index"),
        ..config
    };
    let plan = job
        .plan(&PlanConfig {
            partition_documents: 15,
            ..config.clone()
        })
        .unwrap()
        .plan;
    let scratch = job.fixture.path("scratch");
    let mut connect = || Ok(Box::new(job.source()?) as Box<dyn VectorSource>);
    for partition in 0..plan.job.partitions.len() {
        bulk::embed(&config.out, partition, &scratch, &mut connect, JobControl::silent()).unwrap();
    }
    for shard in 0..plan.job.shards.len() {
        bulk::shard(&config.out, shard, &scratch, 1, JobControl::silent()).unwrap();
    }
    let refused = bulk::commit(&config.out, &scratch, JobControl::silent())
        .unwrap_err()
        .to_string();
    assert!(
        refused.starts_with("3 records are bad, and the job allows 2"),
        "{refused}"
    );
}

#[test]
fn keys_that_come_twice_are_refused_wherever_they_are() {
    let all = some(0..60);
    for (shard_documents, at) in [(1_000, "shard"), (20, "commit")] {
        let job = Job::new(&[("a.jsonl", &all), ("b.jsonl", &all[3..5])]);
        let config = PlanConfig {
            shard_documents,
            ..job.config()
        };
        let plan = job.plan(&config).unwrap().plan;
        for partition in 0..plan.job.partitions.len() {
            job.embed(partition).unwrap();
        }
        let shards = (0..plan.job.shards.len()).try_for_each(|shard| job.shard(shard).map(drop));
        assert_eq!(shards.is_err(), at == "shard");
        let refused = shards.and_then(|()| job.commit().map(drop)).unwrap_err().to_string();
        assert!(
            refused.starts_with("2 keys come more than once in the inputs, such as `k0003`, `k0004`."),
            "{refused}"
        );
        assert!(!job.fixture.index().join("CURRENT").exists());
    }
}

#[test]
fn texts_are_no_inputs_of_jobs() {
    let documents = [Document {
        key: "a".to_owned(),
        text: "text".to_owned(),
        ..Document::default()
    }];
    for (name, format) in [
        ("a.md.gz", CorpusFormat::Auto),
        ("a.jsonl", CorpusFormat::Markdown),
        ("a.jsonl", CorpusFormat::Text),
    ] {
        let job = Job::new(&[(name, &documents)]);
        let config = PlanConfig {
            read: ReadOptions {
                format,
                ..ReadOptions::default()
            },
            ..job.config()
        };
        let refused = job.plan(&config).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("{name}` is read as one document")),
            "{refused}"
        );
    }
}

//! Bulk jobs over directories: the index of one build, whatever is repeated, done at once, or refused.

use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_corpus::{Document, ReadOptions, Split};
use dyad_index::verify::verify_current;
use dyad_index::{Snapshot, manifest};
use dyad_indexer::Error;
use dyad_indexer::bulk::{self, GraphSettings, PlanConfig, PlannedJob, Status, VectorOrigin};
use dyad_indexer::control::JobControl;
use dyad_indexer::source::{OnLong, RemoteConfig, RemoteSource, VectorSource};

use crate::encoder_service::{Running, encoder_service};
use crate::fixture::{Fixture, line_of};
use crate::life::{APPEND, Life, Model, Random, check, document};

/// A job over a fixture's directory `input`, and its encoder service.
pub(crate) struct Job {
    pub(crate) fixture: Fixture,
    pub(crate) service: Running,
}

impl Job {
    pub(crate) fn new(files: &[(&str, &[Document])]) -> Self {
        let job = Self {
            fixture: Fixture::empty(),
            service: encoder_service(),
        };
        for (name, documents) in files {
            job.write(name, documents);
        }
        job
    }

    pub(crate) fn write(&self, name: &str, documents: &[Document]) {
        fs_err::create_dir_all(self.fixture.path("input")).unwrap();
        let text: Vec<String> = documents
            .iter()
            .map(|document| format!("{}\n", line_of(document)))
            .collect();
        fs_err::write(self.fixture.path("input").join(name), text.concat()).unwrap();
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("file://{}", self.fixture.path(name).display())
    }

    pub(crate) fn config(&self) -> PlanConfig {
        PlanConfig {
            input: format!("{}/*", self.fixture.path("input").display()),
            read: ReadOptions::default(),
            max_bad: 0,
            on_long: OnLong::Truncate,
            shard_documents: 40,
            partition_documents: 15,
            index: self.url("index"),
            out: self.url("job"),
            // As fixtures are built.
            graph: GraphSettings {
                vector_type: "f32".to_owned(),
                ..GraphSettings::default()
            },
            dimensions: None,
            language: None,
            scratch: self.fixture.path("scratch"),
        }
    }

    pub(crate) fn source(&self) -> Result<RemoteSource, Error> {
        RemoteSource::connect_all(
            std::slice::from_ref(&self.service.url),
            RemoteConfig {
                batch_texts: 4,
                ..RemoteConfig::default()
            },
            &JobCancellation::new(),
        )
    }

    pub(crate) fn plan(&self, config: &PlanConfig) -> Result<PlannedJob, Error> {
        bulk::plan(
            config,
            VectorOrigin::Encoder(Box::new(self.source()?)),
            JobControl::silent(),
        )
    }

    pub(crate) fn embed(&self, partition: usize) -> Result<bool, Error> {
        let scratch = self.fixture.path("scratch");
        let mut connect = || Ok(Box::new(self.source()?) as Box<dyn VectorSource>);
        Ok(bulk::embed(
            &self.url("job"),
            partition,
            &scratch,
            &mut connect,
            JobControl::silent(),
        )?
        .is_new)
    }

    pub(crate) fn shard(&self, shard: usize) -> Result<bool, Error> {
        Ok(bulk::shard(
            &self.url("job"),
            shard,
            &self.fixture.path("scratch"),
            1,
            JobControl::silent(),
        )?
        .is_new)
    }

    pub(crate) fn commit(&self) -> Result<bool, Error> {
        Ok(bulk::commit(&self.url("job"), &self.fixture.path("scratch"), JobControl::silent())?.is_new)
    }

    pub(crate) fn status(&self) -> Status {
        bulk::status(&self.url("job"), JobControl::silent()).unwrap().1
    }

    /// All that is left to do, and how much that was.
    pub(crate) fn run(&self) -> Result<usize, Error> {
        let planned = self.plan(&self.config())?;
        let mut done = usize::from(planned.is_new);
        for partition in 0..planned.plan.job.partitions.len() {
            done += usize::from(self.embed(partition)?);
        }
        for shard in 0..planned.plan.job.shards.len() {
            done += usize::from(self.shard(shard)?);
        }
        Ok(done + usize::from(self.commit()?))
    }
}

pub(crate) fn model_of(documents: &[Document]) -> Model {
    documents
        .iter()
        .map(|document| (document.key.clone(), document.clone()))
        .collect()
}

pub(crate) fn some(range: std::ops::Range<usize>) -> Vec<Document> {
    let mut random = Random(7);
    range.map(|number| document(number, &mut random)).collect()
}

#[test]
fn a_job_makes_the_index_of_one_build_and_nothing_the_second_time() {
    let all = some(0..100);
    let job = Job::new(&[
        ("a.jsonl", &all[..70]),
        ("b.jsonl", &all[70..74]),
        ("c.ndjson", &all[74..]),
    ]);
    assert!(job.run().unwrap() > 8);
    let status = job.status();
    assert_eq!(
        (status.documents, status.read, status.rejected, status.committed),
        (100, 100, 0, true)
    );
    assert!(status.partitions > 5 && status.shards == 3, "{status:?}");
    assert_eq!(
        (status.partitions_done, status.shards_done),
        (status.partitions, status.shards)
    );
    check(&job.fixture, &model_of(&all));
    let current = manifest::current(&job.fixture.index()).unwrap();
    assert_eq!((current.generation, current.parent, current.shards.len()), (1, None, 3));
    let scale = current.logit_scale;
    assert!(scale.is_some(), "measured when the job was planned");
    let change = current.change.unwrap();
    assert_eq!(
        (change.operation.as_str(), change.read, change.indexed),
        ("bulk", 100, 100)
    );
    assert_eq!(verify_current(&job.fixture.index()).unwrap().problems, [""; 0]);
    let files = job.fixture.files();
    assert_eq!(job.run().unwrap(), 0);
    assert_eq!(job.fixture.files(), files);
    // Nothing is left in the scratch directory but its locks.
    let left = fs_err::read_dir(job.fixture.path("scratch"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    assert_eq!(
        left.filter(|path| path.is_dir()).collect::<Vec<_>>(),
        [""; 0].map(std::path::PathBuf::from)
    );
    // The index goes on as any other, and the job stays done.
    let more = some(100..103);
    job.fixture.upsert(APPEND, &more).unwrap();
    assert_eq!(manifest::current(&job.fixture.index()).unwrap().logit_scale, scale);
    assert!(!job.commit().unwrap());
    assert!(job.status().committed);
    check(&job.fixture, &model_of(&[all, more].concat()));
}

#[test]
fn a_job_replaces_the_generation_that_it_was_planned_on_and_no_other() {
    let mut life = Life::begin(5, 20);
    let all = some(0..50);
    let job = Job {
        service: encoder_service(),
        fixture: Fixture::at(&life.fixture.path("")),
    };
    job.write("a.jsonl", &all);
    let planned = job.plan(&job.config()).unwrap();
    assert_eq!(planned.plan.generation, 2);
    let (partitions, shards) = (planned.plan.job.partitions.len(), planned.plan.job.shards.len());
    assert!((0..partitions).all(|partition| job.embed(partition).unwrap()));
    assert!((0..shards).all(|shard| job.shard(shard).unwrap()));
    check(&life.fixture, &life.model);
    // Another change came first.
    life.fixture.delete(&["k0003".to_owned()]).unwrap();
    life.model.remove("k0003");
    let refused = job.commit().unwrap_err().to_string();
    assert!(
        refused.contains("expected `manifest-000001.json") && refused.contains("got `manifest-000002.json"),
        "{refused}"
    );
    assert!(!job.status().committed);
    check(&life.fixture, &life.model);
    // Planned again, elsewhere.
    let config = PlanConfig {
        out: job.url("job2"),
        ..job.config()
    };
    assert_eq!(job.plan(&config).unwrap().plan.generation, 3);
    let scratch = job.fixture.path("scratch");
    let mut connect = || Ok(Box::new(job.source()?) as Box<dyn VectorSource>);
    for partition in 0..partitions {
        bulk::embed(&config.out, partition, &scratch, &mut connect, JobControl::silent()).unwrap();
    }
    for shard in 0..shards {
        bulk::shard(&config.out, shard, &scratch, 1, JobControl::silent()).unwrap();
    }
    let done = bulk::commit(&config.out, &scratch, JobControl::silent()).unwrap();
    assert_eq!(
        (done.is_new, done.manifest.generation, done.manifest.parent),
        (true, 3, Some(2))
    );
    check(&life.fixture, &model_of(&all));
}

#[test]
fn attempts_at_once_do_no_harm_and_what_they_leave_is_collected() {
    let all = some(0..60);
    let job = Job::new(&[("a.jsonl", &all)]);
    let plan = job.plan(&job.config()).unwrap().plan;
    let twice = |task: &(dyn Fn(usize) -> bool + Sync), count: usize| {
        std::thread::scope(|scope| {
            let attempts: Vec<_> = (0..2 * count).map(|at| scope.spawn(move || task(at / 2))).collect();
            attempts
                .into_iter()
                .map(|attempt| attempt.join().unwrap())
                .filter(|is_new| *is_new)
                .count()
        })
    };
    assert_eq!(
        twice(&|partition| job.embed(partition).unwrap(), plan.job.partitions.len()),
        plan.job.partitions.len()
    );
    assert_eq!(
        twice(&|shard| job.shard(shard).unwrap(), plan.job.shards.len()),
        plan.job.shards.len()
    );
    assert_eq!(twice(&|_| job.commit().unwrap(), 1), 1);
    check(&job.fixture, &model_of(&all));
    let collect = |older_than, dry_run| bulk::gc(&job.url("job"), older_than, dry_run, JobControl::silent()).unwrap();
    // The shards of the attempts that came second: segments of text have random names.
    assert!(collect(Duration::ZERO, false).files > 0);
    check(&job.fixture, &model_of(&all));
    // What a task leaves that was killed after its files and before its record.
    let index = job.fixture.index();
    let orphans = [
        job.fixture.path("job").join(format!(
            "partitions/{}/0123456789abcdef/documents.jsonl",
            plan.job.partitions[0].name
        )),
        index.join("shards/000001-0000-0123456789abcdef/dense.dyad"),
    ];
    for orphan in &orphans {
        fs_err::create_dir_all(orphan.parent().unwrap()).unwrap();
        fs_err::write(orphan, "what is left").unwrap();
    }
    fs_err::write(job.fixture.path("job/attempts/000001-0000-0123456789abcdef"), "").unwrap();
    assert_eq!(
        collect(Duration::from_hours(1), false).files,
        0,
        "it may be a task that runs"
    );
    assert_eq!(
        (
            collect(Duration::ZERO, true).files,
            collect(Duration::ZERO, false).bytes
        ),
        (2, 24)
    );
    assert!(orphans.iter().all(|orphan| !orphan.exists()));
    assert_eq!(collect(Duration::ZERO, false).files, 0);
    assert_eq!(job.run().unwrap(), 0);
    check(&job.fixture, &model_of(&all));
}

#[test]
fn documents_become_passages_in_jobs_too() {
    let text = "One sentence is here. Another one follows it. The third is the last of them.";
    let long: Vec<Document> = (0..20)
        .map(|number| Document {
            key: format!("d{number}"),
            text: text.to_owned(),
            ..Document::default()
        })
        .collect();
    let job = Job::new(&[("a.jsonl", &long)]);
    let read = ReadOptions {
        split: Some(Split::new(5, 0).unwrap()),
        ..ReadOptions::default()
    };
    let config = PlanConfig { read, ..job.config() };
    let plan = job.plan(&config).unwrap().plan;
    for partition in 0..plan.job.partitions.len() {
        job.embed(partition).unwrap();
    }
    for shard in 0..plan.job.shards.len() {
        job.shard(shard).unwrap();
    }
    assert!(job.commit().unwrap());
    let snapshot = Snapshot::open(&job.fixture.index()).unwrap();
    let documents = snapshot.manifest().documents();
    assert!(documents >= 60 && documents.is_multiple_of(20), "{documents}");
    assert!(snapshot.find("d7#2").unwrap().is_some() && snapshot.find("d7").unwrap().is_none());
}

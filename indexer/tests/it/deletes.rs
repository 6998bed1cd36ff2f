//! Single deletions: recall is measured again when enough was deleted, and what is claimed until then; what they cost.

use std::collections::BTreeSet;

use dyad_index::lexical::DocumentFilter;
use dyad_index::{Certificate, Snapshot};
use dyad_indexer::Error;
use dyad_indexer::change::{ChangeStart, DeleteConfig, delete_matching};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::FileSource;

use crate::fixture::{Fixture, Recorder};
use crate::serve::serve;

const DOCUMENTS: usize = 1_000;

fn one_shard(target: Option<RecallTarget>) -> Fixture {
    let fixture = Fixture::new(DOCUMENTS);
    let config = BuildConfig {
        shards: 1,
        target,
        ..fixture.config()
    };
    let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
    build_index(&config, &mut source, JobControl::silent()).unwrap();
    fixture
}

fn delete_one(fixture: &Fixture, number: usize) -> Result<(), Error> {
    fixture.delete(&[format!("doc-{number:04}")]).map(drop)
}

fn certificate(fixture: &Fixture) -> Certificate {
    Snapshot::open(&fixture.index()).unwrap().shards()[0]
        .certificate()
        .clone()
}

fn recall_at(certificate: &Certificate, ef: usize) -> f64 {
    certificate
        .recall
        .iter()
        .find(|point| point.ef == ef)
        .unwrap()
        .recall_at_10
}

#[test]
fn recall_is_measured_again_when_a_hundredth_is_deleted_and_not_for_each_document() {
    let fixture = one_shard(None);
    let built = certificate(&fixture);
    let mut measured = BTreeSet::from([built.vectors]);
    for number in 0..60 {
        let before = certificate(&fixture);
        delete_one(&fixture, number * 13).unwrap();
        let (live, now) = ((DOCUMENTS - number - 1) as u64, certificate(&fixture));
        if now.vectors == live {
            assert!(now.lost_since == 0.0, "{now:?}");
        } else {
            assert_eq!((now.vectors, &now.recall), (before.vectors, &before.recall));
            assert!(
                now.lost_since >= before.lost_since && now.lost_since <= 0.01,
                "{}",
                now.lost_since
            );
            assert!(100 * (now.vectors - live) <= now.vectors, "{live} of {}", now.vectors);
        }
        measured.insert(now.vectors);
        let report = inspect(&fixture.index()).unwrap();
        assert_eq!(
            report.to_string().contains("deleted since"),
            now.vectors != live,
            "{report}"
        );
    }
    // Of sixty, one in about ten.
    assert!((4..=16).contains(&measured.len()), "{measured:?}");
}

/// What is kept is kept at every moment, measured or not.
#[test]
fn a_deletion_that_could_break_the_recall_that_is_kept_measures_it() {
    let built = recall_at(&certificate(&one_shard(None)), 16);
    let loose = one_shard(Some(RecallTarget::new(built - 0.02, 16).unwrap()));
    let tight = one_shard(Some(RecallTarget::new(built, 16).unwrap()));
    let mut refused = 0;
    for number in 0..20 {
        delete_one(&loose, number).unwrap();
        match delete_one(&tight, number) {
            Ok(()) => {}
            Err(Error::BelowKept { recall, .. }) => {
                assert!(recall < built);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
        if number == 4 {
            // The loose one is kept by what was measured when it was built, the tight one by another measurement.
            assert_eq!(certificate(&loose).vectors, DOCUMENTS as u64);
            assert!(certificate(&tight).vectors < DOCUMENTS as u64);
        }
        assert!(certificate(&tight).least_recall(16).unwrap() >= built);
        assert!(certificate(&loose).least_recall(16).unwrap() >= built - 0.02);
    }
    let live = Snapshot::open(&tight.index()).unwrap().len() as u64;
    assert_eq!(live, (DOCUMENTS - 20 + refused) as u64);
}

/// CPU seconds of a process so far.
fn cpu_seconds(process: u32) -> f64 {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // In hundredths on every Linux.
    fields[11..13]
        .iter()
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

/// `cargo test --profile ci -p dyad-indexer --test it -- --ignored --nocapture what_a_thousand_single_deletions_cost`
#[test]
#[ignore = "a measurement"]
fn what_a_thousand_single_deletions_cost() {
    for (documents, shards) in [(12_000, 1), (20_000, 3)] {
        let fixture = Fixture::new(documents);
        let config = BuildConfig {
            shards,
            ..fixture.config()
        };
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        build_index(&config, &mut source, JobControl::silent()).unwrap();
        let keys: Vec<String> = (0..2_000)
            .map(|number| format!("doc-{:04}", number * 7919 % documents))
            .collect();
        let (here, own) = (cpu_seconds(std::process::id()), &keys[..1_000]);
        for key in own {
            fixture.delete(std::slice::from_ref(key)).unwrap();
        }
        println!(
            "{documents} in {shards}: library {:.2} s of CPU",
            cpu_seconds(std::process::id()) - here
        );
        let serving = serve(&fixture);
        let served = cpu_seconds(serving.id());
        for key in &keys[1_000..] {
            serving.delete(&[key]).unwrap();
        }
        println!(
            "{documents} in {shards}: serve {:.2} s of CPU",
            cpu_seconds(serving.id()) - served
        );
        let snapshot = Snapshot::open(&fixture.index()).unwrap();
        let certificates = snapshot.shards().iter().map(dyad_index::snapshot::Shard::certificate);
        let told: Vec<_> = certificates.map(|of| (of.vectors, of.lost_since)).collect();
        println!("{} left, measured among {told:?}", snapshot.len());
        assert_eq!(snapshot.len(), documents - 2_000);
    }
}

#[test]
fn a_filter_of_a_field_that_no_document_has_is_told() {
    let fixture = Fixture::new(20);
    fixture.build().unwrap();
    let config = DeleteConfig {
        index: &fixture.index(),
        start: &ChangeStart::default(),
        passages: false,
        named_missing: 1,
        dry_run: false,
    };
    let recorder = Recorder::new(&|_| {});
    let filter = DocumentFilter::Exists {
        field: "yaer".to_owned(),
    };
    let made = delete_matching(&config, &filter, recorder.control()).unwrap();
    assert_eq!((made.change.deleted, made.manifest), (0, None));
    let told = recorder.lines.lock().unwrap();
    assert!(
        told.iter().any(|line| line == "no document has a field `yaer`"),
        "{told:?}"
    );
}

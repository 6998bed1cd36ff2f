//! Good builds: everything is there, searchable, intact, and the next build is the next generation.

use dyad_corpus::ReadOptions;
use dyad_corpus::embeddings::VectorType;
use dyad_index::search::SearchHits;
use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode};
use dyad_index::verify::verify_current as verify;
use dyad_index::{Never, Snapshot, manifest};
use dyad_indexer::change::Operation;
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::BuilderKind;
use dyad_indexer::inspect::inspect;
use dyad_indexer::job::{BuildConfig, build_index};
use dyad_indexer::source::{Corpus, FileSource};

use crate::fixture::{DIM, Fixture, Recorder, document, header, row_of};
use crate::hash_source::HashSource;

#[test]
fn every_document_is_found_by_its_vector_and_by_its_words() {
    let fixture = Fixture::new(300);
    let summary = fixture.build().unwrap();
    assert_eq!((summary.manifest.generation, summary.manifest.documents()), (1, 300));
    assert_eq!(summary.manifest.shards.len(), 2);
    assert!(
        summary
            .certificates
            .iter()
            .all(|certificate| certificate.unreachable == 0)
    );

    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    for number in 0..300 {
        let document = document(number);
        let params = DenseParams {
            k: 1,
            mode: SearchMode::Adaptive { ef: 64 },
        };
        let row = row_of(&document.passage());
        let hits = &snapshot.search_dense(&[&row], &params, None, &Never).unwrap()[0].hits;
        assert_eq!(snapshot.key(hits[0].shard, hits[0].node), Some(document.key.as_str()));
        let stored = snapshot.document(hits[0].shard, hits[0].node).unwrap();
        assert_eq!((stored.title, stored.text), (document.title, document.text));
        let metadata = document.metadata.map(|metadata| metadata.as_json().to_owned());
        assert_eq!(stored.metadata_json, metadata.unwrap_or_default());
    }
    let hits = snapshot
        .search_text(
            &snapshot.question("document 123"),
            1,
            None,
            snapshot.statistics(),
            &Never,
        )
        .unwrap()
        .hits;
    assert_eq!(snapshot.key(hits[0].shard, hits[0].node), Some("doc-0123"));

    let findings = verify(&fixture.index()).unwrap();
    assert_eq!(findings.problems, [""; 0]);
    assert!(findings.bytes > 0);
    assert_eq!(fixture.building(), 0);
}

/// Moves a vector to one of twenty centres: margins hold for clusters, and not for vectors by chance.
fn move_to_centre(number: usize, row: &mut [f32]) {
    let centre = row_of(&format!("centre {}", number % 20));
    for (value, centre) in row.iter_mut().zip(centre) {
        *value = 0.7 * *value + centre;
    }
    let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in row {
        *value /= length;
    }
}

/// Small shards are searched only for what may be better than the hits of the large one.
#[test]
fn small_shards_next_to_a_large_one_cost_less_and_lose_little() {
    let all: Vec<_> = (0..2_800).map(document).collect();
    let fixture = Fixture::empty();
    fixture.write_corpus(&all[..1_900]);
    let append = Operation::Append { skip_existing: false };
    let mut source = HashSource::default();
    source.change = Box::new(|number, row| move_to_centre(number, row));
    build_index(
        &BuildConfig {
            shards: 1,
            ..fixture.config()
        },
        &mut source,
        JobControl::silent(),
    )
    .unwrap();
    for documents in [&all[1_900..2_350], &all[2_350..]] {
        fixture.write_corpus(documents);
        let config = fixture.upsert_config(append);
        fixture
            .upsert_from("corpus.jsonl", &config, &mut source, JobControl::silent())
            .unwrap();
    }
    // Of the large shard alone, which is scanned then, as small ones with deletions are.
    fixture
        .delete(
            &(0..1_900)
                .step_by(20)
                .map(|number| format!("doc-{number:04}"))
                .collect::<Vec<_>>(),
        )
        .unwrap();
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    let question = |number: usize| {
        let mut row = row_of(&format!("question {number}"));
        move_to_centre(number, &mut row);
        row
    };
    let rows: Vec<Vec<f32>> = (0..100).map(question).collect();
    let queries: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
    let search = |k, mode| {
        snapshot
            .search_dense(&queries, &DenseParams { k, mode }, None, &Never)
            .unwrap()
    };
    for (k, ef) in [(10, 64), (10, 10), (50, 64), (1, 20)] {
        let exact = search(k, SearchMode::Exact);
        let measure = |found: &[SearchHits<DocumentHit>]| {
            assert!(found.iter().all(|found| found.hits.len() == k));
            let common = |(one, exact): (&SearchHits<DocumentHit>, &SearchHits<DocumentHit>)| {
                one.hits.iter().filter(|hit| exact.hits.contains(hit)).count()
            };
            let cost: u64 = found.iter().map(|found| found.cost.total()).sum();
            (
                found.iter().zip(&exact).map(common).sum::<usize>() as f64 / (100 * k) as f64,
                cost,
            )
        };
        let (recall, cost) = measure(&search(k, SearchMode::Adaptive { ef }));
        let (certified, full_cost) = measure(&search(
            k,
            SearchMode::Certified {
                ef,
                out_of_distribution_ef: ef,
            },
        ));
        // Small shards do not search once more for questions that are out of distribution.
        assert!(recall > certified - 0.02, "{k} {ef}: {recall} {certified}");
        assert!(cost <= full_cost, "{k} {ef}: {cost} {full_cost}");
        assert!(k != 10 || ef != 64 || cost < full_cost, "{cost} {full_cost}");
        // A question alone finds what it finds among others.
        let alone = snapshot.search_dense(
            &queries[..1],
            &DenseParams {
                k,
                mode: SearchMode::Adaptive { ef },
            },
            None,
            &Never,
        );
        assert_eq!(alone.unwrap()[0], search(k, SearchMode::Adaptive { ef })[0]);
    }
}

#[test]
fn documents_go_to_shards_by_a_hash_of_their_key() {
    let fixture = Fixture::new(120);
    let summary = fixture.build().unwrap();
    let snapshot = Snapshot::open(&fixture.index()).unwrap();
    for number in 0..120 {
        let key = document(number).key;
        let expected = (xxhash_rust::xxh3::xxh3_64(key.as_bytes()) % 2) as usize;
        assert_eq!(snapshot.find(&key).unwrap().unwrap().0, expected);
    }
    assert!(summary.manifest.shards.iter().all(|shard| shard.documents > 30));
}

#[test]
fn flawed_records_are_left_out_as_embed_leaves_them_out() {
    let fixture = Fixture::new(40);
    let path = fixture.path("corpus.jsonl");
    let text = fs_err::read_to_string(&path).unwrap();
    let (start, end) = text.split_at(text.match_indices('\n').nth(19).unwrap().0 + 1);
    let flawed = "7\n{\"_id\":\"empty\",\"text\":\"\"}\n{\"_id\":\"doc-0003\",\"text\":\"a key twice\"}\n";
    fs_err::write(&path, format!("{start}{flawed}{end}")).unwrap();
    let build = |max_bad| {
        let mut config = fixture.config();
        let rejects = Some(fixture.path("rejects.jsonl"));
        let read = ReadOptions {
            max_bad: Some(max_bad),
            rejects,
            ..ReadOptions::default()
        };
        config.corpus = Corpus::File {
            path: fixture.path("corpus.jsonl"),
            read,
        };
        let recorder = Recorder::new(&|_| ());
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        let built = build_index(&config, &mut source, recorder.control());
        (built, recorder.lines.into_inner().unwrap())
    };
    let (refused, _) = build(2);
    assert!(fixture.files().is_empty());
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("3 bad records in ") && refused.contains("corpus.jsonl:21: "),
        "{refused}"
    );
    let (built, notes) = build(3);
    assert_eq!(built.unwrap().manifest.documents(), 40);
    assert_eq!(
        notes
            .iter()
            .filter(|note| note.starts_with("skipped 3 bad records; the first: "))
            .count(),
        1
    );
    assert_eq!(
        fs_err::read_to_string(fixture.path("rejects.jsonl"))
            .unwrap()
            .lines()
            .count(),
        3
    );
}

#[test]
fn few_documents_leave_shards_out() {
    for n in [1, 2, 5] {
        let fixture = Fixture::new(n);
        let mut config = fixture.config();
        config.shards = 64;
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        let recorder = Recorder::new(&|_| ());
        let summary = build_index(&config, &mut source, recorder.control()).unwrap();
        assert_eq!(summary.manifest.documents(), n as u64);
        assert!(summary.manifest.shards.len() <= n);
        let few = format!("{} of 64 shards hold documents: ", summary.manifest.shards.len());
        assert!(
            recorder.lines.lock().unwrap().iter().any(|line| line.starts_with(&few)),
            "{few}"
        );
        assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
    }
}

#[test]
fn one_thread_writes_the_same_bytes_again_and_the_seed_matters() {
    let dense = |builder: BuilderKind, seed: u64| {
        let fixture = Fixture::new(200);
        let mut config = fixture.config();
        (config.builder, config.params.seed) = (builder, seed);
        let mut source = FileSource::open(&fixture.path("embeddings")).unwrap();
        build_index(&config, &mut source, JobControl::silent()).unwrap();
        let files = fixture.files();
        let dense = files.into_iter().filter(|(path, _)| path.ends_with("dense.dyad"));
        let dense: Vec<Vec<u8>> = dense.map(|(_, bytes)| bytes).collect();
        assert_eq!(dense.len(), 2);
        dense
    };
    for builder in [BuilderKind::Native, BuilderKind::HnswRs, BuilderKind::HnswRsInt8] {
        let once = dense(builder, 1);
        assert!(once == dense(builder, 1), "{builder:?}");
        assert!(once != dense(builder, 2), "{builder:?}");
    }
}

#[test]
fn a_second_build_is_generation_2_and_leaves_generation_1_as_it_was() {
    let fixture = Fixture::new(80);
    fixture.build().unwrap();
    let before = fixture.files();
    assert_eq!(fixture.build().unwrap().manifest.generation, 2);
    let after = fixture.files();
    for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("CURRENT")) {
        assert!(after.get(path) == Some(bytes), "{}", path.display());
    }
    assert_eq!(manifest::generations(&fixture.index()).unwrap(), [1, 2]);
    Snapshot::open_manifest(&fixture.index(), manifest::load(&fixture.index(), 1).unwrap(), None).unwrap();
    assert_eq!(inspect(&fixture.index()).unwrap().generation, 2);
}

#[test]
fn leftovers_of_a_killed_build_are_removed() {
    let fixture = Fixture::new(40);
    fixture.build().unwrap();
    let index = fixture.index();
    fs_err::create_dir_all(index.join(".dyad-building/shard-0000/text")).unwrap();
    fs_err::write(index.join(".dyad-building/shard-0000.rows"), "half").unwrap();
    fs_err::create_dir_all(index.join("shards/000002-0000-00000000deadbeef")).unwrap();
    fixture.build().unwrap();
    assert_eq!(fixture.building(), 0);
    assert!(!index.join("shards/000002-0000-00000000deadbeef").exists());
    assert_eq!(fs_err::read_dir(index.join("shards")).unwrap().count(), 4);
}

#[test]
fn half_precision_is_normalised_with_a_note() {
    let fixture = Fixture::new(0);
    let documents = crate::fixture::documents(50);
    fixture.write_corpus(&documents);
    let mut half = header();
    half.vectors = VectorType::F16;
    fixture.write_embeddings("half", half, &documents);
    let mut source = FileSource::open(&fixture.path("half")).unwrap();
    let recorder = Recorder::new(&|_| {});
    build_index(&fixture.config(), &mut source, recorder.control()).unwrap();
    let lines = recorder.lines.into_inner().unwrap();
    assert_eq!(lines[1..2], ["documents"]);
    assert!(
        lines[0].starts_with(&format!("plan: 50 documents of {DIM} values in 2 shards")),
        "{}",
        lines[0]
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("of 50 vectors were not exactly of unit length")),
        "{lines:?}"
    );
    assert_eq!(lines.iter().filter(|line| line.starts_with("graph ")).count(), 2);
    assert_eq!(verify(&fixture.index()).unwrap().problems, [""; 0]);
}

#[test]
fn a_report_names_what_is_in_the_index() {
    let fixture = Fixture::new(150);
    fixture.build().unwrap();
    let report = inspect(&fixture.index()).unwrap();
    assert_eq!((report.documents, report.model.name.as_str()), (150, "hash"));
    let names: Vec<_> = report.shards[0].sections.iter().map(|section| section.name).collect();
    assert_eq!(names, ["META", "VECTORS", "CODES", "GRAPH", "KEYS", "CERTIFICATE"]);
    assert_eq!(report.shards[0].build.builder, "native");
    assert_eq!(report.shards[0].vectors, "f32");
    assert_eq!(report.shards[0].layers[0].nodes as u64, report.shards[0].documents);
    let efs: Vec<_> = report.shards[0]
        .certificate
        .recall
        .iter()
        .map(|point| point.ef)
        .collect();
    assert_eq!(efs, [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512]);
    let text = report.to_string();
    let change = "made by       build: 150 read, 150 indexed, 21 truncated\n";
    for part in [
        "generation    1",
        "fingerprint   f00d",
        change,
        "documents     150 in 2 shards",
        "VECTORS",
        "recall@10",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

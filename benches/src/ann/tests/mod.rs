//! What is made of a run, by figures that can be worked out by hand; and the parts of a run alone.

pub(super) mod fixture;
mod ratios;

use super::lock_cache;
use super::measured::{SpeedKind, SweepPoint};
use super::plot::write_plots;
use crate::harness::tests::lines;
use crate::harness::write_csv;

#[test]
fn a_second_run_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let first = lock_cache(&cache).unwrap();
    let error = lock_cache(&cache).unwrap_err().to_string();
    assert!(
        error.contains(&format!("process {}", std::process::id())) && error.contains("--cache"),
        "{error}"
    );
    drop(first);
    lock_cache(&cache).unwrap();
}

#[test]
fn only_scratch_of_the_dead_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    // No process has so large an id: the kernel's limit is 2^22.
    let names = ["scratch-4294967295", "scratch-x", "index"].map(str::to_owned);
    let alive = format!("scratch-{}", std::process::id());
    for name in names.iter().chain([&alive]) {
        fs_err::create_dir_all(dir.path().join(name).join("inside")).unwrap();
    }
    let _lock = lock_cache(dir.path()).unwrap();
    let kept = |name: &String| dir.path().join(name).exists();
    assert_eq!((names.each_ref().map(kept), kept(&alive)), ([false, true, true], true));
}

#[test]
fn speed_is_queries_over_the_median_time() {
    let point = SweepPoint {
        seconds: vec![0.5, 10.0, 0.25, 0.5, 0.4],
        ..SweepPoint::default()
    };
    assert!((point.qps(1000, SpeedKind::Batch) - 2000.0).abs() < 1e-9);
    assert!(point.qps(1000, SpeedKind::BatchAllThreads).abs() < 1e-9);
}

#[test]
fn every_engine_is_in_every_plot() {
    let dir = tempfile::tempdir().unwrap();
    write_plots(dir.path(), &fixture::measured()).unwrap();
    for name in ["recall-qps.svg", "recall-qps-all-threads.svg"] {
        let svg = fs_err::read_to_string(dir.path().join(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{name}");
        assert!(
            svg.contains("fixture: ") && svg.contains("dyad") && svg.contains("hnswlib"),
            "{name}"
        );
    }
}

#[test]
fn each_point_of_a_curve_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    write_plots(dir.path(), &fixture::measured()).unwrap();
    let svg = fs_err::read_to_string(dir.path().join("recall-qps.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 6, "{svg}");
}

#[test]
fn what_was_not_measured_is_not_plotted() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    measured.engines.clear();
    write_plots(dir.path(), &measured).unwrap();
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn records_have_the_columns_of_earlier_ones() {
    let measured = fixture::measured();
    let points = lines(|out| write_csv(out, &measured.points()));
    assert_eq!(
        points[0],
        "date,revision,workload,engine,version,sweep,value,recall,qps,qps_lowest,qps_highest,qps_all_threads,threads,p50_us,p99_us,\
         repeats,rounds"
    );
    let expected = "2026-01-02,abc,fixture,dyad,1,ef,10,0.94,10000.0,10000.0,10000.0,20000.0,2,100.0,200.0,3,1";
    assert_eq!((points.len(), points[1].as_str()), (7, expected));
    let engines = lines(|out| write_csv(out, &measured.rows()));
    assert_eq!(
        engines[0],
        "date,revision,workload,engine,version,settings,m,ef_construction,threads,machine,build_s,index_bytes,index_reused,open_ms,\
         page_cache,memory_limit_bytes,first_pass_value,first_query_us,first_pass_s,first_pass_p50_us,first_pass_p99_us,baseline_bytes,opened_bytes,served_bytes,evicted_bytes,evicted_pass_bytes"
    );
    let expected = "2026-01-02,abc,fixture,dyad,1,\"f32, made up\",16,200,2,test,2.0,5000000,false,1.5,warm,,20,80.0,0.5,40.0,90.0,10000000,20000000,35000000,\
                    15000000,17000000";
    assert_eq!((engines.len(), engines[1].as_str()), (3, expected));
}

//! What is made of a run, by figures that can be worked out by hand; and the parts of a run alone.

pub(super) mod fixture;
mod ratios;

use super::cache::lock_cache;
use super::growth::slope;
use super::measured::{Point, Speed};
use super::plot::write_plots;
use super::{Growth, Measured, summary, write_engines, write_points};
use crate::harness::tests::lines;
use serde_json::json;

#[test]
fn a_second_run_is_told_who_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let first = lock_cache(&cache).unwrap();
    let error = lock_cache(&cache).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("--cache"), "{error}");
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
fn summaries_are_followed_by_engine_and_quantity() {
    let runs = [(3_000, 4.0), (1_000, 2.0)].map(|(rows, build_s)| {
        let mut measured = fixture::measured();
        measured.rows = rows;
        measured.engines[0] = fixture::engine("dyad", &[(0.94, 0.1), (0.99, 1.0)], build_s, 8);
        summary(&measured)
    });
    let growth = Growth::of(&runs).to_json();
    let of = |quantity: &str| {
        let found =
            growth.as_array().unwrap().iter().find(|row| row["engine"] == "dyad" && row["quantity"] == quantity);
        found.unwrap_or_else(|| panic!("no {quantity} in {growth:#}")).clone()
    };
    assert_eq!(of("build s")["points"], json!([[1_000.0, 2.0], [3_000.0, 4.0]]));
    assert!((of("build s")["exponent"].as_f64().unwrap() - 2f64.ln() / 3f64.ln()).abs() < 1e-12);
    assert!(of("qps at 0.95")["exponent"].as_f64().unwrap().abs() < 1e-12, "the same at both sizes");
    assert_eq!(of("served MB")["points"][0], json!([1_000.0, 28.0]));
}

#[test]
fn a_power_law_is_found_again() {
    let law = |n: f64| (n, 3.0 * n.powf(-0.25));
    assert!((slope(&[law(1e5), law(3e5), law(1e6)]).unwrap() + 0.25).abs() < 1e-12);
}

#[test]
fn the_fit_is_the_one_of_least_squares() {
    // log10: x = 0, 1, 2 and y = 0, 1, 1: the slope is 1/2.
    assert!((slope(&[(1.0, 1.0), (10.0, 10.0), (100.0, 10.0)]).unwrap() - 0.5).abs() < 1e-12);
}

#[test]
fn too_little_has_no_exponent() {
    assert_eq!(
        (slope(&[]), slope(&[(5.0, 2.0)]), slope(&[(5.0, 2.0), (5.0, 3.0)]), slope(&[(1.0, 0.0), (2.0, 1.0)])),
        (None, None, None, None)
    );
}

#[test]
fn speed_is_queries_over_the_median_time() {
    let point = Point { seconds: vec![0.5, 10.0, 0.25, 0.5, 0.4], ..Point::default() };
    assert!((point.qps(1000, Speed::Batch) - 2000.0).abs() < 1e-9);
    assert!(point.qps(1000, Speed::BatchAllThreads).abs() < 1e-9);
}

#[test]
fn every_engine_is_in_every_plot() {
    let dir = tempfile::tempdir().unwrap();
    let paths = write_plots(dir.path(), &fixture::measured()).unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["recall-qps.svg", "recall-qps-all-threads.svg", "build.svg", "memory.svg"]);
    for path in paths {
        let svg = fs_err::read_to_string(&path).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{path:?}");
        assert!(svg.contains("fixture: "), "{path:?} has no title");
        for name in ["dyad", "hnswlib"] {
            assert!(svg.contains(name), "{path:?} lacks {name}");
        }
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
fn builds_of_an_earlier_run_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    let plotted = |measured: &Measured, name: &str| {
        write_plots(dir.path(), measured).unwrap();
        fs_err::read_to_string(dir.path().join(name)).unwrap()
    };
    assert!(!plotted(&measured, "build.svg").contains("4.0*"));
    measured.engines[1].reused = true;
    let build = plotted(&measured, "build.svg");
    assert!(build.contains("4.0*") && !build.contains("2.0*") && build.contains("in an earlier run"), "{build}");
    assert!(plotted(&measured, "memory.svg").contains("after all searches"));
}

#[test]
fn what_was_not_measured_is_not_plotted() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    measured.engines.clear();
    assert!(write_plots(dir.path(), &measured).unwrap().is_empty());
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn records_have_the_columns_of_earlier_ones() {
    let measured = fixture::measured();
    let points = lines(|out| write_points(out, &measured));
    assert_eq!(
        points[0],
        "date,revision,workload,engine,version,sweep,value,recall,qps,qps_lowest,qps_highest,qps_all_threads,threads,p50_us,p99_us,\
         repeats,rounds"
    );
    let expected = "2026-01-02,abc,fixture,dyad,1,ef,10,0.940000,10000.0,10000.0,10000.0,20000.0,2,100.00,200.00,3,1";
    assert_eq!((points.len(), points[1].as_str()), (7, expected));
    let engines = lines(|out| write_engines(out, &measured));
    assert_eq!(
        engines[0],
        "date,revision,workload,engine,version,settings,m,ef_construction,threads,build_s,index_bytes,index_reused,open_ms,\
         first_query_us,baseline_bytes,opened_bytes,served_bytes,evicted_bytes,evicted_pass_bytes"
    );
    let expected = "2026-01-02,abc,fixture,dyad,1,\"f32, made up\",16,200,2,2.000,5000000,false,1.500,80.0,10000000,20000000,35000000,\
                    15000000,17000000";
    assert_eq!((engines.len(), engines[1].as_str()), (3, expected));
}

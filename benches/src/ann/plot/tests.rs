//! Plots hold what was measured.

use super::*;
use crate::ann::fixture;

#[test]
fn every_engine_is_in_every_plot() {
    let dir = tempfile::tempdir().unwrap();
    let paths = write_plots(dir.path(), &fixture::measured()).unwrap();
    let names: Vec<_> = paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["recall-qps.svg", "recall-qps-all-threads.svg", "build.svg", "memory.svg", "memory-served.svg"]);
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
fn only_what_was_measured_is_marked_on_the_curve_of_a_family() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    let members = ["dyad", "hnswlib"].map(str::to_owned).to_vec();
    measured.asked = vec![crate::ann::Asked { name: "family".to_owned(), members }];
    // They cross between 0.94 and 0.98: that is a bend of the curve, and no point of either.
    measured.engines = vec![
        fixture::engine("dyad", &[(0.94, 0.1), (0.98, 100.0)], 1.0, 1),
        fixture::engine("hnswlib", &[(0.94, 1.0), (0.98, 10.0)], 1.0, 1),
    ];
    write_plots(dir.path(), &measured).unwrap();
    let svg = fs_err::read_to_string(dir.path().join("recall-qps.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 2, "{svg}");
}

#[test]
fn builds_of_an_earlier_run_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    let drawn = |measured: &Measured, name: &str| {
        write_plots(dir.path(), measured).unwrap();
        fs_err::read_to_string(dir.path().join(name)).unwrap()
    };
    assert!(!drawn(&measured, "build.svg").contains("4.0*"));
    measured.engines[1].reused = true;
    let build = drawn(&measured, "build.svg");
    assert!(build.contains("4.0*") && !build.contains("2.0*") && build.contains("in an earlier run"), "{build}");
    assert!(drawn(&measured, "memory.svg").contains("vectors cold"));
    assert!(drawn(&measured, "memory-served.svg").contains("after one more pass"));
}

#[test]
fn what_was_not_measured_is_not_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    measured.engines.clear();
    assert!(write_plots(dir.path(), &measured).unwrap().is_empty());
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0);
}

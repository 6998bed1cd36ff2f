//! Plots hold what was measured.

use super::*;
use crate::ann::fixture;

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
fn what_was_not_measured_is_not_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let mut measured = fixture::measured();
    measured.engines.clear();
    assert!(write_plots(dir.path(), &measured).unwrap().is_empty());
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0);
}

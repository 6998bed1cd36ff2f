//! Results that other frameworks have measured on the same data, read from their files and held next to ours.
//!
//! ann-benchmarks writes a file for each run, VIBE one for each build, with a group for each value of the query
//! arguments. Either has the attributes `algo`, `name` and `count`, and the data sets
//!
//! ```text
//! times      float32 [q]     seconds of each query, asked for alone
//! neighbors  int32   [q, k]  rows of the base, padded with -1
//! ```
//!
//! Recall is judged as ours is, and speed is of the median time of a query, in their files and in ours.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use hdf5_pure::{AttrValue, File, Group, H5Element};

use super::curve::RecallCurve;
use super::measured::{AnnMeasurement, SpeedKind};
use super::recall::RecallJudge;
use crate::error::{BenchError, BenchResult};
use crate::harness::{OURS, TextTable, median, per_second};

/// Recall against queries per second of each algorithm, as a framework has measured them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct FrameworkResults(BTreeMap<String, Vec<(f64, f64)>>);

impl FrameworkResults {
    /// Reads result files, and all `.hdf5` files of folders. Each has to be of the judged queries and `k`.
    pub fn read(paths: &[PathBuf], judge: &RecallJudge<'_>) -> BenchResult<Self> {
        let mut results = Self::default();
        for path in paths {
            let files = result_files(path)?;
            if files.is_empty() {
                return Err(BenchError::malformed(path, "folder", "result files (.hdf5)", "none"));
            }
            for file in files {
                results.add_file(&file, judge)?;
            }
        }
        Ok(results)
    }

    fn add_file(&mut self, path: &Path, judge: &RecallJudge<'_>) -> BenchResult<()> {
        drop(fs_err::File::open(path)?);
        let wrong = |error| BenchError::malformed(path, "header", "an HDF5 file", error);
        let root = File::open(path).map_err(wrong)?.root();
        let is_run = root.datasets().map_err(wrong)?.iter().any(|name| name == "times");
        if is_run {
            return self.add_run(path, &root, judge);
        }
        for name in root.groups().map_err(wrong)? {
            self.add_run(path, &root.group(&name).map_err(wrong)?, judge)?;
        }
        Ok(())
    }

    fn add_run(&mut self, path: &Path, run: &Group, judge: &RecallJudge<'_>) -> BenchResult<()> {
        let attributes = run
            .attrs()
            .map_err(|error| BenchError::malformed(path, "attributes", "readable ones", error))?;
        let algorithm = text(&attributes, "algo")
            .ok_or_else(|| BenchError::malformed(path, "attribute `algo`", "a text", "none"))?;
        let times: Vec<f64> = values::<f32>(path, run, "times")?.into_iter().map(f64::from).collect();
        let neighbours: Vec<i64> = values::<i32>(path, run, "neighbors")?
            .into_iter()
            .map(i64::from)
            .collect();
        let queries = judge.queries.len();
        let expected = || format!("{queries} queries with {} neighbours each, as in the workload", judge.k);
        if times.len() != queries || neighbours.len() != queries * judge.k {
            let got = format!("{} times and {} neighbours", times.len(), neighbours.len());
            return Err(BenchError::malformed(path, "neighbors", expected(), got));
        }
        if let Some(foreign) = judge.foreign(&neighbours) {
            return Err(BenchError::malformed(
                path,
                "neighbors",
                "rows of the workload's base, or -1",
                foreign,
            ));
        }
        let speed = per_second(1, median(&times).unwrap_or_default());
        let point = (judge.recall(&neighbours), speed);
        self.0.entry(algorithm).or_default().push(point);
        Ok(())
    }

    /// Writes a table: queries per second of single calls at the workload's recalls, of each algorithm and of our own
    /// engine in this run, and our run's over the framework's where both have measured us.
    pub fn write_table(&self, measured: &AnnMeasurement, out: &mut dyn Write) -> io::Result<()> {
        let targets = &measured.workload.targets;
        let mut table = TextTable::new("single calls/s", targets.iter().map(|target| format!("at {target}")));
        let at = |curve: &RecallCurve| -> Vec<Option<f64>> {
            targets.iter().map(|target| curve.qps_at(*target).ok()).collect()
        };
        let shown = |figures: &[Option<f64>], digits: usize| -> Vec<String> {
            let text = |figure: &Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"));
            figures.iter().map(text).collect()
        };
        let ours = measured.engines.iter().find(|run| run.described.engine == OURS);
        let ours = ours.map(|run| at(&measured.curve(run, SpeedKind::SingleP50)));
        if let Some(ours) = &ours {
            table.push(&format!("{OURS}, this run"), shown(ours, 0));
        }
        for (algorithm, points) in &self.0 {
            let theirs = at(&RecallCurve::envelope(points.iter().copied()));
            table.push(&format!("{algorithm}, by the framework"), shown(&theirs, 0));
            if let Some(ours) = ours.as_ref().filter(|_| algorithm == OURS) {
                let over = |(ours, theirs): (&Option<f64>, &Option<f64>)| Some((*ours)? / (*theirs)?);
                let ratios: Vec<Option<f64>> = ours.iter().zip(&theirs).map(over).collect();
                table.push("this run over the framework's", shown(&ratios, 2));
            }
        }
        writeln!(out)?;
        table.write(out)
    }
}

/// A result file, or those of a folder and its folders, in the order of their paths.
fn result_files(path: &Path) -> BenchResult<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut entries = fs_err::read_dir(path)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()?;
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        let is_result = entry.extension().is_some_and(|extension| extension == "hdf5");
        if entry.is_dir() || is_result {
            files.extend(result_files(&entry)?);
        }
    }
    Ok(files)
}

fn text(attributes: &HashMap<String, AttrValue>, name: &str) -> Option<String> {
    match attributes.get(name)? {
        AttrValue::String(text) | AttrValue::AsciiString(text) | AttrValue::VarLenString(text) => {
            Some(text.trim_end_matches('\0').to_owned())
        }
        _ => None,
    }
}

fn values<T: H5Element>(path: &Path, run: &Group, name: &str) -> BenchResult<Vec<T>> {
    let fail = |error| BenchError::malformed(path, name, "a readable data set", error);
    run.dataset(name).map_err(fail)?.read::<T>().map_err(fail)
}

#[cfg(test)]
mod tests {
    use hdf5_pure::FileBuilder;

    use super::super::tests::fixture::measured;
    use super::*;
    use crate::dataset::{Matrix, Neighbours, VectorMetric};

    const TIMES: [f32; 2] = [1e-3, 1e-3];

    /// A run in the root of a file, as ann-benchmarks has it.
    fn write_run(path: &Path, neighbours: [i32; 2], times: &[f32]) {
        let mut file = FileBuilder::new();
        file.create_dataset("times")
            .with_f32_data(times)
            .with_shape(&[times.len() as u64]);
        file.create_dataset("neighbors")
            .with_i32_data(&neighbours)
            .with_shape(&[2, 1]);
        file.set_attr("algo", AttrValue::VarLenString("dyad".to_owned()));
        fs_err::write(path, file.finish().unwrap()).unwrap();
    }

    /// A group for each width, as VIBE has it.
    fn write_build(path: &Path, algorithm: &str) {
        let mut file = FileBuilder::new();
        for (name, neighbours, seconds) in [("10", [0, 2], 1e-4), ("20", [0, 3], 2e-3)] {
            let mut group = file.create_group(name);
            group
                .create_dataset("times")
                .with_f32_data(&[seconds; 2])
                .with_shape(&[2]);
            group
                .create_dataset("neighbors")
                .with_i32_data(&neighbours)
                .with_shape(&[2, 1]);
            group.set_attr("algo", AttrValue::VarLenString(algorithm.to_owned()));
            file.add_group(group.finish());
        }
        fs_err::write(path, file.finish().unwrap()).unwrap();
    }

    /// Reads what is in a folder; the nearest rows of both queries are 0 and 3.
    fn read(dir: &Path) -> BenchResult<FrameworkResults> {
        let (base, queries) = (Matrix::new(1, vec![0.0, 1.0, 2.0, 9.0]), Matrix::new(1, vec![0.0, 9.0]));
        let truth = Neighbours::new(1, vec![0, 3]);
        let judge = RecallJudge::new(&base, &queries, &truth, 1, VectorMetric::L2);
        FrameworkResults::read(&[dir.to_owned()], &judge)
    }

    #[test]
    fn both_layouts_are_read_and_judged() {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("dyad")).unwrap();
        write_run(&dir.path().join("dyad/a.hdf5"), [0, 1], &TIMES);
        write_build(&dir.path().join("other.hdf5"), "hnswlib");
        let FrameworkResults(found) = read(dir.path()).unwrap();
        let rounded = |(recall, speed): &(f64, f64)| (*recall, speed.round());
        let of = |name: &str| found[name].iter().map(rounded).collect::<Vec<_>>();
        assert_eq!(of("dyad"), [(0.5, 1000.0)]);
        assert_eq!(of("hnswlib"), [(0.5, 10_000.0), (1.0, 500.0)]);
    }

    #[test]
    fn the_table_holds_them_next_to_ours() {
        let measured = measured();
        // Ours has 1,000 and 100 calls a second at .96 and .98.
        let results = FrameworkResults(BTreeMap::from([
            ("dyad".to_owned(), vec![(0.96, 500.0), (0.98, 200.0)]),
            ("hnswlib".to_owned(), vec![(0.97, 50.0)]),
        ]));
        let mut out = Vec::new();
        results.write_table(&measured, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            let figures = line.strip_prefix(name).unwrap().split_whitespace();
            figures.map(str::to_owned).collect()
        };
        assert_eq!(row("hnswlib, by the framework"), ["-", "50", "-"]);
        assert_eq!(row("dyad, by the framework"), ["-", "316", "-"]);
        let ours = row("dyad, this run");
        let ratio: f64 = ours[1].parse::<f64>().unwrap() / 316.2;
        assert_eq!(row("this run over the framework's"), ["-", &format!("{ratio:.2}"), "-"]);
    }

    #[test]
    fn files_of_other_data_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |dir: &Path| read(dir).unwrap_err().to_string();
        assert!(refused(dir.path()).contains("expected result files (.hdf5), got none"));
        let path = dir.path().join("a.hdf5");
        write_run(&path, [0, 77], &TIMES);
        assert!(refused(dir.path()).contains("expected rows of the workload's base, or -1, got 77"));
        write_run(&path, [0, 1], &[1e-3; 3]);
        assert!(
            refused(dir.path()).contains("expected 2 queries with 1 neighbours each, as in the workload, got 3 times")
        );
        fs_err::write(&path, "no HDF5").unwrap();
        assert!(refused(dir.path()).contains("expected an HDF5 file"));
    }
}

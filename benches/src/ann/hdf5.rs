//! Results in the layout of ann-benchmarks, so that its own plots can show them.
//!
//! ```text
//! OUT/results/<workload>/<k>/<engine>/<slug>.hdf5
//!     times      float32 [q]     seconds of each query, asked for alone
//!     neighbors  int32   [q, k]  padded with -1
//!     distances  float32 [q, k]  exact, in the metric's own unit; padded with inf
//! ```

use std::path::Path;

use hdf5_pure::{AttrValue, FileBuilder};

use super::measured::{AnnEngineRun, AnnMeasurement, SweepPoint};
use super::recall::RecallJudge;
use super::workload::AnnWorkload;
use crate::dataset::VectorMetric;
use crate::error::{BenchError, BenchResult};

/// Writes one file per engine and value of its sweep parameter.
pub fn write_results(out: &Path, measured: &AnnMeasurement, judge: &RecallJudge<'_>) -> BenchResult<()> {
    let (name, k) = (&measured.workload.name, measured.workload.k.to_string());
    for run in &measured.engines {
        let dir = out.join("results").join(name).join(&k).join(&run.described.engine);
        fs_err::create_dir_all(&dir)?;
        for point in run.points.iter().filter(|point| !point.ids.is_empty()) {
            let path = dir.join(format!("{}.hdf5", slug(&arguments(measured, point))));
            let fail = |error: hdf5_pure::Error| BenchError::file(&path, error);
            let bytes = file(measured, run, point, judge).finish().map_err(fail)?;
            fs_err::write(&path, bytes)?;
        }
    }
    Ok(())
}

fn file(measured: &AnnMeasurement, run: &AnnEngineRun, point: &SweepPoint, judge: &RecallJudge<'_>) -> FileBuilder {
    let (queries, k) = (measured.queries as u64, measured.workload.k as u64);
    let times: Vec<f32> = point.latencies_us.iter().map(|micros| (micros / 1e6) as f32).collect();
    let neighbours: Vec<i32> = point.ids.iter().map(|id| *id as i32).collect();
    let mut builder = FileBuilder::new();
    builder
        .create_dataset("times")
        .with_f32_data(&times)
        .with_shape(&[times.len() as u64]);
    builder
        .create_dataset("neighbors")
        .with_i32_data(&neighbours)
        .with_shape(&[queries, k]);
    builder
        .create_dataset("distances")
        .with_f32_data(&judge.distances(&point.ids))
        .with_shape(&[queries, k]);

    let mean = point.latencies_us.iter().sum::<f64>() / 1e6 / point.latencies_us.len().max(1) as f64;
    let returned = point.ids.iter().filter(|id| **id >= 0).count() as f64 / queries as f64;
    let name = format!("{} {}={}", run.described.engine, run.described.more.sweep, point.value);
    let distance = match measured.workload.metric {
        VectorMetric::Ip => "angular",
        VectorMetric::Dot => "ip",
        VectorMetric::L2 => "euclidean",
    };
    let kilobytes = run.megabytes(run.memory.served) * 1e6 / 1024.0;
    for (key, value) in [
        ("batch_mode", AttrValue::U8(0)),
        ("best_search_time", AttrValue::F64(mean)),
        ("candidates", AttrValue::F64(returned)),
        ("expect_extra", AttrValue::U8(0)),
        ("name", AttrValue::VarLenString(name)),
        ("run_count", AttrValue::I64(1)),
        ("distance", AttrValue::VarLenString(distance.to_owned())),
        ("count", AttrValue::I64(k as i64)),
        ("build_time", AttrValue::F64(run.index.built.build_s)),
        ("index_size", AttrValue::F64(kilobytes)),
        ("algo", AttrValue::VarLenString(run.described.engine.clone())),
        ("dataset", AttrValue::VarLenString(measured.workload.name.clone())),
    ] {
        builder.set_attr(key, value);
    }
    builder
}

/// What ann-benchmarks would call the arguments of build and query, as its JSON.
fn arguments(measured: &AnnMeasurement, point: &SweepPoint) -> String {
    let AnnWorkload {
        metric,
        m,
        ef_construction,
        ..
    } = &measured.workload;
    let value = point.value;
    format!(
        "[\"{}\", {{\"M\": {m}, \"efConstruction\": {ef_construction}}}, {value}]",
        metric.name()
    )
}

/// `re.sub(r"\W+", "_", text).strip("_")`.
fn slug(text: &str) -> String {
    let words = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_those_of_the_python_expression() {
        // python3 -c 'import re; print(re.sub(r"\W+", "_", TEXT).strip("_"))'
        let text = r#"["ip", {"M": 16, "efConstruction": 200}, 64]"#;
        assert_eq!(slug(text), "ip_M_16_efConstruction_200_64");
        assert_eq!(slug("_a_b--c_"), "a_b_c");
    }
}

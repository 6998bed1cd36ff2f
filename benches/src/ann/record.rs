//! `points.csv` and `engines.csv`: one run as rows that later runs can be laid beside.

use std::io::{self, Write};

use super::measured::{Measured, MemoryOverTime};
use crate::harness::{extremes, field};

/// One row per engine and value of its sweep parameter.
pub fn write_points(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "date,revision,workload,engine,version,sweep,value,recall,qps,qps_lowest,qps_highest,qps_all_threads,threads,p50_us,p99_us,repeats,rounds"
    )?;
    let Measured { queries, stamp, .. } = measured;
    for run in &measured.engines {
        for point in &run.points {
            let (fastest, slowest) = extremes(&point.seconds);
            let speed = |seconds: f64| if seconds > 0.0 { *queries as f64 / seconds } else { 0.0 };
            writeln!(
                out,
                "{},{},{},{},{},{},{},{:.6},{:.1},{:.1},{:.1},{:.1},{},{:.2},{:.2},{},{}",
                stamp.date,
                stamp.revision,
                measured.workload,
                field(&run.described.engine),
                field(&run.described.version),
                field(&run.described.sweep),
                point.value,
                point.recall,
                point.qps(*queries),
                speed(slowest),
                speed(fastest),
                point.threaded_qps(*queries),
                measured.threads,
                point.p50_us,
                point.p99_us,
                point.seconds.len(),
                point.rounds,
            )?;
        }
    }
    Ok(())
}

/// One row per engine.
pub fn write_engines(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "date,revision,workload,engine,version,settings,m,ef_construction,threads,build_s,index_bytes,index_reused,open_ms,first_query_us,baseline_bytes,opened_bytes,served_bytes,cooled_bytes,served_cool_bytes,serving_bytes,serving_after_pass_bytes"
    )?;
    for run in &measured.engines {
        let memory = |value: fn(&MemoryOverTime) -> u64| {
            run.memory.as_ref().map_or(String::new(), |memory| value(memory).to_string())
        };
        writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{:.3},{},{},{:.3},{:.1},{},{},{},{},{},{},{}",
            measured.stamp.date,
            measured.stamp.revision,
            measured.workload,
            field(&run.described.engine),
            field(&run.described.version),
            field(&run.described.settings),
            measured.m,
            measured.ef_construction,
            measured.threads,
            run.index.built.build_s,
            run.index.built.index_bytes,
            run.reused,
            run.open_ms,
            run.first_query_us,
            memory(|memory| memory.baseline.rss_bytes),
            memory(|memory| memory.opened.rss_bytes),
            memory(|memory| memory.served.rss_bytes),
            memory(|memory| memory.cooled.rss_bytes),
            memory(|memory| memory.served_cool.rss_bytes),
            memory(MemoryOverTime::serving_bytes),
            memory(MemoryOverTime::served_bytes),
        )?;
    }
    Ok(())
}

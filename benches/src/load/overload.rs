//! More than an engine can answer: what it still answers in time, how fast it refuses the rest, its memory meanwhile,
//! and when latency is back afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::drive::{AnsweringProcess, LoadPass, LoadTarget};
use super::passes::{LoadPasses, LoadStep};
use super::server::resident_bytes;
use super::tally::{ANSWERED, NOT_SENT, REFUSED, ReplyClass, RequestTally, TallyWindow, WINDOW, milliseconds};
use crate::error::{BenchError, BenchResult};
use crate::harness::{FigureRow, by_name, join_figures};

/// Rate before and after, as a share of the capacity.
const CALM: f64 = 0.5;
/// Most seconds that are measured before and after.
const CALM_S: f64 = 10.0;
/// Latency is back where p99 of a window is at most this many times the highest of a window before.
const BACK: f64 = 1.5;

/// Half of the capacity, then `factor` times as much as it, then half again. The figures of the overload, and all else
/// that is to say.
pub(super) fn overload(
    run: &LoadPasses<'_>,
    name: &str,
    target: &Arc<dyn LoadTarget>,
    factor: f64,
    capacity: Option<f64>,
) -> BenchResult<(FigureRow, Value)> {
    let job = run.job;
    let measured = || {
        let all = run.measure(target, LoadStep::Clients(job.workload.clients), 0)?;
        Ok::<_, BenchError>(all.count(ANSWERED) as f64 / job.seconds)
    };
    let capacity = capacity.map_or_else(measured, Ok)?;
    if capacity <= 0.0 {
        let problem = "no answer, so there is no capacity. Use a longer deadline, or give --capacity";
        return Err(BenchError::Engine {
            engine: name.to_owned(),
            problem: problem.to_owned(),
        });
    }
    (run.note)(&format!(
        "{name}: capacity {capacity:.0} per second, before the overload"
    ));
    let asked = target.as_ref();
    let (calm, rate, calm_s) = (CALM * capacity, factor * capacity, job.seconds.min(CALM_S));
    let calm_pass = |warm_up| LoadPass {
        has_windows: true,
        ..run.pass(warm_up, calm_s)
    };
    let before = calm_pass(run.warm_up()).open(asked, run.times(asked, calm, 1), run.mix())?;
    let expected = highest_p99(&before);
    (run.note)(&format!("{name}: {rate:.0} per second"));
    let is_over = AtomicBool::new(false);
    let (overloaded, after, resident) = thread::scope(|scope| {
        let resident = scope.spawn(|| sample(target.process(), &is_over));
        let passes = (|| {
            let pass = run.pass(run.warm_up(), job.seconds);
            let overloaded = pass.send_all(asked, run.times(asked, rate, 2), run.mix())?;
            // At once, while requests of the overload are still under way.
            let after = calm_pass(Duration::ZERO).send_all(asked, run.times(asked, calm, 3), run.mix())?;
            Ok::<_, BenchError>((overloaded.finish()?, after.finish()?))
        })();
        is_over.store(true, Ordering::SeqCst);
        passes.map(|(overloaded, after)| (overloaded, after, resident.join().unwrap_or_default()))
    })?;
    let row = run.row(name, LoadStep::Rate(rate), &overloaded);
    let share = overloaded.in_time as f64 / job.seconds / capacity;
    let late = overloaded.count(ANSWERED) - overloaded.in_time;
    let known: u64 = [ANSWERED, REFUSED, NOT_SENT]
        .map(|class| overloaded.count(class))
        .iter()
        .sum();
    let broken = overloaded.asked() - known;
    let back_after_s = back_after(&after, expected * BACK);
    let more = json!({
        "capacity": capacity,
        "goodput_of_capacity": share,
        "late": late,
        "broken": broken,
        "refused": overloaded.count(REFUSED),
        "refused_p50_ms": refused(&overloaded, 0.5),
        "refused_p99_ms": refused(&overloaded, 0.99),
        "back_after_s": back_after_s,
    });
    let row = join_figures([row.into(), more, memory(&resident)]);
    let detail = json!({
        "before_p99_ms": before.milliseconds(0.99),
        "before_highest_window_p99_ms": expected,
        "after_window_p99_ms": after.windows.iter().map(|window| window.milliseconds(0.99)).collect::<Vec<_>>(),
        "classes": classes(&overloaded),
        "resident_bytes": resident,
    });
    Ok((row, detail))
}

/// The memory of the process that answers, once a second.
fn sample(process: AnsweringProcess, is_over: &AtomicBool) -> Vec<u64> {
    let process = match process {
        AnsweringProcess::Own => Some(std::process::id()),
        AnsweringProcess::Server(server) => Some(server),
        AnsweringProcess::Unknown => None,
    };
    let (mut resident, start) = (Vec::new(), Instant::now());
    while !is_over.load(Ordering::SeqCst) {
        if start.elapsed() >= Duration::from_secs(resident.len() as u64) {
            let Some(bytes) = process.and_then(resident_bytes) else {
                break;
            };
            resident.push(bytes);
        }
        thread::sleep(Duration::from_millis(20));
    }
    resident
}

/// Lowest and highest, and the slope of the least-squares line through one value a second, in bytes per minute.
pub(super) fn memory(resident: &[u64]) -> Value {
    let n = resident.len() as f64;
    let mean = resident.iter().sum::<u64>() as f64 / n;
    let middle = (n - 1.0) / 2.0;
    let from_middle = |at: usize| at as f64 - middle;
    let covariance: f64 = resident
        .iter()
        .enumerate()
        .map(|(at, bytes)| from_middle(at) * (*bytes as f64 - mean))
        .sum();
    let variance: f64 = (0..resident.len()).map(|at| from_middle(at) * from_middle(at)).sum();
    let slope = (resident.len() > 1).then(|| covariance / variance * 60.0);
    json!({
        "resident_min_bytes": resident.iter().min(),
        "resident_max_bytes": resident.iter().max(),
        "resident_bytes_per_minute": slope,
    })
}

/// The highest p99 of a window, in milliseconds.
fn highest_p99(tally: &RequestTally) -> f64 {
    tally
        .windows
        .iter()
        .filter_map(|window| window.milliseconds(0.99))
        .fold(0.0, f64::max)
}

/// Seconds after which every window with requests is good: at most one of a thousand has no answer, and p99 is not
/// above the limit. None where the last one is bad, or nothing was asked.
pub(super) fn back_after(tally: &RequestTally, limit_ms: f64) -> Option<f64> {
    let is_bad = |window: &TallyWindow| window.fails() || window.milliseconds(0.99).is_some_and(|p99| p99 > limit_ms);
    let good_from = tally.windows.iter().rposition(is_bad).map_or(0, |at| at + 1);
    let is_asked = tally.windows.iter().skip(good_from).any(|window| window.requests > 0);
    is_asked.then(|| good_from as f64 * WINDOW.as_secs_f64())
}

/// A quantile of the refusals from their real start, in milliseconds.
fn refused(tally: &RequestTally, quantile: f64) -> Option<f64> {
    tally
        .classes
        .get(REFUSED)
        .map(|class| milliseconds(&class.service, quantile))
}

/// Counts and latencies by class.
fn classes(tally: &RequestTally) -> Value {
    by_name(
        tally
            .classes
            .iter()
            .map(|(name, class)| (name.to_string(), class_figures(class))),
    )
}

fn class_figures(class: &ReplyClass) -> Value {
    json!({
        "requests": class.intended.len(),
        "p50_ms": milliseconds(&class.intended, 0.5),
        "p99_ms": milliseconds(&class.intended, 0.99),
        "service_p50_ms": milliseconds(&class.service, 0.5),
        "service_p99_ms": milliseconds(&class.service, 0.99),
    })
}

//! The server that is measured: one that runs already, or one that is started here and ended by its process id.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;

use super::workload::ServerFiles;
use crate::error::{BenchError, BenchResult, check};
use crate::harness::status_bytes;

/// Time for a server to open its index and model.
const START: Duration = Duration::from_mins(2);
/// Unit of the times in `/proc`: `USER_HZ`, which is the same on all of Linux's machines.
const TICKS_PER_SECOND: f64 = 100.0;
/// Time between two looks at the cancellation.
const TICK: Duration = Duration::from_millis(50);

/// A server.
#[derive(Debug)]
pub(super) struct LoadServer {
    pub(super) url: String,
    child: Option<Child>,
}

impl LoadServer {
    /// One that runs already.
    pub(super) fn running(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            child: None,
        }
    }

    /// Starts `dyad-searcher serve` on a free port of the loopback device, in a process group of its own, and waits
    /// until it listens. Its log goes to a file.
    pub(super) fn start(
        searcher: &Path,
        files: &ServerFiles,
        log: &Path,
        cancel: &JobCancellation,
    ) -> BenchResult<Self> {
        let (Some(index), Some(tower)) = (&files.index, &files.question_tower) else {
            let expected = "a server needs `server.index` and `server.question_tower` in the workload, or --index and --question-tower";
            return Err(BenchError::Refused(format!(
                "{expected}; or give the URL of a running one with --server"
            )));
        };
        let failed = |problem: String| BenchError::Engine {
            engine: searcher.display().to_string(),
            problem: format!("{problem}. Log: {}", log.display()),
        };
        let mut command = Command::new(searcher);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--question-tower", tower, "--index"])
            .arg(index);
        command.args(["--question-cache-mb", &files.question_cache_mb.to_string()]);
        command
            .args(["--filter-cache-mb", &files.filter_cache_mb.to_string()])
            .args(&files.args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs_err::File::create(log)?.into_parts().0);
        let mut child = command
            .process_group(0)
            .spawn()
            .map_err(|error| failed(format!("cannot start: {error}")))?;
        let out = child.stdout.take();
        let mut server = Self {
            url: String::new(),
            child: Some(child),
        };
        let (sender, said) = sync_channel(1);
        thread::spawn(move || {
            // All of it is read, so that the server never waits for a full pipe.
            for line in out
                .into_iter()
                .flat_map(|out| BufReader::new(out).lines().map_while(Result::ok))
            {
                if let Some(address) = line.strip_prefix("listening on ") {
                    let _ = sender.try_send(address.to_owned());
                }
            }
        });
        let until = Instant::now() + START;
        loop {
            check(cancel)?;
            match said.recv_timeout(TICK) {
                Ok(address) => {
                    server.url = format!("http://{address}");
                    return Ok(server);
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() < until => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(failed(format!("not ready within {} s", START.as_secs())));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(failed("ended before it listened".to_owned())),
            }
        }
    }

    /// Its process, where it was started here.
    pub(super) fn process(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for LoadServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It only reads: there is nothing to be finished. Fails where it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Resident memory of a process as the kernel counts it; none where it has ended.
pub(super) fn resident_bytes(process: u32) -> Option<u64> {
    status_bytes(&process.to_string(), "VmRSS")
}

/// Seconds of processor time that a process has used, in all of its threads; none where it has ended.
pub(super) fn cpu_seconds(process: u32) -> Option<f64> {
    let stat = fs_err::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything; utime and stime are the 12th and 13th field after it.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    Some(fields.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND)
}

//! An index in a real S3 server: pushes and pulls that are killed, and two pushes at once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;

use dyad_index::Snapshot;
use dyad_index::verify::verify_current;

use crate::fixture::Fixture;
use crate::life::{APPEND, Life, check, document};
use crate::store_fixture::{copy, relative};

/// An S3 server with a bucket, and its environment for our binary: moto's, or the program `s3s-fs` (crates.io,
/// `--features binary`) that `DYAD_S3S_FS` names. None where there is no Python to run it.
pub(crate) struct S3 {
    server: std::process::Child,
    out: BufReader<ChildStdout>,
    port: String,
}

impl Drop for S3 {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

const SERVER: &str = "
import sys, boto3
if len(sys.argv) > 1:
    import ctypes, socket, subprocess, tempfile, time
    free = socket.create_server(('127.0.0.1', 0))
    port = free.getsockname()[1]
    free.close()
    command = [sys.argv[1], '--host', '127.0.0.1', '--port', str(port), '--access-key', 'key', '--secret-key', 'secret']
    # It ends with this process, whatever ends that: PR_SET_PDEATHSIG, SIGKILL.
    dies = lambda: ctypes.CDLL(None).prctl(1, 9)
    root = tempfile.TemporaryDirectory()
    subprocess.Popen([*command, root.name], preexec_fn=dies, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while socket.socket().connect_ex(('127.0.0.1', port)):
        time.sleep(.05)
else:
    from moto.server import ThreadedMotoServer
    server = ThreadedMotoServer(ip_address='127.0.0.1', port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
keys = {'aws_access_key_id': 'key', 'aws_secret_access_key': 'secret', 'region_name': 'us-east-1'}
client = boto3.client('s3', endpoint_url=f'http://127.0.0.1:{port}', **keys)
client.create_bucket(Bucket='bucket')
print(port, flush=True)
for line in sys.stdin:
    words = line.split()
    if words[0] == 'put':
        client.upload_file(words[1], 'bucket', words[2])
    else:
        pages = client.get_paginator('list_objects_v2').paginate(Bucket='bucket', Prefix=words[1])
        print(*[found['Key'] for page in pages for found in page.get('Contents', [])], flush=True)
";

impl S3 {
    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    pub(crate) fn start(test: &str) -> Option<Self> {
        let Some(python) = std::env::var_os("DYAD_PYTHON") else {
            eprintln!("{test}: skipped, DYAD_PYTHON is not set");
            return None;
        };
        let mut command = Command::new(python);
        command
            .args(["-c", SERVER])
            .args(std::env::var_os("DYAD_S3S_FS"))
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut server = command.stderr(Stdio::null()).spawn().unwrap();
        let (mut port, mut out) = (String::new(), BufReader::new(server.stdout.take().unwrap()));
        out.read_line(&mut port).unwrap();
        Some(Self {
            server,
            out,
            port: port.trim().to_owned(),
        })
    }

    /// Puts a file.
    pub(crate) fn put(&mut self, file: &Path, name: &str) {
        writeln!(self.server.stdin.as_mut().unwrap(), "put {} {name}", file.display()).unwrap();
    }

    /// Names of all objects below a prefix.
    pub(crate) fn list(&mut self, prefix: &str) -> Vec<String> {
        writeln!(self.server.stdin.as_mut().unwrap(), "list {prefix}").unwrap();
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-indexer"));
        command
            .args(arguments)
            .env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", self.port))
            .env("AWS_ALLOW_HTTP", "true");
        command
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_REGION", "us-east-1");
        command
            .env("NO_PROXY", "127.0.0.1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }
}

#[test]
fn an_s3_server_is_a_store_whatever_is_killed() {
    let Some(s3) = S3::start("an_s3_server_is_a_store_whatever_is_killed") else {
        return;
    };
    let mut life = Life::begin(77, 60);
    let replica = Fixture::empty();
    let (index, replicated) = (
        life.fixture.index().display().to_string(),
        replica.index().display().to_string(),
    );
    let push = ["push", "--index", &index, "--to", "s3://bucket/some/prefix"];
    let pull = ["pull", "--index", &replicated, "--from", "s3://bucket/some/prefix"];
    let done = |arguments: &[&str]| {
        let output = s3.command(arguments).output().unwrap();
        let (out, error) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        );
        assert!(output.status.success(), "{out} {error}");
        assert!(!format!("{out}{error}").contains("secret"), "{error}");
        out
    };
    // Of a push of some tens of milliseconds.
    let killed = |arguments: &[&str], after: u64| {
        let mut child = s3.command(arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap().success()
    };
    let mut ended = 0;
    for round in 0..10_u64 {
        let number = 100 + usize::try_from(round).unwrap();
        let more = document(number, &mut life.random);
        life.fixture.upsert(APPEND, std::slice::from_ref(&more)).unwrap();
        life.model.insert(more.key.clone(), more);
        for after in [2, 5, 9].map(|after| after + 3 * round) {
            ended += usize::from(!killed(&push, after));
        }
        let before = replica
            .index()
            .exists()
            .then(|| Snapshot::open(&replica.index()).ok())
            .flatten();
        let before = before.map_or(0, |before| before.manifest().generation);
        done(&push);
        for after in [2, 5, 9].map(|after| after + 3 * round) {
            ended += usize::from(!killed(&pull, after));
            // All of a generation, or all of the one before.
            if let Ok(now) = Snapshot::open(&replica.index()) {
                assert!(now.manifest().generation >= before);
                assert_eq!(verify_current(&replica.index()).unwrap().problems, [""; 0]);
            }
        }
        done(&pull);
        check(&replica, &life.model);
    }
    assert!(ended > 10, "{ended} of 60 were killed in time");
    assert!(done(&push).starts_with("nothing to do") && done(&pull).starts_with("nothing to do"));
    assert_eq!(
        relative(&replica).get(Path::new("CURRENT")),
        relative(&life.fixture).get(Path::new("CURRENT"))
    );

    // Two processes push other generations of one number at once: one wins, the other is told.
    let other = copy(&life.fixture);
    let second = other.index().display().to_string();
    life.fixture.delete(&["k0001".to_owned()]).unwrap();
    other.delete(&["k0002".to_owned()]).unwrap();
    let children = [&index, &second].map(|index| {
        s3.command(&["push", "--index", index, "--to", "s3://bucket/some/prefix"])
            .spawn()
            .unwrap()
    });
    let outputs = children.map(|child| child.wait_with_output().unwrap());
    let winners = outputs.iter().filter(|output| output.status.success()).count();
    let errors: String = outputs
        .iter()
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned())
        .collect();
    assert_eq!(winners, 1, "{errors}");
    assert!(
        errors.contains("changed independently") || errors.contains("came first"),
        "{errors}"
    );
}

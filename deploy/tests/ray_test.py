"""deploy/ray/reindex.py on a cluster that loses a node and its driver: DYAD_DATA=DIR ray_test.py BINARIES MODEL.

A Ray cluster of a head and two workers on this machine, each a node of its own with one core and an address of its own (127.0.0.2 and on; Ray
listens for its own calls on all addresses, and answers those that have the cluster's token). The input is a few articles of
`wikipedia-articles`, in several files, split into passages. While they are embedded, a worker node is killed, and then the driver; a second
run goes on to the end. The published index has to be that of a single `dyad-indexer build`, document for document, and a third run has to
leave every object of the store as it is. `unittest discover` skips the test, which needs the programs of a build.
"""

import contextlib
import gzip
import importlib.util
import itertools
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from readme import Servers

REINDEX = pathlib.Path(__file__).resolve().parents[1] / "ray/reindex.py"
ARTICLES, FILES = 60, 4
# A line is not cut: a partition of one long article would be all that a node is seen to do.
ARTICLE_BYTES = 8_000
SPLIT = ["--split", "60", "--overlap", "15"]
SIZES = ["--docs-per-shard", "450", "--docs-per-partition", "50"]
WAIT_S, PAUSE_S = 180, 0.1
# Of two vectors of one text that were embedded in other company, and rounded to f16.
VECTOR_DIFFERENCE = 1e-3
# Documents of a reply.
PAGE = 100
# Set by `main`.
SETTINGS = {}


def wait_for(what, look):
    """Looks until there is something."""
    end = time.monotonic() + WAIT_S
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {WAIT_S} s")
        time.sleep(PAUSE_S)
    return found


def free_port(host):
    """A port of an address that nobody listens on now."""
    with socket.create_server((host, 0)) as listener:
        return listener.getsockname()[1]


def members(session):
    """Processes of a session that run: id and command."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_text().rstrip("\0").split("\0")
    return found


def kill(pids):
    """Ends processes, if they run."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Cluster:
    """A head and workers, each in a session of its own."""

    def __init__(self, scratch, workers):
        self.scratch = scratch
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(20)}
        # A lost node is noticed after three seconds, not fifteen.
        health = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"}
        self.environment = os.environ | token | health | {"RAY_TMPDIR": str(scratch / "ray"), "RUST_LOG": "warn"}
        port, self.nodes = free_port("127.0.0.2"), []
        self.address = f"127.0.0.2:{port}"
        try:
            self.start(2, "--head", "--port", str(port), "--include-dashboard", "false")
            for number in range(workers):
                self.start(3 + number, "--address", self.address)
        except BaseException:
            self.end()
            raise

    def start(self, number, *more):
        """Starts a node, and waits for it."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--node-ip-address", f"127.0.0.{number}"]
        command += ["--num-cpus", "1", "--num-gpus", "0", "--object-store-memory", "80000000", "--disable-usage-stats"]
        command += ["--temp-dir", str(self.scratch / "ray"), "--min-worker-port", "0", "--max-worker-port", "0", *more]
        log = (self.scratch / f"node-{number}.log").open("w+")
        node = subprocess.Popen(command, env=self.environment, stdout=log, stderr=log, start_new_session=True)
        self.nodes.append(node)

        def ready():
            log.seek(0)
            said = log.read()
            assert node.poll() is None, said
            return "Ray runtime started" in said

        wait_for(f"node {number}", ready)
        log.close()

    def running(self, *nodes):
        """Our programs on these nodes, or on all: id and command."""
        alive = {}
        for node in nodes or self.nodes:
            alive |= members(node.pid)
        return {pid: command for pid, command in alive.items() if pathlib.Path(command[0]).name.startswith("dyad-")}

    def end(self):
        """Ends all nodes."""
        for node in self.nodes:
            while pids := members(node.pid):
                kill(pids)
            node.wait()


class Store:
    """The job's directory, as an object store."""

    def __init__(self, folder):
        self.folder = folder

    def embedded(self):
        """Partitions that are embedded: number and when."""
        return {int(path.parent.name[:6]): path.stat().st_mtime_ns for path in self.folder.glob("job/partitions/*/DONE.json")}

    def objects(self):
        """All objects with size and time."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


class ReindexTest(unittest.TestCase):
    """One job through all that can happen to it."""

    def setUp(self):
        if not SETTINGS:
            self.skipTest("needs the programs of a build: ray_test.py BINARIES MODEL")
        # Of sockets in it: their paths are at most 107 bytes long.
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="dyad-ray-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.store = Store(self.scratch / "store")
        self.write_input()
        began = time.monotonic()
        self.cluster = Cluster(self.scratch, 2)
        self.addCleanup(self.cluster.end)
        self.log(f"cluster of three nodes in {time.monotonic() - began:.1f} s")
        self.drivers = []

    def log(self, text):
        """For who reads the output of CI."""
        print(text, flush=True)

    def write_input(self):
        """Some articles in several files."""
        (self.scratch / "input").mkdir()
        with gzip.open(SETTINGS["data"] / "wikipedia-articles/corpus.jsonl.gz", "rt") as corpus:
            lines = list(itertools.islice((line for line in corpus if len(line) < ARTICLE_BYTES), ARTICLES))
        for number in range(FILES):
            (self.scratch / f"input/part-{number}.jsonl").write_text("".join(lines[number::FILES]))
        self.input = str(self.scratch / "input/*.jsonl")

    def start_driver(self):
        """A driver that runs, and its output."""
        programs = [f"--{name}={SETTINGS['binaries'] / f'dyad-{name}'}" for name in ("indexer", "encoder")]
        places = [f"--index=file://{self.store.folder}/index", f"--out=file://{self.store.folder}/job", f"--scratch={self.scratch}/scratch"]
        command = [sys.executable, REINDEX, "--address", self.cluster.address, "--input", self.input, "--model", SETTINGS["model"]]
        command += ["--encoders", "2", "--threads", "1", *SPLIT, *SIZES, *programs, *places, "--", "--max-bad", "1"]
        output = self.scratch / f"driver-{len(self.drivers)}.log"
        with output.open("w") as log:
            driver = subprocess.Popen(command, env=self.cluster.environment, stdout=log, stderr=log, start_new_session=True)
        self.addCleanup(driver.wait)
        self.addCleanup(driver.kill)
        self.drivers.append(driver)
        return driver, output

    def run_driver(self):
        """A driver that runs to its end; gives what it printed."""
        driver, output = self.start_driver()
        code = driver.wait(WAIT_S)
        self.assertEqual(code, 0, output.read_text())
        return output.read_text()

    def embedding(self, seen):
        """A worker node that has begun to embed a partition, by a process that had not been seen, and this partition."""
        for node in self.cluster.nodes[1:]:
            for pid, command in self.cluster.running(node).items():
                if command[1:3] == ["bulk", "embed"] and pid not in seen:
                    return node, int(command[command.index("--partition") + 1])
        return None

    def encoders(self):
        """How many encoder services run."""
        return sum(command[1] == "serve" for command in self.cluster.running().values())

    def test_a_job_survives_its_nodes_and_its_driver(self):
        began = time.monotonic()
        driver, output = self.start_driver()
        wait_for("two embedded partitions", lambda: driver.poll() is not None or len(self.store.embedded()) >= 2)
        self.assertIsNone(driver.poll(), output.read_text())
        # A node is lost: all of Ray's processes there are killed, and our programs end with them.
        seen = self.cluster.running()
        node, lost = wait_for("a worker that embeds", lambda: self.embedding(seen))
        killed = time.monotonic()
        kill(members(node.pid).keys() - self.cluster.running(node).keys())
        wait_for("the end of the node's programs", lambda: not self.cluster.running(node))
        self.assertNotIn(lost, self.store.embedded())
        wait_for("its partition, embedded elsewhere", lambda: driver.poll() is not None or lost in self.store.embedded())
        self.assertIsNone(driver.poll(), output.read_text())
        self.assertEqual(self.encoders(), 2)
        self.log(f"partition {lost} of a lost node was embedded elsewhere after {time.monotonic() - killed:.1f} s")
        # The driver is lost, and its actors with it.
        driver.kill()
        killed = time.monotonic()
        wait_for("the end of its programs", lambda: not self.cluster.running())
        done = self.store.embedded()
        plan = json.loads((self.store.folder / "job/plan.json").read_text())
        partitions = len(plan["job"]["partitions"])
        self.log(f"a killed driver's programs ended after {time.monotonic() - killed:.1f} s; {len(done)} of {partitions} partitions were embedded")
        self.assertLess(len(done), partitions)
        self.assertFalse((self.store.folder / "index/CURRENT").exists())
        # The same command goes on.
        said = self.run_driver()
        self.assertIn("published generation 1 of", said)
        self.assertIn(f"{len(done)} of {partitions} partitions are embedded", said)
        after = self.store.embedded()
        self.assertEqual({number: after[number] for number in done}, done)
        self.assertEqual(len(after), partitions)
        self.log(f"published after {time.monotonic() - began:.1f} s")
        # And does nothing where all is done.
        objects = self.store.objects()
        self.assertIn("nothing to do: generation 1 of", self.run_driver())
        self.assertEqual(self.store.objects(), objects)
        wait_for("the end of the programs", lambda: not self.cluster.running())
        self.assertEqual([path for path in (self.scratch / "scratch").iterdir() if "building" in path.name], [])
        self.check_against_one_build(len(plan["job"]["shards"]))

    def check_against_one_build(self, shards):
        """The published index is that of one command, document for document."""
        servers, folder = Servers(), self.scratch
        self.addCleanup(servers.end_all)
        encoder, indexer, searcher = (str(SETTINGS["binaries"] / f"dyad-{name}") for name in ("encoder", "indexer", "searcher"))
        environment = self.cluster.environment
        servers.start("dyad-encoder", [encoder, "serve", "--model", str(SETTINGS["model"]), "--listen", "127.0.0.1:0"], environment, folder)
        build = ["build", "--corpus", self.input, *SPLIT, "--index", "one", "--encoder", servers.urls["dyad-encoder"]]
        pull = ["pull", "--from", f"file://{self.store.folder}/index", "--index", "bulk"]
        exports = (["export", "projector", "--index", name, "--out", f"{name}-export", "--limit", "1000000"] for name in ("one", "bulk"))
        for command in (build, pull, ["verify", "--index", "bulk"], *exports):
            done = subprocess.run([indexer, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
            self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        servers.end("dyad-encoder")
        one, bulk = (vectors(folder / f"{name}-export") for name in ("one", "bulk"))
        self.assertEqual(one.keys(), bulk.keys())
        difference = max(abs(a - b) for key, vector in one.items() for a, b in zip(vector, bulk[key], strict=True))
        self.assertLess(difference, VECTOR_DIFFERENCE)
        options = ["--index", "one=one", "--index", "bulk=bulk", "--question-tower", "none", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        servers.start("dyad-searcher", [searcher, "serve", *options], environment, folder)
        keys, url = sorted(one), servers.urls["dyad-searcher", "http"] + "/v1/documents"
        for at in range(0, len(keys), PAGE):
            pages = [documents(url, name, keys[at : at + PAGE]) for name in ("one", "bulk")]
            self.assertEqual(*pages)
            self.assertEqual([page["key"] for page in pages[0]], keys[at : at + PAGE])
        self.log(f"{len(keys)} documents in {shards} shards are those of one build; values of vectors differ by at most {difference:.1e}")


class MissingTest(unittest.TestCase):
    """What a status leaves to do."""

    def setUp(self):
        if not SETTINGS:
            self.skipTest("needs Ray: ray_test.py BINARIES MODEL")
        spec = importlib.util.spec_from_file_location("reindex", REINDEX)
        self.reindex = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.reindex)

    def missing(self, count, done, listed):
        """The partitions that are left, by a status."""
        return self.reindex.missing({"partitions": count, "partitions_done": done, "partitions_missing": listed}, "partitions")

    def test_a_status_that_lists_all(self):
        self.assertEqual(self.missing(9, 9, []), [])
        self.assertEqual(self.missing(9, 6, [2, 3, 8]), [2, 3, 8])

    def test_what_comes_after_a_full_list_may_be_missing(self):
        self.assertEqual(self.missing(9, 4, [2, 5]), [2, 5, 6, 7, 8])


def vectors(folder):
    """The vector of each key of an export."""
    header, *rows = (folder / "metadata.tsv").read_text().splitlines()
    column = header.split("\t").index("key")
    lines = (folder / "vectors.tsv").read_text().splitlines()
    return {row.split("\t")[column]: [float(value) for value in line.split("\t")] for row, line in zip(rows, lines, strict=True)}


def documents(url, index, keys):
    """Documents with all of their fields."""
    request = urllib.request.Request(url, json.dumps({"index": index, "keys": keys}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
        return json.load(reply)["documents"]


def main():
    """0 when the test passes."""
    binaries, model = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
    SETTINGS.update(binaries=binaries, model=model, data=pathlib.Path(os.environ["DYAD_DATA"]).resolve())
    if importlib.util.find_spec("ray") is None:
        raise SystemExit("Ray is not installed: pip install ray")
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

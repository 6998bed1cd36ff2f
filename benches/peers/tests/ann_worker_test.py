"""benches/peers/ann.py: the protocol with the numpy oracle, and every engine that is installed against that oracle."""

import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
WORKER = ROOT / "benches/peers/ann.py"
VENV = ROOT / ".venv-ann/bin/python"
PYTHON = pathlib.Path(os.environ.get("DYAD_ANN_PYTHON", VENV))
# What runs workers: the environment of the peers where there is one.
WORKER_PYTHON = PYTHON if PYTHON.exists() else pathlib.Path(sys.executable)
HAS_NUMPY = importlib.util.find_spec("numpy") is not None
WAIT_S = 120
# Why an engine may be left out: it is not installed, or SVS does not run it on this processor (vamana.py). All else fails.
NOT_HERE = re.compile(
    r"ModuleNotFoundError|PackageNotFoundError"
    r"|scalable-vs \S+ (cannot build \S+|has no LVQ) on this processor"
    r"|scalable-vs \S+: expected a processor with AVX-512 VNNI"
)

# engine -> least recall@10 at the value given, over 2000 clustered vectors of 64 dimensions.
ENGINES = {
    "hnswlib": (64, 0.98),
    "faiss": (64, 0.98),
    "faiss-sq8": (64, 0.95),
    "faiss-sq8-uniform": (64, 0.94),
    "faiss-sq8-signed": (64, 0.94),
    "svs-f32": (64, 0.98),
    "svs-f16": (64, 0.98),
    "svs-lvq4x8": (64, 0.95),
    "svs-lvq8": (64, 0.95),
    "svs-leanvec8x8": (64, 0.95),
    "qdrant-edge": (64, 0.95),
    "usearch-i8": (64, 0.90),
    "usearch-f32": (64, 0.95),
    "rabitq-qg": (96, 0.95),
    "rabitq-qg8": (96, 0.95),
    "rabitq-hnsw8": (96, 0.93),
    "vsag-sq8u": (64, 0.95),
    "vsag-sq4": (64, 0.90),
    "glass-f16": (64, 0.98),
    "glass-sq8u-f16": (64, 0.98),
    "faiss-refine-hnsw-sq8": (64, 0.98),
    "faiss-refine-ivf-pqfs": (64, 0.95),
    "qdrant-edge-b1-o16": (64, 0.80),
    "qdrant-edge-b2q8-o4": (64, 0.90),
    "svs-lvq8-r64": (64, 0.95),
}
FAMILIES = ("rabitq", "vsag", "glass", "faiss-refine", "qdrant-edge-binary")


class Session:
    """One worker and its pipes."""

    def __init__(self, python, engine):
        command = [str(python), str(WORKER), "--engine", engine]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, operation, **fields):
        """One request, one reply."""
        return self.send(json.dumps({"op": operation} | fields))

    def send(self, line):
        """A raw line."""
        # A worker that hangs is killed, and its end is the end of the pipe.
        timer = threading.Timer(WAIT_S, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            reply = self.process.stdout.readline()
        finally:
            timer.cancel()
        if not reply:
            raise AssertionError(f"the worker ended with {self.process.wait(WAIT_S)} at {line}")
        return json.loads(reply)

    def quit(self):
        """Ends it; the exit status."""
        if self.process.poll() is None:
            self.process.stdin.write('{"op": "quit"}\n')
            self.process.stdin.flush()
        status = self.process.wait(WAIT_S)
        self.process.stdin.close()
        self.process.stdout.close()
        return status


def clustered(numpy, rows, seed):
    """Unit vectors around 40 centres, float32."""
    centres = numpy.random.default_rng(7).standard_normal((40, 64))
    generator = numpy.random.default_rng(seed)
    vectors = centres[generator.integers(0, 40, rows)] + 0.6 * generator.standard_normal((rows, 64))
    return (vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)).astype(numpy.float32)


@unittest.skipUnless(HAS_NUMPY, "numpy is not installed")
class AnnWorkerTest(unittest.TestCase):
    """Each test talks to workers over their pipes, as the harness does."""

    def setUp(self):
        import numpy

        self.numpy = numpy
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.base = clustered(numpy, 2000, 1)
        self.queries = clustered(numpy, 50, 2)
        numpy.save(self.scratch / "base.npy", self.base)
        numpy.save(self.scratch / "queries.npy", self.queries)

    def start(self, engine, python=WORKER_PYTHON):
        """A worker that ends with the test."""
        session = Session(python, engine)
        self.addCleanup(session.quit)
        return session

    def built(self, session, engine, metric):
        """Builds the index of the test and opens it in the process given."""
        directory = self.scratch / f"{engine}-{metric}"
        parameters = {"m": 16, "ef_construction": 100, "threads": 2, "seed": 0}
        base = str(self.scratch / "base.npy")
        reply = session.ask("build", base=base, metric=metric, dir=str(directory), **parameters)
        self.assertNotIn("error", reply, reply)
        self.assertGreater(reply["build_s"], 0)
        self.assertEqual(reply["index_bytes"], sum(f.stat().st_size for f in directory.rglob("*") if f.is_file()))
        return directory

    def search(self, session, value, mode, threads=1, least_ms=0):
        """The ids and, of mode each, the latencies."""
        out, latencies = self.scratch / f"{mode}.npy", self.scratch / "latencies.npy"
        fields = {"value": value, "threads": threads, "mode": mode, "out": str(out), "latencies": str(latencies)}
        reply = session.ask("search", least_ms=least_ms, **fields)
        self.assertNotIn("error", reply, reply)
        self.assertGreater(reply["seconds"], 0)
        if mode == "batch":
            self.assertGreaterEqual(reply["seconds"] * reply["rounds"], least_ms / 1e3 * 0.999)
        else:
            self.assertEqual(reply["rounds"], 1)
        ids = self.numpy.load(out)
        self.assertEqual((ids.dtype, ids.shape), (self.numpy.int32, (50, 10)))
        if mode == "each":
            each = self.numpy.load(latencies)
            self.assertEqual((each.dtype, each.shape), (self.numpy.float64, (50,)))
            self.assertLessEqual(each.sum() / 1e6, reply["seconds"])
        return ids

    def recall(self, ids, metric):
        """recall@10 with ties, duplicates counted once."""
        numpy = self.numpy
        scores = self.queries.astype(float) @ self.base.T.astype(float)
        if metric == "l2":
            scores = 2 * scores - (self.base.astype(float) ** 2).sum(axis=1)
        tenth = numpy.sort(scores, axis=1)[:, -10]
        hits = 0
        for row, found in enumerate(ids):
            hits += sum(scores[row, i] >= tenth[row] - 1e-6 for i in set(found.tolist()) if i >= 0)
        return hits / ids.size

    def check(self, engine, value, least, python=WORKER_PYTHON, threads=2):
        """Build in one process, search in another, both metrics, both modes, one thread and as many as given."""
        for metric in ("ip", "l2"):
            builder = self.start(engine, python)
            directory = self.built(builder, engine, metric)
            self.assertEqual(builder.quit(), 0)
            session = self.start(engine, python)
            self.assertGreater(session.ask("open", dir=str(directory))["open_ms"], 0)
            prepared = session.ask("prepare", queries=str(self.scratch / "queries.npy"), k=10)
            self.assertEqual(prepared, {"queries": 50})
            batch = self.search(session, value, "batch")
            self.assertGreaterEqual(self.recall(batch, metric), least, f"{engine} {metric}")
            self.numpy.testing.assert_array_equal(self.search(session, value, "batch", least_ms=5), batch)
            self.numpy.testing.assert_array_equal(self.search(session, value, "each"), batch)
            self.assertGreaterEqual(self.recall(self.search(session, value, "batch", threads), metric), least)
            before = session.ask("memory", settle=True)["rss_bytes"]
            self.assertEqual(session.ask("evict"), {})
            if engine.startswith("qdrant-edge"):
                # Its vectors are mapped: at least half of their bytes leave. They are read again when they are needed.
                self.assertLess(session.ask("memory", settle=True)["rss_bytes"], before - self.base.nbytes // 2)
            self.numpy.testing.assert_array_equal(self.search(session, value, "each"), batch)
            self.assertEqual(session.quit(), 0)

    def test_oracle_is_exact(self):
        """The numpy engine finds all of them."""
        self.check("exact", 0, 1.0)

    def test_k_beyond_the_base_is_padded(self):
        """Places without a result hold -1."""
        self.numpy.save(self.scratch / "base.npy", self.base[:7])
        session = self.start("exact")
        directory = self.built(session, "exact", "ip")
        session.ask("open", dir=str(directory))
        session.ask("prepare", queries=str(self.scratch / "queries.npy"), k=10)
        ids = self.search(session, 0, "batch")
        self.assertTrue((ids[:, 7:] == -1).all())
        self.assertEqual(sorted(ids[0, :7]), list(range(7)))

    def test_failed_requests_answer_and_the_worker_lives(self):
        """Each error names what was expected."""
        session = self.start("exact")
        self.assertIn("JSONDecodeError", session.send("not json")["error"])
        self.assertIn("expected one of describe", session.ask("dance")["error"])
        self.assertIn("No such file", session.ask("open", dir=str(self.scratch / "none"))["error"])
        self.assertIn("expected a prepare", session.ask("search", value=1, threads=1, mode="batch", out="x")["error"])
        fields = {"m": 16, "ef_construction": 100, "threads": 1, "seed": 0, "base": str(self.scratch / "base.npy")}
        reply = session.ask("build", metric="ip", dir=str(self.scratch), **fields)
        self.assertIn("expected a fresh directory", reply["error"])
        reply = session.ask("build", metric="cos", dir=str(self.scratch / "new"), **fields)
        self.assertIn("expected ip or l2", reply["error"])
        self.numpy.save(self.scratch / "base.npy", self.base.astype(self.numpy.float16))
        reply = session.ask("build", metric="ip", dir=str(self.scratch / "new"), **fields)
        self.assertIn("expected float32 [n,d], got float16", reply["error"])
        self.assertEqual(session.ask("describe")["engine"], "exact")

    def test_memory_is_the_kernels(self):
        """What is resident is no more than its peak."""
        reply = self.start("exact").ask("memory", settle=True)
        self.assertEqual(sorted(reply), ["peak_bytes", "rss_bytes"])
        self.assertLessEqual(reply["rss_bytes"], reply["peak_bytes"])
        self.assertGreater(reply["rss_bytes"], 1 << 20)

    def test_rows_are_deleted_and_added(self):
        """By the engines that can: what is deleted is no longer found, and what is added is."""
        if not PYTHON.exists():
            self.skipTest(f"{PYTHON} is not there: run benches/peers/ann-venv.sh")
        numpy = self.numpy
        gone, labels = numpy.arange(0, 200, dtype=numpy.int32), numpy.arange(2000, 2200, dtype=numpy.int32)
        for name, array in (("gone", gone.reshape(-1, 1)), ("labels", labels.reshape(-1, 1))):
            numpy.save(self.scratch / f"{name}.npy", array)
        # The same vectors under other numbers.
        numpy.save(self.scratch / "new.npy", self.base[:200])
        for engine in ("hnswlib-replace", "qdrant-edge"):
            with self.subTest(engine=engine):
                session = self.start(engine, PYTHON)
                session.ask("open", dir=str(self.built(session, engine, "ip")))
                session.ask("prepare", queries=str(self.scratch / "queries.npy"), k=10)
                before = self.search(session, 200, "batch")
                files = {key: str(self.scratch / f"{name}.npy") for key, name in (("delete", "gone"), ("base", "new"))}
                reply = session.ask("change", labels=str(self.scratch / "labels.npy"), threads=2, **files)
                self.assertNotIn("error", reply, reply)
                for operation in ("changed", "merged"):
                    after = self.search(session, 200, "batch")
                    self.assertFalse(numpy.isin(after, gone).any(), operation)
                    expected = numpy.where((before >= 0) & (before < 200), before + 2000, before)
                    same = [len(set(one) & set(other)) for one, other in zip(expected.tolist(), after.tolist(), strict=True)]
                    self.assertGreater(sum(same), 0.95 * expected.size, operation)
                    self.assertNotIn("error", session.ask("merge", all=False, threads=2))

    def filtered(self, engine, python, value, complete, least):
        """Half of the queries under two conditions (250 rows pass), half under one (3 rows pass), then none under any."""
        numpy = self.numpy
        texts = [["even"] if row % 2 == 0 else ["odd", "last"] for row in range(2000)]
        with (self.scratch / "attributes.jsonl").open("w", encoding="utf-8") as out:
            for row, text in enumerate(texts):
                line = {"_id": str(row), "text": "row", "metadata": {"parity": text, "size": row}}
                print(json.dumps(line), file=out)
        session = self.start(engine, python)
        directory = self.scratch / f"{engine}-filtered"
        more = {"attributes": str(self.scratch / "attributes.jsonl"), "metric": "ip", "dir": str(directory)}
        fields = {"m": 16, "ef_construction": 100, "threads": 2, "seed": 0, "base": str(self.scratch / "base.npy")}
        reads = session.ask("describe").get("reads_attributes", False)
        reply = session.ask("build", **fields, **{key: value for key, value in more.items() if reads or key != "attributes"})
        self.assertNotIn("error", reply, reply)
        session.quit()
        session = self.start(engine, python)
        session.ask("open", dir=str(directory))
        session.ask("prepare", queries=str(self.scratch / "queries.npy"), k=10)
        before = self.search(session, value, "batch")
        passing = [numpy.arange(0, 500, 2, dtype=numpy.int32), numpy.arange(3, dtype=numpy.int32)]
        equals, below = {"equals": {"field": "parity", "value": "even"}}, [{"below": {"field": "size", "bound": b}} for b in (500, 3)]
        filters = [
            {"queries": list(range(0, 50, 2)), "rows": str(self.scratch / "rows-0.npy"), "all": [equals, below[0]]},
            {"queries": list(range(1, 50, 2)), "rows": str(self.scratch / "rows-1.npy"), "all": [below[1]]},
        ]
        for number, rows in enumerate(passing):
            numpy.save(self.scratch / f"rows-{number}.npy", rows.reshape(-1, 1))
        self.assertEqual(session.ask("filter", filters=filters), {})
        found = self.search(session, value, "batch")
        numpy.testing.assert_array_equal(self.search(session, value, "each"), found)
        hits = 0
        for query, ids in enumerate(found):
            rows, ids = passing[query % 2], ids[ids >= 0]
            self.assertTrue(numpy.isin(ids, rows).all(), f"{engine} {query}: {ids}")
            if complete:
                self.assertEqual(len(ids), min(10, len(rows)), f"{engine} {query}")
            nearest = rows[numpy.argsort(-(self.base[rows] @ self.queries[query]))[:10]]
            hits += len(set(ids.tolist()) & set(nearest.tolist())) / len(nearest)
        self.assertGreaterEqual(hits / 50, least, engine)
        self.assertEqual(session.ask("filter", filters=[]), {})
        numpy.testing.assert_array_equal(self.search(session, value, "batch"), before)
        reply = session.ask("filter", filters=filters[:1])
        self.assertIn("queries: expected each of 0 to 49 once, got 25 numbers", reply["error"])

    def test_filters(self):
        """Only rows that pass are found; the oracle finds all of them."""
        self.filtered("exact", WORKER_PYTHON, 0, True, 1.0)

    def test_engines_filter(self):
        """A graph with a selector alone may find too few; engines that plan find as many as pass."""
        if not PYTHON.exists():
            self.skipTest(f"{PYTHON} is not there: run benches/peers/ann-venv.sh")
        engines = {"faiss": (False, 0.5), "qdrant-edge": (True, 0.95), "qdrant-edge-acorn": (True, 0.95), "zvec": (True, 0.95)}
        for engine, (complete, least) in engines.items():
            with self.subTest(engine=engine):
                self.filtered(engine, PYTHON, 256, complete, least)
        session = self.start("hnswlib", PYTHON)
        self.assertIn("hnswlib has no filters", session.ask("filter", filters=[])["error"])

    def test_unknown_engine_is_refused(self):
        """With the names that exist."""
        command = [str(WORKER_PYTHON), str(WORKER), "--engine", "none"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("expected one of: exact, hnswlib", run.stderr)

    def test_engines_agree_with_the_oracle(self):
        """Every engine of .venv-ann (or DYAD_ANN_PYTHON); one that cannot run here is named and skipped."""
        if not PYTHON.exists():
            self.skipTest(f"{PYTHON} is not there: run benches/peers/ann-venv.sh")
        for engine, (value, least) in ENGINES.items():
            with self.subTest(engine=engine):
                reply = self.start(engine).ask("describe")
                if NOT_HERE.search(reply.get("error", "")):
                    print(f"skipped {engine}: {reply['error']}", file=sys.stderr)
                    continue
                self.assertNotIn("error", reply, reply)
                extra = {"reads_attributes", "single_threaded"}
                self.assertEqual(sorted(set(reply) - extra), ["defaults", "engine", "settings", "sweep", "version"])
                self.check(engine, value, least, threads=1 if reply.get("single_threaded") else 2)

    def test_families_name_who_can_run_here(self):
        """Every member is either a variant or skipped with a reason; without its package all of them are skipped."""
        if not PYTHON.exists():
            self.skipTest(f"{PYTHON} is not there: run benches/peers/ann-venv.sh")
        names = subprocess.run([str(PYTHON), str(WORKER), "--list"], capture_output=True, text=True, check=True).stdout.split()
        for family in FAMILIES:
            with self.subTest(family=family):
                reply = self.start(family, PYTHON).ask("describe")
                self.assertNotIn("error", reply, reply)
                members = reply["variants"] + list(reply["skipped"])
                self.assertGreater(len(members), 3, reply)
                self.assertLessEqual(set(members), set(names))
                for member, reason in reply["skipped"].items():
                    print(f"skipped {member}: {reason}", file=sys.stderr)
                    self.assertRegex(reason, r"not installed|processor", member)

    def test_a_member_that_fails_is_skipped_with_the_reason(self):
        """A process that ends, an error that is answered, and a package that is not there."""
        sys.path.insert(0, str(WORKER.parent))
        self.addCleanup(sys.path.remove, str(WORKER.parent))
        from ann import family

        self.assertIsNone(family.failure("exact"))
        self.assertIn("exit status", family.failure("no-such-engine"))
        end = self.scratch / "end.py"
        end.write_text("import os, signal\ninput()\nprint('{}', flush=True)\ninput()\nos.kill(os.getpid(), signal.SIGILL)\n", "ascii")
        answer = self.scratch / "answer.py"
        answer.write_text("import sys\nfor _ in sys.stdin:\n    print('{\"error\": \"no such code\"}')\n", "ascii")
        for worker, reason in ((end, "its process ended by SIGILL at `open` on this processor"), (answer, "no such code")):
            with unittest.mock.patch.object(family, "WORKER", worker):
                self.assertEqual(family.failure("any"), reason)
        missing = family.Family("no-such-package", ["one", "two"])
        self.assertEqual((missing.version, missing.variants, sorted(missing.skipped)), ("none", [], ["one", "two"]))
        self.assertIn("no-such-package is not installed", missing.skipped["one"])


@unittest.skipUnless(PYTHON.exists() and not HAS_NUMPY, "this Python has numpy itself, or there is no environment of the peers")
class AnnWorkerTestOfTheEnvironment(unittest.TestCase):
    """The class above under the Python of the peers, where this one lacks numpy."""

    def test_all(self):
        """All of it passes there."""
        command = [str(PYTHON), "-m", "unittest", "ann_worker_test.AnnWorkerTest"]
        here = pathlib.Path(__file__).resolve().parent
        run = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=20 * WAIT_S, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)


if __name__ == "__main__":
    unittest.main()

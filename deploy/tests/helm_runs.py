"""The containers of the chart, each run with its rendered command and configuration (containers.py); for helm.py.

Probes are asked as kubelet asks them, what is served is used, and SIGTERM ends each within its grace period.
"""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import unittest

from build_index import built
from containers import COMMAND_S, Container, Machine, exchange, give
from helm_chart import DEPLOY, SETTINGS, case, configuration, documents, of_kind, pod_template

CORPUS = DEPLOY / "quickstart/corpus.jsonl"
JSON = {"Content-Type": "application/json"}
# No GPU is needed to see that a container runs.
ON_CPU = ["--set", "encoder.device=cpu,encoder.dtype=f32"]


def first_documents():
    """The first 40 documents of the quick start."""
    return "".join(CORPUS.read_text().splitlines(keepends=True)[:40])


class Cluster:
    """Claims, secrets and a bucket as folders, and the containers of a rendering on them."""

    def __init__(self, folder, secrets):
        self.folder, self.secrets = folder, secrets
        self.bucket = folder / "bucket"
        give(self.bucket)
        self.claim("dyad-model").mkdir(parents=True)
        (self.claim("dyad-model") / "minilm").symlink_to(SETTINGS["model"])

    def claim(self, name):
        """The folder of a claim."""
        return self.folder / "claims" / name

    def machine(self, *aliases):
        """Where containers of one rendering run."""
        return Machine(SETTINGS["binaries"], self.folder, {"s3://bucket": f"file://{self.bucket}"}, aliases)

    def container(self, objects, name, kind, pod_name=None):
        """The one container of what makes pods."""
        made = of_kind(objects, kind)[name]
        pod, pod_name = pod_template(made)["spec"], pod_name or name
        (one,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        volumes |= {
            claim["metadata"]["name"]: {"claim": claim} for claim in made["spec"].get("volumeClaimTemplates", [])
        }
        files, folders = {}, {}
        for mount in one.get("volumeMounts", []):
            volume, mounted = volumes[mount["name"]], mount["mountPath"]
            if "configMap" in volume:
                files[mounted] = configuration(objects, pod)
            elif "secret" in volume:
                files[mounted] = self.secrets[volume["secret"]["secretName"]]
            elif "persistentVolumeClaim" in volume:
                folders[mounted] = self.claim(volume["persistentVolumeClaim"]["claimName"]) / mount.get("subPath", "")
            else:
                folders[mounted] = self.folder / "volumes" / pod_name / mount["name"]
            if mounted in folders and not mount.get("readOnly"):
                give(folders[mounted])
        # Of the pod's fields, its name alone is asked for.
        environment = {entry["name"]: entry.get("value", pod_name) for entry in one.get("env", [])}
        for source in one.get("envFrom", []):
            environment |= self.secrets[source["secretRef"]["name"]]
        return Container(
            name=pod_name,
            program="dyad-" + one["image"].split("/")[-1].split(":")[0].removeprefix("dyad-"),
            arguments=one["args"],
            files=files,
            folders=folders,
            ports={port["name"]: port["containerPort"] for port in one.get("ports", [])},
            environment=environment,
            probes={key: one[key] for key in ("startupProbe", "livenessProbe", "readinessProbe") if key in one},
            grace_s=pod.get("terminationGracePeriodSeconds", 30),
        )


class RunTest(unittest.TestCase):
    """A folder and a machine for each test."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def asks(self, machine, container, path, body=None, tls=False, status=200, **headers):
        """The reply as text, or as JSON where JSON was sent."""
        sent = json.dumps(body) if body else None
        got, said = machine.get(container, container.ports["http"], path, tls, headers | (JSON if body else {}), sent)
        self.assertEqual(got, status, f"{container.name}{path}: {said}")
        return json.loads(said) if body else said

    def has_metrics(self, machine, *containers, **options):
        """Each serves them under the name of its program."""
        for container in containers:
            said = self.asks(machine, container, "/metrics", **options)
            self.assertIn(container.program.replace("-", "_") + "_build_info", said)

    def test_an_index_on_a_volume(self):
        cluster = Cluster(self.folder, {"store": {"AWS_ACCESS_KEY_ID": "none"}})
        objects = documents(*case("volume"))
        hosts = [
            (f"dyad-searcher-{number}.dyad-searcher-pods.default.svc", f"dyad-searcher-{number}") for number in range(2)
        ]
        machine = cluster.machine(*hosts)
        self.addCleanup(machine.stop_all)
        encoder = cluster.container(objects, "dyad-encoder", "Deployment")
        searchers = [
            cluster.container(objects, "dyad-searcher", "StatefulSet", f"dyad-searcher-{number}") for number in range(2)
        ]
        indexer = cluster.container(objects, "dyad-indexer", "Deployment")
        (build,) = of_kind(objects, "Job")
        corpus = cluster.claim("corpus") / "articles/corpus.jsonl"
        corpus.parent.mkdir(parents=True)
        corpus.write_text(first_documents())

        machine.start(encoder)
        machine.wait_until_ready()
        self.assertIn("40 documents", machine.run(cluster.container(objects, build, "Job")))
        for server in (*searchers, indexer):
            machine.start(server)
        machine.wait_until_ready()

        added = {
            "documents": [{"key": "n1", "text": "The okapi is a relative of the giraffe."}],
            "wait": "WAIT_SEARCHABLE",
        }
        self.assertTrue(
            self.asks(machine, indexer, "/v1/upsert", added, Host="dyad-indexer.default.svc:7712")["searchable"]
        )
        for searcher in searchers:
            # By a name of its Service, and by none of a stranger.
            found = self.asks(
                machine,
                searcher,
                "/v1/search",
                {"query": "Which animal is like a giraffe?", "k": 1},
                Host="dyad-searcher:7780",
            )
            self.assertEqual(found["hits"][0]["key"], "n1")
            self.asks(machine, searcher, "/v1/status", status=403, Host="stranger.example")
        self.has_metrics(machine, encoder, *searchers, indexer)

        machine.run(cluster.container(objects, "dyad-push", "CronJob"))
        self.assertTrue((cluster.bucket / "pushed/CURRENT").is_file())
        machine.run(cluster.container(objects, "dyad-maintenance", "CronJob"))
        machine.stop_all()

        # Elsewhere, from where it was pushed, without an encoder service.
        objects = documents(*case("vectors"))
        searcher = cluster.container(objects, "search-searcher", "StatefulSet", "search-searcher-0")
        machine.start(searcher)
        machine.wait_until_ready()
        found = self.asks(machine, searcher, "/v1/search", {"query": "okapi", "mode": "bm25", "k": 1})
        self.assertEqual(found["hits"][0]["key"], "n1")
        machine.stop_all()

    def keys(self):
        """Keys, and a certificate: the secrets of a release."""
        folder = self.folder / "secrets"
        folder.mkdir()
        for name, role in (("client", "read"), ("prometheus", "read"), ("admin", "admin")):
            self.key(name, role)
        # The extensions, too, are those of searcher/README.md.
        names = "subjectAltName=DNS:dyad-encoder,DNS:dyad-searcher,DNS:dyad-leaf,IP:127.0.0.1"
        kind = [
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=dyad",
        ]
        out = [
            "-keyout",
            folder / "tls.key",
            "-out",
            folder / "tls.crt",
            "-addext",
            names,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        subprocess.run(["openssl", "req", *kind, *out], check=True, capture_output=True, timeout=COMMAND_S)
        read = {path.name: path.read_text() for path in folder.iterdir()}
        return {
            "dyad-tls": {"tls.crt": read["tls.crt"], "tls.key": read["tls.key"], "ca.crt": read["tls.crt"]},
            "dyad-keys": {"keys.json": read["keys.json"]},
            "dyad-client": {"api-key": read["client"]},
            "dyad-admin": {"api-key": read["admin"]},
            "dyad-prometheus": {"api-key": read["prometheus"]},
            "store": {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"},
        }

    def key(self, name, role):
        """Makes a key; gives it."""
        folder = self.folder / "secrets"
        command = [SETTINGS["binaries"] / "dyad-searcher", "keys", "create", "--name", name, "--role", role]
        subprocess.run(
            [*command, "--keys", folder / "keys.json", "--out", folder / name],
            check=True,
            capture_output=True,
            timeout=COMMAND_S,
        )
        return (folder / name).read_text().strip()

    def is_monitored(self, machine, objects, secrets, containers):
        """Each serves metrics as its ServiceMonitor asks for them."""
        for name, container in containers.items():
            (endpoint,) = of_kind(objects, "ServiceMonitor")[name]["spec"]["endpoints"]
            credentials = endpoint["authorization"]["credentials"]
            key = secrets[credentials["name"]][credentials["key"]].strip()
            self.assertEqual((endpoint["path"], endpoint["scheme"]), ("/metrics", "https"))
            self.has_metrics(machine, container, tls=True, Authorization=f"Bearer {key}")

    def test_an_index_in_a_store(self):
        secrets = self.keys()
        cluster = Cluster(self.folder, secrets)
        machine = cluster.machine()
        self.addCleanup(machine.stop_all)
        (cluster.bucket / "corpus").mkdir()
        (cluster.bucket / "corpus/part.jsonl").write_text(first_documents())
        objects = documents(*case("store"), *ON_CPU, "--set", "encoder.model.path=minilm")
        encoder = cluster.container(objects, "dyad-encoder", "Deployment")
        searcher = cluster.container(objects, "dyad-searcher", "Deployment")
        machine.start(encoder)
        machine.wait_until_ready()

        for step in ("plan", "embed", "shard", "commit"):
            done = documents(*case("store"), *ON_CPU, "--set", f"bulk.step={step},bulk.partitions=2,bulk.shards=2")
            (name,) = of_kind(done, "Job")
            for index in range(of_kind(done, "Job")[name]["spec"].get("completions", 1)):
                job = cluster.container(done, name, "Job", f"{name}-{index}")
                job.environment["JOB_COMPLETION_INDEX"] = str(index)
                machine.run(job)
        machine.start(searcher)
        machine.wait_until_ready()

        key = {"Authorization": "Bearer " + secrets["dyad-client"]["api-key"].strip()}
        question = {"query": "Which planet is closest to the Sun?", "k": 1}
        found = self.asks(machine, searcher, "/v1/search", question, tls=True, **key)
        self.assertEqual((found["hits"][0]["key"], found["coverage"]["documents"]), ("p001", 40))
        self.assertFalse(found.get("degraded"))
        self.asks(machine, searcher, "/v1/search", question, tls=True, status=401)
        self.is_monitored(machine, objects, secrets, {"dyad-encoder": encoder, "dyad-searcher": searcher})

        # A secret that changes needs no restart.
        added = self.key("added", "read")
        exchange(
            self.folder / searcher.name / "run/dyad/keys",
            {"keys.json": (self.folder / "secrets/keys.json").read_text()},
        )
        end = time.monotonic() + COMMAND_S
        while machine.get(searcher, searcher.ports["http"], "/v1/status", True, {"x-api-key": added})[0] != 200:
            self.assertLess(time.monotonic(), end, "a key that was added to the secret is not accepted")
            time.sleep(0.2)
        machine.run(cluster.container(objects, "dyad-maintenance", "CronJob"))
        machine.stop_all()

    def test_an_index_on_leaves(self):
        secrets = self.keys()
        cluster = Cluster(self.folder, secrets)
        documents_of_corpus = [json.loads(line) for line in first_documents().splitlines()]
        built(SETTINGS["binaries"], SETTINGS["model"], self.folder / "built", documents_of_corpus, "--shards", "5")
        push = [SETTINGS["binaries"] / "dyad-indexer", "push", "--index", self.folder / "built"]
        push += ["--to", f"file://{cluster.bucket}/index"]
        subprocess.run(push, check=True, capture_output=True, timeout=COMMAND_S)
        give(cluster.bucket)
        objects = documents(*case("leaves"))
        names = [f"dyad-leaf-{number}" for number in range(of_kind(objects, "StatefulSet")["dyad-leaf"]["spec"]["replicas"])]
        machine = cluster.machine(("dyad-leaf", names))
        self.addCleanup(machine.stop_all)
        leaves = [cluster.container(objects, "dyad-leaf", "StatefulSet", name) for name in names]
        root = cluster.container(objects, "dyad-searcher", "Deployment")
        for server in (root, *leaves):
            machine.start(server)
        machine.wait_until_ready()

        key = {"Authorization": "Bearer " + secrets["dyad-client"]["api-key"].strip()}
        question = {"query": "Which planet is closest to the Sun?", "mode": "MODE_BM25", "k": 1}
        found = self.asks(machine, root, "/v1/search", question, tls=True, **key)
        self.assertEqual((found["hits"][0]["key"], found["coverage"]["documents"]), ("p001", 40))
        self.assertFalse(found.get("degraded"))
        # A client's key is not for a leaf, which would show it all documents, and a leaf has no API for clients.
        self.asks(machine, leaves[0], "/metrics", tls=True, status=401)
        self.asks(machine, leaves[0], "/v1/search", question, tls=True, status=404, **key)
        self.is_monitored(machine, objects, secrets, {"dyad-searcher": root, "dyad-leaf": leaves[-1]})
        key = {"Authorization": "Bearer " + secrets["dyad-prometheus"]["api-key"].strip()}
        said = self.asks(machine, root, "/metrics", tls=True, **key)
        self.assertEqual(re.findall(r"_leaf_up\{.*\} (\d)", said), ["1"] * len(leaves))
        self.assertIn('dyad_searcher_least_leaves_of_shard{index="wiki"} 2', said)
        # A leaf has fetched its own shards alone: of five each is there twice.
        shards = [len(list((self.folder / "volumes" / name).glob("cache/**/shards/*"))) for name in names]
        self.assertEqual((sum(shards), max(shards) < 5), (10, True), shards)
        # One that ends, while searchers follow it, is not missed.
        machine.stop(leaves[1])
        key = {"Authorization": "Bearer " + secrets["dyad-client"]["api-key"].strip()}
        again = self.asks(machine, root, "/v1/search", question, tls=True, **key)
        self.assertEqual((again["hits"], again["coverage"]["documents"]), (found["hits"], 40))
        machine.stop_all()

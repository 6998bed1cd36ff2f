"""Dashboard and alerts against servers that run: metrics.py BINARIES MODEL [PROMETHEUS], in the root.

A searcher serves the quick start with an encoder service as its question tower, an indexer changes it, a leaf holds it too, and a root asks
that; every metric of all is made to occur. Dashboard and alert rules may name only metrics, labels and values that are there, and the dashboard has to show each. With PROMETHEUS, the folder of
`prometheus` and `promtool` that deploy/prometheus.sh prints, the rules are tested by themselves, every panel has to show something, and an
alert has to fire once the encoder is killed.

| file | contents |
|---|---|
| `metrics_expressions.py` | what expressions name, and what a scrape has |
| `metrics_prometheus.py` | a Prometheus that scrapes the servers |
"""

import contextlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import metrics_expressions as expressions
from build_index import built
from metrics_prometheus import CONFIG, Prometheus, promtool, with_security
from readme import Servers

WAIT_S, PAUSE_S = 300, 0.2
RULES_TEST = pathlib.Path("deploy/prometheus/alerts_test.yml")
SERVERS = ("dyad-encoder", "dyad-searcher", "dyad-indexer")
# By the job that scrapes them; the root is a searcher that asks the leaf.
JOBS = {"dyad-encoder": ["dyad-encoder"], "dyad-searcher": ["dyad-searcher", "root"], "dyad-indexer": ["dyad-indexer"], "dyad-leaf": ["leaf"]}
ALL = [name for names in JOBS.values() for name in names]
# Without TLS, and without load.
EMPTY = {"Certificate", "Refused for load"}
NUMBER = itertools.count()
# Set by `main` and `serving`.
SETTINGS = {}


def wait_for(what, look):
    """Asks questions until `look` gives something."""
    end, found = time.monotonic() + WAIT_S, None
    while not (found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {WAIT_S} s")
        ask()
        time.sleep(PAUSE_S)
    return found


def post(server, path, body, key=None):
    """The status of a request, with the key that is for everything unless another is given; none where no server listens."""
    key = SETTINGS["key"] if key is None else key
    url = SETTINGS["servers"].urls[server, "http"] + path
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
    except urllib.error.URLError:
        return None


def ask():
    """Questions that have not been asked before, which the tower has to embed; again, through a filter, and one that is refused. Then what
    is refused for want of a key, and a file of keys that has changed."""
    question = {"query": f"what is planet {next(NUMBER)}", "mode": "MODE_HYBRID", "k": 3}
    filtered = {"filter": {"equals": {"field": "lang", "value": {"text": "en"}}}}
    answers = [post("dyad-searcher", "/v1/search", question | more) for more in ({}, {}, filtered, {"k": 1_000_000})]
    document = {"key": "planet", "text": f"planet {next(NUMBER)} has rings", "metadata": {"lang": "en"}}
    # Also of the root, and what has nothing to do with the documents: out of distribution.
    post("root", "/v1/search", question)
    post("dyad-searcher", "/v1/search", {"query": "how do I reset my password", "mode": "MODE_DENSE", "k": 3})
    answers += [post("dyad-indexer", "/v1/upsert", {"documents": sent}) for sent in ([document], [{"key": "no text"}])]
    SETTINGS["keys"].touch()
    strangers = [post("dyad-searcher", "/v1/search", question, key=""), post("dyad-encoder", "/v1/embeddings", {"input": "a"}, key="")]
    return answers + strangers + [post("dyad-indexer", "/v1/upsert", {"documents": [document]}, key="")]


def scrape(server):
    """The metrics of a server."""
    url, headers = SETTINGS["servers"].urls[server, "http"] + "/metrics", {"Authorization": f"Bearer {SETTINGS['key']}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=WAIT_S) as reply:
        return reply.read().decode()


@contextlib.contextmanager
def serving():
    """Encoder service, searcher, indexer, leaf and root, each asked what makes its metrics occur."""
    servers = SETTINGS["servers"] = Servers()
    with tempfile.TemporaryDirectory() as scratch:
        folder = SETTINGS["scratch"] = pathlib.Path(scratch)
        lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text().splitlines()
        documents = [json.loads(line) | {"metadata": {"lang": "en"}} for line in lines]
        built(SETTINGS["binaries"], SETTINGS["model"], folder / "quickstart", documents)
        encoder, searcher, indexer = (str(SETTINGS["binaries"] / name) for name in SERVERS)
        keys, key_file = SETTINGS["keys"], SETTINGS["key_file"] = folder / "keys.json", folder / "operator.key"
        create = [searcher, "keys", "create", "--keys", keys, "--name", "operator", "--role", "admin", "--concurrency", "64", "--out", key_file]
        subprocess.run(create, check=True, timeout=WAIT_S)
        SETTINGS["key"] = key_file.read_text().strip()
        environment = os.environ | {"RUST_LOG": "warn", "DYAD_API_KEY_FILE": str(key_file)}
        listen = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--keys", str(keys), "--audit-log", "audit.jsonl"]
        try:
            servers.start("dyad-encoder", [encoder, "serve", "--model", str(SETTINGS["model"]), *listen], environment, folder)
            tower = ["--index", "quickstart", "--question-tower", servers.urls["dyad-encoder"]]
            servers.start("dyad-searcher", [searcher, "serve", *tower, "--live-recall-share", "1", *listen], environment, folder)
            options = ["--index", "quickstart", "--name", "leaf-0", "--names", "leaf-0"]
            servers.start("leaf", [searcher, "leaf", *options, *listen], environment, folder)
            options = ["--leaves", servers.urls["leaf"], "--wait-s", "60"]
            servers.start("root", [searcher, "serve", *tower, *options, *listen], environment, folder)
            options = ["--index", "quickstart", "--encoder", servers.urls["dyad-encoder"]]
            servers.start("dyad-indexer", [indexer, "serve", *options, *listen], environment, folder)
            yield
        finally:
            # Before the leaf that it follows.
            servers.end("root")
            servers.end_all()


class Names(unittest.TestCase):
    """What dashboard and alerts name is what is exported."""

    @classmethod
    def setUpClass(cls):
        statuses = [*ask(), *ask()]
        assert statuses == [200, 200, 200, 400, 200, 400, 401, 401, 401] * 2, statuses
        assert post("dyad-encoder", "/v1/embeddings", {"input": [""]}) == 400
        # The comparison with the exact search comes after the answer.
        wait_for("live recall", lambda: "dyad_searcher_recall_found_total{" in scrape("dyad-searcher"))
        cls.scrape = "".join(scrape(server) for server in ALL)
        cls.metrics = expressions.series(cls.scrape)

    def test_every_metric_label_and_value_exists(self):
        """Of the dashboard, its variables, the alerts, and what Kubernetes scales by."""
        queries = [*expressions.dashboard_expressions(), *expressions.alert_expressions(), *expressions.adapter_expressions()]
        found = [f"{place}: {problem}" for place, query in queries for problem in expressions.problems(query, self.metrics)]
        self.assertEqual(found, [])
        self.assertGreater(len(queries), len(expressions.alerts()))

    def test_the_dashboard_shows_every_family(self):
        """So that none is forgotten."""
        shown = {name for _, query in expressions.dashboard_expressions() for name in expressions.named(query).matchers}
        families = expressions.families(self.scrape)
        self.assertEqual([name for name, samples in families.items() if not samples & shown], [])

    def test_every_family_of_the_source_was_exported(self):
        """A family without series is not exported: those that are checked above have to be all that the source registers."""
        sources = ("searcher/src/metrics.rs", "searcher/src/service/http/scrape.rs", "searcher/src/service/http/scraped_leaves.rs", "encoder/src/serve/metrics.rs")
        text = "".join(pathlib.Path(path).read_text() for path in sources)
        registered = re.findall(r"\.register(?:_with_unit)?\(\s*\"(\w+)\"", text)
        # Here counters and gauges are listed with their help.
        text = pathlib.Path("indexer/src/serve/metrics.rs").read_text()
        registered += re.findall(r"(?:\.register(?:_with_unit)?|^ +)\(\s*\"(\w+)\", *(?:\n *)?(?:\"|help)", text, flags=re.MULTILINE)
        # All servers have these.
        text = pathlib.Path("proto/src/service/security_metrics.rs").read_text()
        registered += len(SERVERS) * re.findall(r"(?:encode_descriptor\(\s*|(?:counters?|gauges)\(\s*(?:&mut )?encoder,\s*)\"(\w+)\"", text)
        families = expressions.families(self.scrape)
        self.assertEqual(len(registered), len(families), f"{sorted(registered)}\n{sorted(families)}")

    def test_what_does_not_exist_is_found(self):
        """A metric, a label, a value, a label of a grouping: each once."""
        of = {
            "rate(dyad_searcher_request_total[5m])": "there is no metric `dyad_searcher_request_total`",
            'sum(dyad_searcher_jobs{pool="bulk"})': "`dyad_searcher_jobs` has no label `pool`",
            'dyad_searcher_jobs{class="bulky"} > 1': '`dyad_searcher_jobs` has no `class="bulky"`',
            'dyad_searcher_requests_total{status=~"OK|FAILED"}': '`dyad_searcher_requests_total` has no `status="FAILED"`',
            "sum by (pool) (dyad_searcher_jobs)": "no metric of `sum by (pool) (dyad_searcher_jobs)` has the label `pool`",
        }
        for query, problem in of.items():
            self.assertEqual(list(expressions.problems(query, self.metrics)), [problem])

    def test_panels_and_alerts_say_what_they_are(self):
        """A description and a unit for each panel; severity, summary and description for each alert."""
        for panel in json.loads(expressions.DASHBOARD.read_text())["panels"]:
            if panel["type"] != "row":
                self.assertRegex(panel["description"], r"^[A-Z].*\.$", panel["title"])
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], panel["title"])
                self.assertTrue(all(target["legendFormat"] for target in panel["targets"]), panel["title"])
        for alert in expressions.alerts():
            self.assertIn(alert["labels"]["severity"], ("warning", "critical"), alert["alert"])
            self.assertEqual(set(alert["annotations"]), {"summary", "description"}, alert["alert"])
            self.assertIn("for", alert)


class Rules(unittest.TestCase):
    """promtool accepts configuration and rules, and every alert fires in a test."""

    def check(self, *words):
        """Exit code 0."""
        code, printed = promtool(SETTINGS["prometheus"], *words)
        self.assertEqual(code, 0, printed)

    def test_rules(self):
        """By themselves, and their unit tests."""
        self.check("check", "rules", expressions.ALERTS)
        self.check("test", "rules", RULES_TEST)
        tests = RULES_TEST.read_text()
        self.assertEqual([alert["alert"] for alert in expressions.alerts() if alert["alert"] not in re.findall(r"\w+", tests)], [])

    def test_configuration(self):
        """As it is, and with keys, TLS and an Alertmanager."""
        self.check("check", "config", CONFIG)
        secured = SETTINGS["scratch"] / "secured.yml"
        secured.write_text(with_security(CONFIG.read_text()))
        self.assertEqual(secured.read_text().count("credentials_file"), len(JOBS))
        self.check("check", "config", "--syntax-only", secured)


class Alert(unittest.TestCase):
    """A Prometheus that scrapes the servers."""

    def test_panels_show_something_and_a_killed_tower_is_told(self):
        """Every panel has a value; then the encoder is killed."""
        servers = SETTINGS["servers"]
        targets = {job: [servers.urls[name, "http"].removeprefix("http://") for name in names] for job, names in JOBS.items()}
        prometheus = Prometheus(SETTINGS["prometheus"], SETTINGS["scratch"], targets, SETTINGS["key_file"])
        self.addCleanup(prometheus.end)
        prometheus.wait_until_ready()

        def known(name):
            return "10s" if name[1] == "__rate_interval" else ".*"

        queries = [(place, re.sub(r"\$(\w+)", known, query)) for place, query in expressions.dashboard_expressions()]

        def empty():
            found = {place for place, query in queries if not prometheus.values(query)}
            return found - {"annotation `Alerts`"} - {f"panel `{title}`" for title in EMPTY}

        try:
            wait_for("every panel shows something", lambda: not empty())
        except AssertionError as error:
            raise AssertionError(f"{error}: {sorted(empty())}") from error
        self.assertNotIn("DyadTowerDown", prometheus.alerts())
        servers.running["dyad-encoder"].kill()
        wait_for("the alert fires", lambda: prometheus.alerts().get("DyadTowerDown") == "firing")


def main():
    """0 when all tests pass."""
    binaries, model, *prometheus = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    SETTINGS.update(binaries=binaries, model=model, prometheus=next(iter(prometheus), None))
    cases = (Names, Rules, Alert) if prometheus else (Names,)
    if not prometheus:
        print("no Prometheus: tests of the alert rules, and the alert that fires, are skipped")
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    with serving():
        done = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(load, cases)))
    return 0 if done.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

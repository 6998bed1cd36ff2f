"""deploy/helm, rendered and run: helm.py BINARIES HELM [MODEL].

`helm lint` and `helm template` over the values of deploy/tests/helm/*.yaml and changes of them; the schemas of Kubernetes; what objects say of
each other; golden files (DYAD_WRITE_GOLDEN=1 writes them again). With MODEL, each container's command is run (helm_runs.py). There is no
cluster in this: nothing is applied.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import unittest
import urllib.parse

import kubernetes_validate
import yaml
from helm_chart import CASES, CHART, DEPLOY, NAMES, SETTINGS, case, configuration, documents, helm, of_kind, pod_template, pods, rendered

# kubeVersion of the chart.
OLDEST = "1.29"
PROGRAM_S = 60
SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
# The cases, and what each changes in one of them.
MATRIX = {
    **{name: case(name) for name in NAMES},
    "no policies": [*case("volume"), "--set", "networkPolicy.enabled=false,podDisruptionBudget.enabled=false"],
    "a claim that is there": [*case("volume"), "--set", "index.volume.existingClaim=old-index"],
    "keys on a volume": [*case("volume"), "--set", "security.insecure=false,security.tlsSecret=t,security.keysSecret=k,security.clientKeySecret=c,security.adminKeySecret=a"],
    "an encoder elsewhere": [*case("volume"), "--set", "encoder.enabled=false,encoderUrl=https://encoder.example:443"],
    "no index by clients": [*case("volume"), "--set", "indexer.enabled=false,jobs.build.enabled=false"],
    "monitors without TLS": [*case("vectors"), "--set", "serviceMonitor.enabled=true"],
    "scaled with disks": [*case("vectors"), "--set", "searcher.autoscaling.enabled=true"],
    "many encoders": [*case("store"), "--set", "encoder.autoscaling.enabled=true"],
    **{f"bulk {step}": [*case("store"), "--set", f"bulk.step={step},bulk.partitions=7,bulk.shards=3"] for step in ("embed", "shard", "commit")},
}
# Values that are refused, with what is said of them.
REFUSED = {
    "--set=serchers.replicas=2": "'serchers' not allowed",
    "--set=searcher.replica=2": "'replica' not allowed",
    "--set=searcher.replicas=two": "got string, want integer",
    "--set=index.source=disk": "value must be one of 'volume', 'store'",
    "--set=searcher.config.listen=0.0.0.0:1": "invalid propertyName 'listen'",
    "--set=encoder.config.Threads=2": "invalid propertyName 'Threads'",
    "--set=store.env.AWS_SECRET_ACCESS_KEY=s": "invalid propertyName 'AWS_SECRET_ACCESS_KEY'",
    "--set=searcher.cache.size=20GB": "'20GB' does not match pattern",
    "--set=jobs.push.enabled=true,jobs.push.url=": "jobs.push.url: expected where the index is pushed to",
    "--set=security.insecure=false": "security: expected `tlsSecret` and `keysSecret`",
    "--set=security.keysSecret=keys": "security.clientKeySecret: expected a secret with `api-key`",
    "--set=security.keysSecret=keys,security.clientKeySecret=key": "security.adminKeySecret: expected a secret",
    "--set=searcher.autoscaling.enabled=true": "searcher.autoscaling.enabled: expected index.source `store`",
    "--set=encoderUrl=http://other:7701": "encoderUrl: expected none with encoder.enabled",
    "--set=encoder.enabled=false": "jobs.build: expected `corpusClaim`, and an encoder service",
    "--set=index.source=store,store.url=s3://b/i": "expected an index on a volume, got index.source `store`",
    "--set=bulk.step=plan": "bulk.step: expected `bulk.input`",
    "--set=bulk.step=plan,bulk.input=s3://b/*,bulk.job=s3://b/i,store.url=s3://b/i": "bulk.job: expected another place",
}


def matches(selector, labels):
    """Whether a label selector selects labels."""
    wanted = selector.get("matchLabels", {}).items()
    if any(one["operator"] != "In" for one in selector.get("matchExpressions", [])):
        raise AssertionError(f"expected operators `In`, got {selector}")
    return wanted <= labels.items() and all(labels.get(one["key"]) in one["values"] for one in selector.get("matchExpressions", []))


class RenderingTest(unittest.TestCase):
    """What Helm makes of values."""

    def test_lint_finds_nothing(self):
        for name in NAMES:
            code, said = helm("lint", "--strict", str(CHART), *case(name))
            self.assertEqual((code, "[WARNING]" in said, "[ERROR]" in said), (0, False, False), said)

    def test_golden_files_are_what_is_rendered(self):
        for name in NAMES:
            golden, now = CASES / f"{name}.golden.yaml", rendered(*case(name))
            if os.environ.get("DYAD_WRITE_GOLDEN") == "1":
                golden.write_text(now)
            self.assertEqual(golden.read_text().splitlines(), now.splitlines(), f"{golden}: DYAD_WRITE_GOLDEN=1 writes it again")

    def test_values_that_mean_nothing_are_refused(self):
        for words, reason in REFUSED.items():
            code, said = helm("template", "dyad", str(CHART), *case("volume"), words)
            self.assertNotEqual(code, 0, words)
            self.assertIn(reason, said, words)

    def test_every_value_is_in_the_schema_and_has_a_default(self):
        schema = yaml.safe_load((CHART / "values.schema.json").read_text())

        def compare(path, described, values):
            described = schema["$defs"][described["$ref"].split("/")[-1]] | described if "$ref" in described else described
            if isinstance(values, dict) and "properties" in described:
                self.assertIs(described["additionalProperties"], False, path)
                self.assertEqual(described["properties"].keys() - {"global"}, values.keys(), path)
                for key, value in values.items():
                    compare(f"{path}.{key}", described["properties"][key], value)

        resources = schema["$defs"]["resources"]["properties"]
        self.assertEqual(resources.keys(), {"requests", "limits"})
        compare("values", schema, yaml.safe_load((CHART / "values.yaml").read_text()))

    def test_a_changed_configuration_rolls_its_pods_and_no_others(self):
        def checksums(*options):
            annotated = ((name, template["metadata"].get("annotations", {})) for name, template, _ in pods(documents(*case("volume"), *options)))
            return {name: one["checksum/config"] for name, one in annotated if one}

        before, after = checksums(), checksums("--set", "searcher.config.max-requests=128")
        self.assertEqual(before.keys(), {"dyad-encoder", "dyad-searcher", "dyad-indexer"})
        self.assertEqual({name for name in before if before[name] != after[name]}, {"dyad-searcher"})
        self.assertEqual(before, checksums("--set", "searcher.resources.limits.memory=8Gi"))

    def test_other_values_of_a_job_make_another_job(self):
        def names(*options):
            return set(of_kind(documents(*options), "Job"))

        self.assertEqual(names(*case("volume")), names(*case("volume"), "--set", "searcher.replicas=1"))
        self.assertFalse(names(*case("volume")) & names(*case("volume"), "--set", "jobs.build.corpusPath=other.jsonl"))
        self.assertFalse(names(*MATRIX["bulk embed"]) & names(*MATRIX["bulk embed"], "--set", "bulk.partitions=8"))

    def test_the_release_is_that_of_the_programs(self):
        package = tomllib.loads((DEPLOY.parent / "Cargo.toml").read_text())["workspace"]["package"]
        self.assertEqual(yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"], package["version"])


class ManifestTest(unittest.TestCase):
    """What the objects say, for each of the matrix."""

    @classmethod
    def setUpClass(cls):
        cls.matrix = {name: documents(*options) for name, options in MATRIX.items()}

    def test_objects_are_valid(self):
        # Those that several renderings have, once; and none of the operator's, whose schema is not Kubernetes'.
        objects = {json.dumps(one): one for objects in self.matrix.values() for one in objects if one["kind"] != "ServiceMonitor"}
        for one in objects.values():
            for version in (OLDEST, kubernetes_validate.latest_version()):
                kubernetes_validate.validate(one, version, strict=True)

    def test_a_misspelt_field_would_be_found(self):
        one = of_kind(self.matrix["volume"], "StatefulSet")["dyad-searcher"]
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(one | {"spec": one["spec"] | {"replica": 1}}, OLDEST, strict=True)

    def test_no_pod_has_rights(self):
        (user,) = re.findall(r"^USER (\d+):", (DEPLOY / "docker/Dockerfile").read_text(), re.MULTILINE)
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                self.assertFalse(of_kind(objects, "Secret", "Role", "ClusterRole", "RoleBinding"))
                templates = {name: one["spec"].get("volumeClaimTemplates", []) for name, one in of_kind(objects, "StatefulSet").items()}
                claims = {name: {claim["metadata"]["name"] for claim in made} for name, made in templates.items()}
                for name, _, pod in pods(objects):
                    self.assertEqual((pod["automountServiceAccountToken"], pod["enableServiceLinks"]), (False, False), name)
                    self.assertEqual((pod["securityContext"]["runAsNonRoot"], str(pod["securityContext"]["runAsUser"])), (True, user), name)
                    for container in pod["containers"]:
                        self.assertEqual(container["securityContext"], SECURITY, name)
                        self.assertIn("memory", container["resources"]["limits"], name)
                        mounted = {one["name"] for one in container["volumeMounts"]} if "volumeMounts" in container else set()
                        self.assertEqual(mounted, {one["name"] for one in pod.get("volumes", [])} | claims.get(name, set()), name)

    def test_images_are_those_of_the_container_file(self):
        targets = set(re.findall(r"^FROM runtime AS (\S+)$", (DEPLOY / "docker/Dockerfile").read_text(), re.MULTILINE))
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, _, pod in pods(objects):
                    for container in pod["containers"]:
                        self.assertIn(re.search(r"(?:^|/)dyad-(\w+):\S+$", container["image"])[1], targets, name)

    def test_a_server_has_more_time_to_stop_than_it_takes(self):
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, _, pod in pods(objects):
                    for text in configuration(objects, pod).values():
                        said = tomllib.loads(text)
                        self.assertGreater(pod["terminationGracePeriodSeconds"], said["lame-duck-s"] + said["drain-s"], name)

    def test_servers_have_keys_and_tls_or_say_that_they_have_none(self):
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, _, pod in pods(objects):
                    for text in configuration(objects, pod).values():
                        said = tomllib.loads(text)
                        self.assertTrue(said.get("insecure") or {"tls-cert", "tls-key", "keys"} <= said.keys(), name)

    def test_services_select_the_ports_of_one_component(self):
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, service in of_kind(objects, "Service").items():
                    found = [one for one in objects if pod_template(one) and service["spec"]["selector"].items() <= pod_template(one)["metadata"]["labels"].items()]
                    self.assertEqual(len(found), 1, name)
                    (container,) = pod_template(found[0])["spec"]["containers"]
                    ports = {port["name"] for port in container["ports"]}
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports, name)
                    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                        self.assertIn(container[kind]["httpGet"]["port"], ports, name)

    def test_servers_that_are_called_are_there_and_policies_let_the_calls_through(self):
        calls = 0
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                services, policies = of_kind(objects, "Service"), of_kind(objects, "NetworkPolicy").values()
                for name, template, pod in pods(objects):
                    said = " ".join([*configuration(objects, pod).values(), *pod["containers"][0]["args"]])
                    for url in map(urllib.parse.urlsplit, re.findall(r"https?://[\w.-]+:\d+", said)):
                        if url.hostname.endswith(".example"):
                            continue
                        parts = url.hostname.split(".")
                        # A pod's own name, or a Service's.
                        service = services[parts[1] if len(parts) > 1 else parts[0]]
                        (port,) = (one["targetPort"] for one in service["spec"]["ports"] if one["port"] == url.port)
                        called = next(other for _, other, _ in pods(objects) if service["spec"]["selector"].items() <= other["metadata"]["labels"].items())
                        caller_labels, called_labels = template["metadata"]["labels"], called["metadata"]["labels"]
                        for direction, of, peer, key in (("egress", caller_labels, called_labels, "to"), ("ingress", called_labels, caller_labels, "from")):
                            applying = [one["spec"] for one in policies if matches(one["spec"]["podSelector"], of)]
                            allowed = [
                                rule for spec in applying for rule in spec[direction]
                                if port in [one["port"] for one in rule["ports"]]
                                and any(matches(one["podSelector"], peer) for one in rule.get(key, []) if "podSelector" in one)
                            ]  # fmt: skip
                            self.assertTrue(allowed or not policies, f"{name} calls {url.geturl()}: {direction}")
                        calls += 1
        self.assertGreater(calls, 20)

    def test_pods_ask_nobody_else(self):
        specs = {name: one["spec"] for name, one in of_kind(self.matrix["volume"], "NetworkPolicy").items()}
        self.assertEqual(specs["dyad-encoder"]["egress"], [])
        self.assertEqual((specs["dyad-maintenance"]["egress"], specs["dyad-maintenance"]["ingress"]), ([], []))
        for name in ("dyad-searcher", "dyad-indexer", "dyad-build"):
            self.assertNotIn(443, [port["port"] for rule in specs[name]["egress"] for port in rule["ports"]], name)
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                selected = [one["spec"]["podSelector"] for one in of_kind(objects, "NetworkPolicy").values()]
                for name, template, _ in pods(objects):
                    self.assertTrue(not selected or any(matches(one, template["metadata"]["labels"]) for one in selected), name)

    def test_budgets_scaling_and_monitors_are_for_what_is_there(self):
        kinds = ("Deployment", "StatefulSet")
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                made = of_kind(objects, *kinds)
                for name, one in of_kind(objects, "HorizontalPodAutoscaler").items():
                    target = made[one["spec"]["scaleTargetRef"]["name"]]
                    self.assertEqual((one["spec"]["scaleTargetRef"]["kind"], "replicas" in target["spec"]), (target["kind"], False), name)
                for name, one in of_kind(objects, "PodDisruptionBudget").items():
                    (spec,) = (other["spec"] for other in made.values() if matches(one["spec"]["selector"], pod_template(other)["metadata"]["labels"]))
                    self.assertNotEqual(spec.get("replicas"), 1, name)
                for name, one in of_kind(objects, "ServiceMonitor").items():
                    found = [other for other in of_kind(objects, "Service").values() if matches(one["spec"]["selector"], other["metadata"]["labels"])]
                    self.assertEqual(len(found), 1, name)
                    (endpoint,) = one["spec"]["endpoints"]
                    self.assertIn(endpoint["port"], [port["name"] for port in found[0]["spec"]["ports"]])
        alerts = (DEPLOY / "prometheus/alerts.yml").read_text()
        for one in of_kind(self.matrix["store"], "ServiceMonitor").values():
            (relabeling,) = one["spec"]["endpoints"][0]["relabelings"]
            self.assertIn(relabeling["replacement"], alerts)

    def test_programs_take_the_configurations(self):
        made = (configuration(objects, pod).items() for objects in self.matrix.values() for _, _, pod in pods(objects))
        for file, text in sorted({one for files in made for one in files}):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / file
                path.write_text(text)
                command = [SETTINGS["binaries"] / f"dyad-{path.stem}", "config", "print", "--config", path]
                done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed = tomllib.loads(done.stdout)
            self.assertEqual({key: printed.get(key) for key in tomllib.loads(text)}, tomllib.loads(text))


def main():
    """0 when all tests pass."""
    names = ["binaries", "helm", "model"]
    SETTINGS.update({name: pathlib.Path(word).resolve() for name, word in zip(names, sys.argv[1:], strict=False)})
    modules = ["__main__", "helm_runs"] if "model" in SETTINGS else ["__main__"]
    suite = unittest.defaultTestLoader.loadTestsFromNames(modules)
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

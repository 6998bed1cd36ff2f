"""What the objects of the chart are, for each of the matrix of values; for helm.py."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import tomllib
import unittest
import urllib.parse

import kubernetes_validate
from helm_chart import (
    DEPLOY,
    MATRIX,
    SETTINGS,
    configuration,
    documents,
    matches,
    of_kind,
    pod_template,
    pods,
    server_options,
)

# kubeVersion of the chart.
OLDEST = "1.29"
PROGRAM_S = 120
SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def called_servers(objects):
    """Each call of a server by a pod: its name, the labels of both, and the name of the port."""
    services = of_kind(objects, "Service")
    for name, template, pod in pods(objects):
        said = " ".join([*configuration(objects, pod).values(), *pod["containers"][0]["args"]])
        for url in map(urllib.parse.urlsplit, re.findall(r"https?://[\w.-]+:\d+", said)):
            # Outside of the cluster.
            if url.hostname.endswith(".example"):
                continue
            # A Service's name, or POD.SERVICE.NAMESPACE.svc.
            parts = url.hostname.split(".")
            service = services[parts[min(1, len(parts) - 1)]]["spec"]
            (port,) = (one["targetPort"] for one in service["ports"] if one["port"] == url.port)
            labels = (other["metadata"]["labels"] for _, other, _ in pods(objects))
            called = next(one for one in labels if service["selector"].items() <= one.items())
            yield name, template["metadata"]["labels"], called, port


def lets_through(policies, direction, pod, key, peer, port):
    """Whether policies let a pod have a call in a direction; all do where none is for the pod."""
    applying = [spec for spec in policies if matches(spec["podSelector"], pod)]
    rules = [rule for spec in applying for rule in spec[direction] if port in [one["port"] for one in rule["ports"]]]
    selectors = [one["podSelector"] for rule in rules for one in rule.get(key, []) if "podSelector" in one]
    return not applying or any(matches(one, peer) for one in selectors)


class ManifestTest(unittest.TestCase):
    """What the objects say, for each of the matrix."""

    @classmethod
    def setUpClass(cls):
        cls.matrix = {name: documents(*options) for name, options in MATRIX.items()}

    def test_objects_are_valid(self):
        # Those that several renderings have, once; and none of the operator's, whose schema is not Kubernetes'.
        objects = {
            json.dumps(one): one
            for objects in self.matrix.values()
            for one in objects
            if one["kind"] != "ServiceMonitor"
        }
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
                templates = {
                    name: one["spec"].get("volumeClaimTemplates", [])
                    for name, one in of_kind(objects, "StatefulSet").items()
                }
                claims = {name: {claim["metadata"]["name"] for claim in made} for name, made in templates.items()}
                for name, _, pod in pods(objects):
                    self.assertEqual(
                        (pod["automountServiceAccountToken"], pod["enableServiceLinks"]), (False, False), name
                    )
                    self.assertEqual(
                        (pod["securityContext"]["runAsNonRoot"], str(pod["securityContext"]["runAsUser"])),
                        (True, user),
                        name,
                    )
                    for container in pod["containers"]:
                        self.assertEqual(container["securityContext"], SECURITY, name)
                        self.assertIn("memory", container["resources"]["limits"], name)
                        mounted = (
                            {one["name"] for one in container["volumeMounts"]} if "volumeMounts" in container else set()
                        )
                        self.assertEqual(
                            mounted, {one["name"] for one in pod.get("volumes", [])} | claims.get(name, set()), name
                        )

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
                    if said := server_options(objects, pod):
                        self.assertGreater(
                            pod["terminationGracePeriodSeconds"], said["lame-duck-s"] + said["drain-s"], name
                        )

    def test_servers_have_keys_and_tls_or_say_that_they_have_none(self):
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, _, pod in pods(objects):
                    if said := server_options(objects, pod):
                        self.assertTrue(said.get("insecure") or {"tls-cert", "tls-key", "keys"} <= said.keys(), name)

    def test_services_select_the_ports_of_one_component(self):
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                for name, service in of_kind(objects, "Service").items():
                    found = [
                        one
                        for one in objects
                        if pod_template(one)
                        and service["spec"]["selector"].items() <= pod_template(one)["metadata"]["labels"].items()
                    ]
                    self.assertEqual(len(found), 1, name)
                    (container,) = pod_template(found[0])["spec"]["containers"]
                    ports = {port["name"] for port in container["ports"]}
                    self.assertLessEqual({port["targetPort"] for port in service["spec"]["ports"]}, ports, name)
                    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                        self.assertIn(container[kind]["httpGet"]["port"], ports, name)

    def test_servers_that_are_called_are_there_and_policies_let_the_calls_through(self):
        calls = 0
        for case_name, objects in self.matrix.items():
            policies = [one["spec"] for one in of_kind(objects, "NetworkPolicy").values()]
            for name, caller, called, port in called_servers(objects):
                calls += 1
                with self.subTest(f"{case_name}: {name} calls {port}"):
                    self.assertTrue(lets_through(policies, "egress", caller, "to", called, port))
                    self.assertTrue(lets_through(policies, "ingress", called, "from", caller, port))
        self.assertGreater(calls, 20)

    def test_pods_ask_nobody_else(self):
        specs = {name: one["spec"] for name, one in of_kind(self.matrix["volume"], "NetworkPolicy").items()}
        self.assertEqual(specs["dyad-encoder"]["egress"], [])
        self.assertEqual((specs["dyad-maintenance"]["egress"], specs["dyad-maintenance"]["ingress"]), ([], []))
        for name in ("dyad-searcher", "dyad-indexer", "dyad-build"):
            self.assertNotIn(443, [port["port"] for rule in specs[name]["egress"] for port in rule["ports"]], name)
        specs = {name: one["spec"] for name, one in of_kind(self.matrix["leaves"], "NetworkPolicy").items()}
        self.assertEqual([rule for rule in specs["dyad-leaf"]["egress"] if "to" in rule], [])
        # Who reaches a leaf's port sees all documents.
        (callers,) = [rule["from"] for rule in specs["dyad-leaf"]["ingress"] if "grpc" in str(rule["ports"])]
        components = [one["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for one in callers]
        self.assertEqual(components, ["searcher"])
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                selected = [one["spec"]["podSelector"] for one in of_kind(objects, "NetworkPolicy").values()]
                for name, template, _ in pods(objects):
                    self.assertTrue(
                        not selected or any(matches(one, template["metadata"]["labels"]) for one in selected), name
                    )

    def test_budgets_scaling_and_monitors_are_for_what_is_there(self):
        kinds = ("Deployment", "StatefulSet")
        for case_name, objects in self.matrix.items():
            with self.subTest(case_name):
                made = of_kind(objects, *kinds)
                for name, one in of_kind(objects, "HorizontalPodAutoscaler").items():
                    target = made[one["spec"]["scaleTargetRef"]["name"]]
                    self.assertEqual(
                        (one["spec"]["scaleTargetRef"]["kind"], "replicas" in target["spec"]),
                        (target["kind"], False),
                        name,
                    )
                for name, one in of_kind(objects, "PodDisruptionBudget").items():
                    (spec,) = (
                        other["spec"]
                        for other in made.values()
                        if matches(one["spec"]["selector"], pod_template(other)["metadata"]["labels"])
                    )
                    self.assertNotEqual(spec.get("replicas"), 1, name)
                for name, one in of_kind(objects, "ServiceMonitor").items():
                    found = [
                        other
                        for other in of_kind(objects, "Service").values()
                        if matches(one["spec"]["selector"], other["metadata"]["labels"])
                    ]
                    self.assertEqual(len(found), 1, name)
                    (endpoint,) = one["spec"]["endpoints"]
                    self.assertIn(endpoint["port"], [port["name"] for port in found[0]["spec"]["ports"]])
        alerts = (DEPLOY / "prometheus/alerts.yml").read_text()
        for one in of_kind(self.matrix["store"] + self.matrix["leaves"], "ServiceMonitor").values():
            (relabeling,) = one["spec"]["endpoints"][0]["relabelings"]
            self.assertIn(relabeling["replacement"], alerts)

    def test_leaves_have_the_names_that_all_know_and_roots_ask_them(self):
        for case_name, objects in self.matrix.items():
            leaves = of_kind(objects, "StatefulSet").get("dyad-leaf")
            of = {name: server_options(objects, pod) for name, _, pod in pods(objects)}
            roots = {name for name, said in of.items() if "leaves" in said}
            with self.subTest(case_name):
                self.assertEqual(roots, {"dyad-searcher"} if leaves else set())
            if not leaves:
                continue
            with self.subTest(case_name):
                said, root, spec = of["dyad-leaf"], of["dyad-searcher"], leaves["spec"]
                self.assertEqual(said["names"], f"dyad-leaf-{{0..{spec['replicas'] - 1}}}")
                self.assertEqual((said["replicas"], said["index"]), (root["replicas"], root["index"][0]))
                self.assertEqual(spec["podManagementPolicy"], "Parallel")
                environment = {one["name"]: one for one in pod_template(leaves)["spec"]["containers"][0]["env"]}
                field = environment["DYAD_LEAF_NAME"]["valueFrom"]["fieldRef"]["fieldPath"]
                self.assertEqual(field, "metadata.name")
                service = of_kind(objects, "Service")[spec["serviceName"]]["spec"]
                self.assertEqual((service["clusterIP"], service["publishNotReadyAddresses"]), ("None", False))
                # One at a time only where another holds its shards.
                self.assertEqual("dyad-leaf" in of_kind(objects, "PodDisruptionBudget"), said["replicas"] > 1)
                # Roots have one key for all that they ask, which is the one that leaves want.
                key = root.get("api-key-file")
                self.assertEqual(key, "/run/dyad/admin-key/api-key" if "keys" in said else None)

    def test_leaves_take_their_options(self):
        commands = {
            tuple(pod["containers"][0]["args"])
            for objects in self.matrix.values()
            for _, _, pod in pods(objects)
            if pod["containers"][0]["args"][0] == "leaf"
        }
        self.assertGreater(len(commands), 2)
        for words in commands:
            for more, code in (([], 0), (["--no-such-option"], 2)):
                # Options are read before the help is printed.
                command = [SETTINGS["binaries"] / "dyad-searcher", *words, *more, "--help"]
                done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
                self.assertEqual(done.returncode, code, done.stderr)

    def test_programs_take_the_configurations(self):
        made = (configuration(objects, pod).items() for objects in self.matrix.values() for _, _, pod in pods(objects))
        for file, text in sorted({one for files in made for one in files}):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / file
                path.write_text(text)
                command = [SETTINGS["binaries"] / f"dyad-{path.stem}", "config", "print", "--config", path]
                # Variables of the tests, such as DYAD_MODEL, are options of the programs too.
                environment = {name: value for name, value in os.environ.items() if not name.startswith("DYAD_")}
                done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            printed = tomllib.loads(done.stdout)
            self.assertEqual({key: printed.get(key) for key in tomllib.loads(text)}, tomllib.loads(text))

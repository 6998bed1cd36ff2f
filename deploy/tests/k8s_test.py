"""deploy/k8s: the schemas of Kubernetes, offline, and what the Jobs have to be: k8s_test.py [BINARIES].

With BINARIES, options have to be those of the programs. Skipped where `kubernetes-validate` is not installed.
"""

import pathlib
import re
import subprocess
import sys
import unittest

try:
    import kubernetes_validate
    import yaml
except ImportError:
    kubernetes_validate = None

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
FILE = DEPLOY / "k8s/reindex-job.yaml"
MAINTENANCE = DEPLOY / "k8s/maintain.yaml"
STEPS = ["plan", "embed", "shard", "commit"]
# The first release that has sidecars and limits per index by default.
OLDEST = "1.29"
HELP_S = 60
# Set by `main`.
SETTINGS = {}


@unittest.skipUnless(kubernetes_validate, "kubernetes-validate is not installed: the manifests are not validated")
class BulkJobTest(unittest.TestCase):
    """The Jobs of a bulk job."""

    def setUp(self):
        self.documents = list(yaml.safe_load_all(FILE.read_text()))
        self.jobs = {one["metadata"]["labels"]["step"]: one["spec"] for one in self.documents if one["kind"] == "Job"}
        self.assertEqual(list(self.jobs), STEPS)

    def pods(self):
        """The pod of each Job."""
        return {step: job["template"]["spec"] for step, job in self.jobs.items()}

    def containers(self):
        """All containers: step and container."""
        return [(step, one) for step, pod in self.pods().items() for one in pod.get("initContainers", []) + pod["containers"]]

    def test_manifests_are_valid(self):
        for version in (OLDEST, kubernetes_validate.latest_version()):
            for document in self.documents:
                kubernetes_validate.validate(document, version, strict=True)

    def test_a_misspelt_field_is_found(self):
        self.documents[-1]["spec"]["backofLimit"] = 3
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(self.documents[-1], OLDEST, strict=True)

    def test_nothing_runs_as_root_or_writes_outside_of_scratch(self):
        for step, pod in self.pods().items():
            self.assertIs(pod["securityContext"]["runAsNonRoot"], True, step)
            self.assertIs(pod["automountServiceAccountToken"], False, step)
            for volume in pod["volumes"]:
                self.assertTrue("sizeLimit" in volume.get("emptyDir", {}) or volume.get("persistentVolumeClaim", {}).get("readOnly"), volume)
        for step, container in self.containers():
            security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
            self.assertEqual(container["securityContext"], security, step)
            self.assertIn("memory", container["resources"]["limits"], step)

    def test_each_partition_and_each_shard_is_an_index(self):
        for step, option in (("embed", "--partition"), ("shard", "--shard")):
            job = self.jobs[step]
            self.assertEqual(job["completionMode"], "Indexed")
            self.assertLessEqual(job["maxFailedIndexes"], job["completions"])
            self.assertIn("backoffLimitPerIndex", job)
            self.assertIn(f"{option}=$(JOB_COMPLETION_INDEX)", job["template"]["spec"]["containers"][0]["args"])

    def test_variables_are_defined(self):
        defined = {"JOB_COMPLETION_INDEX", *self.documents[0]["data"]}
        for step, container in self.containers():
            self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))), defined, step)

    def test_credentials_come_from_a_secret_alone(self):
        for step, pod in self.pods().items():
            (indexer,) = pod["containers"]
            self.assertIn({"secretRef": {"name": "dyad-store"}}, indexer["envFrom"], step)
            self.assertNotIn("env", indexer, step)

    def test_images_and_user_are_those_of_the_container_file(self):
        text = (DEPLOY / "docker/Dockerfile").read_text()
        targets = {f"dyad-{name}" for name in re.findall(r"^FROM runtime AS (\S+)$", text, re.MULTILINE)}
        self.assertLessEqual({container["image"] for _, container in self.containers()}, targets)
        (user,) = re.findall(r"^USER (\d+):", text, re.MULTILINE)
        self.assertEqual({str(pod["securityContext"]["runAsUser"]) for pod in self.pods().values()}, {user})

    def test_options_are_those_of_the_programs(self):
        if not SETTINGS:
            self.skipTest("needs the programs of a build: k8s_test.py BINARIES")
        for step, container in self.containers():
            words = [word for word in container["args"] if not word.startswith("-")]
            command = [SETTINGS["binaries"] / container["image"], *words, "--help"]
            said = subprocess.run(command, capture_output=True, text=True, timeout=HELP_S, check=True).stdout
            known = set(re.findall(r"--[a-z-]+", said))
            self.assertLessEqual({word.split("=")[0] for word in container["args"] if word.startswith("-")}, known, step)


@unittest.skipUnless(kubernetes_validate, "kubernetes-validate is not installed: the manifests are not validated")
class MaintenanceTest(unittest.TestCase):
    """The CronJob that keeps an index small."""

    def setUp(self):
        self.document = yaml.safe_load(MAINTENANCE.read_text())
        (self.container,) = self.document["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]

    def test_the_manifest_is_valid(self):
        for version in (OLDEST, kubernetes_validate.latest_version()):
            kubernetes_validate.validate(self.document, version, strict=True)

    def test_runs_do_not_overlap_and_have_no_rights(self):
        self.assertEqual(self.document["spec"]["concurrencyPolicy"], "Forbid")
        security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        self.assertEqual(self.container["securityContext"], security)

    def test_options_are_those_of_the_program(self):
        if not SETTINGS:
            self.skipTest("needs the programs of a build: k8s_test.py BINARIES")
        command = [SETTINGS["binaries"] / "dyad-indexer", self.container["args"][0], "--help"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=HELP_S, check=True).stdout
        options = {word.split("=")[0] for word in self.container["args"] if word.startswith("-")}
        self.assertLessEqual(options, set(re.findall(r"--[a-z-]+", said)))


def main():
    """0 when all tests pass."""
    for binaries in sys.argv[1:2]:
        SETTINGS["binaries"] = pathlib.Path(binaries).resolve()
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

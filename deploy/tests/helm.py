"""deploy/helm, rendered and run: helm.py BINARIES HELM MODEL.

`helm lint` and `helm template` over the values of deploy/tests/helm/*.yaml, and golden files, which DYAD_WRITE_GOLDEN=1
writes again; what the objects are (helm_manifests.py); each container's command, run (helm_runs.py). There is no
cluster in this: nothing is applied.
"""

import os
import pathlib
import re
import sys
import tomllib
import unittest

import yaml
from helm_chart import CASES, CHART, DEPLOY, MATRIX, NAMES, SETTINGS, case, documents, helm, of_kind, pods, rendered

# Leaves in place of the volume that the case has.
LEAVES = "leaf.enabled=true,index.source=store,store.url=s3://b/i,indexer.enabled=false"
LEAVES += ",jobs.build.enabled=false,jobs.push.enabled=false"
KEYS = "security.insecure=false,security.tlsSecret=t,security.keysSecret=k,security.clientKeySecret=c"
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
    "--set=leaf.enabled=true": "leaf.enabled: expected index.source `store`",
    "--set=leaf.autoscaling.enabled=true": "'autoscaling' not allowed",
    "--set=leaf.count=0": "minimum: got 0, want 1",
    "--set=leaf.config.names=leaf-0": "invalid propertyName 'names'",
    "--set=searcher.config.leaves=http://leaf:7703": "invalid propertyName 'leaves'",
    f"--set={LEAVES},leaf.holders=4": "leaf.holders: expected at most leaf.count, which is 3",
    f"--set={LEAVES},{KEYS}": "security.adminKeySecret: expected a secret with `api-key`, by which searchers ask leaves",
    "--set=bulk.step=plan": "bulk.step: expected `bulk.input`",
    "--set=bulk.step=plan,bulk.input=s3://b/*,bulk.job=s3://b/i,store.url=s3://b/i": "bulk.job: expected another place",
}


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
            self.assertEqual(
                golden.read_text().splitlines(), now.splitlines(), f"{golden}: DYAD_WRITE_GOLDEN=1 writes it again"
            )

    def test_values_that_mean_nothing_are_refused(self):
        for words, reason in REFUSED.items():
            code, said = helm("template", "dyad", str(CHART), *case("volume"), words)
            self.assertNotEqual(code, 0, words)
            self.assertIn(reason, said, words)

    def test_every_value_is_in_the_schema_and_has_a_default(self):
        schema = yaml.safe_load((CHART / "values.schema.json").read_text())

        def compare(path, described, values):
            described = (
                schema["$defs"][described["$ref"].split("/")[-1]] | described if "$ref" in described else described
            )
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
            annotated = (
                (name, template["metadata"].get("annotations", {}))
                for name, template, _ in pods(documents(*case("volume"), *options))
            )
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

    def test_the_notes_name_services_that_are_there(self):
        for name in NAMES:
            code, said = helm("install", "dyad", str(CHART), "--dry-run=client", *case(name))
            self.assertEqual(code, 0, said)
            notes = said.split("\nNOTES:\n")[1]
            named = set(re.findall(r"\b([\w-]+):77[0-9]{2}\b", notes)) - {"localhost"}
            self.assertEqual(named, {one for one in of_kind(documents(*case(name)), "Service") if one[-5:] != "-pods"})
            self.assertEqual("WARNING: security.insecure" in notes, name not in ("store", "leaves"), notes)

    def test_the_release_is_that_of_the_programs(self):
        package = tomllib.loads((DEPLOY.parent / "Cargo.toml").read_text())["workspace"]["package"]
        self.assertEqual(yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"], package["version"])


def main():
    """0 when all tests pass."""
    names = ["binaries", "helm", "model"]
    SETTINGS.update({name: pathlib.Path(word).resolve() for name, word in zip(names, sys.argv[1:], strict=True)})
    suite = unittest.defaultTestLoader.loadTestsFromNames(["__main__", "helm_manifests", "helm_runs"])
    return 0 if unittest.TextTestRunner().run(suite).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

"""deploy/docker/compose.yaml: what it says, and its commands run: compose.py BINARIES MODEL.

The file's own tool, `docker compose config`, is a plugin of Docker, which no package index that CI reads has: the
fields that may be used are listed here. Commands and healthchecks are run by containers.py, without images, networks
and limits.
"""

import json
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

import yaml
from containers import USER, Container, Machine, give

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
FILE = DEPLOY / "docker/compose.yaml"
CORPUS = DEPLOY / "quickstart/corpus.jsonl"
SERVERS = ("encoder", "searcher", "indexer")
JSON = {"Content-Type": "application/json"}
# Of the Compose specification, those that are used.
FIELDS = {
    *(
        "restart",
        "read_only",
        "cap_drop",
        "cap_add",
        "security_opt",
        "image",
        "build",
        "configs",
        "volumes",
        "ports",
        "deploy",
        "user",
    ),
    *(
        "stop_grace_period",
        "healthcheck",
        "depends_on",
        "network_mode",
        "entrypoint",
        "command",
        "profiles",
        "environment",
    ),
}
HEALTH_FIELDS = {"test", "interval", "timeout", "retries", "start_period", "start_interval"}
# Set by `main`.
SETTINGS = {}


def first_documents():
    """The first 40 documents of the quick start."""
    return "".join(CORPUS.read_text().splitlines(keepends=True)[:40])


def project():
    """The file, with its variables as a user sets them."""
    text = FILE.read_text()
    values = {"MODEL": str(SETTINGS["model"]), "CORPUS": str(SETTINGS["corpus"])}
    text = re.sub(r"(?<!\$)\$\{(\w+)[:?-][^}]*\}", lambda found: values[found[1]], text)
    return yaml.safe_load(text)


def seconds(text):
    """A duration of compose."""
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


class ComposeTest(unittest.TestCase):
    """What the file says, and what its services do."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        SETTINGS["corpus"] = self.folder / "corpus.jsonl"
        SETTINGS["corpus"].write_text(first_documents())
        self.project = project()
        self.services = self.project["services"]

    def container(self, name):
        """A service as a container; without a command it has that of its image."""
        service = self.services[name]
        program = service["image"].removeprefix("dyad-")
        files = {}
        for config in service.get("configs", []):
            path = pathlib.PurePosixPath(config["target"])
            files[str(path.parent)] = {path.name: self.project["configs"][config["source"]]["content"]}
        places = {"volume": lambda source: self.folder / source, "bind": pathlib.Path}
        image = (DEPLOY / "docker/Dockerfile").read_text()
        (default,) = re.findall(rf"^FROM runtime AS {program}\n(?:.*\n)*?CMD (.*)", image, re.MULTILINE)[:1]
        health = service.get("healthcheck", {}).get("test", ["CMD"])
        return Container(
            name=name,
            program=service["image"],
            arguments=service.get("command", json.loads(default)),
            files=files,
            folders={volume["target"]: places[volume["type"]](volume["source"]) for volume in service["volumes"]},
            ports={"http": int(service["ports"][-1].split(":")[-1])} if "ports" in service else {},
            environment=service.get("environment", {}),
            # As Compose reads it: a dollar is written twice.
            probes={"healthcheck": {"command": [word.replace("$$", "$") for word in health[1:]]}}
            if "healthcheck" in service
            else {},
            grace_s=seconds(service.get("stop_grace_period", "10s")),
        )

    def test_fields_are_those_of_the_specification(self):
        self.assertLessEqual(self.project.keys(), {"name", "services", "volumes", "configs", "x-server"})
        for name, service in self.services.items():
            self.assertLessEqual(service.keys(), FIELDS, name)
            self.assertLessEqual(service.get("healthcheck", {}).keys(), HEALTH_FIELDS, name)
            self.assertLessEqual(
                {volume["source"] for volume in service["volumes"] if volume["type"] == "volume"},
                self.project["volumes"].keys(),
            )
            self.assertLessEqual(service.get("depends_on", {}).keys(), self.services.keys(), name)

    def test_nothing_has_rights_or_is_reached_from_elsewhere(self):
        for name, service in self.services.items():
            self.assertEqual((service["read_only"], service["cap_drop"]), (True, ["ALL"]), name)
            for port in service.get("ports", []):
                self.assertRegex(port, r"^127\.0\.0\.1:(\d+):\1$", name)
            if name != "volume":
                self.assertRegex(service["deploy"]["resources"]["limits"]["memory"], r"^\d+G$", name)
                self.assertNotIn("user", service, name)
        self.assertTrue(all(volume.get("read_only") for volume in self.services["searcher"]["volumes"]))

    def test_images_are_built_of_their_targets(self):
        for name in SERVERS:
            build = self.services[name]["build"]
            self.assertEqual(
                (FILE.parent / build["context"] / build["dockerfile"]).resolve(), DEPLOY / "docker/Dockerfile"
            )
            self.assertEqual(f"dyad-{build['target']}", self.services[name]["image"])
        self.assertLessEqual(
            {service["image"] for service in self.services.values()}, {f"dyad-{name}" for name in SERVERS}
        )

    def test_a_server_has_more_time_to_stop_than_it_takes(self):
        for name in SERVERS:
            said = self.project["configs"][name]["content"]
            takes = sum(int(number) for number in re.findall(r"^(?:lame-duck|drain)-s = (\d+)$", said, re.MULTILINE))
            self.assertGreater(seconds(self.services[name]["stop_grace_period"]), takes, name)

    def test_services_build_an_index_serve_it_and_change_it(self):
        machine = Machine(SETTINGS["binaries"], self.folder, {})
        # As the service `volume` does.
        self.assertEqual(self.services["volume"]["entrypoint"], ["chown", f"{USER}:{USER}", "/var/lib/dyad"])
        give(self.folder / "index")
        self.addCleanup(machine.stop_all)
        containers = {name: self.container(name) for name in (*SERVERS, "build")}
        self.assertFalse(machine.passes(containers["encoder"], containers["encoder"].probes["healthcheck"]))
        machine.start(containers["encoder"])
        machine.wait_until_ready()
        self.assertIn("40 documents", machine.run(containers["build"]))
        for name in ("searcher", "indexer"):
            machine.start(containers[name])
        machine.wait_until_ready()
        added = {
            "documents": [{"key": "n1", "text": "The okapi is a relative of the giraffe."}],
            "wait": "WAIT_SEARCHABLE",
        }
        status, said = machine.get(containers["indexer"], 7712, "/v1/upsert", False, JSON, json.dumps(added))
        self.assertEqual((status, json.loads(said).get("searchable")), (200, True), said)
        status, said = machine.get(
            containers["searcher"],
            7780,
            "/v1/search",
            False,
            JSON,
            json.dumps({"query": "Which animal is like a giraffe?"}),
        )
        self.assertEqual((status, json.loads(said)["hits"][0]["key"]), (200, "n1"), said)
        machine.stop_all()


def main():
    """0 when all tests pass."""
    SETTINGS.update(
        {name: pathlib.Path(word).resolve() for name, word in zip(("binaries", "model"), sys.argv[1:], strict=True)}
    )
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

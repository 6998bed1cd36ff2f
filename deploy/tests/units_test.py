"""The systemd units and the container file: what systemd says of them, hardening, times, and which files they name."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import tomllib
import unittest

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
SERVERS = ("searcher", "encoder", "indexer")
# Of a timer, next to those of the servers.
UNITS = (*SERVERS, "maintain")
# Of systemd-analyze: 0 is best, 10 worst; an ordinary unit has 9.6.
MAX_EXPOSURE = 1.5
ANALYZE = shutil.which("systemd-analyze")


def settings(server):
    """The settings of a unit: the values of each key, in order."""
    values = {}
    for line in (DEPLOY / f"systemd/dyad-{server}.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            values.setdefault(key, []).append(value)
    return values


class UnitsTest(unittest.TestCase):
    """What the files say."""

    def test_a_unit_runs_serve_with_the_configuration_that_is_here(self):
        for server in SERVERS:
            command = f"/opt/dyad/bin/dyad-{server} serve --config /etc/dyad/{server}.toml"
            self.assertEqual(settings(server)["ExecStart"], [command])
            self.assertTrue((DEPLOY / f"config/{server}.toml").is_file())

    def test_a_timer_runs_maintenance(self):
        (command,) = settings("maintain")["ExecStart"]
        self.assertTrue(command.startswith("/opt/dyad/bin/dyad-indexer maintain --index /var/lib/dyad/"), command)
        self.assertIn("OnCalendar=", (DEPLOY / "systemd/dyad-maintain.timer").read_text())

    def test_a_server_has_more_time_to_stop_than_it_takes(self):
        for server in SERVERS:
            config = tomllib.loads((DEPLOY / f"config/{server}.toml").read_text())
            (stop,) = settings(server)["TimeoutStopSec"]
            self.assertGreater(int(stop), config["lame-duck-s"] + config["drain-s"], server)

    def test_only_what_makes_machine_code_may_run_it(self):
        denied = {server: settings(server)["MemoryDenyWriteExecute"] for server in SERVERS}
        self.assertEqual(denied, {"searcher": ["yes"], "encoder": ["no"], "indexer": ["yes"]})

    def test_no_server_runs_as_root(self):
        for server in SERVERS:
            unit = settings(server)
            self.assertTrue(unit.get("User") == ["dyad"] or unit.get("DynamicUser") == ["yes"], server)
            self.assertEqual((unit["CapabilityBoundingSet"], unit["NoNewPrivileges"]), ([""], ["yes"]))
        self.assertIn("\nu dyad ", (DEPLOY / "systemd/dyad.conf").read_text())


@unittest.skipUnless(ANALYZE, "systemd-analyze is not here: the units are not verified")
class AnalyzeTest(unittest.TestCase):
    """What systemd says of the units, with a program that is there in place of ours."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.units = []
        for server in UNITS:
            text = (DEPLOY / f"systemd/dyad-{server}.service").read_text()
            unit = pathlib.Path(scratch.name) / f"dyad-{server}.service"
            unit.write_text(re.sub(r"/opt/dyad/bin/dyad-\w+", "/bin/true", text))
            self.units.append(unit)

    def analyze(self, *arguments):
        """Runs it, and returns exit code and output."""
        run = subprocess.run([ANALYZE, *arguments], capture_output=True, text=True, timeout=60, check=False)
        return run.returncode, run.stdout + run.stderr

    def test_systemd_knows_every_setting(self):
        code, said = self.analyze("verify", *self.units)
        # It also reads the units of this machine, and tells of those.
        ours = [line for line in said.splitlines() if "dyad-" in line]
        self.assertEqual((code, ours), (0, []))

    def test_a_setting_that_it_does_not_know_is_told(self):
        with self.units[0].open("a") as unit:
            unit.write("[Service]\nProtectNothing=yes\n")
        self.assertIn("ProtectNothing", self.analyze("verify", self.units[0])[1])

    def test_units_are_hardened(self):
        for unit in self.units:
            limit = f"--threshold={round(MAX_EXPOSURE * 10)}"
            code, said = self.analyze("security", "--offline=true", "--no-pager", limit, unit)
            self.assertEqual(code, 0, said)


class ContainersTest(unittest.TestCase):
    """What the container file and its list of files say."""

    def stages(self):
        """Name, base and lines of each stage."""
        text = (DEPLOY / "docker/Dockerfile").read_text()
        stages = re.findall(r"^FROM (\S+) AS (\S+)\n(.*?)(?=^FROM |\Z)", text, re.MULTILINE | re.DOTALL)
        return {name: (base, lines) for base, name, lines in stages}

    def test_every_server_has_an_image_without_root(self):
        stages = self.stages()
        for server in SERVERS:
            base, lines = stages[server]
            self.assertEqual(base, "runtime")
            self.assertNotIn("USER", lines)
            self.assertIn(f'ENTRYPOINT ["/opt/dyad/bin/dyad-{server}"]', lines)
            self.assertIn(f'CMD ["serve", "--config", "/etc/dyad/{server}.toml"]', lines)
        self.assertRegex(stages["runtime"][1], r"(?m)^USER [1-9]\d*:[1-9]\d*$")

    def test_bases_are_of_one_debian_release(self):
        outside = {base for base, _ in self.stages().values() if base not in self.stages()}
        self.assertEqual({bool(re.search(r"\bbookworm\b", base)) for base in outside}, {True}, outside)

    def test_the_build_gets_named_files_only(self):
        root = DEPLOY.parent
        lines = [line for line in (root / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
        self.assertEqual(lines[0], "*")
        for line in lines[1:]:
            if line.startswith("!"):
                self.assertTrue((root / line[1:]).exists(), line)
        members = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["members"]
        for folder in {member.split("/")[0] for member in members}:
            self.assertIn(f"!{folder}", lines)


if __name__ == "__main__":
    unittest.main()

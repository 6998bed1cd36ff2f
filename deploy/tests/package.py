"""What users install: the wheel in an empty environment, its quick start, one index by its Python and its programs
(package_served.py), and the archive by its script.

    package.py BINARIES MODEL

The interpreter has to have maturin and wheel, and cargo builds the module of the package with the profile `ci`. libtorch and the model
are those of the checkout: nothing is downloaded but NumPy.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND_S = 600
# Programs of the profile `ci` are all linked with libtorch; those of a release, but for the encoder, are not.
PROGRAMS = {"LD_LIBRARY_PATH": str(ROOT / ".libtorch/lib")}
# Set by `main`.
SETTINGS = {}


def run(*command, **options):
    """Runs a command, whose output is kept."""
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_S, check=False, **options)


def expect_ok(result):
    """What a command printed, which has to have ended well."""
    if result.returncode != 0:
        raise AssertionError(f"{result.args}: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def environment(**added):
    """The variables without those by which a developer's programs find libtorch."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "LIBTORCH", "PYTHONPATH")}
    return kept | added


class WheelTest(unittest.TestCase):
    """A wheel with the programs of the build, in an environment of its own."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        module = cls.scratch / "module"
        build = ["build", "--profile", "ci", "--locked", "--manifest-path", ROOT / "indexer/python/Cargo.toml", "--out", module]
        expect_ok(run(sys.executable, "-m", "maturin", *build, cwd=ROOT))
        make = [ROOT / "deploy/package.py", "wheel", SETTINGS["binaries"], next(module.iterdir()), cls.scratch / "wheels"]
        expect_ok(run(sys.executable, *make))
        cls.wheel = next((cls.scratch / "wheels").iterdir())
        started = time.monotonic()
        expect_ok(run(sys.executable, "-m", "venv", cls.scratch / "venv"))
        cls.bin = cls.scratch / "venv/bin"
        expect_ok(run(cls.bin / "python", "-m", "pip", "install", "--quiet", "--only-binary=:all:", cls.wheel))
        print(f"{cls.wheel.name}: {cls.wheel.stat().st_size / 1e6:.0f} MB, installed in {time.monotonic() - started:.1f} s")

    def test_the_quick_start_answers(self):
        folder = self.scratch / "quickstart"
        shutil.copytree(SETTINGS["model"], folder / ".models/all-MiniLM-L6-v2")
        started = time.monotonic()
        said = expect_ok(run(self.bin / "dyad-quickstart", folder, env=environment(LIBTORCH=str(ROOT / ".libtorch"), **PROGRAMS)))
        print(f"dyad-quickstart: {time.monotonic() - started:.1f} s")
        self.assertIn("overlap@5: dense/bm25", said)
        self.assertIn("documents=336, dim=384", said)
        self.assertTrue(said.endswith("quickstart: ok\n"), said)
        left = sorted(path.name for path in (folder / ".quickstart").iterdir())
        self.assertEqual(left, ["corpus", "embeddings", "index"])
        self.assertTrue((folder / ".quickstart/corpus/qrels/test.tsv").is_file())

    def test_python_and_the_programs_share_an_index(self):
        tests = [ROOT / "deploy/tests/package_served.py", self.bin]
        result = run(self.bin / "python", *tests, env=environment(**PROGRAMS))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, r"Ran [1-9]\d* tests in ")

    def test_an_encoder_without_libtorch_says_where_it_comes_from(self):
        cache = {"XDG_CACHE_HOME": str(self.scratch / "no-cache")}
        # That of the other programs of the wheel, which is known without it.
        version = expect_ok(run(self.bin / "dyad-encoder", "--version", env=environment(**cache, **PROGRAMS)))
        self.assertTrue(version.startswith("dyad-encoder 0.1.0 ("), version)
        result = run(self.bin / "dyad-encoder", "serve", env=environment(**cache))
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("needs libtorch 2.11.0, and there is none. `pip install torch==2.11.0` brings it", result.stderr)

    def test_a_pytorch_of_another_release_is_told(self):
        packages = self.scratch / "other"
        (packages / "torch").mkdir(parents=True)
        (packages / "torch/__init__.py").touch()
        (packages / "torch/version.py").write_text("__version__ = '2.9.1+cu130'\n")
        cache = {"XDG_CACHE_HOME": str(self.scratch / "no-cache"), "PYTHONPATH": str(packages)}
        result = run(self.bin / "dyad-encoder", "serve", env=environment(**cache))
        self.assertIn("The PyTorch that is installed here is 2.9.1+cu130.", result.stderr)
        # One that fits is taken: the program starts with its libraries.
        (packages / "torch/version.py").write_text("__version__ = '2.11.3+cpu'\n")
        (packages / "torch/lib").symlink_to(ROOT / ".libtorch/lib")
        result = run(self.bin / "dyad-encoder", "serve", "--help", env=environment(**cache))
        self.assertIn("--listen", expect_ok(result))

    def test_a_program_that_is_missing_is_told(self):
        code = "from dyad_search.programs import program; program('dyad-absent')"
        result = run(self.bin / "python", "-c", code, env=environment())
        self.assertIn("dyad-absent: expected in one of", result.stderr)
        found = run(self.bin / "python", "-c", "from dyad_search.programs import program; print(program('dyad-indexer'))")
        self.assertEqual(expect_ok(found).strip(), str(self.bin / "dyad-indexer"))


class ArchiveTest(unittest.TestCase):
    """The archive of the build, by deploy/install.sh."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        expect_ok(run(sys.executable, ROOT / "deploy/package.py", "archive", SETTINGS["binaries"], cls.scratch))
        cls.archive = next(cls.scratch.glob("*.tar.gz"))

    def install(self, *arguments):
        """Runs the script as users do; the programs of the profile `ci` need libtorch, which is next to them here."""
        return run("sh", ROOT / "deploy/install.sh", *arguments, env=environment(**PROGRAMS))

    def test_it_is_installed_where_one_says_twice(self):
        prefix = self.scratch / "prefix"
        for source in (self.archive, self.archive.as_uri()):
            said = expect_ok(self.install(source, prefix))
            self.assertIn("installed dyad-indexer 0.1.0", said)
            self.assertIn("dyad-encoder needs libtorch in", said)
        names = sorted(path.name for path in (prefix / "bin").iterdir())
        self.assertEqual(names, ["dyad-encoder", "dyad-indexer", "dyad-searcher"])
        # The encoder finds what is put next to it.
        (prefix / "lib").symlink_to(ROOT / ".libtorch/lib")
        self.assertIn("dyad-encoder 0.1.0", expect_ok(run(prefix / "bin/dyad-encoder", "--version", env=environment())))

    def test_a_changed_archive_is_refused(self):
        changed = self.scratch / "changed" / self.archive.name
        changed.parent.mkdir()
        changed.write_bytes(self.archive.read_bytes()[:-1] + b"!")
        shutil.copy(f"{self.archive}.sha256", f"{changed}.sha256")
        prefix = self.scratch / "refused"
        result = self.install(changed, prefix)
        self.assertEqual((result.returncode, prefix.exists()), (1, False), result)
        self.assertIn("its SHA-256 is not that of", result.stderr)

    def test_other_files_and_machines_are_refused(self):
        result = self.install(self.scratch / "something.zip")
        self.assertIn("expected dyad-VERSION-MACHINE-linux.tar.gz, got something.zip", result.stderr)
        result = self.install(self.scratch / "dyad-0.1.0-m68k-linux.tar.gz")
        self.assertIn("is not for this machine", result.stderr)
        self.assertEqual(self.install().returncode, 2)


def main():
    """Runs the tests with the programs and the model that the command line names."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    SETTINGS.update(binaries=pathlib.Path(sys.argv[1]).resolve(), model=pathlib.Path(sys.argv[2]).resolve())
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

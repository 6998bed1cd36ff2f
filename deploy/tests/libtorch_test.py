"""deploy/libtorch.sh on folders and wheels made here: precedence, errors, remaining files."""

import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import zipfile

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
HEADER = "#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n#define TORCH_VERSION_PATCH 0\n"
SONAMES = ["libtorch_cpu.so", "libc10.so", "libtorch.so", "libgomp.so.1", "libtorch_cuda.so"]


class LibtorchTest(unittest.TestCase):
    """Each test runs a copy of the scripts in a root of its own; PyPI is the folder `self.wheels`."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name).resolve()
        self.root = self.scratch / "root"
        self.wheels = self.scratch / "wheels"
        self.wheels.mkdir()
        (self.root / "deploy").mkdir(parents=True)
        for name in ("libtorch.sh", "libtorch.py", "steps.sh", "wheel.py"):
            shutil.copy(DEPLOY / name, self.root / "deploy")
        self.target = self.root / ".libtorch"

    def run_libtorch(self, *arguments, libtorch=None):
        """Runs the script with or without LIBTORCH."""
        kept = {key: value for key, value in os.environ.items() if key != "LIBTORCH"}
        kept |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels)}
        if libtorch:
            kept["LIBTORCH"] = str(libtorch)
        command = [self.root / "deploy/libtorch.sh", *arguments]
        return subprocess.run(command, env=kept, capture_output=True, text=True, timeout=120, check=False)

    def installed(self, name="libtorch", version="2.11.0", libraries=SONAMES[:3]):
        """A folder that looks like libtorch."""
        folder = self.scratch / name
        (folder / "include").mkdir(parents=True)
        (folder / "lib").mkdir()
        (folder / "build-version").write_text(version + "\n")
        for library in libraries:
            (folder / "lib" / library).touch()
        return folder

    def wheel(self, name, version, members, tag="py3-none-any", broken=(), requires=()):
        """A wheel; `broken` members do not fit their RECORD."""
        info = f"{name}-{version}.dist-info"
        wheel = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
        metadata = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
        metadata = (metadata + "".join(f"Requires-Dist: {name}\n" for name in requires)).encode()
        rows = [f"{info}/RECORD,,"]
        with zipfile.ZipFile(self.wheels / f"{name}-{version}-{tag}.whl", "w") as archive:
            for member, body in (members | {f"{info}/WHEEL": wheel, f"{info}/METADATA": metadata}).items():
                digest = hashlib.sha256(b"other" if member in broken else body).digest()
                rows.append(f"{member},sha256={base64.urlsafe_b64encode(digest).rstrip(b'=').decode()},{len(body)}")
                archive.writestr(member, body)
            archive.writestr(f"{info}/RECORD", "\n".join(rows) + "\n")

    def make_wheels(self, needs=None, **options):
        """The three wheels that the script asks for, with real if empty libraries; `needs` is one that is nowhere."""
        library = self.scratch / "library.so"
        command = ["cc", "-shared", "-nostdlib", "-o", library, "-x", "c", "/dev/null"]
        if needs:
            (self.scratch / "absent").mkdir()
            absent = self.scratch / "absent" / needs
            subprocess.run([*command[:4], absent, *command[5:], f"-Wl,-soname,{needs}"], check=True)
            command += ["-x", "none", "-Wl,--no-as-needed", absent]
        subprocess.run(command, check=True)
        members = {f"torch/lib/{name}": library.read_bytes() for name in SONAMES}
        members["torch/include/torch/headeronly/version.h"] = HEADER.encode()
        self.wheel("torch", "2.11.0", members, requires=("nvidia-cuda-runtime==13.0.96",), **options)
        self.wheel("nvidia_cuda_runtime", "13.0.96", {"nvidia/cu13/lib/libcudart.so.13": library.read_bytes()})
        self.wheel("nvidia_cuda_cupti", "13.0.85", {"nvidia/cu13/lib/libcupti.so.13": library.read_bytes()})

    def assert_refused(self, result, *parts):
        """It failed with an error that has these parts, and left nothing in the root."""
        self.assertEqual(result.returncode, 1, result)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual([path.name for path in self.root.iterdir()], ["deploy"])

    def assert_ok(self, result, *parts):
        """It succeeded, printed these parts, and left nothing but .libtorch."""
        self.assertEqual(result.returncode, 0, result)
        for part in parts:
            self.assertIn(part, result.stdout)
        self.assertEqual({path.name for path in self.root.iterdir()}, {"deploy", ".libtorch"})

    def test_an_existing_libtorch_wins_even_over_what_is_there(self):
        first, second = self.installed("first"), self.installed("second", "2.11.0+cu130", SONAMES)
        self.assert_ok(self.run_libtorch(libtorch=first), "(CPU)")
        self.assertEqual(self.target.resolve(), first)
        self.assert_ok(self.run_libtorch(libtorch=first), "already in .libtorch")
        self.assert_ok(self.run_libtorch("--cuda", libtorch=second), "(CUDA)")
        self.assertEqual(self.target.resolve(), second)
        self.target.unlink()
        shutil.copytree(first, self.target)
        self.assert_ok(self.run_libtorch(libtorch=second))
        self.assertEqual(self.target.resolve(), second)
        self.assertTrue((first / "lib/libtorch_cpu.so").exists())

    def test_an_existing_libtorch_that_does_not_fit_is_refused(self):
        old = self.installed("old", "2.10.1")
        self.assert_refused(self.run_libtorch(libtorch=old), "wrong libtorch version", "expected 2.11.0, got 2.10.1")
        bare = self.installed("bare", libraries=["libc10.so"])
        self.assert_refused(self.run_libtorch(libtorch=bare), "no lib/libtorch_cpu.so in")
        headless = self.installed("headless")
        (headless / "include").rmdir()
        self.assert_refused(self.run_libtorch(libtorch=headless), "no include/ in")
        self.assert_refused(self.run_libtorch(libtorch=self.scratch / "nowhere"), "no such directory")
        self.assert_refused(self.run_libtorch("--cuda", libtorch=self.installed()), "no lib/libtorch_cuda.so in")

    def test_the_version_is_also_read_from_an_installed_torch_and_from_headers(self):
        for name, file, text in (
            ("python", "version.py", "from typing import Optional\n__version__ = '2.11.0+cu130'\n"),
            ("headers", "include/torch/headeronly/version.h", HEADER),
            ("older", "include/torch/csrc/api/include/torch/version.h", HEADER),
        ):
            folder = self.installed(name)
            (folder / "build-version").unlink()
            self.assertIn("got none", self.run_libtorch(libtorch=folder).stderr)
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
            self.assert_ok(self.run_libtorch(libtorch=folder), "libtorch 2.11.0")

    def test_fetches_a_view_once(self):
        self.make_wheels()
        self.assert_ok(self.run_libtorch(), "libtorch 2.11.0 (CPU) is in .libtorch")
        names = {path.name for path in (self.target / "lib").iterdir()}
        self.assertEqual(names, {*SONAMES[:4], "libcudart.so.13", "libcupti.so.13"})
        self.assertEqual(os.readlink(self.target / "lib/libtorch.so"), "libtorch_cpu.so")
        self.assertTrue((self.target / "include/torch/headeronly/version.h").exists())
        self.assertEqual((self.target / "build-version").read_text(), "2.11.0\n")
        shutil.rmtree(self.wheels)
        self.assert_ok(self.run_libtorch(), "already in .libtorch")

    def test_replaces_what_does_not_fit(self):
        self.make_wheels()
        self.assert_ok(self.run_libtorch())
        (self.target / "build-version").write_text("2.10.0\n")
        self.assert_ok(self.run_libtorch(), "replacing .libtorch: wrong libtorch version")
        self.assert_ok(self.run_libtorch("--cuda"), "replacing .libtorch: no lib/libtorch_cuda.so", "(CUDA) is in")
        # Where torch's libraries look for NVIDIA's: relative to their real path.
        self.assertTrue((self.target / "lib/../../nvidia/cu13/lib/libcudart.so.13").is_file())
        self.assert_ok(self.run_libtorch(), "(CUDA) is already in")
        self.assert_ok(self.run_libtorch("--cuda"), "(CUDA) is already in")

    def test_takes_the_stand_in_where_this_python_has_no_wheel(self):
        self.make_wheels(tag="cp312-cp312-manylinux_2_17_x86_64")
        self.assert_ok(self.run_libtorch())

    def test_a_member_that_does_not_fit_its_record(self):
        self.make_wheels(broken=["torch/lib/libtorch_cpu.so"])
        self.assert_refused(self.run_libtorch(), "wrong SHA-256 of `torch/lib/libtorch_cpu.so`: expected")

    def test_a_library_that_this_system_lacks(self):
        self.make_wheels(needs="libnowhere.so.7")
        self.assert_refused(self.run_libtorch(), "needs libraries that this system lacks: libnowhere.so.7")

    def test_no_wheel_at_all(self):
        self.assertEqual(self.run_libtorch().returncode, 1)
        self.assertEqual([path.name for path in self.root.iterdir()], ["deploy"])

    def test_usage(self):
        result = self.run_libtorch("--gpu")
        self.assertEqual((result.returncode, result.stderr), (2, "usage: deploy/libtorch.sh [--cuda]\n"))


if __name__ == "__main__":
    unittest.main()

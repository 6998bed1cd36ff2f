"""Fetches libtorch from the wheels of PyTorch into a directory, with `lib/` and `include/`.

    libtorch.py version      prints the version that the programs are linked with
    libtorch.py cpu DIR      the files that the CPU needs (0.5 GB download, 0.5 GB on disk)
    libtorch.py cuda DIR     the wheel with its CUDA libraries (2.5 GB download, 5 GB on disk)

DIR is not atomic: callers fetch into one of their own, and rename it. pip's settings and its index hold.
"""

import pathlib
import platform
import subprocess
import sys
import tempfile

import wheel

VERSION = "2.11.0"
# Requirements of that torch (cuda-toolkit 13.0.2): libtorch_cpu.so is linked with both, with or without a GPU.
CUDA_LIBRARIES = {
    "nvidia-cuda-runtime==13.0.96": "libcudart.so.13",
    "nvidia-cuda-cupti==13.0.85": "libcupti.so.13",
}
CUDA_FOLDER = "nvidia/cu13/lib"
# What libtorch_cpu.so needs of the wheel's libraries, itself included: `readelf -d`, and that of what it names.
CPU_LIBRARIES = {
    "x86_64": ("libtorch_cpu.so", "libc10.so", "libgomp.so.1"),
    "aarch64": (
        *("libtorch_cpu.so", "libc10.so", "libgomp.so.1", "libarm_compute.so", "libarm_compute_graph.so"),
        *("libnvpl_blas_core.so.0", "libnvpl_blas_lp64_gomp.so.0", "libnvpl_lapack_core.so.0", "libnvpl_lapack_lp64_gomp.so.0"),
    ),
}
# All builds of the wheel have the same C++ libraries; this one is used when pip has none for this Python.
STAND_IN_PYTHON = "3.12"


class NotFetched(Exception):
    """pip could not fetch libtorch, or there is none for this machine."""


def pip(*arguments):
    """Runs pip with this Python, and again for the stand-in where it has no wheel for this one."""
    command = [sys.executable, "-m", "pip", *arguments, "--only-binary=:all:"]
    if not sys.stdout.isatty():
        command.append("--quiet")
    first = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if first.returncode == 0:
        return
    status = first.returncode
    if "No matching distribution" in first.stderr:
        print(f"no wheel for Python {platform.python_version()}: taking the one for Python {STAND_IN_PYTHON}", flush=True)
        status = subprocess.run([*command, "--python-version", STAND_IN_PYTHON], check=False).returncode
    else:
        print(first.stderr, end="", file=sys.stderr)
    if status != 0:
        raise NotFetched(
            f"pip could not fetch libtorch. Check the network or proxy, or set LIBTORCH to a libtorch {VERSION}"
        )


def fetch_cpu(target):
    """The libraries that the CPU needs, and the headers."""
    with tempfile.TemporaryDirectory(dir=target.parent) as wheels:
        pip("download", "--no-deps", "--dest", wheels, f"torch=={VERSION}", *CUDA_LIBRARIES)
        files = [(f"torch/lib/{name}", f"lib/{name}") for name in CPU_LIBRARIES[platform.machine()]]
        unpack(one_wheel(wheels, "torch"), target, [("torch/include/", "include/"), *files])
        for requirement, name in CUDA_LIBRARIES.items():
            unpack(one_wheel(wheels, requirement.split("==")[0]), target, [(f"{CUDA_FOLDER}/{name}", f"lib/{name}")])
    # The wheel's own libtorch.so would pull in the CUDA half.
    (target / "lib/libtorch.so").symlink_to("libtorch_cpu.so")


def one_wheel(folder, name):
    """The downloaded wheel of a distribution."""
    return next(pathlib.Path(folder).glob(f"{name.replace('-', '_')}-*.whl"))


def unpack(path, target, pairs):
    """Unpacks members of a wheel, whose digests are checked."""
    count = wheel.unpack(path, target, pairs)
    print(f"{path.name}: {count} files, SHA-256 as in RECORD", flush=True)


def fetch_cuda(target):
    """The wheels as they are installed: the libraries find each other by paths relative to torch/lib."""
    packages = target / "site-packages"
    pip("install", "--no-compile", "--no-warn-conflicts", "--target", str(packages), f"torch=={VERSION}")
    count = wheel.verify(packages)
    print(f"{packages.name}: {count} files, SHA-256 as in RECORD", flush=True)
    for name in ("lib", "include"):
        (target / name).symlink_to(f"site-packages/torch/{name}")


def fetch(kind, target):
    """Fetches one of both kinds into a directory, which is made."""
    system = f"{platform.system()} {platform.machine()}"
    if platform.system() != "Linux" or platform.machine() not in CPU_LIBRARIES:
        raise NotFetched(f"no libtorch known for this platform. Set LIBTORCH to a libtorch {VERSION}: {system}")
    target.mkdir(parents=True, exist_ok=True)
    {"cpu": fetch_cpu, "cuda": fetch_cuda}[kind](target)
    (target / "build-version").write_text(VERSION + "\n")


def main(arguments):
    """Runs one of the verbs."""
    match arguments:
        case ["version"]:
            print(VERSION)
            return 0
        case ["cpu" | "cuda" as kind, target]:
            try:
                fetch(kind, pathlib.Path(target))
            except (NotFetched, wheel.Refused, OSError) as error:
                print(f"error: {error}", file=sys.stderr)
                return 1
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

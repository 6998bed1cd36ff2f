"""The programs that a wheel of a release carries: `dyad-indexer`, `dyad-searcher` and `dyad-encoder`.

The first two need nothing else. The encoder runs on libtorch: that of LIBTORCH, that of the PyTorch which is installed
here, or one that `fetch_libtorch` has put into the user's cache.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

__all__ = ["MissingProgram", "fetch_libtorch", "program", "run_encoder"]

HERE = pathlib.Path(__file__).resolve().parent
#: The scripts that fetch libtorch and models, as a checkout has them.
SCRIPTS = HERE / "deploy"


class MissingProgram(Exception):
    """A program, or what it needs, is not here."""


def program(name: str) -> pathlib.Path:
    """The path of a program of this package.

    `dyad-encoder` runs with `encoder_environment(libtorch())`."""
    # Scripts of a wheel lie where the installation puts them: in a virtual environment, for a user, or for all.
    folders = [HERE / "bin", pathlib.Path(sysconfig.get_path("scripts")), pathlib.Path(sys.executable).parent]
    scheme = sysconfig.get_preferred_scheme("user")
    folders.append(pathlib.Path(sysconfig.get_path("scripts", scheme)))
    for folder in folders:
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise MissingProgram(
        f"{name}: expected in one of {', '.join(map(str, folders))}, found in none. This installation was built from source, "
        "which makes no programs: install a wheel of a release, or `cargo build --release` in a checkout"
    )


def libtorch_version() -> str:
    """The version that the encoder is linked with."""
    program("dyad-encoder")
    return (HERE / "bin" / "libtorch-version").read_text(encoding="utf-8").strip()


def cached_libtorch(version: str) -> pathlib.Path:
    """Where `fetch_libtorch` puts it."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return pathlib.Path(cache) / "dyad" / f"libtorch-{version}"


def installed_version(torch: pathlib.Path) -> str:
    """The version of an installed PyTorch, which is not imported for it."""
    text = (torch / "version.py").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("__version__")]
    return lines[0].split("=")[1].strip(" '\"") if lines else "unknown"


def fits(found: str, version: str) -> bool:
    """Releases of one minor version have one binary interface."""
    return found.split(".")[:2] == version.split(".")[:2]


def libtorch() -> pathlib.Path:
    """The folder of libtorch's libraries."""
    version = libtorch_version()
    if named := os.environ.get("LIBTORCH"):
        return pathlib.Path(named) / "lib"
    other = ""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        torch = pathlib.Path(spec.origin).parent
        found = installed_version(torch)
        if fits(found, version):
            return torch / "lib"
        other = f" The PyTorch that is installed here is {found}."
    cached = cached_libtorch(version)
    if (cached / "build-version").is_file():
        return cached / "lib"
    raise MissingProgram(
        f"dyad-encoder: needs libtorch {version}, and there is none.{other} `pip install torch=={version}` brings it, "
        f"`python -m dyad_search.programs libtorch` fetches what the CPU needs of it (0.5 GB) into {cached}, and LIBTORCH names one"
    )


def fetch_libtorch() -> pathlib.Path:
    """Fetches what the CPU needs of libtorch into the user's cache, where it is not there yet; returns the folder of its libraries."""
    try:
        return libtorch()
    except MissingProgram:
        version = libtorch_version()
    cached = cached_libtorch(version)
    cached.parent.mkdir(parents=True, exist_ok=True)
    new = pathlib.Path(tempfile.mkdtemp(prefix=cached.name, dir=cached.parent))
    try:
        run_script("libtorch.py", "cpu", str(new / "libtorch"))
        try:
            os.rename(new / "libtorch", cached)
        except OSError:
            # Another process has put the same there.
            if not (cached / "build-version").is_file():
                raise
    finally:
        shutil.rmtree(new)
    return cached / "lib"


def run_script(name: str, *arguments: str) -> None:
    """Runs one of the scripts in a process of its own, whose errors are its own too."""
    import subprocess

    status = subprocess.run([sys.executable, str(SCRIPTS / name), *arguments], check=False).returncode
    if status != 0:
        raise MissingProgram(f"{name} {' '.join(arguments)}: ended with {status}, for the reason above")


def encoder_environment(libraries: pathlib.Path) -> dict[str, str]:
    """The variables with which the encoder finds its libraries."""
    before = os.environ.get("LD_LIBRARY_PATH")
    return os.environ | {"LD_LIBRARY_PATH": f"{libraries}:{before}" if before else str(libraries)}


def version(name: str) -> str:
    """What `--version` of a program says: the release and revision of all of them, as one of those tells that need no libtorch."""
    told = subprocess.run([program("dyad-indexer"), "--version"], check=True, capture_output=True, text=True).stdout
    return f"{name} {told.strip().partition(' ')[2]}"


def run_encoder() -> None:
    """The command `dyad-encoder`: becomes the program."""
    try:
        if sys.argv[1:] in (["--version"], ["-V"]):
            print(version("dyad-encoder"))
            return
        path = program("dyad-encoder")
        os.execve(path, ["dyad-encoder", *sys.argv[1:]], encoder_environment(libtorch()))
    except MissingProgram as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)

"""Puts built programs into what users install: a wheel, or an archive with its checksum.

    package.py wheel PROGRAMS WHEEL OUT     WHEEL is maturin's, of indexer/python; a new one in the folder OUT has the programs too
    package.py archive PROGRAMS OUT         OUT/dyad-VERSION-x86_64-linux.tar.gz, and the same with .sha256 after it

PROGRAMS is the folder of dyad-indexer, dyad-searcher and dyad-encoder. Needs the distribution `wheel` for the first.
"""

import gzip
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib

import libtorch

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Those that run with nothing else: pip puts them where commands are found.
ALONE = ("dyad-indexer", "dyad-searcher")
# It is started by `dyad_search.programs.run_encoder`, which finds libtorch.
ENCODER = "dyad-encoder"
ENTRY_POINTS = """[console_scripts]
dyad-encoder = dyad_search.programs:run_encoder
dyad-quickstart = dyad_search.programs.quickstart:main
"""
SCRIPTS = ("libtorch.py", "wheel.py", "model.py", "hub.py")
# The symbol versions of the C library that a program asks for.
GLIBC = re.compile(rb"GLIBC_2\.(\d+)\0")
MODE = 0o755


class Unfit(Exception):
    """Something that is to be packaged is missing, or not as it has to be."""


def version():
    """The version of the workspace."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def put_program(source, target):
    """Copies a program."""
    if not source.is_file():
        raise Unfit(f"{source}: no such program. Build it first: deploy/package.sh")
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(MODE)


def oldest_glibc(paths):
    """The minor version of the C library, 2.x, that all of these programs and libraries start with."""
    minors = [int(minor) for path in paths for minor in GLIBC.findall(path.read_bytes())]
    if not minors:
        raise Unfit(f"{paths[0]}: expected a program of Linux with the GNU C library, got one without its symbols")
    return max(minors)


def add_programs(tree, programs):
    """Adds to an unpacked wheel what only a release has."""
    scripts = tree / f"dyad_search-{version()}.data" / "scripts"
    own = tree / "dyad_search" / "programs"
    for name in ALONE:
        put_program(programs / name, scripts / name)
    put_program(programs / ENCODER, own / "bin" / ENCODER)
    (own / "bin" / "libtorch-version").write_text(libtorch.VERSION + "\n")
    (own / "deploy").mkdir(parents=True)
    for name in SCRIPTS:
        shutil.copyfile(ROOT / "deploy" / name, own / "deploy" / name)
    shutil.copytree(ROOT / "deploy/quickstart", own / "deploy/quickstart")
    (tree / f"dyad_search-{version()}.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    return [*(scripts / name for name in ALONE), own / "bin" / ENCODER]


def make_wheel(programs, wheel, out):
    """A wheel with the programs, tagged with the oldest C library that all of it starts with."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        run_wheel("unpack", "--dest", scratch, str(wheel))
        tree = next(pathlib.Path(scratch).iterdir())
        binaries = add_programs(tree, programs)
        libraries = list((tree / "dyad_search").glob("*.so"))
        tag = f"manylinux_2_{oldest_glibc([*binaries, *libraries])}_{platform.machine()}"
        packed = pathlib.Path(scratch) / "packed"
        packed.mkdir()
        run_wheel("pack", "--dest-dir", str(packed), str(tree))
        made = next(packed.iterdir())
        run_wheel("tags", "--remove", "--platform-tag", tag, str(made))
        tagged = next(packed.iterdir())
        shutil.copyfile(tagged, out / tagged.name)
    return out / tagged.name


def run_wheel(*arguments):
    """Runs a verb of the distribution `wheel`, away from the module of the same name here."""
    subprocess.run([sys.executable, "-P", "-m", "wheel", *arguments], check=True, stdout=subprocess.DEVNULL)


def reproducible(member):
    """The same for every build: no user, no time."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mtime = 0
    return member


def make_archive(programs, out):
    """An archive of `bin/`, `share/dyad/` and the licence, and its checksum."""
    out.mkdir(parents=True, exist_ok=True)
    name = f"dyad-{version()}-{platform.machine()}-linux"
    archive = out / f"{name}.tar.gz"
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch) / name
        for program in (*ALONE, ENCODER):
            put_program(programs / program, tree / "bin" / program)
        for script in SCRIPTS:
            (tree / "share/dyad").mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / "deploy" / script, tree / "share/dyad" / script)
        for document in ("LICENSE", "README.md", "CHANGELOG.md"):
            shutil.copyfile(ROOT / document, tree / document)
        with open(archive, "wb") as raw, gzip.GzipFile("", "wb", mtime=0, fileobj=raw) as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                for path in sorted(tree.rglob("*")):
                    tar.add(path, f"{name}/{path.relative_to(tree)}", recursive=False, filter=reproducible)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    (out / f"{archive.name}.sha256").write_text(f"{digest}  {archive.name}\n")
    return archive


def main(arguments):
    """Runs one of the verbs."""
    try:
        match arguments:
            case ["wheel", programs, wheel, out]:
                made = make_wheel(pathlib.Path(programs), pathlib.Path(wheel), pathlib.Path(out))
            case ["archive", programs, out]:
                made = make_archive(pathlib.Path(programs), pathlib.Path(out))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except (Unfit, subprocess.CalledProcessError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{made}: {made.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

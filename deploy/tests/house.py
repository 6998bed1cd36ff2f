"""The house rules that clippy cannot see: house.py ROOT prints each breach and fails if there is one."""

import pathlib
import re
import subprocess
import sys

TOP_LEVEL = {
    *("Cargo.toml", "Cargo.lock", "README.md", "LICENSE", "CHANGELOG.md"),
    *("proto", "encoder", "indexer", "searcher", "benches", "deploy"),
}
MAX_LINES = 400
NAMES_THAT_SAY_NOTHING = {"utils", "util", "common", "helpers", "helper", "misc"}
UNFINISHED = re.compile(r"\b(todo|unimplemented)!\s*[(\[{]")
INHERITED_LINTS = re.compile(r"^\[lints\]\s*\nworkspace = true$", re.MULTILINE)


def top_level(paths):
    """The top level holds exactly the crates, deploy and a few files; dotfiles are free."""
    found = {path.split("/")[0] for path in paths}
    found = {name for name in found if not name.startswith(".")}
    for name in sorted(found - TOP_LEVEL):
        yield f"{name}: not one of the names that the top level may hold"
    for name in sorted(TOP_LEVEL - found):
        yield f"{name}: missing from the top level"


def rust_file(path, text):
    """A Rust file is one finished idea with a header."""
    lines = text.splitlines()
    if len(lines) >= MAX_LINES:
        yield f"{path}: expected fewer than {MAX_LINES} lines, got {len(lines)}. Split it by idea"
    if not text.startswith("//!"):
        yield f"{path}: does not start with a `//!` header that says what lives here"
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line.split("//")[0]):
            yield f"{path}:{number}: unfinished: {line.strip()}"
    parts = pathlib.PurePosixPath(path).with_suffix("").parts
    for name in NAMES_THAT_SAY_NOTHING.intersection(parts):
        yield f"{path}: `{name}` says nothing about what it holds"


def manifest(path, text):
    """Every crate inherits the workspace's lints; the virtual manifest defines them."""
    if "[package]" in text and not INHERITED_LINTS.search(text):
        yield f"{path}: lacks `[lints]` with `workspace = true`"


def script(path, text, executable):
    """A script that can be run says by what, and is executable; one that is sourced is neither."""
    if text.startswith("#!") != executable:
        yield f"{path}: expected both a `#!` line and the executable bit, or none of them"


def breaches(root, paths):
    """All of the above over the files of a work tree."""
    yield from top_level(paths)
    for path in paths:
        file = root / path
        if file.is_symlink() or not file.is_file():
            continue
        if path.endswith(".rs"):
            yield from rust_file(path, file.read_text())
        elif file.name == "Cargo.toml":
            yield from manifest(path, file.read_text())
        elif path.endswith(".sh") or path == ".ci/run":
            yield from script(path, file.read_text(), file.stat().st_mode & 0o100 != 0)


def main(root):
    """Files that git knows or would take."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = sorted({path for path in output.split("\0") if path and (root / path).exists()})
    found = list(breaches(root, paths))
    for breach in found:
        print(f"error: {breach}", file=sys.stderr)
    print(f"house rules: {len(paths)} files, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

"""Conventions that clippy does not check: conventions.py ROOT prints each violation and fails if there is one."""

import pathlib
import posixpath
import re
import subprocess
import sys

from rust_source import without_text

TOP_LEVEL = {
    *("Cargo.toml", "Cargo.lock", "README.md", "ARCHITECTURE.md", "LICENSE", "CHANGELOG.md"),
    *("proto", "encoder", "indexer", "searcher", "benches", "deploy"),
}
MAX_LINES = 400
# As in `.rustfmt.toml`, which leaves comments and macros alone.
MAX_WIDTH = 120
COMMENT = re.compile(r"^\s*//[/!]?(?P<text>.*)$")
# Rows of tables, pictures and commands are not wrapped.
NOT_PROSE = re.compile(r"^ ?\||^ {3,}")
VAGUE_NAMES = {"utils", "util", "common", "helpers", "helper", "misc"}
UNFINISHED = re.compile(r"\b(todo|unimplemented)!\s*[(\[{]")
INHERITED_LINTS = re.compile(r"^\[lints\]\s*\nworkspace = true$", re.MULTILINE)


def top_level(paths):
    """The top level holds exactly the crates, deploy and a few files; dotfiles are allowed."""
    found = {path.split("/")[0] for path in paths}
    found = {name for name in found if not name.startswith(".")}
    for name in sorted(found - TOP_LEVEL):
        yield f"{name}: not allowed at the top level"
    for name in sorted(TOP_LEVEL - found):
        yield f"{name}: missing from the top level"


def rust_file(path, text):
    """A Rust file is short, finished, and has a header."""
    lines = text.splitlines()
    if len(lines) >= MAX_LINES:
        yield f"{path}: expected fewer than {MAX_LINES} lines, got {len(lines)}. Split it by topic"
    if not text.startswith("//!"):
        yield f"{path}: does not start with a `//!` header that says what the module does"
    yield from wide_lines(path, text)
    for number, line in enumerate(lines, 1):
        if UNFINISHED.search(line.split("//")[0]):
            yield f"{path}:{number}: unfinished: {line.strip()}"
    parts = pathlib.PurePosixPath(path).with_suffix("").parts
    for name in VAGUE_NAMES.intersection(parts):
        yield f"{path}: `{name}` does not describe its contents"


def width_without_text(line, code):
    """Columns of a line but for its strings and comments, which are blanked out in `code`."""
    indent = len(line) - len(line.lstrip())
    return indent + len(re.sub(r" {2,}", " ", code.strip()))


def wide_lines(path, text):
    """Comments wrap where code does. Strings may be longer."""
    in_fence = False
    for number, (line, code) in enumerate(zip(text.splitlines(), without_text(text).splitlines(), strict=True), 1):
        comment = COMMENT.match(line)
        if comment and comment["text"].lstrip().startswith("```"):
            in_fence = not in_fence
        is_prose = comment and not in_fence and not NOT_PROSE.match(comment["text"])
        width = len(line) if is_prose else width_without_text(line, code)
        if width > MAX_WIDTH:
            yield f"{path}:{number}: expected at most {MAX_WIDTH} columns, got {width}. Wrap it"


def manifest(path, text):
    """Every crate inherits the workspace's lints; the virtual manifest defines them."""
    if "[package]" in text and not INHERITED_LINTS.search(text):
        yield f"{path}: lacks `[lints]` with `workspace = true`"


def script(path, text, executable):
    """A script has both a `#!` line and the executable bit; one that is sourced has neither."""
    if text.startswith("#!") != executable:
        yield f"{path}: expected both a `#!` line and the executable bit, or neither"


# Written as code in a document: the end of a path, such as `run/pool.rs`.
PATH_IN_DOCUMENT = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:rs|sh|py|proto|md))`")
LINK_IN_DOCUMENT = re.compile(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)")


def document(path, text, paths):
    """Files that a document names, and those that it links to, are there."""
    folder = pathlib.PurePosixPath(path).parent
    for name in PATH_IN_DOCUMENT.findall(text):
        name = name.removeprefix("../")
        if not any(other == name or other.endswith("/" + name) for other in paths):
            yield f"{path}: `{name}` is no file of this repository"
    for target in LINK_IN_DOCUMENT.findall(text):
        found = posixpath.normpath(str(folder / target))
        if not any(other == found or other.startswith(found + "/") for other in paths):
            yield f"{path}: the link to {target} leads to no file of this repository"


def violations(root, paths):
    """All violations in the files of a work tree."""
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
        elif path.endswith(".md"):
            yield from document(path, file.read_text(), paths)


def main(root):
    """Checks all files that git tracks or would add."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    paths = sorted({path for path in output.split("\0") if path and (root / path).exists()})
    found = list(violations(root, paths))
    for violation in found:
        print(f"error: {violation}", file=sys.stderr)
    print(f"conventions: {len(paths)} files, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

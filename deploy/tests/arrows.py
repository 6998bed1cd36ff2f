"""Which crate may depend on which: arrows.py ROOT reads `cargo metadata` and fails on an arrow that is not drawn here.

A new arrow is drawn by an edit of these tables or of the bans in `.deny.toml`, which a reviewer sees.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

# crate: crates of ours that it may use
ARROWS = {
    "dyad-command": set(),
    "dyad-files": set(),
    "dyad-proto": set(),
    "dyad-corpus": {"dyad-files"},
    "dyad-index": {"dyad-files"},
    "dyad-encoder": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-proto"},
    "dyad-indexer": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-index", "dyad-proto"},
    "dyad-searcher": {"dyad-command", "dyad-corpus", "dyad-index", "dyad-proto"},
    "dyad-bench": {
        *("dyad-command", "dyad-corpus", "dyad-encoder", "dyad-files", "dyad-index", "dyad-indexer", "dyad-proto"),
        "dyad-searcher",
    },
}
# Behind a feature, so that the crate also builds without it.
OPTIONAL_ARROWS = {"dyad-searcher": {"dyad-encoder"}}
# In tests only.
TEST_ARROWS = {"dyad-searcher": {"dyad-files", "dyad-indexer"}}


def confined(root):
    """Crates of others that only some of ours may use, as `.deny.toml` says."""
    bans = tomllib.loads((root / ".deny.toml").read_text())["bans"]["deny"]
    return {ban["crate"]: set(ban["wrappers"]) for ban in bans}


def forbidden(metadata, confined_to):
    """Each forbidden arrow of a `cargo metadata --no-deps`, in words. `confined_to` is as [`confined`] gives it."""
    members = set(metadata["workspace_members"])
    packages = [package for package in metadata["packages"] if package["id"] in members]
    ours = {package["name"] for package in packages}
    for name in sorted(ours - ARROWS.keys()):
        yield f"{name}: a crate with no arrows drawn"
    for name in sorted(ARROWS.keys() - ours):
        yield f"{name}: arrows drawn, but no such crate"
    for package in packages:
        for dependency in package["dependencies"]:
            yield from forbidden_arrow(package["name"], dependency, ours, confined_to)


def forbidden_arrow(name, dependency, ours, confined_to):
    """The breach that one dependency of the crate `name` is, if any."""
    target, kind = dependency["name"], dependency["kind"] or "normal"
    if target in confined_to and name not in confined_to[target]:
        yield f"{name} -> {target} ({kind}): only {' and '.join(sorted(confined_to[target]))} may use it"
    if target not in ours or target in ARROWS.get(name, set()):
        return
    if target in OPTIONAL_ARROWS.get(name, set()) and (dependency["optional"] or kind == "dev"):
        return
    if kind == "dev" and target in TEST_ARROWS.get(name, set()):
        return
    hint = ", unless it is optional" if target in OPTIONAL_ARROWS.get(name, set()) else ""
    yield f"{name} -> {target} ({kind}): not an arrow of the design{hint}"


def cargo_metadata(root):
    """What cargo knows about the workspace itself; needs no network."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def main(root):
    """Prints each forbidden arrow."""
    metadata = cargo_metadata(root)
    found = list(forbidden(metadata, confined(root)))
    for arrow in found:
        print(f"error: forbidden dependency: {arrow}", file=sys.stderr)
    print(f"arrows: {len(metadata['packages'])} crates, {len(found)} forbidden")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

"""Which crate may depend on which: crate_dependencies.py ROOT reads `cargo metadata` and fails on any other dependency.

A new dependency needs an edit of these tables or of the bans in `.deny.toml`, which a reviewer sees.
"""

import json
import pathlib
import subprocess
import sys
import tomllib

# Crate: the crates of this workspace that it may use.
ALLOWED = {
    "dyad-command": {"dyad-files"},
    "dyad-files": set(),
    "dyad-proto": set(),
    "dyad-revision": set(),
    "dyad-filter": {"dyad-index", "dyad-proto"},
    "dyad-corpus": {"dyad-files"},
    "dyad-index": {"dyad-files"},
    "dyad-store": {"dyad-files", "dyad-index"},
    "dyad-encoder": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-proto", "dyad-revision"},
    "dyad-indexer": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-filter", "dyad-index", "dyad-proto", "dyad-revision", "dyad-store"},
    "dyad-python": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-filter", "dyad-index", "dyad-indexer", "dyad-proto"},
    "dyad-searcher": {"dyad-command", "dyad-corpus", "dyad-files", "dyad-filter", "dyad-index", "dyad-proto", "dyad-revision", "dyad-store"},
    "dyad-bench": {
        *("dyad-command", "dyad-corpus", "dyad-encoder", "dyad-files", "dyad-index", "dyad-indexer", "dyad-proto"),
        *("dyad-revision", "dyad-searcher"),
    },
}
# As an optional dependency, so that the crate also builds without it.
OPTIONAL = {"dyad-searcher": {"dyad-encoder"}}
# As a dev-dependency only.
TESTS_ONLY = {"dyad-searcher": {"dyad-indexer"}}


def confined(root):
    """Third-party crates that only some crates may use, from the bans of `.deny.toml`."""
    bans = tomllib.loads((root / ".deny.toml").read_text())["bans"]["deny"]
    return {ban["crate"]: set(ban["wrappers"]) for ban in bans}


def forbidden(metadata, confined_to):
    """A message for each forbidden dependency in a `cargo metadata --no-deps`. `confined_to` is the result of `confined`."""
    members = set(metadata["workspace_members"])
    packages = [package for package in metadata["packages"] if package["id"] in members]
    ours = {package["name"] for package in packages}
    for name in sorted(ours - ALLOWED.keys()):
        yield f"{name}: not in the table of allowed dependencies"
    for name in sorted(ALLOWED.keys() - ours):
        yield f"{name}: in the table of allowed dependencies, but there is no such crate"
    for package in packages:
        for dependency in package["dependencies"]:
            yield from forbidden_dependency(package["name"], dependency, ours, confined_to)


def forbidden_dependency(name, dependency, ours, confined_to):
    """A message if this dependency of the crate `name` is forbidden."""
    target, kind = dependency["name"], dependency["kind"] or "normal"
    if target in confined_to and name not in confined_to[target]:
        yield f"{name} -> {target} ({kind}): only {' and '.join(sorted(confined_to[target]))} may use it"
    if target not in ours or target in ALLOWED.get(name, set()):
        return
    if target in OPTIONAL.get(name, set()) and (dependency["optional"] or kind == "dev"):
        return
    if kind == "dev" and target in TESTS_ONLY.get(name, set()):
        return
    hint = ", unless it is optional" if target in OPTIONAL.get(name, set()) else ""
    yield f"{name} -> {target} ({kind}): not in the table of allowed dependencies{hint}"


def cargo_metadata(root):
    """The metadata of the workspace's own packages; needs no network."""
    command = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def main(root):
    """Prints each forbidden dependency."""
    metadata = cargo_metadata(root)
    found = list(forbidden(metadata, confined(root)))
    for message in found:
        print(f"error: forbidden dependency: {message}", file=sys.stderr)
    print(f"crate dependencies: {len(metadata['packages'])} crates, {len(found)} forbidden")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

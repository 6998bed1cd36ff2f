"""Every dependency is used, and `.deny.toml` allows its licence and source: dependency_policy.py ROOT.

A dependency counts as used where its name occurs in the sources that it is declared for. cargo-deny checks the policies
where it is installed, and the advisories if their database can be fetched; elsewhere licences and sources are checked here.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

from rust_source import product_code, without_text

# Dependencies whose name occurs in generated code only: (crate, dependency).
GENERATED = {("dyad-proto", "prost-types"), ("dyad-proto", "tonic-prost")}
# Folders of a crate that contain Rust.
CODE = ("src", "tests", "benches", "examples")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
LICENCE_WORD = re.compile(r"\(|\)|[\w.+-]+(?:\s+WITH\s+[\w.+-]+)?|/")


def metadata(root):
    """The metadata of the workspace and all its dependencies; may fetch crates that no target here needs."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def code_with_tests(file):
    """The code of a file, tests included."""
    return without_text(file.read_text())


def words(files, read):
    """Every word of the code of `files`."""
    return {word for file in files for word in re.findall(r"\w+", read(file))}


def unused(folder, package):
    """A message for each dependency of a package that its code does not name."""
    product = words(folder.glob("src/**/*.rs"), product_code)
    everything = words((file for part in CODE for file in folder.glob(f"{part}/**/*.rs")), code_with_tests)
    build = words([*folder.glob("build.rs"), *folder.glob("build/**/*.rs")], code_with_tests)
    for dependency in package["dependencies"]:
        name = (dependency["rename"] or dependency["name"]).replace("-", "_")
        kind = dependency["kind"] or "normal"
        if (package["name"], dependency["name"]) in GENERATED:
            continue
        if name in {"normal": product, "dev": everything, "build": build}[kind]:
            continue
        hint = ". Its tests use it: move it to `[dev-dependencies]`" if kind == "normal" and name in everything else ""
        yield f"{package['name']}: `{dependency['name']}` ({kind}) is not used{hint}"


def unused_in_workspace(root, packages):
    """A message for each dependency that the workspace declares and no crate uses."""
    declared = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["dependencies"]
    used = {dependency["name"] for package in packages for dependency in package["dependencies"]}
    for name in sorted(declared.keys() - used):
        yield f"Cargo.toml: `{name}` of `[workspace.dependencies]` is used by no crate"


def licence_allowed(expression, allowed):
    """Whether an SPDX expression can be met by licences of `allowed`; `A/B` is the old form of `A OR B`."""
    tokens = LICENCE_WORD.findall(expression)[::-1]

    def one():
        if tokens and tokens[-1] == "(":
            tokens.pop()
            met = any_of()
            tokens.pop()
            return met
        return tokens.pop() in allowed if tokens else False

    def all_of():
        met = one()
        while tokens and tokens[-1] == "AND":
            tokens.pop()
            met = one() and met
        return met

    def any_of():
        met = all_of()
        while tokens and tokens[-1] in ("OR", "/"):
            tokens.pop()
            met = all_of() or met
        return met

    return any_of() and not tokens


def against_policies(packages, policies):
    """A message for each third-party crate whose licence or source is not allowed."""
    allowed = set(policies["licenses"]["allow"])
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] not in (None, CRATES_IO):
            yield f"{name}: from {package['source']}, expected crates.io"
        if not licence_allowed(package["license"] or "", allowed):
            yield f"{name}: licence {package['license']}, expected one of {', '.join(sorted(allowed))}"


def deny(root):
    """The failures of cargo-deny. Checks that cannot be run are reported and skipped."""
    command = ["cargo-deny", "--config", ".deny.toml", "--locked", "check", "--hide-inclusion-graph"]
    checks = ["bans", "licenses", "sources"]
    fetch = ["cargo-deny", "--config", ".deny.toml", "fetch", "db"]
    fetched = subprocess.run(fetch, cwd=root, capture_output=True, check=False)
    if fetched.returncode == 0:
        checks.append("advisories")
    else:
        print("dependency policy: advisories are skipped: their database cannot be fetched")
    result = subprocess.run([*command, *checks], cwd=root, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield f"cargo-deny: {result.stderr.strip()}"


def main(root):
    """Prints each violation."""
    known = metadata(root)
    members = set(known["workspace_members"])
    ours = [package for package in known["packages"] if package["id"] in members]
    found = list(unused_in_workspace(root, ours))
    for package in ours:
        found.extend(unused(pathlib.Path(package["manifest_path"]).parent, package))
    found.extend(against_policies(known["packages"], tomllib.loads((root / ".deny.toml").read_text())))
    if shutil.which("cargo-deny"):
        found.extend(deny(root))
    else:
        print("dependency policy: advisories are skipped: cargo-deny is not installed (cargo install cargo-deny --locked)")
    for violation in found:
        print(f"error: {violation}", file=sys.stderr)
    print(f"dependency policy: {len(known['packages'])} crates, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

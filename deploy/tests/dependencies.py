"""Every dependency is used, and every crate of others is one that `.deny.toml` allows: dependencies.py ROOT.

A dependency is used where its name stands in the sources that it is declared for. Where cargo-deny is installed it
checks the policies, the advisories if their database can be had; elsewhere licences and sources are checked here.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

from rust_source import product_code, without_text

# Dependencies whose name stands in generated code only: (crate, dependency).
GENERATED = {("dyad-proto", "prost-types"), ("dyad-proto", "tonic-prost")}
# Folders of a crate that hold Rust.
CODE = ("src", "tests", "benches", "examples")
CRATES_IO = "registry+https://github.com/rust-lang/crates.io-index"
LICENCE_WORD = re.compile(r"\(|\)|[\w.+-]+(?:\s+WITH\s+[\w.+-]+)?|/")


def metadata(root):
    """What cargo knows about the workspace and all that it depends on; may have to fetch what no target here needs."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    return json.loads(subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout)


def code_with_tests(file):
    """The code of a file, tests included."""
    return without_text(file.read_text())


def words(files, read):
    """Every word of the code of `files`."""
    return {word for file in files for word in re.findall(r"\w+", read(file))}


def unused(folder, package):
    """Dependencies of a package that nothing names, in words."""
    product = words(folder.glob("src/**/*.rs"), product_code)
    everything = words((file for part in CODE for file in folder.glob(f"{part}/**/*.rs")), code_with_tests)
    build = words(folder.glob("build.rs"), code_with_tests)
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
    """Dependencies that the workspace declares and no crate takes, in words."""
    declared = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["dependencies"]
    taken = {dependency["name"] for package in packages for dependency in package["dependencies"]}
    for name in sorted(declared.keys() - taken):
        yield f"Cargo.toml: `{name}` of `[workspace.dependencies]` is taken by no crate"


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
    """Crates of others whose licence or source is not allowed, in words."""
    allowed = set(policies["licenses"]["allow"])
    for package in packages:
        name = f"{package['name']} {package['version']}"
        if package["source"] not in (None, CRATES_IO):
            yield f"{name}: from {package['source']}, expected crates.io"
        if not licence_allowed(package["license"] or "", allowed):
            yield f"{name}: licence {package['license']}, expected one of {', '.join(sorted(allowed))}"


def deny(root):
    """What cargo-deny says against the policies, in words; what cannot be checked is said and skipped."""
    command = ["cargo-deny", "--config", ".deny.toml", "--locked", "check", "--hide-inclusion-graph"]
    checks = ["bans", "licenses", "sources"]
    fetch = ["cargo-deny", "--config", ".deny.toml", "fetch", "db"]
    fetched = subprocess.run(fetch, cwd=root, capture_output=True, check=False)
    if fetched.returncode == 0:
        checks.append("advisories")
    else:
        print("dependencies: advisories are skipped: their database cannot be fetched")
    result = subprocess.run([*command, *checks], cwd=root, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        yield f"cargo-deny: {result.stderr.strip()}"


def main(root):
    """Prints each breach."""
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
        print("dependencies: advisories are skipped: cargo-deny is not installed (cargo install cargo-deny --locked)")
    for breach in found:
        print(f"error: {breach}", file=sys.stderr)
    print(f"dependencies: {len(known['packages'])} crates, {len(found)} breaches")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))

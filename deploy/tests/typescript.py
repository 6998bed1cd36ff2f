"""The TypeScript client as it is published: typescript.py BINARIES MODEL PACKAGES, in the root.

The package is built against a searcher and an indexer that run, packed, and installed from its archive alone into an
empty folder. There the TypeScript of the READMEs and typescript_program.ts pass the compiler with all its checks and
are run by Node.js against these servers, one of which wants an API key; the package's own tests, which are plain
JavaScript, run there too. PACKAGES is the folder of deploy/typescript.sh.
"""

import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request

from build_index import built
from programs import serving

COMMAND_S = 300
CLIENT = pathlib.Path("searcher/clients/typescript")
PROGRAM = pathlib.Path("deploy/tests/typescript_program.ts")
# Each with a text of what its program prints.
READMES = {"searcher/README.md": "okapi true", f"{CLIENT}/README.md": "true n3"}
# What the build and npm may have left in the package's folder.
LEFT_OUT = shutil.ignore_patterns("node_modules", "dist", "generated", "*.tgz", "package-lock.json")
CHECKS = {"strict": True, "noUncheckedIndexedAccess": True, "noImplicitReturns": True}
PLATFORM = {"module": "nodenext", "target": "es2022", "lib": ["es2022", "dom"], "types": [], "outDir": "out"}
CONFIG = {"compilerOptions": CHECKS | PLATFORM, "include": ["*.ts"]}


def run(folder, *command):
    """Runs a command in the folder; gives what it printed."""
    done = subprocess.run(command, cwd=folder, timeout=COMMAND_S, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def servers(binaries, model, folder):
    """Servers that have the quick start's documents: the texts that stand for them in the programs, and theirs here."""
    lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text().splitlines()
    built(binaries, model, folder / "index", [json.loads(line) for line in lines])
    key = run(folder, binaries / "dyad-searcher", "keys", "create", "--keys", "keys.json", "--name", "test").split()[-1]
    common = ("dyad-searcher", "--index", "index", "--http", "127.0.0.1:0")
    with (
        serving(binaries, folder, "dyad-encoder", "--model", model) as encoder,
        serving(binaries, folder, *common, "--question-tower", model) as searcher,
        serving(binaries, folder, *common, "--question-tower", "none", "--keys", "keys.json") as locked,
        serving(
            binaries, folder, "dyad-indexer", "--index", "index", "--encoder", f"http://{encoder['listening']}",
            "--searcher", f"http://{searcher['listening']}", "--http", "127.0.0.1:0",
        ) as indexer,
    ):  # fmt: skip
        named = {"127.0.0.1:7780": searcher, "127.0.0.1:7712": indexer, "127.0.0.1:7781": locked}
        running = {name: addresses["HTTP"] for name, addresses in named.items()}
        yield running | {"API-KEY": key}


def packed(folder, packages, searcher, indexer):
    """The archive that npm makes of the client."""
    shutil.copytree(CLIENT, folder, ignore=LEFT_OUT)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    run(folder, "npm", "run", "generate", "--", searcher, indexer)
    run(folder, "npm", "run", "build")
    (made,) = json.loads(run(folder, "npm", "pack", "--json", "--ignore-scripts"))
    files = {file["path"] for file in made["files"]}
    wanted = {"package.json", "README.md", "dist/index.js", "dist/index.d.ts", "dist/generated/searcher.d.ts"}
    others = {name for name in files - wanted if not re.fullmatch(r"dist/.*\.(js|d\.ts)", name)}
    if others or wanted - files:
        missing = wanted - files
        raise SystemExit(f"npm pack: expected {sorted(wanted)} and more code, got also {others}, and no {missing}")
    return folder / made["filename"]


def installed(folder, archive):
    """An empty folder in which the archive, and nothing else, was installed."""
    folder.mkdir()
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    run(folder, "npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", archive)
    there = {path.name for path in (folder / "node_modules").iterdir() if not path.name.startswith(".")}
    if there != {"dyad-client"}:
        raise SystemExit(f"npm install: expected dyad-client and nothing else, got {sorted(there)}")


def program_of(readme):
    """The TypeScript of a README."""
    (program,) = re.findall(r"^```ts\n(.*?)^```", pathlib.Path(readme).read_text(), re.MULTILINE | re.DOTALL)
    return program


def main():
    """Ends with an error where something does not work."""
    binaries, model, packages = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        with servers(binaries, model, folder) as here:
            searcher, indexer = (f"http://{here[name]}" for name in ("127.0.0.1:7780", "127.0.0.1:7712"))
            archive, user = packed(folder / "package", packages, searcher, indexer), folder / "user"
            installed(user, archive)
            (user / "tsconfig.json").write_text(json.dumps(CONFIG))
            programs = {f"readme{at}": (program_of(readme), told) for at, (readme, told) in enumerate(READMES.items())}
            programs["program"] = (PROGRAM.read_text(), "all calls ok")
            for name, (text, _) in programs.items():
                for there, address in here.items():
                    text = text.replace(there, address)
                (user / f"{name}.ts").write_text(text)
            run(user, packages / "node_modules/.bin/tsc")
            for name, (_, told) in programs.items():
                if told not in (printed := run(user, "node", f"out/{name}.js")):
                    raise SystemExit(f"{name}.ts: expected that it prints `{told}`, got\n{printed}")
            shutil.copytree(CLIENT / "tests", user / "tests")
            tests = run(user, "node", "--test", "tests/")
            with urllib.request.urlopen(f"{searcher}/v1/status", timeout=COMMAND_S) as status:
                documents = json.load(status)["documents"]
            if documents != len((folder / "index.jsonl").read_text().splitlines()):
                raise SystemExit(f"expected that the programs delete what they have written, got {documents} documents")
    passed = re.search(r"^(?:#|ℹ) pass (\d+)$", tests, re.MULTILINE)
    if not passed or int(passed[1]) == 0:
        raise SystemExit(f"node --test: expected tests that pass, got\n{tests}")
    print(f"TypeScript client: {archive.name} installed, {len(programs)} programs and {passed[1]} tests ok")


if __name__ == "__main__":
    main()

"""The TypeScript of the searcher's README, as a user would run it: typescript.py BINARIES MODEL PACKAGES, in the root.

The types are made from `/v1/openapi.json` of a searcher and an indexer that run, by openapi-typescript; the block is checked by the
compiler with all its checks, and is run by Node.js; PACKAGES is the folder of deploy/typescript.sh. A program with an error in a request
must not pass the compiler.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

from build_index import built
from programs import serving

COMMAND_S = 120
README = pathlib.Path("searcher/README.md")
CONFIG = {"compilerOptions": {"strict": True, "module": "nodenext", "target": "es2022", "lib": ["es2022", "dom"], "types": [], "noUncheckedIndexedAccess": True, "outDir": "out"}, "include": ["*.ts"]}


def run(folder, *command, fails=False):
    """Runs a command in the folder; gives what it printed."""
    done = subprocess.run(command, cwd=folder, timeout=COMMAND_S, capture_output=True, text=True, check=False)
    if (done.returncode != 0) != fails:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def blocks():
    """The commands that make the types, and the program, as the README has them."""
    text = README.read_text()
    (commands,) = (block for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL) if "openapi-typescript" in block)
    (program,) = re.findall(r"^```ts\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return commands, program


def main():
    """Ends with an error where something does not work."""
    binaries, model, packages = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    # By its path: npx would fetch a package of that name.
    commands, program, compiler = *blocks(), "node_modules/.bin/tsc"
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text().splitlines()
        built(binaries, model, folder / "index", [json.loads(line) for line in lines])
        tower = ("--question-tower", model)
        with (
            serving(binaries, folder, "dyad-encoder", "--model", model) as encoder,
            serving(binaries, folder, "dyad-searcher", "--index", "index", *tower, "--http", "127.0.0.1:0") as searcher,
            serving(
                binaries, folder, "dyad-indexer", "--index", "index", "--encoder", f"http://{encoder['listening']}",
                "--searcher", f"http://{searcher['listening']}", "--http", "127.0.0.1:0",
            ) as indexer,
        ):  # fmt: skip
            here = {"http://127.0.0.1:7780": f"http://{searcher['HTTP']}", "http://127.0.0.1:7712": f"http://{indexer['HTTP']}"}
            for address, running in here.items():
                commands, program = commands.replace(address, running), program.replace(address, running)
            (folder / "package.json").write_text('{"type": "module"}')
            (folder / "tsconfig.json").write_text(json.dumps(CONFIG))
            (folder / "node_modules").symlink_to(packages / "node_modules")
            for command in commands.splitlines():
                if command.startswith("npx"):
                    run(folder, "npx", "--no-install", *command.split()[1:])
            (folder / "program.ts").write_text(program)
            run(folder, compiler)
            printed = run(folder, "node", "out/program.js")
            if "okapi true" not in printed or "n7 " not in printed:
                raise SystemExit(f"{README}: expected that the program finds what it has written, got\n{printed}")
            with urllib.request.urlopen(f"{here['http://127.0.0.1:7780']}/v1/status", timeout=COMMAND_S) as status:
                documents = json.load(status)["documents"]
            if documents != len(lines):
                raise SystemExit(f"{README}: expected {len(lines)} documents after the program has deleted its own, got {documents}")
            for right, wrong in (("k: 3", "k: '3'"), ("documents:", "document:"), ('"MODE_HYBRID"', '"HYBRIDE"')):
                if right not in program:
                    raise SystemExit(f"{README}: expected `{right}` in the program")
                (folder / "program.ts").write_text(program.replace(right, wrong, 1))
                run(folder, compiler, "--noEmit", fails=True)
            print(f"TypeScript: checked, run, and three wrong requests refused by the compiler\n{printed}", end="")


if __name__ == "__main__":
    main()

"""LangChain, LlamaIndex and Haystack with servers that run: integrations.py BINARIES MODEL, in the root, by the Python of deploy/integrations.sh.

The frameworks' own tests of stores and retrievers run with the Python client's modules for them, ours of what those leave out, mypy over
the client, and the examples of the client's README, each in a process of its own. No warning may come that an answer is degraded, or that
a change is not to be searched yet.

| file | contents |
|---|---|
| `integrations_servers.py` | the servers |
| `integrations_index.py` | where they are, and an index that is empty |
| `integrations_langchain.py`, `integrations_llama_index.py`, `integrations_haystack.py` | the tests |
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from integrations_servers import servers, write_addresses

COMMAND_S = 400
CLIENT = pathlib.Path("searcher/clients/python").resolve()
HERE = pathlib.Path(__file__).resolve().parent
# Next to each other: those of one row use the same indexes.
ROWS = (("haystack",), ("langchain", "llama_index"))
# The module of the client, its framework, the extra that the error names, and what the README's example prints.
FRAMEWORKS = (
    ("langchain", "langchain_core", "langchain", "n2 Io has volcanoes. {'year': 2025}"),
    ("llama_index", "llama_index", "llama-index", "n2 Io has volcanoes. {'year': 2025}"),
    ("haystack", "haystack", "haystack", "n2 Io has volcanoes. {'year': 2025}"),
)


def run(environment, *command):
    """Runs a Python command; gives what it printed."""
    done = subprocess.run(
        [sys.executable, *command], env=environment, timeout=COMMAND_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def begun(environment, *command, folder):
    """Starts a Python command whose output is read in the end."""
    command = [sys.executable, *command]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


# Runs each program of the arguments by itself.
EXAMPLES = "import sys\nfor program in sys.argv[1:]:\n    exec(program, {})\n    print('-----')"
# Where a framework is not installed, the error is printed.
WITHOUT = """
import importlib, sys
for module, framework in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.modules[framework] = None
    try:
        importlib.import_module(f"dyad_client.{module}")
    except ImportError as error:
        print(error)
"""


def check_without_frameworks(environment):
    """The error names the extra that is to be installed."""
    lines = run(environment, "-c", WITHOUT, *(word for one in FRAMEWORKS for word in one[:2])).splitlines()
    for (module, _, extra, _), line in zip(FRAMEWORKS, lines, strict=True):
        if not line.startswith(f"dyad_client.{module}: ") or f"pip install 'dyad-client[{extra}]'" not in line:
            raise SystemExit(f"dyad_client.{module}: expected an error that names the extra {extra}, got {line!r}")


def run_examples(environment, addresses):
    """The examples of the README, with the index whose server embeds."""
    blocks = re.findall(r"^```python\n(.*?)^```", (CLIENT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    programs = []
    for module, *_ in FRAMEWORKS:
        (block,) = (block for block in blocks if f"from dyad_client.{module} import" in block)
        programs.append(block.replace("127.0.0.1:7700", addresses["searcher"]).replace("127.0.0.1:7702", addresses["texts"]))
    parts = run(environment, "-W", "error::RuntimeWarning", "-c", EXAMPLES, *programs).split("-----\n")
    for (module, _, _, expected), printed in zip(FRAMEWORKS, parts, strict=False):
        if expected not in printed:
            raise SystemExit(f"README.md: dyad_client.{module}: expected {expected!r}, got\n{printed}")
        print(f"README.md: the example of dyad_client.{module} ran")


def main():
    """Ends with an error where something does not work."""
    binaries, model = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    # Makes the protobuf modules.
    subprocess.run([sys.executable, "setup.py", "--quiet", "--version"], cwd=CLIENT, check=True, timeout=COMMAND_S, stdout=subprocess.DEVNULL)
    # Haystack reports its use where it is not told otherwise.
    environment = os.environ | {"PYTHONPATH": str(CLIENT / "src"), "HAYSTACK_TELEMETRY_ENABLED": "False"}
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        with servers(binaries, model, folder) as addresses:
            environment["DYAD_INTEGRATIONS"] = str(folder / "addresses.json")
            write_addresses(addresses, environment["DYAD_INTEGRATIONS"])
            settings = ["-o", "asyncio_mode=auto", "-o", "asyncio_default_fixture_loop_scope=function", "-p", "no:cacheprovider"]
            pytest = ["-m", "pytest", "--quiet", "--tb=short", "-rsx", "-W", "error::RuntimeWarning", *settings]
            running = [begun(environment, *pytest, *(f"integrations_{name}.py" for name in row), folder=HERE) for row in ROWS]
            cache = str(pathlib.Path(sys.prefix) / "mypy-cache")
            running.append(begun(environment, "-m", "mypy", "--cache-dir", cache, folder=CLIENT))
            try:
                failed = 0
                for one in running:
                    printed, _ = one.communicate(timeout=COMMAND_S)
                    print(printed, end="", flush=True)
                    failed += one.returncode != 0
            finally:
                for one in running:
                    if one.poll() is None:
                        one.kill()
                        one.wait()
            if failed:
                raise SystemExit(f"{failed} of {len(running)} runs failed")
            check_without_frameworks(environment)
            run_examples(environment, addresses)


if __name__ == "__main__":
    main()

"""Runs the commands that the READMEs show: readme.py BINARIES MODEL, in the root.

Each command of ours in their `sh` blocks runs with the binaries of a build, in a scratch folder that holds what the quick start leaves, one README after
another, as a reader goes on. Servers get a free port and end with the folder. `openssl` runs where it is there, and else what needs its certificate cannot. What `learn` prints has to bear out that hybrid loses nothing to
its better half. `curl` runs as it is, and `grpcurl` by a script in its place, which needs DYAD_PYTHON, as the tests of the Python client do, which run against the searcher
of the first README. The Python blocks that use the client run with the first searcher that watches its index, while the server of
changes of the README before runs. The shell's lines of a bulk job, in deploy/README.md, are run as they are, where jq is there. What fetches or builds
(`deploy/*.sh`, `cargo`) is run by CI itself; other programs are left out, and named.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

READMES = ("README.md", "indexer/README.md", "searcher/README.md")
PYTHON_READMES = ("searcher/README.md", "searcher/clients/python/README.md")
# Their examples are run by integrations.py, which has them.
OF_FRAMEWORKS = re.compile(r"from dyad_client\.(langchain|llama_index|haystack) import")
PROGRAM = re.compile(r"^(?:target/release/)(dyad-(?:encoder|indexer|searcher))$")
RUN_BY_CI = re.compile(r"^(deploy/(quickstart|test|libtorch|model)\.sh|cargo build --release)\b")
START_S, COMMAND_S = 60, 120
# What the reader has to fill in.
GRPC = {"127.0.0.1:7700": "dyad-searcher", "127.0.0.1:7701": "dyad-encoder", "127.0.0.1:7702": "dyad-indexer"}
HTTP = {"127.0.0.1:7780": "dyad-searcher", "127.0.0.1:7712": "dyad-indexer"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
STANDS_FOR = {
    ".models/reranker": str(ROOT / "encoder/tests/golden/tiny/cross-classic"),
} | {address: "127.0.0.1:0" for address in (*GRPC, *HTTP)}
ENCODER = "http://127.0.0.1:7701"
MODEL = ".models/all-MiniLM-L6-v2"
# What the quick start does, and what it leaves besides.
QUICKSTART = (
    ["dyad-encoder", "embed", "--model", MODEL, "--tower", "answer", "--corpus", ".quickstart/corpus", "--out", ".quickstart/embeddings"],
    ["dyad-indexer", "build", "--corpus", ".quickstart/corpus", "--index", ".quickstart/index", "--embeddings", ".quickstart/embeddings", "--shards", "2"],
)


def commands(text):
    """The commands of a document's `sh` blocks, comments and continued lines taken care of."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        words = []
        for line in block.splitlines():
            words.append(line)
            try:
                parsed = shlex.split("\n".join(words).replace("\\\n", " "), comments=True)
            except ValueError:
                continue  # a quoted text goes on in the next line
            words = []
            if parsed:
                yield parsed


def check_hybrid(printed):
    """The default fusion may lose .01 of nDCG@10 to the better of its two rankings, on real questions and the real model."""
    means = {name: float(mean) for name, mean in re.findall(r"^(dense|BM25|default) +(\d\.\d+)", printed, re.MULTILINE)}
    if not means["default"] >= max(means["dense"], means["BM25"]) - 0.01:
        raise SystemExit(f"expected hybrid to lose at most .01 to its better half, got {means}")


class Servers:
    """What `serve` has started; the next one takes the place of the one before of the same program."""

    def __init__(self):
        self.running = {}
        self.urls = {}

    def start(self, program, command, environment, folder):
        """Starts a server and keeps the address that it says."""
        self.end(program)
        running = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        self.running[program] = running
        end = time.monotonic() + START_S
        for line in running.stdout:
            address = line.split()[-1]
            if line.startswith("listening on "):
                self.urls[program] = ("https://" if "--tls-cert" in command else "http://") + address
                if "--http" not in command:
                    return
            if line.startswith("HTTP on "):
                self.urls[program, "http"] = "http://" + address
                return
            if time.monotonic() > end:
                break
        raise SystemExit(f"{shlex.join(command)}: did not say where it listens")

    def end(self, program):
        """Asks the server of a program to end, and waits."""
        running = self.running.pop(program, None)
        if running:
            running.terminate()
            running.wait(START_S)
            running.stdout.close()

    def end_all(self):
        """Asks all servers to end, and waits."""
        for program in list(self.running):
            self.end(program)


def check_python_client(root, url):
    """The tests of the Python client, with a searcher that serves the quick start."""
    client = root / "searcher/clients/python"
    environment = os.environ | {"PYTHONPATH": str(client / "src"), "DYAD_SEARCHER_URL": url}
    python = os.environ["DYAD_PYTHON"]
    # Makes the protobuf modules.
    subprocess.run([python, "setup.py", "--quiet", "--version"], cwd=client, check=True, timeout=COMMAND_S)
    tests = [python, "-m", "unittest", "discover", "-s", "tests", "-p", "*_test.py"]
    subprocess.run(tests, cwd=client, env=environment, check=True, timeout=COMMAND_S)


def run_python_blocks(root, servers, environment, folder):
    """The Python blocks of the READMEs that use the client, and its test of changes, with the servers that run; gives how many blocks ran."""
    paths = environment | {"PYTHONPATH": str(root / "searcher/clients/python/src")}
    count = 0
    for document in PYTHON_READMES:
        for block in re.findall(r"^```python\n(.*?)^```", (root / document).read_text(), re.MULTILINE | re.DOTALL):
            if "dyad_client" not in block or OF_FRAMEWORKS.search(block):
                continue
            for address, program in GRPC.items():
                block = block.replace(address, servers.urls.get(program, address))
            # Machines that test may be busy.
            block = block.replace("timeout=5)", f"timeout={COMMAND_S})")
            first = next(line for line in block.splitlines() if line.startswith("with "))
            print(f"{document}: {first}"[:150], flush=True)
            command = [os.environ["DYAD_PYTHON"], "-c", block]
            done = subprocess.run(command, cwd=folder, env=paths, capture_output=True, text=True, timeout=COMMAND_S, check=False)
            if done.returncode != 0:
                raise SystemExit(f"{document}: exit code {done.returncode} of\n{block}{done.stdout}{done.stderr}")
            count += 1
    client = root / "searcher/clients/python"
    paths |= {"DYAD_INDEX_URL": servers.urls["dyad-indexer"]}
    tests = [os.environ["DYAD_PYTHON"], "-m", "unittest", "-k", "RealIndex", "index_test"]
    subprocess.run(tests, cwd=client / "tests", env=paths, check=True, timeout=COMMAND_S)
    return count


def run_bulk_job(root, binaries, folder, environment, encoder):
    """The lines of deploy/README.md that run a bulk job by a shell, with a directory in place of the bucket; gives how many ran."""
    if not shutil.which("jq"):
        print("deploy/README.md: not run here, for want of jq: the shell's lines of a bulk job")
        return 0
    blocks = re.findall(r"^```sh\n(.*?)^```", (root / "deploy/README.md").read_text(), re.MULTILINE | re.DOTALL)
    (lines,) = (block for block in blocks if "xargs" in block)
    script = lines.replace("s3://BUCKET/corpus/*.jsonl", ".quickstart/corpus/corpus.jsonl").replace(ENCODER, encoder)
    script = script.replace("s3://BUCKET/", f"file://{folder}/bulk/")
    paths = environment | {"PATH": f"{binaries}:{environment['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=paths, capture_output=True, text=True, timeout=COMMAND_S, check=False
    )
    if done.returncode != 0 or "published generation 1 of" not in done.stdout:
        raise SystemExit(f"deploy/README.md: {lines}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return len(lines.splitlines())


def over_http(word, servers):
    """A word of a command with the addresses of the servers that run here."""
    for address, program in HTTP.items():
        url = f"http://{address}"
        word = word.replace(url, servers.urls.get((program, "http"), url))
    return word


def start_leaf(command, servers, environment, folder):
    """Starts a leaf, which the README leaves in the background, at a free port, and keeps its address under the README's."""
    command = command[:-1]
    listen = command.index("--listen") + 1
    address = command[listen]
    servers.start(address, [*command[:listen], "127.0.0.1:0", *command[listen + 1 :]], environment, folder)


def over_leaves(word, servers):
    """A list of leaves with the addresses of those that run here."""
    urls = word.split(",")
    return ",".join(servers.urls.get(url.removeprefix("http://"), url) for url in urls)


def of_others(root, words, servers):
    """The command of another program than ours, as it runs here; none where it does not."""
    if words[0] == "openssl" and shutil.which("openssl"):
        return words
    if words[0] == "curl" and shutil.which("curl"):
        return ["curl", "--fail-with-body", *(over_http(word, servers) for word in words[1:])]
    if words[0] == "grpcurl" and os.environ.get("DYAD_PYTHON"):
        script = [os.environ["DYAD_PYTHON"], str(root / "deploy/tests/grpcurl.py")]
        addresses = (servers.urls.get(GRPC.get(word), word).removeprefix("http://") for word in words[1:])
        return [*script, *addresses]
    return None


def leave_quickstart(root, binaries, model, folder):
    """Model, corpus, embeddings and index, where the quick start leaves them."""
    for name, target in {MODEL: model, ".quickstart/corpus": root / "deploy/quickstart", "deploy": root / "deploy"}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(target)
    for program, *arguments in QUICKSTART:
        subprocess.run([binaries / program, *arguments], cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)


def run_all(root, binaries, model, folder):
    """All commands of all documents, in their order; gives how many ran."""
    leave_quickstart(root, binaries, model, folder)
    environment, servers, count = os.environ | {"RUST_LOG": "warn", "TMPDIR": str(folder)}, Servers(), 0
    is_first_watching = True
    try:
        for document in READMES:
            for words in commands((root / document).read_text()):
                if RUN_BY_CI.match(" ".join(words)):
                    continue
                if words[0] == "echo" and words[-2] == ">":
                    (folder / words[-1]).write_text(" ".join(words[1:-2]) + "\n")
                    continue
                if words[0] == "tr":
                    line = " ".join(word if word in ("<", ">") else shlex.quote(word) for word in words)
                    subprocess.run(["bash", "-c", line], cwd=folder, check=True, timeout=COMMAND_S)
                    continue
                program = PROGRAM.match(words[0])
                if program:
                    stands_for = STANDS_FOR | {ENCODER: servers.urls.get("dyad-encoder", ENCODER)}
                    # A store that needs no account.
                    stands_for |= {f"s3://BUCKET/{name}": f"file://{folder}/store/{name}" for name in ("PREFIX", "INDEX", "JOB")}
                    command = [str(binaries / program[1]), *(stands_for.get(word, word) for word in words[1:])]
                else:
                    command = of_others(root, words, servers)
                if "server.pem" in words and not words[0] == "openssl" and not (folder / "server.pem").exists():
                    command = None
                if not command:
                    print(f"{document}: not run here: {shlex.join(words)}"[:150])
                    continue
                print(f"{document}: {shlex.join(words)}"[:150], flush=True)
                count += 1
                if program and words[1] == "leaf":
                    start_leaf(command, servers, environment, folder)
                    continue
                if program and words[1] == "serve":
                    if "--leaves" in command:
                        leaves = command.index("--leaves") + 1
                        command[leaves] = over_leaves(command[leaves], servers)
                    servers.start(program[1], command, environment, folder)
                    environment["DYAD_SERVER"] = servers.urls.get("dyad-searcher", "")
                    if is_first_watching and "--watch" in words and os.environ.get("DYAD_PYTHON"):
                        count += run_python_blocks(root, servers, environment, folder)
                        is_first_watching = False
                    continue
                done = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_S, check=False
                )
                if done.returncode != 0:
                    raise SystemExit(f"{document}: {shlex.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
                if words[1] == "learn":
                    check_hybrid(done.stdout)
            if document == "indexer/README.md":
                count += run_bulk_job(root, binaries, folder, environment, servers.urls["dyad-encoder"])
            if document == "README.md" and os.environ.get("DYAD_PYTHON"):
                check_python_client(root, servers.urls["dyad-searcher"])
    finally:
        servers.end_all()
    return count


def main():
    """0 when every command ends with 0."""
    root, binaries, model = pathlib.Path.cwd(), *(pathlib.Path(path).resolve() for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as scratch:
        count = run_all(root, binaries, model, pathlib.Path(scratch))
    print(f"{count} commands ran")
    return 0 if count else 1


if __name__ == "__main__":
    sys.exit(main())

"""A bulk job (`dyad-indexer bulk`) on a Ray cluster: a corpus of any size embedded, indexed and published.

    pip install ray
    python deploy/ray/reindex.py --input 's3://BUCKET/corpus/*.jsonl' --index s3://BUCKET/index --out s3://BUCKET/job \\
        --model /models/minilm --dtype bf16 --split 150 --overlap 30 --threads 16 -- --max-bad 100

An actor per encoder owns a `dyad-encoder serve` on a loopback port of its node, on a GPU where the cluster has some. The pool of these plans
the job and embeds its partitions. A shard is built by a task as soon as its own partitions are embedded, and the last task publishes all of
them. Options after `--` are those of `bulk plan`.

Ray starts actors and tasks of lost nodes again. All state of the job is in the object store, so that the same command goes on after whatever
has been killed, the driver included, skips what is done, and does nothing once the job is published. Programs, model and scratch directory
have the same paths on all nodes, and credentials of the store are in the environment in which Ray was started on them. Files of a machine
work where all nodes see them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
from typing import Any

import ray
from ray.util import ActorPool

# Runs a command that is killed when this process ends, by whatever. A Python of its own does it: what a process with threads runs between fork
# and exec (`preexec_fn`) can hang.
DIES_WITH_PARENT = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent has ended")
try:
    os.execvp(sys.argv[2], sys.argv[2:])
except OSError as error:
    sys.exit(f"{sys.argv[2]}: {error.strerror}")
"""
# The end of what a failed program says.
SHOWN_CHARACTERS = 8_000


class StepFailed(RuntimeError):
    """One of our programs has failed."""

    def __init__(self, command: list[str], code: int, said: str) -> None:
        super().__init__(command, code, said)
        self.command, self.code, self.said = command, code, said

    def __str__(self) -> str:
        return f"{shlex.join(self.command)}: exit code {self.code}\n{self.said[-SHOWN_CHARACTERS:].strip()}"


def start(command: list[str], **more: Any) -> subprocess.Popen[str]:
    """Starts a command that ends with this process."""
    wrapped = [sys.executable, "-c", DIES_WITH_PARENT, str(os.getpid()), *command]
    return subprocess.Popen(wrapped, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **more)


def run(command: list[str]) -> str:
    """What a command prints; raises what it says where it fails."""
    with start(command, stderr=subprocess.PIPE) as running:
        out, said = running.communicate()
    if running.returncode != 0:
        raise StepFailed(command, running.returncode, said)
    return out


class Encoder:
    """An encoder service of this process."""

    def __init__(self, options: argparse.Namespace, gpu: str | None) -> None:
        self.command = [options.encoder, "serve", "--model", options.model, "--listen", "127.0.0.1:0"]
        self.command += ["--device", "cpu", "--threads", str(options.threads)] if gpu is None else ["--device", "cuda:0"]
        self.command += ["--dtype", options.dtype] if options.dtype else []
        # The only GPU that the service sees is the one that Ray has given.
        self.environment = os.environ | {"CUDA_VISIBLE_DEVICES": gpu or ""}
        self.running: subprocess.Popen[str] | None = None
        self.address = ""

    def url(self) -> str:
        """Where it is served; it is started where it has not been, or has ended."""
        if self.running is None or self.running.poll() is not None:
            self.running = self.serve()
        return f"http://{self.address}"

    def serve(self) -> subprocess.Popen[str]:
        """Starts it, and returns once it listens."""
        with tempfile.TemporaryFile("w+") as log:
            running = start(self.command, stderr=log, env=self.environment)
            for line in running.stdout or ():
                if line.startswith("listening on "):
                    self.address = line.split()[-1]
                    return running
            code = running.wait()
            log.seek(0)
            raise StepFailed(self.command, code, log.read())


@ray.remote
class Embedder:
    """Plans and embeds with an encoder service of its own; without a model, the inputs hold the vectors."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        (gpu, *_) = ray.get_runtime_context().get_accelerator_ids().get("GPU") or [None]
        self.encoder = Encoder(options, gpu) if options.model else None

    def served(self) -> list[str]:
        """The option that names the service, which is started at the first call: an error of a call is told once, one of a constructor at length."""
        return ["--encoder", self.encoder.url()] if self.encoder else []

    def plan(self) -> dict[str, Any]:
        """Puts the plan where there is none, and gives it."""
        options = self.options
        command = [options.indexer, "bulk", "plan", "--json", *scratch(options), *self.served()]
        for name in ("input", "index", "out", "split", "overlap", "docs_per_shard", "docs_per_partition"):
            value = getattr(options, name)
            command += [f"--{name.replace('_', '-')}", str(value)] if value is not None else []
        return json.loads(run([*command, *options.plan_options]))

    def embed(self, partition: int) -> tuple[int, str]:
        """Embeds a partition, and gives what was said."""
        command = [*bulk(self.options, "embed", "--partition", str(partition)), *scratch(self.options)]
        for _ in range(self.options.retries):
            try:
                return partition, run([*command, *self.served()])
            except StepFailed as error:
                print(f"{error}\nagain:", flush=True)
        return partition, run([*command, *self.served()])


def bulk(options: argparse.Namespace, step: str, *more: str) -> list[str]:
    """The command of a step of the job."""
    return [options.indexer, "bulk", step, "--plan", options.out, *more]


def scratch(options: argparse.Namespace) -> list[str]:
    """The option for files in use."""
    return ["--scratch", options.scratch] if options.scratch else []


def task(options: argparse.Namespace, command: list[str], **resources: float) -> ray.ObjectRef:
    """Runs a command somewhere in the cluster, again where its node is lost or it fails."""
    again = {"max_retries": options.retries, "retry_exceptions": [StepFailed]}
    return ray.remote(run).options(name=" ".join(command[1:3]), **again, **resources).remote(command)


def encoder_cpus(options: argparse.Namespace) -> int:
    """Cores of an actor: a GPU needs one to feed it."""
    return 1 if options.num_gpus else options.threads


def warn_of_room(what: str, **needs: float) -> None:
    """Says what will wait, if no node that is there now has what it needs."""
    needs = {name: amount for name, amount in needs.items() if amount}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(all(has.get(name, 0) >= amount for name, amount in needs.items()) for has in nodes):
        print(f"warning: {what} waits for a node with {json.dumps(needs)}, which none has now", file=sys.stderr, flush=True)


def embedder(options: argparse.Namespace) -> ray.actor.ActorHandle:
    """An actor that Ray starts again, with the call that it was at, wherever there is room. That is not limited: until Ray has noticed that a node is
    lost, calls of its actors fail several times."""
    again = {"max_restarts": -1, "max_task_retries": -1}
    return Embedder.options(num_cpus=encoder_cpus(options), num_gpus=options.num_gpus, **again).remote(options)


def missing(status: dict[str, Any], what: str) -> list[int]:
    """Numbers of partitions or shards that are not done. A status lists the first of them; those after its list may be done, and do nothing then."""
    listed = list(status[f"{what}_missing"])
    if status[what] - status[f"{what}_done"] > len(listed):
        listed += range(listed[-1] + 1, status[what])
    return listed


def tell(tasks: list[ray.ObjectRef], timeout: float | None) -> list[ray.ObjectRef]:
    """Prints what a task that has ended said, if there is one in that time, and gives the others."""
    if not tasks:
        return tasks
    ended, others = ray.wait(tasks, timeout=timeout)
    for said in ray.get(ended):
        print(said.strip(), flush=True)
    return others


def embed_and_build(options: argparse.Namespace, pool: ActorPool, plan: dict[str, Any], status: dict[str, Any]) -> None:
    """Embeds what is missing, and builds each missing shard once its partitions are there."""
    partitions = missing(status, "partitions")
    # A shard holds partitions that follow one another.
    ends = [0, *itertools.accumulate(plan["job"]["shards"])]
    lacks = {shard: set(partitions).intersection(range(ends[shard], ends[shard + 1])) for shard in missing(status, "shards")}
    shard_of = {partition: shard for shard, of in lacks.items() for partition in of}
    memory = plan["estimate"]["shard_memory_bytes"]

    def build(shard: int) -> ray.ObjectRef:
        command = bulk(options, "shard", "--shard", str(shard), "--threads", str(options.threads))
        return task(options, [*command, *scratch(options)], num_cpus=options.threads, memory=memory)

    for partition in partitions:
        pool.submit(lambda actor, partition: actor.embed.remote(partition), partition)
    shards = [build(shard) for shard, of in lacks.items() if not of]
    while True:
        # Actors that have nothing left to do make room: for shards, and for actors of lost nodes.
        while pool.has_free():
            ray.kill(pool.pop_idle())
        if not pool.has_next():
            break
        partition, said = pool.get_next_unordered()
        print(said.strip(), flush=True)
        shard = shard_of.get(partition)
        if shard is not None:
            lacks[shard].remove(partition)
            if not lacks[shard]:
                shards.append(build(shard))
        shards = tell(shards, timeout=0)
    while shards:
        shards = tell(shards, timeout=None)


def reindex(options: argparse.Namespace) -> None:
    """The whole job, or what is left of it."""
    ray.init(address=options.address, logging_level="warning")
    has = ray.cluster_resources()
    if options.num_gpus is None:
        options.num_gpus = 1 if options.model and has.get("GPU") else 0
    warn_of_room("each encoder", CPU=encoder_cpus(options), GPU=options.num_gpus)
    first = embedder(options)
    plan = ray.get(first.plan.remote())
    status = json.loads(ray.get(task(options, [*bulk(options, "status"), "--json"], num_cpus=0)))
    generation, index = plan["generation"], plan["job"]["index"]
    if status["committed"]:
        print(f"nothing to do: generation {generation} of {index} was published before")
        return
    memory, left = plan["estimate"]["shard_memory_bytes"], missing(status, "partitions")
    print(
        f"generation {generation} of {index}: {status['partitions_done']} of {status['partitions']} partitions are embedded, "
        f"{status['shards_done']} of {status['shards']} shards are built; a shard takes at most {memory / 1e9:.1f} GB of memory",
        flush=True,
    )
    warn_of_room("each shard", CPU=options.threads, memory=memory)
    room = has.get("GPU", 0) / options.num_gpus if options.num_gpus else has.get("CPU", 0) / options.threads
    encoders = min(options.encoders or max(int(room), 1), len(left))
    pool = ActorPool([first, *(embedder(options) for _ in range(encoders - 1))])
    embed_and_build(options, pool, plan, status)
    print(ray.get(task(options, [*bulk(options, "commit"), *scratch(options)], num_cpus=1)).strip())


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options, with paths that are the same in every process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--address", help="address of the cluster [default: RAY_ADDRESS, the one of this machine, or a new one on it]")
    add("--input", required=True, metavar="PATTERN", help="inputs, as of `bulk plan`")
    add("--index", required=True, metavar="URL", help="the index: s3://, gs://, az:// or file://")
    add("--out", required=True, metavar="URL", help="where the job's plan, records and vectors go")
    add("--model", metavar="DIR", help="directory of the model; without one, `-- --model-name NAME` says whose vectors the inputs hold")
    add("--dtype", help="data type of the encoder's computation [default: that of `dyad-encoder serve`]")
    add("--split", type=int, metavar="WORDS", help="split documents into passages of at most WORDS words")
    add("--overlap", type=int, metavar="WORDS", help="words that a passage repeats from the one before it")
    add("--docs-per-shard", type=int, metavar="N", help="documents of a shard, about")
    add("--docs-per-partition", type=int, metavar="N", help="documents of a partition, about")
    add("--encoders", type=int, metavar="N", help="actors with an encoder each [default: as many as the cluster has room for]")
    add("--num-gpus", type=float, metavar="N", help="GPUs of an encoder, at most 1 [default: 1 where the cluster has GPUs, else 0]")
    add("--threads", type=int, default=2, metavar="N", help="threads of a shard's build, and of an encoder on the CPU [default: 2]")
    add("--retries", type=int, default=3, metavar="N", help="how often a task that fails is repeated [default: 3]")
    add("--indexer", default="dyad-indexer", metavar="PATH", help="the indexer [default: found on the PATH of the nodes]")
    add("--encoder", default="dyad-encoder", metavar="PATH", help="the encoder [default: found on the PATH of the nodes]")
    add("--scratch", metavar="DIR", help="directory for files in use, on each node [default: as of `bulk`]")
    add("plan_options", nargs="*", metavar="-- OPTION", help="more options of `bulk plan`")
    options = parser.parse_args(arguments)
    if options.num_gpus is not None and not 0 <= options.num_gpus <= 1:
        parser.error("--num-gpus: an encoder computes on one GPU, or on a part of one")
    if options.threads < 1 or (options.encoders is not None and options.encoders < 1):
        parser.error("--threads and --encoders are at least 1")
    for name in ("input", "model", "scratch", "indexer", "encoder"):
        value = getattr(options, name)
        is_path = value and "://" not in value and (name in ("input", "model", "scratch") or "/" in value)
        setattr(options, name, str(pathlib.Path(value).absolute()) if is_path else value)
    return options


def main() -> int:
    """0 when the index is published."""
    options = parsed()
    try:
        reindex(options)
    except ray.exceptions.RayTaskError as error:
        print(f"error: {error.cause}", file=sys.stderr)
        return 1
    except ray.exceptions.RayError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

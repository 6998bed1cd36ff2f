"""What a root tells of its leaves: `admin status`, and the status over HTTP.

    leaves_status.py BINARIES MODEL
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from leaves_deployment import COMMAND_S, LEAVES, Deployment
from leaves_index import index_of_quickstart
from leaves_load import until
from programs import serving

REPLICAS = 2


def status(binaries, root):
    """What `admin status` prints."""
    command = [binaries / "dyad-searcher", "admin", "--server", f"http://{root.grpc}", "status"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=COMMAND_S).stdout


def holders(text):
    """For each shard that is printed, the number of its leaves."""
    return [int(number) for number in re.findall(r"^shard .* (\d+) (?:leaf|leaves)$", text, re.MULTILINE)]


def tells(binaries, deployment, root):
    """All leaves are there; one is killed."""
    before, named = status(binaries, root), json.loads(root.get("/v1/status"))["leaves"]
    for leaf in named:
        line = rf"^leaf +{leaf['name']} {leaf['url']}: up, {leaf['shards']} shards"
        if not leaf["is_up"] or not re.search(line, before, re.MULTILINE):
            raise AssertionError(f"expected {leaf} in\n{before}")
    if len(named) != LEAVES or set(holders(before)) != {REPLICAS} or sum(leaf["shards"] for leaf in named) != sum(holders(before)):
        raise AssertionError(f"expected {LEAVES} leaves, and {REPLICAS} of each shard:\n{before}")
    deployment.kill_leaf(0)
    until("the root knows that a leaf is gone", lambda: not root.leaf_is_up(deployment.addresses[0]))
    after = status(binaries, root)
    if f"leaf-0 http://{deployment.addresses[0]}: DOWN" not in after or set(holders(after)) != {1, REPLICAS}:
        raise AssertionError(f"expected that a leaf is down, and shards of which one leaf is left:\n{after}")
    print("admin status tells of leaves and of how many hold each shard, also where one is killed", flush=True)


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("binaries", "model"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, serving(given.binaries, scratch, "dyad-encoder", "--model", given.model) as encoder:
        folder, encoder = pathlib.Path(scratch), encoder["listening"]
        index = index_of_quickstart(given.binaries, given.model, folder, encoder)
        with Deployment(given.binaries, folder, index, encoder, replicas=REPLICAS) as deployment:
            deployment.start_leaves()
            root = deployment.start_root(deployment.addresses.values())
            tells(given.binaries, deployment, root)
    print("leaves_status: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

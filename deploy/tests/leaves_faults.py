"""One of four leaves is late, refuses, or answers nonsense, by Envoy's faults in front of it: answers stay those of one searcher.

    leaves_faults.py BINARIES MODEL ENVOY [--seconds N]

The root has Envoy's address as that of the leaf. Times and second calls are measured and printed, with and without the fault, and not judged.
"""

import argparse
import concurrent.futures
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
import yaml
from leaves_deployment import Deployment
from leaves_index import index_of_quickstart, questions_of
from leaves_load import Load, expect_no_failure, percentile, same_answers, until
from programs import free_port, serving

REPLICAS, FAULTY = 2, 2
START_S, SETTLED_S = 60, 2
SEARCH, CALLS = "/dyad.v1.Leaf/Search", "/dyad.v1.Leaf/"
HTTP = "envoy.filters.http."
TYPE = "type.googleapis.com/envoy.extensions."


def at(address):
    """An address as Envoy writes it."""
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}


def fault(**what):
    """A filter of faults, for a route."""
    return {"typed_per_filter_config": {f"{HTTP}fault": {"@type": f"{TYPE}filters.http.fault.v3.HTTPFault", **what}}}


def routes():
    """Routes to the leaf. Faults are off at first; the runtime keys `delay`, `abort` and `garbage` turn them on."""
    to_leaf = {"route": {"cluster": "leaf", "timeout": "0s"}}
    share = {"default_value": {"numerator": 0}, "runtime_key": "garbage"}
    garbage = {"match": {"prefix": CALLS, "runtime_fraction": share}, "route": {"cluster": "garbage"}}
    watch = {"match": {"path": f"{CALLS}Watch"}, **to_leaf}
    faults = {
        "delay": {"fixed_delay": "0.2s", "percentage": {"numerator": 0, "denominator": "HUNDRED"}},
        "delay_percent_runtime": "delay",
        "abort": {"grpc_status": 14, "percentage": {"numerator": 0, "denominator": "HUNDRED"}},
        "abort_percent_runtime": "abort",
    }
    return [watch, garbage, {"match": {"path": SEARCH}, **to_leaf, **fault(**faults)}, {"match": {"prefix": "/"}, **to_leaf}]


def cluster(name, address):
    """A server of gRPC behind Envoy."""
    options = {"@type": f"{TYPE}upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http2_protocol_options": {}}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": at(address)}}]}]},
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
    }


def configured(leaf, nonsense, listen, admin):
    """Envoy's configuration: one leaf over HTTP/2, with faults for the calls of it."""
    filters = [
        {"name": f"{HTTP}fault", "typed_config": {"@type": f"{TYPE}filters.http.fault.v3.HTTPFault"}},
        {"name": f"{HTTP}router", "typed_config": {"@type": f"{TYPE}filters.http.router.v3.Router"}},
    ]
    manager = {
        "@type": f"{TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "leaf",
        "codec_type": "HTTP2",
        "stream_idle_timeout": "0s",
        "route_config": {"name": "leaf", "virtual_hosts": [{"name": "leaf", "domains": ["*"], "routes": routes()}]},
        "http_filters": filters,
    }
    listener = {
        "name": "grpc",
        "address": at(listen),
        "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
    }
    layers = [{"name": "admin", "admin_layer": {}}]
    resources = {"listeners": [listener], "clusters": [cluster("leaf", leaf), cluster("garbage", nonsense)]}
    return {"admin": {"address": at(admin)}, "layered_runtime": {"layers": layers}, "static_resources": resources}


class Nonsense(grpc.GenericRpcHandler):
    """Answers every call with what is no message."""

    def service(self, _):
        return grpc.unary_unary_rpc_method_handler(lambda *_: b"\xff" * 20)


@contextlib.contextmanager
def nonsense():
    """The address of a server that answers so."""
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), handlers=[Nonsense()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


class Faults:
    """Envoy in front of a leaf, and of a server that answers in its place where that fault is on."""

    def __init__(self, program, folder, leaf, nonsense):
        self.address, self.admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        path, self.log = folder / "faults.yaml", folder / "faults.log"
        path.write_text(yaml.safe_dump(configured(leaf, nonsense, self.address, self.admin)))
        command = [program, "--config-path", path, "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"]
        with self.log.open("w") as log:
            self.running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def __enter__(self):
        try:
            until("Envoy serves", self.serves, START_S)
        except AssertionError as error:
            self.__exit__()
            raise AssertionError(f"{error}\n{self.log.read_text()}") from error
        return self

    def __exit__(self, *_):
        self.running.kill()
        self.running.wait()

    def serves(self):
        """Whether it is ready."""
        if self.running.poll() is not None:
            raise AssertionError(f"Envoy has ended with {self.running.returncode}:\n{self.log.read_text()}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.admin}/ready", timeout=5) as reply:
            return reply.status == 200
        return False

    @contextlib.contextmanager
    def turned_on(self, name, percent):
        """A fault of a share of calls, as long as the block runs."""
        self.change(name, percent)
        try:
            yield
        finally:
            self.change(name, 0)

    def change(self, name, percent):
        """Sets the share of a fault."""
        request = urllib.request.Request(f"http://{self.admin}/runtime_modify?{name}={percent}", method="POST")
        urllib.request.urlopen(request, timeout=5).close()

    def count(self, name):
        """A counter of Envoy's."""
        with urllib.request.urlopen(f"http://{self.admin}/stats?format=json", timeout=5) as reply:
            counters = json.load(reply)["stats"]
        return sum(one.get("value", 0) for one in counters if one.get("name", "") == name)


def calls(root):
    """The calls that leaves have answered, and those that were made a second time."""
    answered = [line for line in root.metrics().splitlines() if line.startswith("dyad_searcher_leaf_calls{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in answered), root.gauge("dyad_searcher_leaf_hedged_calls")


def measured(title, root, questions, check, seconds):
    """Asks for some seconds; returns the 99th percentile and the share of second calls."""
    before = calls(root)
    with Load(root, questions, check) as load:
        time.sleep(seconds)
    answered, second = (now - then for now, then in zip(calls(root), before, strict=True))
    p99, share = percentile(load.times, 0.99), second / max(1, answered)
    print(f"{title}: {answered:.0f} calls of leaves, {second:.0f} of them second ones, {100 * share:.2f} %", flush=True)
    expect_no_failure(load)
    return p99, share


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("binaries", "model", "envoy"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--seconds", type=float, default=2)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, serving(given.binaries, scratch, "dyad-encoder", "--model", given.model) as encoder:
        folder, encoder = pathlib.Path(scratch), encoder["listening"]
        index = index_of_quickstart(given.binaries, given.model, folder, encoder)
        with Deployment(given.binaries, folder, index, encoder, replicas=REPLICAS) as deployment:
            deployment.start_leaves()
            with nonsense() as other, Faults(given.envoy, folder, deployment.addresses[FAULTY], other) as faults:
                shows(deployment, faults, given.seconds)
    print("leaves_faults: ok")
    return 0


def shows(deployment, faults, seconds):
    """Asks with no fault, and with each."""
    addresses = deployment.addresses | {FAULTY: faults.address}
    root, whole = deployment.start_root(addresses.values()), deployment.start_whole()
    questions = questions_of()[:25]
    check = same_answers(whole, questions)
    ask = lambda title, seconds=seconds: measured(title, root, questions, check, seconds)  # noqa: E731
    ask("at the start", SETTLED_S)
    p99, share = ask("no fault")
    for percent in (100, 10):
        with faults.turned_on("delay", percent):
            late, more = ask(f"{percent} % of the searches of one leaf are 200 ms late")
        print(f"   p99 {late / p99:.2f} times that without, second calls {100 * (more - share):+.2f} points", flush=True)
        ask("no fault again", SETTLED_S)
    if not faults.count("http.leaf.fault.delays_injected"):
        raise AssertionError("no call was late")
    for percent in (100, 30):
        with faults.turned_on("abort", percent):
            ask(f"{percent} % of the searches of one leaf are refused as UNAVAILABLE")
    if not faults.count("http.leaf.fault.aborts_injected"):
        raise AssertionError("no call was refused")
    for percent in (100, 30):
        with faults.turned_on("garbage", percent):
            ask(f"{percent} % of the answers of one leaf are no messages")
    if not faults.count("cluster.garbage.upstream_rq_total"):
        raise AssertionError("no answer was nonsense")
    until("the leaf is asked again", lambda: root.leaf_is_up(faults.address))
    ask("no fault at the end")


if __name__ == "__main__":
    sys.exit(main())

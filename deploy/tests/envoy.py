"""deploy/envoy/roots.yaml, run: Envoy spreads the calls of clients over three searchers, and none fails where a searcher ends or hangs.

    envoy.py BINARIES MODEL ENVOY [--calls N]

The searchers serve one small index. Envoy has the file as it is, but for addresses, and once more with the lines for TLS.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
import yaml
from build_index import built
from google.protobuf import json_format
from grpcurl import messages, unary
from programs import free_port, serving

DEPLOY = pathlib.Path(__file__).resolve().parents[1]
CONFIG, CORPUS = DEPLOY / "envoy/roots.yaml", DEPLOY / "quickstart/corpus.jsonl"
SEARCH = "dyad.v1.Searcher/Search"
ROOTS, CLIENTS, COMMAND_S, START_S, DEADLINE_S = 3, 8, 120, 60, 20
QUESTIONS = ["nearest planet to the sun", "who painted it", "a long river", "speed of light", "first emperor"]
# Mean of a third of 300 calls: 100, with a standard deviation of 8 where each root is drawn by itself.
LEAST_OF_300 = 50


def with_tls(text, folder):
    """The file with the lines for TLS, by files of this folder."""
    text = re.sub(r"^( *)# (?=transport_socket:|  )", r"\1", text, flags=re.MULTILINE)
    if text.count("\n          transport_socket:") + text.count("\n      transport_socket:") != 2:
        raise AssertionError(f"{CONFIG}: expected commented lines for TLS of clients and of roots")
    return text.replace("/etc/envoy/", f"{folder}/")


def until(what, is_so):
    """Waits until something is so."""
    ends = time.monotonic() + START_S
    while not is_so():
        if time.monotonic() > ends:
            raise AssertionError(f"{what}: not within {START_S} s")
        time.sleep(0.05)


class Envoy:
    """A running Envoy in front of searchers."""

    def __init__(self, program, folder, roots, tls=False):
        """`roots`: their addresses."""
        config = yaml.safe_load(with_tls(CONFIG.read_text(), folder) if tls else CONFIG.read_text())
        resources = config["static_resources"]
        self.address = f"127.0.0.1:{free_port()}"
        self.admin = f"127.0.0.1:{free_port()}"
        for place, address in ((config["admin"], self.admin), (resources["listeners"][0], self.address)):
            place["address"]["socket_address"] = at(address)
        (cluster,) = resources["clusters"]
        (endpoints,) = cluster["load_assignment"]["endpoints"]
        endpoints["lb_endpoints"] = [{"endpoint": {"address": {"socket_address": at(root)}}} for root in roots]
        path, self.log = folder / "envoy.yaml", folder / "envoy.log"
        path.write_text(yaml.safe_dump(config))
        command = [program, "--config-path", path, "--use-dynamic-base-id", "--concurrency", "2", "--log-level", "warning"]
        with self.log.open("w") as log:
            self.running = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)

    def __enter__(self):
        try:
            until("Envoy knows that all roots serve", lambda: self.serving() == ROOTS)
        except AssertionError as error:
            self.__exit__()
            raise AssertionError(f"{error}\n{self.log.read_text()}") from error
        return self

    def __exit__(self, *_):
        self.running.terminate()
        try:
            self.running.wait(START_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()

    def serving(self):
        """How many roots get calls."""
        if self.running.poll() is not None:
            raise AssertionError(f"Envoy has ended with {self.running.returncode}:\n{self.log.read_text()}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://{self.admin}/clusters?format=json", timeout=5) as reply:
            (cluster,) = json.load(reply)["cluster_statuses"]
            # Health is told by what is wrong.
            wrong = [set(host["health_status"]) - {"eds_health_status"} for host in cluster.get("host_statuses", [])]
            return sum(not one for one in wrong)
        return 0

    def retried(self):
        """Calls that it has made again."""
        with urllib.request.urlopen(f"http://{self.admin}/stats?filter=upstream_rq_retry$", timeout=5) as reply:
            return int(reply.read().split()[-1])


def at(address):
    """An address as Envoy writes it."""
    host, port = address.rsplit(":", 1)
    return {"address": host, "port_value": int(port)}


class Clients:
    """Clients, each with a connection of its own, that ask Envoy all at once."""

    def __init__(self, address, certificate=None):
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "dyad-searcher")]
        secure = certificate and grpc.ssl_channel_credentials(certificate.read_bytes())
        self.channels = [
            grpc.secure_channel(address, secure, options) if secure else grpc.insecure_channel(address, options[:1])
            for _ in range(CLIENTS)
        ]
        request, reply = messages(self.channels[0], SEARCH)
        self.asked = [json_format.ParseDict({"query": one, "mode": "MODE_BM25", "k": 1}, request()) for one in QUESTIONS]
        self.calls = [unary(channel, SEARCH, reply) for channel in self.channels]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for channel in self.channels:
            channel.close()

    def ask(self, client, number):
        """Time and outcome of a call: none where it was answered."""
        began = time.monotonic()
        try:
            reply = self.calls[client](self.asked[number % len(self.asked)], timeout=DEADLINE_S)
            failed = None if len(reply.hits) == 1 else f"{len(reply.hits)} hits"
        except grpc.RpcError as error:
            failed = f"{error.code()}: {error.details()}"
        return time.monotonic() - began, failed

    def run(self, more, meanwhile=None):
        """Each client calls as long as `more` of the number of its calls, and all others have not ended what happens `meanwhile`."""

        def work(client):
            done = []
            for number in itertools.count():
                if not (more(number) if meanwhile is None else not happened.done() or more(number)):
                    return done
                done.append(self.ask(client, client + number))
            return done

        with concurrent.futures.ThreadPoolExecutor(CLIENTS + 1) as pool:
            happened = pool.submit(meanwhile) if meanwhile else None
            made = [pool.submit(work, client) for client in range(CLIENTS)]
            if happened:
                happened.result()
            outcomes = [one for done in made for one in done.result()]
        failed = collections.Counter(why for _, why in outcomes if why)
        if failed:
            raise AssertionError(f"{failed.total()} of {len(outcomes)} calls failed: {failed}")
        return [took for took, _ in outcomes]


def answered(roots):
    """Searches that each root has answered."""
    counts = []
    for root in roots:
        with urllib.request.urlopen(f"http://{root['HTTP']}/metrics", timeout=30) as reply:
            found = re.findall(r'requests_total\{[^}]*call="Searcher.Search"[^}]*\} (\d+)', reply.read().decode())
        counts.append(sum(map(int, found)))
    return counts


def told(times):
    """A number of calls, with the time that the longest took."""
    return f"{len(times)} calls answered, the longest took {max(times):.2f} s"


@contextlib.contextmanager
def started(binaries, folder, *more):
    """The searchers: their addresses, each with its process."""
    with contextlib.ExitStack() as stack:
        roots = []
        for _ in range(ROOTS):
            processes = []
            options = ["--index", "index", "--question-tower", "none", "--http", "127.0.0.1:0", "--lame-duck-s", "2", *more]
            said = stack.enter_context(serving(binaries, folder, "dyad-searcher", *options, started=processes.append))
            roots.append(said | {"process": processes[0]})
        try:
            yield roots
        finally:
            for root in roots:
                # One that hangs does not end.
                if root["process"].poll() is None:
                    root["process"].send_signal(signal.SIGCONT)


def spreads(envoy, roots, calls):
    """Calls spread over all roots, and none fails where one hangs, one is killed, and one is told to end."""
    each = calls // CLIENTS + 1
    with Clients(envoy.address) as clients:
        before = answered(roots)
        times = clients.run(lambda number: number < each)
        counts = [now - then for now, then in zip(answered(roots), before, strict=True)]
        shares = ", ".join(f"{100 * count / sum(counts):.1f} %" for count in counts)
        print(f"{told(times)}: by each root {counts}, which is {shares}")
        if sum(counts) != len(times) or min(counts) * 300 < LEAST_OF_300 * sum(counts):
            raise AssertionError(f"expected {len(times)} calls spread over {ROOTS} roots, got {counts}")

        def hangs():
            roots[0]["process"].send_signal(signal.SIGSTOP)
            until("a root that hangs is left out", lambda: envoy.serving() == ROOTS - 1)
            roots[0]["process"].send_signal(signal.SIGCONT)
            until("it is back", lambda: envoy.serving() == ROOTS)

        print("a root hangs:", told(clients.run(lambda number: number < 10, hangs)))

        def killed():
            time.sleep(0.2)
            roots[1]["process"].kill()
            until("a root that was killed is left out", lambda: envoy.serving() == ROOTS - 1)

        print("a root is killed:", told(clients.run(lambda number: number < 10, killed)))

        def ends():
            roots[2]["process"].terminate()
            roots[2]["process"].wait(COMMAND_S)

        print("a root ends:", told(clients.run(lambda number: number < 10, ends)))
    print("calls that Envoy made again:", envoy.retried())


def takes_tls(program, binaries, folder):
    """The lines for TLS: clients and roots have it."""
    extensions = ["subjectAltName=DNS:dyad-searcher,IP:127.0.0.1", "basicConstraints=critical,CA:FALSE"]
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=dyad"]
    command += ["-keyout", "tls.key", "-out", "tls.crt", *(word for one in extensions for word in ("-addext", one))]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=COMMAND_S)
    (folder / "ca.crt").write_bytes((folder / "tls.crt").read_bytes())
    tls = ["--tls-cert", "tls.crt", "--tls-key", "tls.key"]
    with started(binaries, folder, *tls) as roots, Envoy(program, folder, [root["listening"] for root in roots], tls=True) as envoy:
        with Clients(envoy.address, folder / "ca.crt") as clients:
            print("TLS:", told(clients.run(lambda number: number < 10)))


def main():
    """Runs everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("binaries", "model", "envoy"):
        parser.add_argument(name, type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        documents = [json.loads(line) for line in CORPUS.read_text().splitlines()[:60]]
        built(given.binaries, given.model, folder / "index", documents)
        with started(given.binaries, folder) as roots:
            with Envoy(given.envoy, folder, [root["listening"] for root in roots]) as envoy:
                spreads(envoy, roots, given.calls)
        takes_tls(given.envoy, given.binaries, folder)
    print("envoy: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""An index, its leaves, roots over them, and a searcher of the whole index, as processes; for the tests of roots and leaves."""

import contextlib
import http.client
import json
import signal
import subprocess
import threading

from programs import free_port, serving

LEAVES, COMMAND_S = 4, 300


class Server:
    """A searcher over HTTP, by a connection for each thread; of one that was started here also its process and its address of gRPC."""

    def __init__(self, address, process=None, grpc=None):
        self.address, self.process, self.grpc, self.local = address, process, grpc, threading.local()

    def call(self, path, body, timeout=30):
        """The status and the object that a call returns."""
        for attempt in range(2):
            connection = getattr(self.local, "connection", None)
            if connection is None:
                host, port = self.address.rsplit(":", 1)
                connection = self.local.connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
            try:
                connection.request("POST", f"/v1/{path}", json.dumps(body), {"content-type": "application/json"})
                reply = connection.getresponse()
                return reply.status, json.loads(reply.read())
            except (http.client.HTTPException, ConnectionError):
                self.local.connection = None
                if attempt:
                    raise
        raise AssertionError("unreachable")

    def ask(self, body):
        """The reply to a question that has to be answered."""
        status, reply = self.call("search", body)
        if status != 200:
            raise AssertionError(f"{body}: {status} {reply}")
        return reply

    def served(self):
        """The number of the generation that answers."""
        return int(self.ask({"query": "sun", "k": 1})["generation"])

    def get(self, path):
        """What a path returns, as text."""
        host, port = self.address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def metrics(self):
        """What it tells Prometheus."""
        return self.get("/metrics")

    def gauge(self, name):
        """A value that it tells Prometheus; 0 where there is none."""
        found = [line for line in self.metrics().splitlines() if line.startswith((name + " ", name + "{"))]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    def leaf_is_up(self, address):
        """Whether a leaf reports to this root."""
        return 'leaf_up{url="http://%s"} 1' % address in self.metrics()


class Deployment:
    """An index, its leaves, roots, and searchers that have all. The index is a directory, or a URL of which each process has a cache."""

    def __init__(self, binaries, folder, index, encoder, replicas, leaf_options=()):
        self.binaries, self.folder, self.index, self.encoder, self.replicas = binaries, folder, index, encoder, replicas
        self.leaf_options = leaf_options
        self.stack, self.leaves, self.addresses = contextlib.ExitStack(), {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.leaves.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        self.stack.close()

    def cache(self, name):
        """The directory of the copies of a process."""
        return self.folder / "caches" / name

    def index_options(self, name):
        """Where the process of this name has the index from."""
        options = ["--index", f"index={self.index}"]
        return [*options, "--cache", self.cache(name)] if "://" in str(self.index) else options

    def start_leaf(self, number, address=None, of=LEAVES, also=None):
        """Starts one of so many leaves, at an address that it had before where one is given, and waits until it serves. Where there `also`
        are so many, as while their number changes, it holds what is placed on it by either number."""
        name, address = f"leaf-{number}", address or f"127.0.0.1:{free_port()}"
        options = [*self.index_options(name), "--name", name, "--names", f"leaf-{{0..{of - 1}}}", *self.leaf_options]
        options += ["--replicas", str(self.replicas), "--lame-duck-s", "1"]
        if also:
            options += ["--also-names", f"leaf-{{0..{also - 1}}}"]
        keep = lambda process: self.leaves.__setitem__(number, process)  # noqa: E731
        running = serving(self.binaries, self.folder, "dyad-searcher", *options, command="leaf", started=keep, listen=address)
        self.addresses[number] = self.stack.enter_context(running)["listening"]

    def kill_leaf(self, number):
        """Ends a leaf without a chance to say so."""
        self.leaves[number].kill()
        self.leaves[number].wait(COMMAND_S)

    def restart_leaf(self, number):
        """Starts a leaf that has ended, where it was."""
        self.start_leaf(number, self.addresses[number])

    def start_leaves(self):
        """Starts all leaves."""
        for number in range(LEAVES):
            self.start_leaf(number)

    def start(self):
        """Starts all leaves, a root over them, and a searcher of the whole index; returns both."""
        self.start_leaves()
        return self.start_root(self.addresses.values()), self.start_whole()

    def start_root(self, addresses, name="root", *more):
        """Starts a root over the leaves at these addresses."""
        leaves = [word for address in addresses for word in ("--leaves", f"http://{address}")]
        watch = () if "--watch" in more else ("--watch",)
        options = [*self.index_options(name), *leaves, "--replicas", str(self.replicas), "--wait-s", "60", *watch]
        return self.start_searcher(*options, *more)

    def start_whole(self, index=None, name="whole"):
        """Starts a searcher that has all shards, of another index than the leaves where one is given."""
        options = ["--index", f"index={index}"] if index else self.index_options(name)
        return self.start_searcher(*options, "--watch")

    def start_searcher(self, *options):
        """Starts a searcher with these options and the question tower."""
        processes = []
        options = [*options, "--http", "127.0.0.1:0", *self.towers()]
        running = serving(self.binaries, self.folder, "dyad-searcher", *options, started=processes.append)
        addresses = self.stack.enter_context(running)
        return Server(addresses["HTTP"], processes[0], addresses["listening"])

    def towers(self):
        """The options of the question towers: of one encoder, or of several."""
        encoders = [self.encoder] if isinstance(self.encoder, str) else self.encoder
        return [word for encoder in encoders for word in ("--question-tower", f"http://{encoder}")]

    def indexer(self, *words, index=None):
        """Changes the index."""
        command = [self.binaries / "dyad-indexer", *words, "--index", index or self.index]
        subprocess.run(command, cwd=self.folder, check=True, timeout=COMMAND_S, capture_output=True, text=True)

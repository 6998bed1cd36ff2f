"""An index, its leaves, a root over them, and a searcher of the whole index, as processes; for `leaves.py`."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading

from programs import serving

LEAVES, COMMAND_S = 4, 120


class Server:
    """A searcher over HTTP, by a connection for each thread."""

    def __init__(self, address):
        self.address, self.local = address, threading.local()

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


class Deployment:
    """An index, its leaves, a root, and a searcher that has all."""

    def __init__(self, binaries, folder, index, encoder, replicas):
        self.binaries, self.folder, self.index, self.encoder, self.replicas = binaries, folder, index, encoder, replicas
        self.stack, self.leaves, self.addresses = contextlib.ExitStack(), {}, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.leaves.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
        self.stack.close()

    def start_leaf(self, number, port=0, of=LEAVES):
        """Starts one of so many leaves, at a port that it had before where one is given."""
        options = ["--index", f"index={self.index}", "--name", f"leaf-{number}", "--names", f"leaf-{{0..{of - 1}}}"]
        options += ["--replicas", str(self.replicas), "--lame-duck-s", "1"]
        keep = lambda process: self.leaves.__setitem__(number, process)  # noqa: E731
        if port:
            command = [self.binaries / "dyad-searcher", "leaf", *options, "--listen", f"127.0.0.1:{port}"]
            process = subprocess.Popen(command, cwd=self.folder, env=os.environ | {"RUST_LOG": "warn"}, stdout=subprocess.DEVNULL)
            self.stack.callback(process.wait)
            self.stack.callback(process.kill)
            return keep(process)
        started = serving(self.binaries, self.folder, "dyad-searcher", *options, command="leaf", started=keep)
        self.addresses[number] = self.stack.enter_context(started)["listening"]
        return None

    def start(self):
        """Starts all leaves, a root over them, and a searcher of the whole index; returns both."""
        for number in range(LEAVES):
            self.start_leaf(number)
        return self.start_root(self.addresses.values()), self.start_whole()

    def start_root(self, addresses):
        """Starts a root over the leaves at these addresses."""
        leaves = [word for address in addresses for word in ("--leaves", f"http://{address}")]
        return self.start_searcher(*leaves, "--replicas", str(self.replicas), "--wait-s", "60")

    def start_whole(self):
        """Starts a searcher that has all shards."""
        return self.start_searcher()

    def start_searcher(self, *more):
        tower = ["--question-tower", f"http://{self.encoder}"]
        options = ["--index", f"index={self.index}", "--watch", "--http", "127.0.0.1:0", *tower, *more]
        return Server(self.stack.enter_context(serving(self.binaries, self.folder, "dyad-searcher", *options))["HTTP"])

    def indexer(self, *words):
        """Changes the index."""
        command = [self.binaries / "dyad-indexer", *words, "--index", self.index]
        subprocess.run(command, cwd=self.folder, check=True, timeout=COMMAND_S, capture_output=True, text=True)

"""Programs of a build that serve, for the tests of those who call them."""

import contextlib
import os
import random
import re
import socket
import subprocess
import threading

START_S = 60
# Below the ports that Linux gives to connections: one of these may take a server's port while the server is restarted.
PORTS = range(20_000, 32_000)


def free_port():
    """A port for a server whose address another one is told before it starts, or that is started again at its address."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def serving(binaries, folder, name, *options, command="serve", started=None, listen="127.0.0.1:0"):
    """A program that serves, with the addresses that it prints: `listening`, and `HTTP` where it has `--http`.

    Ports are of the system's choice where `listen` says no other. `started` is called with the process, for tests that end or stop it.
    """
    command = [binaries / name, command, *options, "--listen", listen]
    running = subprocess.Popen(command, cwd=folder, env=os.environ | {"RUST_LOG": "warn"}, stdout=subprocess.PIPE, text=True)
    # A program that says nothing is ended, which ends its output.
    watchdog = threading.Timer(START_S, running.kill)
    watchdog.start()
    try:
        addresses, wanted = {}, 2 if "--http" in options else 1
        while len(addresses) < wanted and (line := running.stdout.readline()):
            if said := re.match(r"(listening|HTTP) on (?:.* )?(\S+)$", line):
                addresses[said[1]] = said[2]
        watchdog.cancel()
        if started:
            started(running)
        if len(addresses) < wanted:
            raise SystemExit(f"{name}: expected its addresses within {START_S} s, got {addresses}")
        yield addresses
    finally:
        watchdog.cancel()
        running.terminate()
        try:
            running.wait(START_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        running.stdout.close()

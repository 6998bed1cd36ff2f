"""A Prometheus that scrapes every second, and `promtool`."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

CONFIG = pathlib.Path("deploy/prometheus/prometheus.yml")
START_S, COMMAND_S = 60, 120


def promtool(folder, *words):
    """Runs promtool; gives its exit code and what it prints."""
    done = subprocess.run(
        [folder / "promtool", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=COMMAND_S, check=False
    )
    return done.returncode, done.stdout


def with_security(text):
    """The example with the lines for keys and TLS, and the address of an Alertmanager."""
    return re.sub(r"^(    )?# (?=alerting:| +|scheme:|authorization:|tls_config:)", r"\1", text, flags=re.MULTILINE)


def free_port():
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Prometheus:
    """The example's configuration with the addresses of this test, and everything every second."""

    def __init__(self, folder, scratch, targets, key_file):
        config = yaml.safe_load(CONFIG.read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str((CONFIG.parent / name).resolve()) for name in config["rule_files"]]
        for job in config["scrape_configs"]:
            job["static_configs"] = [{"targets": targets[job["job_name"]]}]
            job["authorization"] = {"credentials_file": str(key_file)}
        (scratch / "prometheus.yml").write_text(yaml.safe_dump(config))
        port = free_port()
        self.url, self.log = f"http://127.0.0.1:{port}", scratch / "prometheus.log"
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
        with self.log.open("w") as log:
            self.running = subprocess.Popen([folder / "prometheus", *options], cwd=scratch, stdout=log, stderr=log)

    def get(self, path, **parameters):
        """`data` of a reply of its API."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=COMMAND_S) as reply:
            return json.load(reply)["data"]

    def wait_until_ready(self):
        """Waits until it answers."""
        end = time.monotonic() + START_S
        while True:
            with contextlib.suppress(urllib.error.URLError):
                return self.get("rules")
            if self.running.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"Prometheus did not start:\n{self.log.read_text()}")
            time.sleep(0.1)

    def values(self, expression):
        """The values that an expression has now."""
        return self.get("query", query=expression)["result"]

    def alerts(self):
        """States of the alerts that are pending or firing, by name."""
        return {alert["labels"]["alertname"]: alert["state"] for alert in self.get("alerts")["alerts"]}

    def end(self):
        """Asks it to end, and waits."""
        self.running.terminate()
        try:
            self.running.wait(START_S)
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait(START_S)

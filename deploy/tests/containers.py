"""Rendered containers run as processes: their command and configuration as they are, with folders for mounts.

What a container gets from Kubernetes is made here as kubelet makes it: secrets and configuration behind links that are
exchanged, variables, the probes of the manifest. Addresses are on loopback. Where root runs this, containers have the
user of the images, who can write into volumes alone. Not made: images, limits of memory, the network and its policies.
"""

import contextlib
import dataclasses
import http.client
import os
import pathlib
import re
import signal
import ssl
import subprocess
import time

from programs import free_port

START_S, COMMAND_S = 60, 120

# Of the images (deploy/docker/Dockerfile).
USER = 65532


def as_user(binaries):
    """Options of a process that has the user of the images, where this may choose and that user can run programs."""
    user = {"user": USER, "group": USER, "extra_groups": []}
    if os.geteuid() != 0:
        return {}
    try:
        subprocess.run(
            [binaries / "dyad-searcher", "--version"], check=True, capture_output=True, timeout=COMMAND_S, **user
        )
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"containers run as root: user {USER} cannot run {binaries}/dyad-searcher: {error}")
        return {}
    return user


def give(folder):
    """Makes a folder if there is none, and gives all in it to the group of containers, as `fsGroup` does."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                os.chown(path, -1, USER)
                path.chmod(path.stat().st_mode | (0o2070 if path.is_dir() else 0o060))


@dataclasses.dataclass
class Container:
    """A container of a manifest."""

    name: str
    program: str
    arguments: list
    # By where they are mounted: the files of a configuration or secret, or the folder of a volume.
    files: dict
    folders: dict
    ports: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    probes: dict = dataclasses.field(default_factory=dict)
    grace_s: int = 30


class Machine:
    """Where containers run: a folder, and the addresses and places that stand for those of the cluster."""

    def __init__(self, binaries, folder, buckets, aliases=()):
        """`buckets`: places of a store, with those here. `aliases`: other names of a container, or the name of several."""
        self.binaries, self.folder = binaries, folder
        self.buckets, self.aliases = dict(buckets), dict(aliases)
        self.addresses, self.running = {}, []
        self.user = as_user(binaries)
        # Of a temporary folder, its owner alone may see the inside.
        folder.chmod(0o755)

    def publish(self, host, port):
        """The address here of a port of a host of the cluster, the same each time."""
        return self.addresses.setdefault((self.aliases.get(host, host), port), f"127.0.0.1:{free_port()}")

    def url(self, scheme, host, port):
        """The URL here of a port of a host of the cluster; of a name with several addresses all, between commas."""
        hosts = self.aliases.get(host, host)
        hosts = hosts if isinstance(hosts, list) else [hosts]
        return ",".join(f"{scheme}://{self.publish(one, port)}" for one in hosts)

    def here(self, text, container, mounts):
        """The text with mounts, buckets and addresses of here."""
        if mounts:
            mounted = "|".join(re.escape(path) for path in sorted(mounts, key=len, reverse=True))
            # All at once: a folder here may have the name of a mount in its path.
            text = re.sub(
                rf'(?<![\w.-])({mounted})(?=[/"]|$)', lambda found: str(mounts[found[1]]), text, flags=re.MULTILINE
            )
        text = re.sub(r"0\.0\.0\.0:(\d+)", lambda found: self.publish(container.name, int(found[1])), text)
        text = re.sub(
            r"\b(\w+)://([\w.-]+):(\d+)", lambda found: self.url(found[1], found[2], int(found[3])), text
        )
        for bucket, place in self.buckets.items():
            text = text.replace(bucket, place)
        return text

    def command(self, container):
        """The command and its variables; writes the files that it reads."""
        base = self.folder / container.name
        mounts = container.folders | {mounted: base / mounted.strip("/") for mounted in container.files}
        for mounted, files in container.files.items():
            written = {name: self.here(text, container, mounts) for name, text in files.items()}
            exchange(mounts[mounted], written)
        arguments = [self.here(argument, container, mounts) for argument in container.arguments]
        arguments = [re.sub(r"\$\((\w+)\)", lambda found: container.environment[found[1]], one) for one in arguments]
        # Nothing may be written but where volumes are: no folder for temporary files, no home.
        nowhere = {
            "TMPDIR": str(base / "no-such-folder"),
            "HOME": "/no-such-folder",
            "PATH": "/usr/bin:/bin",
            "RUST_LOG": "warn",
        }
        libraries = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
        return [self.binaries / container.program, *arguments], nowhere | libraries | container.environment

    def run(self, container):
        """Runs a job to its end; gives what it printed."""
        command, variables = self.command(container)
        done = subprocess.run(
            command, env=variables, cwd="/", capture_output=True, text=True, timeout=COMMAND_S, check=False, **self.user
        )
        if done.returncode != 0:
            raise AssertionError(f"{container.name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, container):
        """Starts a server; it is ended by `stop_all`."""
        command, variables = self.command(container)
        log = self.folder / f"{container.name}.log"
        with log.open("w") as output:
            process = subprocess.Popen(command, env=variables, cwd="/", stdout=output, stderr=output, **self.user)
        self.running.append((container, process, log))

    def wait_until_ready(self):
        """Waits until all probes of all servers pass."""
        for container, process, log in self.running:
            end = time.monotonic() + START_S
            for name, probe in container.probes.items():
                while not self.passes(container, probe):
                    if process.poll() is not None or time.monotonic() > end:
                        raise AssertionError(f"{container.name}: {name} does not pass\n{log.read_text()}")
                    time.sleep(0.1)

    def passes(self, container, probe):
        """Whether a probe of the manifest does: kubelet's by HTTP, or a command of compose."""
        if "command" in probe:
            command = [self.loopback(container, word) for word in probe["command"]]
            return subprocess.run(command, capture_output=True, timeout=START_S, check=False).returncode == 0
        get = probe["httpGet"]
        with contextlib.suppress(OSError, http.client.HTTPException):
            return (
                200 <= self.get(container, container.ports[get["port"]], get["path"], get["scheme"] == "HTTPS")[0] < 400
            )
        return False

    def loopback(self, container, text):
        """A command that asks its own container, asking the server of here."""
        text = re.sub(r"\$([A-Z_]+)", lambda found: container.environment[found[1]], text)
        return re.sub(
            r"/dev/tcp/127\.0\.0\.1/(\d+)",
            lambda found: "/dev/tcp/" + self.publish(container.name, int(found[1])).replace(":", "/"),
            text,
        )

    def get(self, container, port, path, tls, headers=None, body=None):
        """Status and body of a request; without a check of the certificate, as kubelet's."""
        host, here = self.publish(container.name, port).split(":")
        context = ssl._create_unverified_context()
        connection = (
            http.client.HTTPSConnection(host, int(here), timeout=30, context=context)
            if tls
            else http.client.HTTPConnection(host, int(here), timeout=30)
        )
        with contextlib.closing(connection):
            connection.request("POST" if body else "GET", path, body=body, headers=headers or {})
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def stop_all(self):
        """SIGTERM to all servers; an error where one does not end well within its grace period."""
        self.stop(*(container for container, _, _ in self.running))

    def stop(self, *containers):
        """The same to some."""
        names = {container.name for container in containers}
        running = [one for one in self.running if one[0].name in names]
        self.running = [one for one in self.running if one[0].name not in names]
        for _, process, _ in running:
            process.send_signal(signal.SIGTERM)
        failed = []
        for container, process, log in running:
            try:
                code = process.wait(container.grace_s)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code != 0:
                failed.append(
                    f"{container.name}: exit code {code} after SIGTERM, within {container.grace_s} s\n{log.read_text()}"
                )
        if failed:
            raise AssertionError("\n".join(failed))


def exchange(folder, files):
    """Writes files as kubelet does: into a new folder, to which one link leads, which is exchanged at once."""
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f"..{time.monotonic_ns()}"
    new.mkdir()
    for name, text in files.items():
        (new / name).write_text(text)
        (new / name).chmod(0o440)
        if os.geteuid() == 0:
            os.chown(new / name, -1, USER)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(pathlib.Path("..data") / name)
    (folder / "..data_tmp").symlink_to(new.name)
    (folder / "..data_tmp").rename(folder / "..data")

"""SeaweedFS as an object store on loopback, which a test kills and starts again over the same files."""

import os
import subprocess
import time
import urllib.error
import urllib.request

from programs import START_S, free_port

BUCKET, SERVERS = "dyad", ("master", "volume", "filer", "s3")


class SeaweedFs:
    """A running `weed server`, whose S3 takes any key."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.ports = {name: free_port() for server in SERVERS for name in (f"{server}.port", f"{server}.port.grpc")}
        self.address = f"http://127.0.0.1:{self.ports['s3.port']}"
        (folder / "files").mkdir(parents=True)
        self.running = None

    def environment(self):
        """The variables by which clients find it."""
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        return keys | {"AWS_ENDPOINT": self.address, "AWS_ALLOW_HTTP": "true"}

    def start(self):
        """Starts it, and waits until its S3 answers; returns the seconds that it took."""
        options = [f"-{name}={port}" for name, port in self.ports.items()]
        options += [f"-{server}.localSocket={self.folder}/{server}.sock" for server in ("filer", "s3")]
        options += ["-dir", self.folder / "files", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3", "-s3.port.iceberg=0", "-s3.iam=false"]
        options += ["-master.volumeSizeLimitMB=64", "-master.telemetry=false", "-master.electionTimeout=1s"]
        # With keys in its environment it would take these alone.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        began = time.monotonic()
        with (self.folder / "weed.log").open("a") as log:
            self.running = subprocess.Popen([self.program, "server", *options], env=environment, stdout=log, stderr=log, cwd=self.folder)
        while not self.has_bucket():
            if self.running.poll() is not None or time.monotonic() > began + START_S:
                raise AssertionError("SeaweedFS does not serve:\n" + (self.folder / "weed.log").read_text()[-3000:])
            time.sleep(0.2)
        return time.monotonic() - began

    def has_bucket(self):
        """Whether the bucket is there, or can be made now."""
        try:
            urllib.request.urlopen(urllib.request.Request(f"{self.address}/{BUCKET}", method="PUT"), timeout=5).close()
        except urllib.error.HTTPError as error:
            # It was made before.
            return error.code == 409
        except OSError:
            return False
        return True

    def kill(self):
        """Ends it without a chance to say so."""
        self.running.kill()
        self.running.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

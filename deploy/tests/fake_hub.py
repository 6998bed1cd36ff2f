"""A model hub on the loopback interface, with the faults that a real one can have."""

import hashlib
import http.server
import json
import threading
import urllib.parse

REVISION = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """Serves `files` as the model `name`: the list under /api, each file under /resolve, large ones by redirect.

    `wrong`, `truncated`: names of files served with other bytes, or cut short. `pieces`: file -> bytes after which each
    answer breaks off; `ranges`: are parts of files served? `listed`: does /api answer?
    `storage`: another FakeHub that large files are redirected to. `status`: the answer to everything, if set.
    """

    def __init__(self, name="org/tiny", files=None, storage=None):
        self.name, self.files, self.storage = name, files or {}, storage
        self.wrong, self.truncated, self.listed, self.status = set(), set(), True, None
        self.pieces, self.ranges, self.sent, self.revision = {}, True, 0, REVISION
        self.failures = 0
        self.requests, self.parts = [], []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request."""

            protocol_version = "HTTP/1.1"

            def do_GET(self):
                """Answers by path."""
                hub.requests.append((self.path, self.headers.get("Authorization")))
                hub.parts.append(self.headers.get("Range"))
                hub.answer(self)

            def log_message(self, *_):
                """Says nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        """Stops listening."""
        self._server.shutdown()
        self._server.server_close()

    def asked(self, part):
        """How many requests had `part` in their path."""
        return sum(part in path for path, _ in self.requests)

    def answer(self, handler):
        """The hub's routes."""
        path = urllib.parse.unquote(urllib.parse.urlsplit(handler.path).path)
        resolve = f"/{self.name}/resolve/"
        if self.status or self.failures > 0:
            self.failures -= 1
            send(handler, self.status or 503, b"no")
        elif path in (f"/api/models/{self.name}", f"/api/models/{self.name}/revision/{self.revision}") and self.listed:
            send(handler, 200, json.dumps(self.listing()).encode())
        elif path.startswith(resolve) and path[len(resolve) :].split("/", 1)[1] in self.files:
            self.send_file(handler, path[len(resolve) :].split("/", 1)[1])
        elif path.startswith("/storage/"):
            self.send_body(handler, path.removeprefix("/storage/"))
        else:
            send(handler, 404, b'{"error": "not found"}')

    def listing(self):
        """As the hub's API lists a model with its blobs."""
        siblings = []
        for name, body in self.files.items():
            entry = {"rfilename": name, "size": len(body)}
            if name.endswith(".safetensors"):
                entry["lfs"] = {"sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
            else:
                entry["blobId"] = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
            siblings.append(entry)
        return {"id": self.name, "sha": REVISION, "siblings": siblings}

    def send_file(self, handler, name):
        """Small files at once; weights by a redirect to the storage, with their digest in the header."""
        if not name.endswith(".safetensors"):
            self.send_body(handler, name)
            return
        storage = self.storage or self
        storage.files.setdefault(name, self.files[name])
        digest = hashlib.sha256(self.files[name]).hexdigest()
        send(handler, 302, b"", {"Location": f"{storage.url}/storage/{name}", "X-Linked-Etag": f'"{digest}"'})

    def send_body(self, handler, name):
        """A file's bytes, with the faults asked for."""
        body = self.files[name]
        if name in self.wrong:
            body = bytes([body[0] ^ 1]) + body[1:]
        if name in self.pieces:
            self.send_piece(handler, body, self.pieces[name])
        elif name in self.truncated:
            send(handler, 200, body[:-1], {"Content-Length": str(len(body))})
            handler.close_connection = True
        else:
            send(handler, 200, body)

    def send_piece(self, handler, body, most):
        """As much as `most` bytes of what was asked for, then the connection is lost."""
        tag = f'"{hashlib.sha1(body).hexdigest()}"'
        asked, start = handler.headers.get("Range"), 0
        if asked and self.ranges and handler.headers.get("If-Range") == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        headers = {"ETag": tag, "Content-Length": str(len(body) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        piece = body[start : start + most]
        self.sent += len(piece)
        send(handler, 206 if start else 200, piece, headers)
        handler.close_connection = True


def send(handler, status, body, headers=None):
    """One response."""
    handler.send_response(status)
    for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
        handler.send_header(key, value)
    handler.end_headers()
    handler.wfile.write(body)

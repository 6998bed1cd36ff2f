"""The Hugging Face Hub over HTTP: lists and downloads the files of a model, with bounded retries that resume.

Only the standard library is used. Redirects are followed by hand: the token must not travel to the storage
hosts that the hub redirects to, and the hub's own answer states the digest of a large file.
"""

import http.client
import io
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request

TRIES = 3
TIMEOUT_S = 10
DELAY_S = 0.5
REDIRECTS = 5
CHUNK_BYTES = 1 << 20
PARTIAL = 206
RANGE_REFUSED = 416
SHA256 = re.compile(r"[0-9a-f]{64}")


class Unavailable(Exception):
    """The hub gives no usable answer; `absent` when the file or model does not exist, or not for this caller."""

    def __init__(self, message, absent=False):
        super().__init__(message)
        self.absent = absent


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


class _Part:
    """The received part of a body and its version: only the rest of the same version is appended."""

    def __init__(self, sink):
        self.sink, self.tag = sink, None
        self.start_over()

    def start_over(self):
        """Discards the received part."""
        self.sink.seek(0)
        self.sink.truncate()

    def headers(self):
        """Requests the rest of a known version; with If-Range the hub sends the whole if that has changed."""
        if self.sink.tell() > 0 and self.tag:
            return {"Range": f"bytes={self.sink.tell()}-", "If-Range": self.tag}
        return {}

    def receive(self, url, response):
        """Writes the whole, or the rest, as it arrives."""
        here = self.sink.tell()
        if response.status != PARTIAL or not self.fits(response.headers.get("Content-Range"), here):
            if response.status == PARTIAL:
                self.start_over()
                raise Unavailable(f"not the part that was asked for: {url}")
            self.start_over()
            # A weak tag does not guarantee equal bytes.
            tag = response.headers.get("ETag") or ""
            self.tag = tag if tag.startswith('"') else None
        length = response.headers.get("Content-Length")
        got = 0
        while chunk := response.read(CHUNK_BYTES):
            self.sink.write(chunk)
            got += len(chunk)
        if length is not None and got != int(length):
            raise Unavailable(f"truncated: {url}: expected {length} bytes, got {got}")

    @staticmethod
    def fits(content_range, here):
        """Does the part begin where the last one ended?"""
        return (content_range or "").startswith(f"bytes {here}-")


class Hub:
    """One endpoint, with the caller's token if there is one."""

    def __init__(self, endpoint, token=None):
        self.endpoint = endpoint.rstrip("/")
        self.token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def files(self, repository, revision=None):
        """(commit, {name: {"size", "sha256", "git"}}) as the hub lists them; None where it has no such list.

        `revision`: a commit, tag or branch; the newest where there is none.
        """
        at = f"/revision/{urllib.parse.quote(revision, safe='')}" if revision else ""
        url = f"{self.endpoint}/api/models/{urllib.parse.quote(repository)}{at}?blobs=true"
        body = io.BytesIO()
        try:
            self._get(url, body)
        except Unavailable as error:
            if error.absent:
                return None
            raise
        try:
            answer = json.loads(body.getvalue())
            files = {}
            for sibling in answer["siblings"]:
                lfs = sibling.get("lfs") or {}
                git = None if lfs else sibling.get("blobId")
                files[sibling["rfilename"]] = {"size": sibling.get("size"), "sha256": lfs.get("sha256"), "git": git}
            return answer.get("sha") or revision or "main", files
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Unavailable(f"{self.endpoint} does not answer like a model hub: {error!r}") from error

    def download(self, repository, revision, name, path):
        """Writes one file to `path`; returns the SHA-256 that the hub states in its headers, or None."""
        at = urllib.parse.quote(revision, safe="")
        url = f"{self.endpoint}/{urllib.parse.quote(repository)}/resolve/{at}/{urllib.parse.quote(name)}"
        with open(path, "wb") as sink:
            return self._get(url, sink)

    def _get(self, url, sink):
        """Downloads a body into `sink`, resuming after failures; TRIES attempts in a row without progress end it."""
        part = _Part(sink)
        tries = 0
        while True:
            before = sink.tell()
            try:
                return self._try(url, part)
            except Unavailable as error:
                tries = 1 if sink.tell() > before else tries + 1
                if error.absent or tries == TRIES:
                    raise
                time.sleep(DELAY_S * tries)

    def _try(self, url, part):
        stated = None
        try:
            for _ in range(REDIRECTS + 1):
                try:
                    with self._opener.open(self._request(url, part), timeout=TIMEOUT_S) as response:
                        part.receive(url, response)
                        return stated or self._stated(response.headers)
                except urllib.error.HTTPError as error:
                    with error:
                        if error.code == RANGE_REFUSED:
                            part.start_over()
                        if error.code not in (301, 302, 303, 307, 308) or "Location" not in error.headers:
                            raise
                        stated = stated or self._stated(error.headers)
                        url = urllib.parse.urljoin(url, error.headers["Location"])
            raise Unavailable(f"more than {REDIRECTS} redirects: {url}")
        except urllib.error.HTTPError as error:
            message = f"HTTP status {error.code}: {url}"
            raise Unavailable(message, absent=error.code in (401, 403, 404)) from error
        except urllib.error.URLError as error:
            raise Unavailable(f"{self.endpoint} cannot be reached: {error.reason}") from error
        except (http.client.HTTPException, OSError) as error:
            raise Unavailable(f"connection lost: {url}: {error!r}") from error

    def _request(self, url, part):
        request = urllib.request.Request(url, headers={"User-Agent": "dyad"} | part.headers())
        if self.token and urllib.parse.urlsplit(url).netloc == urllib.parse.urlsplit(self.endpoint).netloc:
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    @staticmethod
    def _stated(headers):
        """Large files: the hub's ETag is their SHA-256."""
        tag = (headers.get("X-Linked-Etag") or "").strip('W/"').lower()
        return tag if SHA256.fullmatch(tag) else None

"""What the tests of the page need: a searcher, an indexer, a browser, and a page that watches itself."""

import contextlib
import importlib.resources
import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

import hostile
from build_index import built
from playwright.sync_api import expect, sync_playwright
from programs import free_port, serving

COMMAND_S, WAIT_MS = 120, 30_000
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
QUESTION = "which planet spins backwards"
WIDE, PHONE = {"width": 1360, "height": 900}, {"width": 360, "height": 760}
LAPTOP, MOBILE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
# Set by `page.py`.
SETTINGS = {}


def text_of(path, body=None):
    """The text of a reply of the searcher, by curl's way."""
    command = ["curl", "--fail-with-body", "-s", SETTINGS["url"] + path]
    if body is not None:
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    return subprocess.run(command, check=True, timeout=COMMAND_S, capture_output=True, text=True).stdout


def api(path, body=None):
    """The same, read."""
    return json.loads(text_of(path, body))


def by_vectors(folder, name):
    """An index of two vectors."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }".ljust(117) + "\n"
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack("<4f", 1, 0, 3, 4)
    (folder / "vectors.npy").write_bytes(array)
    command = [SETTINGS["binaries"] / "dyad-indexer", "build", "--index", name, "--vectors", "vectors.npy", "--model-name", "other"]
    subprocess.run(command, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)


def metadata(at):
    """Metadata of a document of the quick start: three of them are passages of one document."""
    return {"lang": "en" if at % 3 else "de", "number": at, "document": f"d{at // 3}"}


@contextlib.contextmanager
def indexer(folder, port, page):
    """An encoder service, and an indexer that serves changes of one index for those who have a key."""
    binaries = SETTINGS["binaries"]
    with serving(binaries, folder, "dyad-encoder", "--model", SETTINGS["model"]) as encoder:
        options = ("--index", "changing=changing", "--encoder", f"http://{encoder['listening']}", "--keys", "keys.json")
        with serving(binaries, folder, "dyad-indexer", *options, "--http", f"127.0.0.1:{port}", "--cors-origin", page):
            yield


@contextlib.contextmanager
def servers():
    """A searcher, and an indexer of one of its indexes; sets where they are."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        lines = pathlib.Path("deploy/quickstart/corpus.jsonl").read_text().splitlines()
        facts = [json.loads(line) | {"metadata": metadata(at)} for at, line in enumerate(lines)]
        for name, documents, *more in (("quickstart", facts, "--shards", "2"), ("hostile", hostile.corpus()), ("changing", facts)):
            built(SETTINGS["binaries"], SETTINGS["model"], folder / name, documents, *more)
        by_vectors(folder, "vectors")
        (folder / "keys.txt").write_text("p003\np007\n")
        delete = [SETTINGS["binaries"] / "dyad-indexer", "delete", "--index", "quickstart", "--keys", "keys.txt"]
        subprocess.run(delete, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)
        create = [SETTINGS["binaries"] / "dyad-searcher", "keys", "create", "--name", "page", "--role", "write", "--out", "write.key"]
        subprocess.run(create, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)
        indexes = [word for name in ("quickstart", "hostile", "vectors", "changing") for word in ("--index", f"{name}={name}")]
        towers = ["--question-tower", SETTINGS["model"], "--question-tower", "none"]
        port = free_port()
        SETTINGS.update(folder=folder, indexer=f"http://127.0.0.1:{port}", write_key=(folder / "write.key").read_text().strip())
        options = [*indexes, *towers, "--watch", "1", "--indexer", f"changing={SETTINGS['indexer']}"]
        with serving(SETTINGS["binaries"], folder, "dyad-searcher", *options, "--http", "127.0.0.1:0") as addresses:
            SETTINGS.update(grpc=addresses["listening"], url=f"http://{addresses['HTTP']}/")
            with indexer(folder, port, SETTINGS["url"].rstrip("/")):
                yield


@contextlib.contextmanager
def prepared():
    """One searcher and one browser for all tests."""
    with servers(), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=SETTINGS["chromium"], args=FLAGS, headless=True)
        SETTINGS.update(browser=browser)
        try:
            yield
        finally:
            browser.close()


class PageTest(unittest.TestCase):
    """A test with a page that watches itself."""

    def open(self, state="", size=None, **context):
        """A new page, in a profile of its own."""
        made = SETTINGS["browser"].new_context(viewport=size or WIDE, **context)
        self.addCleanup(made.close)
        made.set_default_timeout(WAIT_MS)
        page = made.new_page()
        self.dialogs, self.errors, self.elsewhere = [], [], []
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        # A refused request is told there too.
        page.on(
            "console", lambda said: said.type in ("error", "warning") and "status of 4" not in said.text and self.errors.append(said.text)
        )
        own = (SETTINGS["url"], SETTINGS["indexer"], "data:")
        page.on("request", lambda request: request.url.startswith(own) or self.elsewhere.append(request.url))
        page.add_init_script(
            "window.violations = []; addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective + ' ' + event.blockedURI))"
        )
        page.goto(SETTINGS["url"] + state)
        return page

    def check_harmless(self, page):
        """Nothing but the page itself has run."""
        self.assertEqual((self.dialogs, self.errors, self.elsewhere), ([], [], []))
        self.assertEqual(page.evaluate("[violations, typeof window.hostile, {}.polluted ?? null]"), [[], "undefined", None])

    def check_width(self, page):
        """Nothing is wider than the screen."""
        wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        self.assertLessEqual(wide[0], wide[1])

    def check_axe(self, page):
        """No serious or critical findings."""
        page.evaluate((importlib.resources.files("axe_playwright_python") / "axe.min.js").read_text())
        found = page.evaluate("axe.run().then((found) => found.violations)")
        serious = [
            (one["id"], [(node["target"], node["failureSummary"]) for node in one["nodes"]][:3])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        self.assertEqual(serious, [])

    def ask(self, page, question=QUESTION):
        """Asks by the form, and waits for hits."""
        page.get_by_role("searchbox", name="Question").fill(question)
        page.get_by_role("button", name="Search").click()
        self.answered(page)

    def options(self, page):
        """Opens the options."""
        page.get_by_role("button", name="Options").click()
        expect(page.locator("#options")).to_be_visible()

    def answered(self, page):
        """Waits for hits."""
        expect(page.locator("#columns[data-state=answered][aria-busy=false] .hit").first).to_be_attached()

    def shot(self, page, name):
        """Keeps a picture, where a folder for them was given."""
        if SETTINGS["screenshots"]:
            page.screenshot(path=f"{SETTINGS['screenshots']}/{name}.png", full_page=name.startswith("status"))

"""Tests of the page: documents are added, edited and deleted at the indexer that the searcher names."""

import json
import re
import subprocess
import time

from page_browser import COMMAND_S, PHONE, SETTINGS, WAIT_MS, WIDE, PageTest, api, text_of
from playwright.sync_api import expect

INDEX = "changing"
NEW = {"key": "n1", "title": "Okapi", "text": "The okapi is a relative of the giraffe.", "metadata": {"lang": "en", "size": 9007199254740993}}


def change(route, body):
    """A change by another client, which the searcher serves afterwards."""
    given = body if isinstance(body, str) else json.dumps(body)
    command = ["curl", "--fail-with-body", "-s", f"{SETTINGS['indexer']}/v1/{route}", "-d", given]
    command += ["-H", "Content-Type: application/json", "-H", f"Authorization: Bearer {SETTINGS['write_key']}"]
    generation = json.loads(subprocess.run(command, check=True, timeout=COMMAND_S, capture_output=True).stdout)["generation"]
    until = time.monotonic() + WAIT_MS / 1000
    while api(f"v1/status?index={INDEX}")["generation"] < generation and time.monotonic() < until:
        time.sleep(0.1)


class Changes(PageTest):
    """Adds, edits and deletes."""

    def save(self, page):
        """Saves what the editor has, and waits until it is served."""
        page.locator("#editor").get_by_role("button", name="Save").click()
        expect(page.locator("#editor")).to_be_hidden()

    def fill(self, page, document):
        """Fills the editor."""
        for field in ("key", "title", "text"):
            page.locator(f"#editor-{field}").fill(document[field])
        page.locator("#editor-metadata").fill(json.dumps(document["metadata"]))

    def opened(self, page, key):
        """The dialog with a document."""
        page.evaluate(f"location.hash = '#tab=search&index={INDEX}&doc={key}'")
        body = page.locator("#document-body")
        expect(body).not_to_contain_text("Loading")
        return body

    def test_a_document_is_added_edited_and_deleted(self):
        page = self.open(f"#tab=search&index={INDEX}&q=which+animal+is+a+relative+of+the+giraffe")
        self.answered(page)
        self.options(page)
        page.get_by_role("button", name="Add a document").click()
        self.fill(page, NEW)
        editor = page.locator("#editor")
        expect(editor.get_by_label("API key with role write")).to_be_hidden()
        editor.get_by_role("button", name="Save").click()
        # What was typed stays.
        editor.get_by_label("API key with role write").fill(SETTINGS["write_key"])
        expect(page.locator("#editor-text")).to_have_value(NEW["text"])
        self.fill(page, NEW | {"metadata": []})
        editor.get_by_role("button", name="Save").click()
        expect(editor).to_contain_text("expected an object of JSON")
        self.fill(page, NEW)
        self.shot(page, "editor")
        before = page.locator("#index-facts").inner_text()
        self.save(page)
        # The hits and the numbers of the index are asked for again.
        expect(page.locator(".column.hybrid .hit").first).to_contain_text("Okapi")
        expect(page.locator("#index-facts")).not_to_have_text(before)
        page.get_by_role("button", name="Add a document").click()
        self.fill(page, NEW)
        editor.get_by_role("button", name="Save").click()
        expect(editor).to_contain_text("There is a document with this key")
        page.keyboard.press("Escape")
        editor.get_by_role("button", name="Discard it").click()
        expect(editor).to_be_hidden()

        body = self.opened(page, "n1")
        expect(body).to_contain_text("9007199254740993")
        page.get_by_role("button", name="Edit").click()
        expect(page.locator("#editor-key")).to_have_attribute("readonly", "")
        page.locator("#editor-text").fill("It lives in forests.")
        self.save(page)
        expect(body).to_contain_text("It lives in forests.")
        # What was not touched is as it was.
        expect(body).to_contain_text("9007199254740993")
        page.get_by_role("button", name="Edit").click()
        change("upsert", {"documents": [NEW | {"text": "Others have written this."}]})
        page.locator("#editor-text").fill("It is striped.")
        editor.get_by_role("button", name="Save").click()
        expect(editor).to_contain_text("Others have changed this document")
        editor.get_by_role("button", name="Close").click()
        expect(editor).to_contain_text("not saved")
        editor.get_by_role("button", name="Discard it").click()
        page.keyboard.press("Escape")
        # The dialog closes a moment before the address says so.
        expect(page).not_to_have_url(re.compile("doc="))

        body = self.opened(page, "n1")
        expect(body).to_contain_text("Others have written this.")
        page.get_by_role("button", name="Edit").click()
        editor.get_by_role("button", name="Delete").click()
        editor.get_by_role("button", name="Keep it").click()
        expect(page.locator("#editor-sure")).to_be_hidden()
        editor.get_by_role("button", name="Delete").click()
        self.shot(page, "editor-delete")
        editor.get_by_role("button", name="Delete it").click()
        expect(editor).to_be_hidden()
        expect(body).to_contain_text("no document with this key")
        self.check_harmless(page)

    def test_only_where_an_indexer_is_named(self):
        page = self.open("#tab=search&doc=p002")
        expect(page.locator("#document-body")).to_contain_text("characters")
        expect(page.locator("#document").get_by_role("button", name="Edit")).to_have_count(0)
        page.keyboard.press("Escape")
        self.options(page)
        expect(page.locator("#add-document")).to_be_hidden()
        page.get_by_role("combobox", name="Index").select_option(INDEX)
        expect(page.locator("#add-document")).to_be_visible()
        page.get_by_role("link", name="Status").click()
        expect(page.locator("#status-body")).to_contain_text(SETTINGS["indexer"])
        expect(page.locator("#status-body")).to_contain_text(SETTINGS["grpc"])
        self.check_harmless(page)

    def test_letters_that_a_field_cannot_show_stay(self):
        metadata = '{"n":1.50,"of":{"] }":"\\"}","long":0.12345678901234567890},"2":[1e3,9007199254740993]}'
        strange = {"key": "strange", "title": "one\ntwo", "text": "first\r\nsecond \u0007"}
        change("upsert", json.dumps({"documents": [strange]}).replace("}]}", f', "metadata": {metadata}}}]}}'))
        page = self.open(f"#tab=search&index={INDEX}")
        # As in a browser that does not tell the digits of a number.
        page.evaluate("delete JSON.rawJSON")
        self.opened(page, "strange")
        page.get_by_role("button", name="Edit").click()
        expect(page.locator("#editor-metadata")).to_have_value(metadata)
        for changed in ("#editor-title", "#editor-metadata"):
            page.locator(changed).fill("three" if changed == "#editor-title" else metadata.replace("1.50", "2.50"))
            page.locator("#editor").get_by_role("button", name="Save").click()
            if changed == "#editor-title":
                page.get_by_label("API key with role write").fill(SETTINGS["write_key"])
                self.save(page)
                page.get_by_role("button", name="Edit").click()
        expect(page.locator("#editor")).to_be_hidden()
        stored = text_of("v1/documents", {"keys": ["strange"], "index": INDEX})
        self.assertIn('"metadata":' + metadata.replace("1.50", "2.50"), stored)
        kept = json.loads(stored)["documents"][0]
        self.assertEqual((kept["title"], kept["text"]), ("three", strange["text"]))
        # Nor is a second call made where the first one's answer was lost.
        names = page.evaluate("import('/page/changes.js').then((changes) => [changes.newRequestKey(), changes.newRequestKey()])")
        self.assertTrue(len(set(names)) == 2 and all(len(name) == 32 for name in names), names)

    def test_axe_finds_nothing_serious_in_the_editor(self):
        for size in (WIDE, PHONE):
            page = self.open(f"#tab=search&index={INDEX}&doc=p002", size)
            page.get_by_role("button", name="Edit").click()
            self.check_axe(page)
            self.check_width(page)
            page.locator("#editor").get_by_role("button", name="Delete").click()
            self.check_axe(page)
            self.shot(page, f"editor-{size['width']}")

"""Tests of the page of a root: its leaves, and what they do not answer."""

import contextlib
import re

from page_browser import QUESTION, SETTINGS, WAIT_MS, PageTest
from playwright.sync_api import expect
from programs import serving


class Leaves(PageTest):
    """The page of a root over two leaves, of which one ends."""

    def setUp(self):
        super().setUp()
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        binaries, folder, self.processes, urls = SETTINGS["binaries"], SETTINGS["folder"], [], []
        for name in ("leaf-0", "leaf-1"):
            options = ("--index", "quickstart", "--name", name, "--names", "leaf-{0..1}")
            leaf = serving(binaries, folder, "dyad-searcher", *options, command="leaf", started=self.processes.append)
            urls.append(f"http://{stack.enter_context(leaf)['listening']}")
        options = ("--index", "quickstart", "--question-tower", SETTINGS["model"], "--http", "127.0.0.1:0", "--wait-s", "60")
        root = stack.enter_context(serving(binaries, folder, "dyad-searcher", *options, "--leaves", ",".join(urls)))
        before = SETTINGS["url"]
        stack.callback(lambda: SETTINGS.update(url=before))
        SETTINGS.update(url=f"http://{root['HTTP']}/")

    def test_leaves_are_shown_and_the_shards_that_none_holds_any_more(self):
        page = self.open("#tab=status")
        body = page.locator("#status-body")
        table = body.get_by_role("region", name="Leaves, by address").locator("tbody tr")
        expect(table).to_have_count(2)
        for name in ("leaf-0", "leaf-1"):
            row = table.filter(has_text=name)
            expect(row.locator("td").nth(0)).to_have_text("reports")
            expect(row.locator("td").nth(1)).to_have_text("1")
        expect(body).to_contain_text("2 leaves; 2 shards are held by 1.")
        expect(body.get_by_role("region", name="Documents and bytes").locator("thead")).to_contain_text("Leaves")
        self.check_axe(page)
        self.shot(page, "status-leaves")
        page.get_by_role("link", name="Search").click()
        self.ask(page)
        page.locator(".column:not([hidden]) .title:visible").first.click()
        expect(page.locator("#document-body")).to_contain_text("characters")
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Recall").click()
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#recall-said")).to_contain_text("Done", timeout=2 * WAIT_MS)
        self.check_harmless(page)
        self.processes[1].kill()
        self.processes[1].wait()
        page.get_by_role("link", name="Status").click()
        page.get_by_role("button", name="Refresh").click()
        expect(body).to_contain_text("1 shard is held by none, 1 shard is held by 1.")
        expect(table.filter(has_text="does not report")).to_have_count(1)
        page.get_by_role("link", name="Search").click()
        page.get_by_role("searchbox", name="Question").fill(QUESTION)
        page.get_by_role("button", name="Search").click()
        expect(page.locator("body")).to_contain_text(re.compile(r"no leaf answers for shards \d of generation"), timeout=WAIT_MS)
        self.check_width(page)
        self.assertEqual((self.dialogs, self.elsewhere), ([], []))

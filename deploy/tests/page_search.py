"""Tests of the page: the search tab, and the commands that it gives."""

import json
import os
import pathlib
import re
import subprocess
import sys

from page_browser import COMMAND_S, QUESTION, SETTINGS, PageTest, api
from playwright.sync_api import expect


def degraded():
    """The reply of a search whose tower has failed."""
    hit = {"rank": 1, "key": "p1", "score": 1.0, "document": {"key": "p1", "title": "Comet", "text": "", "metadata": None}}
    overlaps = {f"overlap_{pair}": 0.0 for pair in ("dense_bm25", "dense_hybrid", "bm25_hybrid")}
    return {
        "comparison": {"dense": [], "bm25": [hit], "hybrid": [hit], **overlaps},
        "timings": {"total_us": 12},
        "degraded": True,
        "degraded_reason": "the tower is gone",
        "fusion": "FUSION_UNSPECIFIED",
        "notes": ["no document has the field `x`"],
    }


class Search(PageTest):
    """The search tab."""

    def test_three_rankings_with_lines_and_facts(self):
        page = self.open()
        expect(page.locator("#examples a").first).to_be_visible()
        self.shot(page, "start")
        # Titles are no questions: they open their documents.
        page.locator("#examples a").first.click()
        expect(page.locator("#document-body")).to_contain_text("characters")
        page.keyboard.press("Escape")
        self.ask(page)
        reply = api("v1/search", {"query": QUESTION, "mode": "MODE_COMPARE", "k": 10})["comparison"]
        for column in ("dense", "bm25", "hybrid"):
            shown = page.locator(f".column.{column} .hit")
            self.assertEqual(
                [one.split()[0] for one in shown.locator(".facts code").all_inner_texts()], [hit["key"] for hit in reply[column]]
            )
            digits = 4 if column == "dense" else 2
            self.assertEqual(shown.locator(".score").all_inner_texts(), [f"{hit['score']:.{digits}f}" for hit in reply[column]])
        keys = [{hit["key"] for hit in reply[column]} for column in ("dense", "bm25", "hybrid")]
        self.assertEqual(page.locator(".gap path").count(), len(keys[0] & keys[1]) + len(keys[1] & keys[2]))
        expect(page.locator(".overlaps")).to_contain_text(f"{reply['overlap_dense_hybrid']:.2f}")
        expect(page.locator("#facts")).to_be_hidden()
        page.get_by_role("button", name="Time and details").click()
        expect(page.locator("#facts")).to_be_visible()
        for text in ("fetch", "generation 2", "distance computations", "Beam width"):
            expect(page.locator("#facts")).to_contain_text(text)
        expect(page.locator("#live")).to_contain_text("Hits: Dense 10")
        first = page.locator(".column.hybrid .hit").first
        first.hover()
        key = first.locator("code").inner_text()
        same = page.locator(".hit.same code").all_inner_texts()
        self.assertTrue(len(same) >= 2 and set(same) == {key}, same)
        self.assertGreater(page.locator(".gap path.same").count(), 0)
        self.shot(page, "search")
        self.check_harmless(page)

    def test_a_filter_by_rows_is_that_of_the_json_and_of_the_hits(self):
        page = self.open()
        self.options(page)
        for at, (field, operator, kind, value) in enumerate((("lang", "=", None, "de"), ("number", ">=", "number", "3"), ("number", "<", "number", "90"))):
            page.get_by_role("button", name="Add a condition").click()
            page.get_by_role("combobox", name="Field").nth(at).fill(field)
            page.get_by_role("combobox", name="Operator").nth(at).select_option(operator)
            if kind:
                page.get_by_role("combobox", name="Type of the value").nth(at).select_option(kind)
            page.get_by_role("textbox", name="Value").nth(at).fill(value)
        wanted = {"all": {"filters": [
            {"equals": {"field": "lang", "value": {"text": "de"}}},
            {"range": {"field": "number", "min": {"number": 3}}},
            {"range": {"field": "number", "below": {"number": 90}}},
        ]}}  # fmt: skip
        self.assertEqual(json.loads(page.locator("#filter-json").input_value()), wanted)
        self.ask(page)
        expected = api("v1/search", {"query": QUESTION, "mode": "MODE_DENSE", "k": 10, "filter": wanted})["hits"]
        self.assertEqual(page.locator(".column.dense .facts code").all_inner_texts(), [hit["key"] for hit in expected])
        expect(page.locator("#facts")).to_contain_text("documents pass")
        expect(page.locator("#options-line")).to_contain_text("lang = de and number >= 3 and number < 90")
        # Restored as rows from the address; a form that rows do not have is shown as JSON.
        page.reload()
        self.answered(page)
        self.options(page)
        expect(page.get_by_role("textbox", name="Value").nth(1)).to_have_value("3")
        page.get_by_text("As JSON").first.click()
        page.locator("#filter-json").fill('{"not": {"exists": {"field": "number"}}}')
        expect(page.locator("#filter-other")).to_be_visible()
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".column.dense .empty")).to_contain_text("No document found")
        page.locator("#filter-json").fill('{"not"')
        page.get_by_role("button", name="Search").click()
        expect(page.locator("#filter-problem")).to_contain_text("Not JSON")
        self.check_harmless(page)

    def test_links_back_and_forward_restore_what_was_shown(self):
        page = self.open()
        self.ask(page)
        self.options(page)
        page.locator("#k").fill("3")
        page.locator("#recall").fill("0.9")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".column.dense .hit")).to_have_count(3)
        page.locator(".column.dense .title").first.click()
        expect(page.locator("#document-body")).to_contain_text("characters")
        address = page.url
        other = self.open(address.removeprefix(SETTINGS["url"]))
        self.answered(other)
        expect(other.locator("#q")).to_have_value(QUESTION)
        expect(other.locator("#recall")).to_have_value("0.9")
        expect(other.locator(".column.dense .hit")).to_have_count(3)
        expect(other.locator("#document-body")).to_contain_text("characters")
        page.go_back()
        expect(page.locator("#document")).to_be_hidden()
        page.go_back()
        expect(page.locator(".column.dense .hit")).to_have_count(10)
        page.go_forward()
        expect(page.locator(".column.dense .hit")).to_have_count(3)
        # Enter leaves the focus in the box, whose question goes back too.
        page.locator("#q").fill("what is a comet")
        page.locator("#q").press("Enter")
        self.answered(page)
        page.go_back()
        expect(page.locator("#q")).to_have_value(QUESTION)
        expect(page.locator(".column.dense .hit")).to_have_count(3)
        page.get_by_role("link", name="Status").click()
        expect(page.locator("#status-body")).to_contain_text("Documents and bytes")
        page.go_back()
        expect(page.locator(".column.dense .hit").first).to_be_visible()
        self.check_harmless(page)

    def test_documents_and_explanations_of_hits_and_of_typed_keys(self):
        page = self.open()
        self.ask(page)
        page.locator(".column.bm25").get_by_role("button", name=re.compile("^Explain")).first.click()
        dialog = page.get_by_role("dialog")
        for text in ("Rank", "Dense, exact", "BM25, term by term", "planet"):
            expect(dialog).to_contain_text(text)
        self.shot(page, "explain")
        dialog.get_by_role("link", name="Document").click()
        expect(dialog.get_by_role("heading", name="Document")).to_be_visible()
        expect(dialog.get_by_role("table")).to_contain_text("lang")
        self.shot(page, "document")
        dialog.get_by_role("button", name="Close").click()
        self.options(page)
        page.get_by_label("Document by key").fill("p300")
        page.locator(".by-key").get_by_role("button", name="Explain").click()
        expect(dialog).to_contain_text("It is not among the hits")
        expect(dialog.locator(".reasons li").first).to_be_visible()
        page.keyboard.press("Escape")
        page.get_by_label("Document by key").fill("none of them")
        page.locator(".by-key").get_by_role("button", name="Open").click()
        expect(dialog).to_contain_text("no document with this key")
        self.check_harmless(page)

    def test_states_without_hits(self):
        page = self.open("#tab=search&q=comet&ef=10001")
        expect(page.get_by_role("alert").first).to_contain_text("`ef`: expected at most 10000, got 10001")
        self.shot(page, "error")
        page = self.open("#tab=search&index=vectors&q=comet")
        expect(page.locator("#notes")).to_contain_text("no question tower")
        expect(page.locator(".column.bm25 .empty")).to_be_attached()
        page = self.open("#tab=search&index=nothing&q=comet")
        expect(page.get_by_role("alert").first).to_contain_text("nothing")
        page = self.open()
        page.route("**/v1/search", lambda route: route.fulfill(json=degraded()))
        page.get_by_role("searchbox").fill("comet")
        page.get_by_role("button", name="Search").click()
        expect(page.locator("#notes")).to_contain_text("the tower is gone")
        page.unroute("**/v1/search")
        page.route("**/v1/search", lambda route: route.abort())
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_role("alert").first).to_contain_text("cannot be reached")

    def test_no_more_hits_are_asked_for_than_are_shown(self):
        page, asked = self.open(), []
        page.on("request", lambda request: request.url.endswith("/v1/search") and asked.append(request.post_data_json["k"]))
        page.goto(SETTINGS["url"] + f"#tab=search&q={QUESTION}&k=300")
        page.reload()
        self.answered(page)
        expect(page.locator(".column.dense .hit")).to_have_count(200)
        self.assertEqual(set(asked), {200})
        page.get_by_role("link", name="Next").click()
        expect(page.locator(".column.dense .hit")).to_have_count(134)
        self.check_harmless(page)

    def test_escape_brings_back_the_question_of_the_hits(self):
        page = self.open()
        self.ask(page)
        page.get_by_role("searchbox").fill("something else")
        page.keyboard.press("Escape")
        expect(page.get_by_role("searchbox")).to_have_value(QUESTION)
        page.keyboard.press("Escape")
        expect(page.get_by_role("searchbox")).to_have_value(QUESTION)

    def test_a_key_is_asked_for_and_sent(self):
        page = self.open()
        page.route("**/v1/search", lambda route: route.continue_() if route.request.headers.get("authorization") == "Bearer s3cret" else route.fulfill(
            status=401, json={"error": {"code": 401, "status": "UNAUTHENTICATED", "message": "a key is needed in `authorization`"}}))  # fmt: skip
        page.get_by_role("searchbox").fill(QUESTION)
        page.get_by_role("button", name="Search").click()
        # Once, and in words of the page.
        said = "This searcher wants an API key."
        expect(page.get_by_role("dialog")).to_contain_text(said)
        self.assertEqual(page.locator("body").inner_text().count("key is needed"), 0)
        expect(page.get_by_text(said)).to_have_count(1)
        page.keyboard.press("Escape")
        expect(page.locator("#banner")).to_contain_text(said)
        page.get_by_role("button", name="Enter a key").click()
        page.get_by_label("API key", exact=True).fill("s3cret")
        page.get_by_role("button", name="Save").click()
        self.answered(page)
        self.assertEqual(page.evaluate("[sessionStorage.getItem('dyad.key'), localStorage.length, document.cookie]"), ["s3cret", 0, ""])
        page.get_by_role("button", name="Copy as").click()
        expect(page.locator("#command")).to_contain_text("$DYAD_API_KEY")
        expect(page.locator("#command")).not_to_contain_text("s3cret")


class Commands(PageTest):
    """What "copy as" gives runs, and answers the same."""

    def test_commands_run(self):
        question = 'it\'s "$HOME" `id` \\ ü 😀 \u202e planet'
        wanted = {
            "any": {
                "filters": [
                    {"equals": {"field": "lang", "value": {"text": "de"}}},
                    {"not": {"one_of": {"field": "number", "values": [{"number": 1}, {"number": 2}]}}},
                    {"prefix": {"field": "lang", "prefix": "e"}},
                    {"range": {"field": "number", "min": {"number": 3}, "below": {"number": 300}}},
                ]
            }
        }
        page = self.open("#tab=search&k=4&filter=" + json.dumps(wanted).replace(" ", ""))
        self.ask(page, question)
        expected = {name: page.locator(f".column.{name} .facts code").all_inner_texts() for name in ("dense", "bm25", "hybrid")}
        self.assertEqual(len(expected["dense"]), 4)
        page.get_by_role("button", name="Copy as").click()

        def command(kind):
            page.locator("#command-kinds").get_by_role("button", name=kind, exact=True).click()
            return page.locator("#command").text_content()

        run = {"check": True, "timeout": COMMAND_S, "capture_output": True, "text": True}
        curl = command("curl")
        self.assertNotIn("\u202e", curl)
        self.shot(page, "commands")
        got = json.loads(subprocess.run(["bash", "-c", curl], **run).stdout)["comparison"]
        self.assertEqual({name: [hit["key"] for hit in got[name]] for name in expected}, expected)
        expect(page.locator("#command-hint")).to_be_hidden()
        grpcurl = command("grpcurl").replace("grpcurl", f"{sys.executable} {pathlib.Path('deploy/tests/grpcurl.py').resolve()}", 1)
        got = json.loads(subprocess.run(["bash", "-c", grpcurl], **run).stdout)["comparison"]
        self.assertEqual({name: [hit["key"] for hit in got[name]] for name in expected}, expected)
        python = command("Python")
        client = pathlib.Path("searcher/clients/python").resolve()
        subprocess.run([sys.executable, "setup.py", "--quiet", "--version"], cwd=client, **run)
        done = subprocess.run([sys.executable, "-c", python], env=os.environ | {"PYTHONPATH": str(client / "src")}, **run)
        lines = [line.split() for line in done.stdout.splitlines()]
        self.assertEqual({name: [line[2] for line in lines if line[0] == name] for name in expected}, expected)
        self.check_harmless(page)

"""Tests of the page: where answers begin, groups, pages, reranking, fusion, scores, snippets, and known fields."""

import json
import re

from page_browser import LAPTOP, MOBILE, QUESTION, SETTINGS, PageTest, api
from playwright.sync_api import expect

# Pixels above the first hit.
TOP = 250


class Answers(PageTest):
    """What stands above and around the hits."""

    def test_the_first_hit_is_near_the_top(self):
        settings = {"k": "20", "filter": json.dumps({"equals": {"field": "lang", "value": {"text": "en"}}}), "group": "1"}
        more = "".join(f"&{name}={value}" for name, value in settings.items())
        for size in (LAPTOP, MOBILE):
            for state in ("", more):
                page = self.open(f"#tab=search&q={QUESTION}{state}", size)
                self.answered(page)
                first = page.locator(".hit:visible").first.bounding_box()
                self.assertLessEqual(first["y"], TOP, (size, state, page.locator("#notes").inner_text()))
                self.check_width(page)
                self.check_harmless(page)
        expect(page.locator("#options-line")).to_have_text(re.compile("three rankings · 20 hits · one per document · lang = en$"))

    def test_one_hit_for_each_document_and_what_the_address_keeps(self):
        page = self.open()
        self.ask(page)
        self.options(page)
        page.get_by_label("One per document").check()
        expect(page.locator("#options-line")).to_contain_text("one per document")
        expected = {}
        for column, mode in (("dense", "MODE_DENSE"), ("bm25", "MODE_BM25"), ("hybrid", "MODE_HYBRID")):
            reply = api("v1/search", {"query": QUESTION, "mode": mode, "k": 10, "group_by": {"field": "document"}})
            expected[column] = [hit["key"] for hit in reply["hits"]]
        for column, keys in expected.items():
            expect(page.locator(f".column.{column} .facts code")).to_have_text(keys)
        self.assertGreater(page.locator(".gap path").count(), 0)
        page.reload()
        self.answered(page)
        expect(page.locator(".column.hybrid .facts code")).to_have_text(expected["hybrid"])
        page.go_back()
        expect(page.locator("#options-line")).not_to_contain_text("one per document")
        self.check_harmless(page)

    def test_passages_of_one_document_are_told(self):
        page = self.open("#tab=search&mode=dense&q=planet")
        self.answered(page)
        hits = api("v1/search", {"query": "planet", "mode": "MODE_DENSE", "k": 10})["hits"]
        documents = [hit["document"]["metadata"]["document"] for hit in hits]
        self.assertLess(len(set(documents)), 10)
        first = page.locator(".hit").first.bounding_box()
        self.assertLessEqual(first["y"], TOP)
        page.get_by_role("button", name="One per document").click()
        expect(page.locator("#options-line")).to_contain_text("one per document")
        expect(page.locator("#repeated")).to_be_hidden()
        self.answered(page)
        self.check_harmless(page)

    def test_pages_are_parts_of_one_ranking(self):
        page = self.open(f"#tab=search&q={QUESTION}&mode=hybrid")
        self.answered(page)
        self.assertEqual(page.locator(".column").count(), 1)
        seen = page.locator(".facts code").all_inner_texts()
        for at in (1, 2):
            page.get_by_role("link", name="Next").click()
            expect(page.locator("#pages")).to_contain_text(f"Places {10 * at + 1} to {10 * at + 10}")
            expect(page.locator(".hit").first).to_have_attribute("value", str(10 * at + 1))
            seen += page.locator(".facts code").all_inner_texts()
        reply = api("v1/search", {"query": QUESTION, "mode": "MODE_HYBRID", "k": 30, "exact": True})
        self.assertEqual(len(set(seen)), 30)
        self.assertGreater(len(set(seen) & {hit["key"] for hit in reply["hits"]}), 27)
        page.get_by_role("link", name="Previous").click()
        expect(page.locator(".hit").first).to_have_attribute("value", "11")
        page.goto(SETTINGS["url"] + f"#tab=search&q={QUESTION}&mode=hybrid&page=10")
        page.reload()
        self.answered(page)
        expect(page.locator("#pages")).to_contain_text("a greater fusion depth has more")
        expect(page.get_by_role("link", name="Next")).to_have_count(0)
        # Another search begins at its first page.
        self.ask(page, "comet")
        expect(page.locator(".hit").first).to_have_attribute("value", "1")
        self.check_harmless(page)

    def test_fusion_and_weight(self):
        page = self.open(f"#tab=search&q={QUESTION}")
        self.answered(page)
        self.options(page)
        page.get_by_label("Dense weight").fill("0.9")
        page.get_by_label("Fusion", exact=True).select_option("min-max")
        wanted = {"query": QUESTION, "mode": "MODE_HYBRID", "k": 10, "fusion": "FUSION_MIN_MAX", "dense_weight": 0.9}
        hits = api("v1/search", wanted)["hits"]
        expect(page.locator(".column.hybrid .score")).to_have_text([f"{hit['score']:.4f}" for hit in hits])
        expect(page.locator("#options-line")).to_contain_text("min-max · dense weight 0.9")
        self.assertIn("fusion=min-max&weight=0.9", page.url)
        self.check_harmless(page)

    def test_what_is_wrong_is_shown_where_it_was_folded(self):
        page = self.open(f"#tab=search&q={QUESTION}&k=300&weight=2")
        expect(page.locator("#notes")).to_contain_text("dense_weight")
        expect(page.locator("#options")).to_be_hidden()
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_label("Dense weight")).to_be_focused()
        page.get_by_label("Dense weight").fill("0.5")
        page.get_by_label("Hits of a page").fill("5")
        page.get_by_role("button", name="Search").click()
        expect(page.locator(".column.hybrid .hit")).to_have_count(5)

    def test_reranking_where_a_cross_encoder_is_served(self):
        page = self.open(f"#tab=search&q={QUESTION}")
        self.answered(page)
        self.options(page)
        expect(page.locator("#rerank-part")).to_be_hidden()
        served = api("v1/status") | {"reranker": {"name": "cross", "fingerprint": "f", "max_tokens": 64}, "rerank_gain": {"before": 0.4, "after": 0.5}}
        page.route("**/v1/status*", lambda route: route.fulfill(json=served))
        asked = []

        def without(route):
            body = route.request.post_data_json
            asked.extend(body["requests"])
            route.continue_(post_data=json.dumps({"requests": [{**one, "rerank_depth": 0} for one in body["requests"]]}))

        page.route("**/v1/search/batch", without)
        page.reload()
        self.answered(page)
        self.options(page)
        expect(page.locator("#rerank-part")).to_contain_text("nDCG@10 0.400 to 0.500")
        page.get_by_label("Rerank the best").check()
        expect(page.locator("#options-line")).to_contain_text("best 20 reranked")
        self.answered(page)
        self.assertEqual([one.get("rerank_depth") for one in asked], [None, None, 20])
        page.get_by_label("One per document").check()
        expect(page.get_by_label("Rerank the best")).not_to_be_checked()
        self.check_harmless(page)

    def test_scores_have_a_name_a_bar_and_words(self):
        page = self.open("#tab=search&q=who won the election in 1923")
        self.answered(page)
        for column, unit in (("dense", "cosine"), ("hybrid", "log odds")):
            first, last = [page.locator(f".column.{column} .scores").nth(at) for at in (0, -1)]
            expect(first).to_contain_text(unit)
            widths = [one.locator(".meter > span").evaluate("(bar) => bar.getBoundingClientRect().width") for one in (first, last)]
            self.assertGreater(widths[0], widths[1])
        documents = api("v1/status")["documents"]
        hits = api("v1/search", {"query": "who won the election in 1923", "mode": "MODE_HYBRID", "k": 10})["hits"]
        weak = [hit for hit in hits if 2.718281828**hit["score"] < documents]
        self.assertGreater(len(weak), 0)
        expect(page.locator(".column.hybrid .weak")).to_have_count(len(weak))
        # The other scales say nothing about what is weak.
        expect(page.locator(".column:not(.hybrid) .weak")).to_have_count(0)

    def test_snippets_have_dots_where_they_are_cut_and_informative_words_are_marked(self):
        page = self.open("#tab=search&mode=bm25&q=which planet has a storm that what who its")
        self.answered(page)
        marked = {word.lower() for word in page.locator("mark").all_inner_texts()}
        self.assertTrue({"planet", "storm"} <= marked)
        self.assertFalse({"which", "has", "what", "who", "its"} & marked, marked)
        keys = page.locator(".facts code").all_inner_texts()
        texts = {one["key"]: one["text"] for one in api("v1/documents", {"keys": keys})["documents"]}
        for key, shown in zip(keys, page.locator(".snippet").all_inner_texts(), strict=True):
            inner = shown.strip("… \n")
            at = texts[key].find(inner)
            self.assertGreaterEqual(at, 0, (key, shown))
            self.assertEqual(shown.startswith("…"), at > 0, (key, shown))
            self.assertEqual(shown.endswith("…"), at + len(inner) < len(texts[key]), (key, shown))

    def test_known_fields_are_suggested(self):
        page = self.open(f"#tab=search&q={QUESTION}")
        self.answered(page)
        self.options(page)
        names = "[...document.querySelectorAll('#fields option')].map((one) => one.value)"
        for name in ("key", "title", "lang", "number", "document"):
            self.assertIn(name, page.evaluate(names))
        page.get_by_role("button", name="Add a condition").click()
        signs = page.get_by_role("combobox", name="Operator").locator("option").evaluate_all("(all) => all.map((one) => one.value)")
        self.assertEqual(sorted(signs), sorted(["=", "!=", ">", ">=", "<", "<=", "^=", "in", "exists"]))
        # A field of numbers is compared with numbers.
        page.get_by_role("combobox", name="Field").fill("number")
        page.get_by_role("combobox", name="Field").press("Tab")
        expect(page.get_by_role("combobox", name="Type of the value")).to_have_value("number")
        # Where the server lists fields, those are known too.
        described = api("v1/openapi.json")
        described["paths"]["/v1/fields"] = {}
        page.route("**/v1/openapi.json", lambda route: route.fulfill(json=described))
        page.route("**/v1/fields*", lambda route: route.fulfill(json={"fields": [{"name": "author.name", "types": {"texts": 3}, "documents": 3}]}))
        page.reload()
        self.answered(page)
        self.options(page)
        expect(page.locator("#fields option[value='author.name']")).to_have_count(1)
        self.check_harmless(page)

    def test_conditions_of_every_operator_are_rows_and_find_the_same(self):
        rows = [
            ({"equals": {"field": "lang", "value": {"text": "en"}}}, "lang = en"),
            ({"not": {"equals": {"field": "lang", "value": {"text": "en"}}}}, "lang != en"),
            ({"range": {"field": "number", "above": {"number": 300}}}, "number > 300"),
            ({"range": {"field": "number", "max": {"number": 30}}}, "number <= 30"),
            ({"prefix": {"field": "title", "prefix": "V"}}, "title ^= V"),
            ({"one_of": {"field": "number", "values": [{"number": 1}, {"number": 4}]}}, "number in 1|4"),
            ({"exists": {"field": "lang"}}, "lang exists"),
        ]
        for condition, text in rows:
            page = self.open(f"#tab=search&mode=dense&q={QUESTION}&filter=" + json.dumps(condition))
            self.answered(page)
            expect(page.locator("#options-line")).to_contain_text(text)
            expect(page.locator("#filter-rows > li")).to_have_count(1)
            hits = api("v1/search", {"query": QUESTION, "mode": "MODE_DENSE", "k": 10, "filter": condition})["hits"]
            expect(page.locator(".facts code")).to_have_text([hit["key"] for hit in hits])
            # Typing in the row gives the same JSON again.
            self.options(page)
            page.get_by_role("combobox", name="Field").press("End")
            page.get_by_role("combobox", name="Field").press_sequentially("x")
            page.get_by_role("combobox", name="Field").press("Backspace")
            self.assertEqual(json.loads(page.locator("#filter-json").input_value()), condition)
            self.check_harmless(page)

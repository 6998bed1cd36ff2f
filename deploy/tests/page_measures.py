"""Tests of the page: recall of the graph, and quality by judged questions."""

import json
import math
import pathlib

from page_browser import QUESTION, WAIT_MS, PageTest, api
from playwright.sync_api import expect

K = 10
MODES = {"Dense": "MODE_DENSE", "BM25": "MODE_BM25", "Hybrid": "MODE_HYBRID"}


class Recall(PageTest):
    """The recall tab."""

    def test_recall_and_time_by_beam_width(self):
        page = self.open("#tab=recall&n=30&seed=5")
        under_way = {"now": 0, "most": 0}

        def begin(request):
            if "/v1/search" in request.url:
                under_way["now"] += 1
                under_way["most"] = max(under_way["most"], under_way["now"])

        def end(request):
            under_way["now"] -= "/v1/search" in request.url

        page.on("request", begin)
        page.on("requestfinished", end)
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#recall-said")).to_contain_text("Done: 210 searches", timeout=2 * WAIT_MS)
        self.assertLessEqual(under_way["most"], 4)
        rows = page.locator("#recall-results tbody tr")
        expect(rows).to_have_count(7)
        recall = [float(text) for text in page.locator("#recall-results tbody td:nth-child(2)").all_inner_texts()]
        self.assertTrue(all(0.5 < value <= 1 for value in recall) and recall[-2] == 1, recall)
        self.assertEqual(page.locator("#recall-results svg.plot").count(), 2)
        self.shot(page, "recall")
        page.locator("#recall-n").fill("1000")
        page.get_by_role("button", name="Measure").click()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#recall-said")).to_contain_text("Stopped")
        page.get_by_role("combobox", name="Index").select_option("vectors")
        expect(page.locator("#recall-no-tower")).to_be_visible()
        self.check_harmless(page)

    def test_fewer_questions_than_documents_have_a_reason(self):
        page = self.open("#tab=recall&n=3")
        sample = {"documents": [{"key": f"k{at}", "title": title, "text": ""} for at, title in enumerate(("Venus", "Venus", "Mars"))]}
        page.route("**/v1/documents/sample", lambda route: route.fulfill(json=sample))
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#recall-said")).to_contain_text("2 questions of 3 documents: 1 had no text, or the title", timeout=2 * WAIT_MS)


def measures(keys, relevant):
    """MRR, nDCG and recall at 10 of one question."""
    places = [at for at, key in enumerate(keys) if key in relevant]
    best = sum(1 / math.log2(at + 2) for at in range(min(K, len(relevant))))
    return 1 / (places[0] + 1) if places else 0, sum(1 / math.log2(at + 2) for at in places) / best, len(places) / len(relevant)


class Quality(PageTest):
    """The quality tab."""

    def test_the_files_of_beir_are_measured_in_every_mode(self):
        page = self.open("#tab=quality")
        folder = pathlib.Path("deploy/quickstart")
        page.locator("#quality-files").set_input_files([folder / "queries.jsonl", folder / "qrels/test.tsv"])
        page.locator("#quality-most").fill("20")
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#quality-said")).to_contain_text("Done: 20 questions in 3 modes", timeout=2 * WAIT_MS)
        questions = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
        judged = {}
        for line in (folder / "qrels/test.tsv").read_text().splitlines()[1:]:
            query, key, _ = line.split("\t")
            judged.setdefault(query, set()).add(key)
        asked = [questions[at * len(questions) // 20] for at in range(20)]
        rows = {row[0]: row[1:] for row in map(self.cells, page.locator("#quality-results tbody tr").all())}
        self.assertEqual(list(rows), list(MODES))
        missed = []
        for label, mode in MODES.items():
            found = []
            for one in asked:
                hits = api("v1/search", {"query": one["text"], "mode": mode, "k": K, "keys_only": True})["hits"]
                found.append(measures([hit["key"] for hit in hits], judged[one["_id"]]))
            means = [f"{sum(column) / len(found):.4f}" for column in zip(*found, strict=True)]
            self.assertEqual(rows[label][:3], means)
            missed = [one["text"] for one, (first, *_) in zip(asked, found, strict=True) if first == 0]
        expect(page.locator("#quality-results")).to_contain_text(f"Missed by Hybrid: {len(missed)}")
        self.shot(page, "quality")
        # Judged questions are those to begin with.
        page.get_by_role("link", name="Search").click()
        expect(page.locator("#examples a").first).to_have_text(asked[0]["text"])
        self.check_harmless(page)

    def cells(self, row):
        """The texts of a row."""
        return row.locator("th, td").all_inner_texts()

    def test_pasted_lines_of_json_and_what_is_wrong_with_them(self):
        page = self.open("#tab=quality")
        page.get_by_role("button", name="Measure").click()
        expect(page.get_by_role("alert").first).to_contain_text("No judged question was found")
        page.get_by_text("Or paste them").click()
        lines = [{"query": QUESTION, "relevant": ["p002", "gone"]}, {"query": "comet", "relevant": ["gone"]}, {"query": "without judgement"}]
        page.locator("#quality-questions").fill("\n".join(map(json.dumps, lines)))
        page.get_by_role("button", name="Measure").click()
        expect(page.locator("#quality-said")).to_contain_text("Done: 2 questions", timeout=2 * WAIT_MS)
        results = page.locator("#quality-results")
        for text in ("1 questions have no relevant document", "1 of 2 relevant keys are not in this index", "Missed by Hybrid: 1"):
            expect(results).to_contain_text(text)
        results.get_by_role("link", name="comet").click()
        self.answered(page)
        expect(page.get_by_role("searchbox")).to_have_value("comet")
        page.go_back()
        expect(results).to_contain_text("Missed by Hybrid")
        self.check_harmless(page)

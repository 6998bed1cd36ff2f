"""The page at `/` in headless Chromium: page.py BINARIES MODEL CHROMIUM [SCREENSHOTS], in the root.

A searcher of this build serves the quick start, hostile documents, and vectors without a question tower. Every tab is used as a person
would; nothing may be loaded from elsewhere, no script of a document may run, and axe may find nothing serious.

| file | contents |
|---|---|
| `page_browser.py` | the searcher, the browser, and a page that watches itself |
| `page_search.py` | the search tab, and the commands that it gives |
| `page_answers.py` | where answers begin, groups, pages, reranking, fusion, scores, snippets, fields |
| `page_changes.py` | documents are added, edited and deleted |
| `page_measures.py` | recall of the graph, quality by judged questions |
| `page_leaves.py` | a root and its leaves |
| `page_tabs.py` | the status, hostile documents, access |
| `hostile.py` | the documents |
"""

import pathlib
import shutil
import sys
import unittest

from page_answers import Answers
from page_browser import SETTINGS, prepared
from page_changes import Changes
from page_leaves import Leaves
from page_measures import Quality, Recall
from page_search import Commands, Search
from page_tabs import Access, Hostile, Status

CASES = (Search, Answers, Commands, Changes, Recall, Quality, Status, Leaves, Hostile, Access)


def main():
    """0 when all tests pass."""
    binaries, model, chromium, *screenshots = sys.argv[1:]
    SETTINGS.update(binaries=pathlib.Path(binaries).resolve(), model=pathlib.Path(model).resolve(), chromium=chromium)
    SETTINGS["screenshots"] = next(iter(screenshots), None)
    if not shutil.which("curl"):
        raise SystemExit("error: curl is needed: apt-get install curl")
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    with prepared():
        done = unittest.TextTestRunner(verbosity=2).run(unittest.TestSuite(map(load, CASES)))
    return 0 if done.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

"""Tests of the check of dependencies between crates."""

import copy
import pathlib
import unittest

import crate_dependencies

ROOT = pathlib.Path(__file__).resolve().parent.parent


class CrateDependenciesTest(unittest.TestCase):
    """On the real workspace, with dependencies added."""

    @classmethod
    def setUpClass(cls):
        cls.metadata = crate_dependencies.cargo_metadata(ROOT)
        cls.confined = crate_dependencies.confined(ROOT)

    def with_dependency(self, name, target, kind=None, optional=False):
        """What is found once the crate `name` depends on `target`."""
        metadata = copy.deepcopy(self.metadata)
        package = next(package for package in metadata["packages"] if package["name"] == name)
        package["dependencies"] = [each for each in package["dependencies"] if each["name"] != target]
        package["dependencies"].append({"name": target, "kind": kind, "optional": optional})
        return list(crate_dependencies.forbidden(metadata, self.confined))

    def test_the_workspace_as_it_is(self):
        self.assertEqual(list(crate_dependencies.forbidden(self.metadata, self.confined)), [])

    def test_a_forbidden_dependency_is_found(self):
        for name, target, kind in (
            ("dyad-index", "dyad-corpus", None),
            ("dyad-index", "dyad-indexer", "dev"),
            ("dyad-proto", "dyad-index", "build"),
            ("dyad-encoder", "dyad-index", None),
            ("dyad-indexer", "dyad-encoder", None),
            ("dyad-searcher", "dyad-indexer", None),
            ("dyad-searcher", "dyad-encoder", None),
            ("dyad-indexer", "dyad-searcher", "dev"),
            ("dyad-searcher", "tch", None),
            ("dyad-bench", "torch-sys", "dev"),
            ("dyad-index", "hnsw_rs", "dev"),
            ("dyad-searcher", "tantivy", None),
        ):
            found = self.with_dependency(name, target, kind)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"{name} -> {target} ("), found)

    def test_an_allowed_dependency_is_not(self):
        for name, target, kind, optional in (
            ("dyad-encoder", "dyad-corpus", None, False),
            ("dyad-searcher", "dyad-encoder", None, True),
            ("dyad-searcher", "dyad-encoder", "dev", False),
            ("dyad-searcher", "dyad-indexer", "dev", False),
            ("dyad-bench", "dyad-searcher", None, False),
            ("dyad-bench", "hnsw_rs", None, False),
            ("dyad-index", "serde", None, False),
        ):
            self.assertEqual(self.with_dependency(name, target, kind, optional), [])

    def test_a_crate_that_is_not_in_the_table(self):
        metadata = copy.deepcopy(self.metadata)
        metadata["packages"].append({"id": "new", "name": "dyad-new", "dependencies": []})
        metadata["workspace_members"].append("new")
        self.assertEqual(list(crate_dependencies.forbidden(metadata, self.confined)), ["dyad-new: not in the table of allowed dependencies"])


if __name__ == "__main__":
    unittest.main()

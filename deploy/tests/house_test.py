"""The checks of the house check themselves: what they forbid is caught, what the design allows is not."""

import copy
import pathlib
import subprocess
import tempfile
import unittest

import arrows
import house

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOUSE = pathlib.Path(house.__file__)


class ArrowsTest(unittest.TestCase):
    """On the real workspace, with arrows added."""

    @classmethod
    def setUpClass(cls):
        cls.metadata = arrows.cargo_metadata(ROOT)
        cls.confined = arrows.confined(ROOT)

    def with_arrow(self, name, target, kind=None, optional=False):
        """What is found once the crate `name` depends on `target`."""
        metadata = copy.deepcopy(self.metadata)
        package = next(package for package in metadata["packages"] if package["name"] == name)
        package["dependencies"] = [each for each in package["dependencies"] if each["name"] != target]
        package["dependencies"].append({"name": target, "kind": kind, "optional": optional})
        return list(arrows.forbidden(metadata, self.confined))

    def test_the_workspace_as_it_is(self):
        self.assertEqual(list(arrows.forbidden(self.metadata, self.confined)), [])

    def test_a_forbidden_arrow_is_caught(self):
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
            found = self.with_arrow(name, target, kind)
            self.assertEqual(len(found), 1, found)
            self.assertTrue(found[0].startswith(f"{name} -> {target} ("), found)

    def test_an_allowed_arrow_is_not(self):
        for name, target, kind, optional in (
            ("dyad-encoder", "dyad-corpus", None, False),
            ("dyad-searcher", "dyad-encoder", None, True),
            ("dyad-searcher", "dyad-encoder", "dev", False),
            ("dyad-searcher", "dyad-indexer", "dev", False),
            ("dyad-bench", "dyad-searcher", None, False),
            ("dyad-bench", "hnsw_rs", None, False),
            ("dyad-index", "serde", None, False),
        ):
            self.assertEqual(self.with_arrow(name, target, kind, optional), [])

    def test_a_crate_that_no_one_drew(self):
        metadata = copy.deepcopy(self.metadata)
        metadata["packages"].append({"id": "new", "name": "dyad-new", "dependencies": []})
        metadata["workspace_members"].append("new")
        self.assertEqual(list(arrows.forbidden(metadata, self.confined)), ["dyad-new: a crate with no arrows drawn"])


class HouseTest(unittest.TestCase):
    """On texts and on a small work tree."""

    def test_top_level(self):
        paths = sorted(house.TOP_LEVEL) + [".github/x", ".gitignore"]
        self.assertEqual(list(house.top_level(paths)), [])
        self.assertEqual(len(list(house.top_level([*paths, "ARCHITECTURE.md", "scripts/x.sh"]))), 2)
        self.assertEqual(list(house.top_level(paths[1:] + [paths[0] + "x"]))[1:], [f"{paths[0]}: missing from the top level"])

    def test_rust_files(self):
        header = "//! One idea.\n"
        self.assertEqual(list(house.rust_file("proto/src/vector.rs", header + "\n" * 398)), [])
        self.assertIn("got 400", " ".join(house.rust_file("a.rs", header + "\n" * 399)))
        self.assertIn("`//!` header", " ".join(house.rust_file("a.rs", "use x;\n")))
        self.assertEqual(list(house.rust_file("a.rs", header + "// todo!() is forbidden\nlet todo = 1;\n")), [])
        for line in ("todo!()", "    unimplemented!(\"later\")", "todo![]", "x => todo! {}"):
            self.assertIn("a.rs:2: unfinished", " ".join(house.rust_file("a.rs", header + line)))
        for path in ("a/src/utils.rs", "a/src/helpers/b.rs", "a/src/misc/mod.rs"):
            self.assertIn("says nothing", " ".join(house.rust_file(path, header)))

    def test_manifests_and_scripts(self):
        package = '[package]\nname = "a"\n'
        self.assertEqual(list(house.manifest("Cargo.toml", "[workspace]\n")), [])
        self.assertEqual(list(house.manifest("a/Cargo.toml", package + "\n[lints]\nworkspace = true\n")), [])
        self.assertEqual(len(list(house.manifest("a/Cargo.toml", package))), 1)
        self.assertEqual(list(house.script("a.sh", "#!/bin/sh\n", True)), [])
        self.assertEqual(list(house.script("a.sh", "# sourced\n", False)), [])
        self.assertEqual(len(list(house.script("a.sh", "#!/bin/sh\n", False))), 1)

    def test_the_whole_check_on_a_work_tree(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            subprocess.run(["git", "init", "--quiet", root], check=True)
            (root / ".gitignore").write_text("/target\n")
            for name in (*house.TOP_LEVEL, "target"):
                if "." in name or name == "LICENSE":
                    (root / name).touch()
                else:
                    (root / name / "src").mkdir(parents=True)
                    (root / name / "src/lib.rs").write_text("//! Here.\n")
            check = ["python3", HOUSE, root]
            result = subprocess.run(check, capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            (root / "proto/src/lib.rs").write_text("fn main() {}\n")
            result = subprocess.run(check, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn("proto/src/lib.rs: does not start with", result.stderr)


if __name__ == "__main__":
    unittest.main()

"""Tests of the conventions check."""

import pathlib
import subprocess
import tempfile
import unittest

import conventions

CONVENTIONS = pathlib.Path(conventions.__file__)


class ConventionsTest(unittest.TestCase):
    """On texts and on a small work tree."""

    def test_top_level(self):
        paths = sorted(conventions.TOP_LEVEL) + [".github/x", ".gitignore"]
        self.assertEqual(list(conventions.top_level(paths)), [])
        self.assertEqual(len(list(conventions.top_level([*paths, "NOTES.md", "scripts/x.sh"]))), 2)
        self.assertEqual(list(conventions.top_level(paths[1:] + [paths[0] + "x"]))[1:], [f"{paths[0]}: missing from the top level"])

    def test_rust_files(self):
        header = "//! One idea.\n"
        self.assertEqual(list(conventions.rust_file("proto/src/vector.rs", header + "\n" * 398)), [])
        self.assertIn("got 400", " ".join(conventions.rust_file("a.rs", header + "\n" * 399)))
        self.assertIn("`//!` header", " ".join(conventions.rust_file("a.rs", "use x;\n")))
        self.assertEqual(list(conventions.rust_file("a.rs", header + "// todo!() is forbidden\nlet todo = 1;\n")), [])
        for line in ("todo!()", "    unimplemented!(\"later\")", "todo![]", "x => todo! {}"):
            self.assertIn("a.rs:2: unfinished", " ".join(conventions.rust_file("a.rs", header + line)))
        for path in ("a/src/utils.rs", "a/src/helpers/b.rs", "a/src/misc/mod.rs"):
            self.assertIn("does not describe", " ".join(conventions.rust_file(path, header)))

    def test_wide_lines(self):
        long = "word " * 30
        for sound in (f'let a = "{long}";', f"//! | {long} |", f"//     {long}", f"/// ```text\n/// {long}\n/// ```", "// " + long[:117]):
            self.assertEqual(list(conventions.wide_lines("a.rs", sound)), [], sound)
        for wide in (f"// {long}", f"    /// {long}", "a(" + "b, " * 40 + ");", f"/// ```text\n/// ```\n/// {long}"):
            self.assertEqual(len(list(conventions.wide_lines("a.rs", wide))), 1, wide)

    def test_documents_name_what_is_there(self):
        paths = ["README.md", "encoder/README.md", "encoder/src/run/pool.rs", "deploy/quickstart/corpus.jsonl"]
        sound = "`run/pool.rs`, `encoder/src/run/pool.rs`, [docs](encoder/README.md#models), [data](deploy/quickstart), [web](https://x.y/z)"
        self.assertEqual(list(conventions.document("README.md", sound, paths)), [])
        self.assertEqual(list(conventions.document("encoder/README.md", "[up](../README.md) `../src/run/pool.rs`", paths)), [])
        for wrong in ("`run/pond.rs`", "[docs](README2.md)", "[docs](../README.md)"):
            self.assertEqual(len(list(conventions.document("README.md", wrong, paths))), 1, wrong)

    def test_manifests_and_scripts(self):
        package = '[package]\nname = "a"\n'
        self.assertEqual(list(conventions.manifest("Cargo.toml", "[workspace]\n")), [])
        self.assertEqual(list(conventions.manifest("a/Cargo.toml", package + "\n[lints]\nworkspace = true\n")), [])
        self.assertEqual(len(list(conventions.manifest("a/Cargo.toml", package))), 1)
        self.assertEqual(list(conventions.script("a.sh", "#!/bin/sh\n", True)), [])
        self.assertEqual(list(conventions.script("a.sh", "# sourced\n", False)), [])
        self.assertEqual(len(list(conventions.script("a.sh", "#!/bin/sh\n", False))), 1)

    def test_the_whole_check_on_a_work_tree(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            subprocess.run(["git", "init", "--quiet", root], check=True)
            (root / ".gitignore").write_text("/target\n")
            for name in (*conventions.TOP_LEVEL, "target"):
                if "." in name or name == "LICENSE":
                    (root / name).touch()
                else:
                    (root / name / "src").mkdir(parents=True)
                    (root / name / "src/lib.rs").write_text("//! Here.\n")
            check = ["python3", CONVENTIONS, root]
            result = subprocess.run(check, capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            (root / "proto/src/lib.rs").write_text("fn main() {}\n")
            result = subprocess.run(check, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 1)
            self.assertIn("proto/src/lib.rs: does not start with", result.stderr)


if __name__ == "__main__":
    unittest.main()

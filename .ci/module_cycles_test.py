"""Tests of the check for module cycles: all kinds of cycles are found, and nothing else."""

import contextlib
import io
import pathlib
import tempfile
import unittest

import module_cycles
from rust_source import product_code, use_tree, without_text


class Workspace(unittest.TestCase):
    """Crates written into a temporary folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "Cargo.toml").write_text('[workspace]\nmembers = ["a"]\n')
        (self.root / "a" / "src").mkdir(parents=True)
        (self.root / "a" / "Cargo.toml").write_text('[package]\nname = "crate-a"\n')

    def violations(self, **files):
        """The violations in a crate of these files; `__` in a name is a folder."""
        for name, text in files.items():
            file = self.root / "a" / "src" / (name.replace("__", "/") + ".rs")
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        return list(module_cycles.violations(self.root / "a"))

    def assert_cycle(self, found, *members):
        self.assertEqual(len(found), 1, found)
        self.assertIn("cycle", found[0])
        self.assertIn(": " + ", ".join(members) + "\n", found[0])


class CyclesTest(Workspace):
    def test_two_files_that_use_each_other(self):
        a, b = "use crate::b::B;\npub struct A(B);\n", "pub struct B;\nfn f(_: &super::a::A) {}\n"
        found = self.violations(lib="mod a;\nmod b;\n", a=a, b=b)
        self.assert_cycle(found, "a", "b")
        self.assertIn("a.rs:1: crate::b::B", found[0])
        self.assertIn("b.rs:2: super::a::A", found[0])

    def test_a_chain_of_modules_is_no_cycle(self):
        a, b = "use crate::{b::B, c};\n", "pub struct B(crate::c::C);\n"
        self.assertEqual(self.violations(lib="mod a;\nmod b;\nmod c;\n", a=a, b=b, c="pub struct C;\n"), [])

    def test_a_cycle_of_three_is_reported_with_each_edge(self):
        found = self.violations(lib="mod a; mod b; mod c;", a="use crate::b::B;", b="use super::c::C;", c="fn f() { crate::a::g() }")
        self.assert_cycle(found, "a", "b", "c")
        self.assertEqual(found[0].count("\n"), 3)

    def test_folders_whose_files_are_in_no_cycle(self):
        found = self.violations(
            lib="mod a; mod b;", a__mod="mod x; mod y;", b__mod="pub mod z; pub mod w;",
            a__x="use crate::b::z::Z;", a__y="pub struct Y;", b__z="pub struct Z;", b__w="use crate::a::y::Y;",
        )
        self.assert_cycle(found, "a", "b")

    def test_names_lead_to_the_file_that_defines_them(self):
        # `a` takes from `b` through two exports and a glob; `b` takes `C` through the export of the crate's root.
        files = {
            "lib": "mod a; mod b; mod c; pub use c::C;",
            "b__mod": "mod x; pub use x::*;",
            "b__x": "use crate::C; pub use inner::D; mod inner { pub struct D; }",
            "c": "pub struct C;",
        }
        self.assertEqual(self.violations(a="use crate::b::D as E;", **files), [])
        found = self.violations(a="use crate::b::D;", **{**files, "c": "pub struct C(crate::a::A);"})
        self.assertIn("cycle of modules of crate: a, b, c\n", found[0])
        self.assertIn("cycle of files: a, b::x, c\n", found[1])

    def test_what_a_parent_only_exports_is_no_cycle(self):
        files = {"lib": "mod a;", "a__mod": "mod x; mod y; pub use x::X; pub(crate) use y::Y;", "a__x": "pub struct X;"}
        self.assertEqual(self.violations(a__y="use super::X; pub struct Y(X);", **files), [])

    def test_a_parent_that_uses_a_child_which_uses_what_it_defines(self):
        files = {"lib": "mod a;", "a__x": "use super::Error; pub fn f() -> Error { todo() }"}
        self.assertEqual(self.violations(a__mod="mod x; pub use x::f; pub struct Error;", **files), [])
        found = self.violations(a__mod="mod x; pub struct Error; fn g() { x::f(); }", **files)
        self.assert_cycle(found, "a", "a::x")

    def test_a_glob_counts_for_what_is_used_of_it(self):
        files = {"lib": "mod a; mod b;", "b": "use crate::a::A;"}
        self.assertEqual(self.violations(a="use crate::b::*; pub struct A;", **files), [])
        found = self.violations(a="use crate::b::*; pub struct A(B);", **{**files, "b": "use crate::a::A; pub struct B;"})
        self.assert_cycle(found, "a", "b")

    def test_tests_comments_and_strings_have_no_edges(self):
        a = "pub struct A;\n#[cfg(test)]\nmod tests { use crate::b::B; }\n#[cfg(test)]\nuse crate::b::C;\n// use crate::b::B;\n" \
            'const X: &str = "crate::b::B";\n/* /* */ fn f() { crate::b::g() } */\n'
        files = {"lib": "mod a; mod b;\n#[cfg(test)] mod t;", "t": "use crate::{a, b};"}
        self.assertEqual(self.violations(a=a, b="use crate::a::A;", **files), [])

    def test_a_path_in_an_attribute_is_one(self):
        found = self.violations(lib="mod a; mod b;", a='#[serde(with = "crate::b")] pub struct A;', b="use crate::a::A;")
        self.assert_cycle(found, "a", "b")

    def test_a_block_counts_as_its_file(self):
        a = "const N: u8 = inner::f(); mod inner { pub fn f() -> u8 { super::M } } const M: u8 = 1;"
        self.assertEqual(self.violations(lib="mod a;", a=a), [])

    def test_names_of_other_crates_lead_out(self):
        rand = "use ::rand::rand; use other::b::B; use crate::b::B as C;"
        self.assertEqual(self.violations(lib="mod rand; mod b;", rand=rand, b="use std::rand::X; use rand::rand;"), [])

    def test_a_binary_is_looked_at_too(self):
        self.assert_cycle(self.violations(main="mod a; mod b;", a="use crate::b::B;", b="use crate::a::A;"), "a", "b")


class LayersTest(Workspace):
    HEADER = "//! Layers, lowest first:\n//!\n//! | module | what |\n//! |---|---|\n//! | [`a`], [`b`] | |\n//! | [`c`](mod@c) | |\n"

    def test_a_use_of_a_later_row(self):
        files = {"lib": self.HEADER + "mod a; mod b; mod c;", "b": "use crate::a::A;"}
        self.assertEqual(self.violations(a="", c="use crate::{a::A, b::B};", **files), [])
        found = self.violations(a="pub fn f() { crate::c::g() }", c="", **files)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith("`a` uses `c`, of a later row: "), found)

    def test_a_module_that_is_not_in_the_table(self):
        found = self.violations(lib=self.HEADER + "mod a; mod d;", a="", d="")
        self.assertEqual(found, ["`d` is not in the table of modules"])

    def test_a_table_without_an_order_orders_nothing(self):
        self.assertEqual(self.violations(lib=self.HEADER.replace("lowest first", "") + "mod a; mod c;", a="use crate::c::C;", c=""), [])


class CommandTest(Workspace):
    def run_on(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return module_cycles.main([str(self.root), *arguments]), said.getvalue()

    def test_what_it_returns_and_says(self):
        self.violations(lib="mod a; mod b;", a="use crate::b::B;", b="")
        self.assertEqual(self.run_on(), (0, "module cycles: 1 crates, 0 violations\n"))
        self.violations(b="use crate::a::A;")
        code, said = self.run_on("--crates", "crate-a")
        self.assertEqual(code, 1)
        self.assertIn("error: crate-a: cycle of modules of crate: a, b\n", said)

    def test_an_unknown_crate(self):
        with self.assertRaises(SystemExit) as left:
            self.run_on("--crates", "other")
        self.assertEqual(left.exception.code, 2)


class SourceTest(unittest.TestCase):
    def test_use_trees(self):
        tree = "crate::{a::{self, B as C}, d::*, e, f::{g::{H}, I}}"
        leaves = [f"{'::'.join(segments)} as {name}" for segments, name in use_tree(tree)]
        expected = "a as a, a::B as C, d::* as *, e as e, f::g::H as H, f::I as I"
        self.assertEqual(leaves, [f"crate::{leaf}" for leaf in expected.split(", ")])

    def test_text_is_blanked_and_lines_stay(self):
        code = without_text('let a = "x\\"//"; // b\nlet c = r#"d"e"#; let f: &\'g str = b\'"\'; /* h\n */ i(\'"\', \'\\\'\')')
        self.assertEqual(" ".join(code.split()), "let a = ; let c = ; let f: &'g str = ; i( , )")
        self.assertEqual(code.count("\n"), 2)

    def test_tests_are_blanked_and_the_rest_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "x.rs"
            tests = "#[cfg(test)]\nfn b([c; 2]: D) -> E {}\n#[cfg(all(test, unix))] mod f;\n#[test]\nfn h() {}\n"
            file.write_text("fn a() {}\n" + tests + "#[cfg(not(test))] fn g() {}\nfn i() {}\n")
            self.assertEqual(" ".join(product_code(file).split()), "fn a() {} #[cfg(not(test))] fn g() {} fn i() {}")


if __name__ == "__main__":
    unittest.main()

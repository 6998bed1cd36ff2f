"""The figures of the size report, each on a text whose figure is known."""

import pathlib
import tempfile
import unittest

import size


class SizeTest(unittest.TestCase):
    def test_repeated_lines(self):
        block = "\n".join(f"let x{at} = f({at});" for at in range(size.WINDOW))
        short = block.rsplit("\n", 1)[0]
        self.assertEqual(size.repeated({"a": block, "b": short}), {})
        # Indentation, blank lines and `use` do not count; other names do.
        other = "use a::b;\n" + block.replace("let", "  let").replace(";", ";\n")
        self.assertEqual(size.repeated({"a": block + "\ng();", "b": other}), {"a": size.WINDOW, "b": size.WINDOW})
        self.assertEqual(size.repeated({"a": block, "b": block.replace("x3", "y3")}), {})

    def test_a_crate(self):
        with tempfile.TemporaryDirectory() as scratch:
            root = pathlib.Path(scratch)
            files = {
                "Cargo.toml": '[workspace]\nmembers = ["a"]\n',
                "Cargo.lock": "[[package]]\n[[package]]\n",
                "a/Cargo.toml": '[package]\nname = "dyad-index"\n[dependencies]\nserde = "1"\n',
                "a/src/lib.rs": "mod a;\nmod b;\n/// unsafe { }\nfn f() { unsafe { g() } }\n#[cfg(test)]\nmod tests {\n}\n",
                "a/src/a.rs": "use crate::b::B;\npub struct Found<'a> {\n    pub hits: Vec<&'a B>,\n}\n",
                "a/src/b.rs": "use crate::a::Found;\npub struct B { whits: u8 }\n",
                "a/tests/it/main.rs": "fn main() {}\n",
            }
            for name, text in files.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            figures, written, hit_lists = size.measured(root)
        expected = {"files": 3, "lines": 10, "tests": 4, "cycles": 1, "repeated": 0, "unsafe": 1, "dependencies": 1}
        self.assertEqual(figures["dyad-index"], expected)
        self.assertEqual(figures["all (dependencies: locked)"]["dependencies"], 2)
        self.assertEqual((written["types"], written["one word"], written["shared type names"]), (2, 2, 0))
        self.assertEqual(hit_lists, ["Found (a/src/a.rs)"])
        lines = list(size.table([(figures, {}, []), ({**figures, "dyad-index": {**expected, "lines": 7}}, {}, [])]))
        self.assertIn("10 -> 7", lines[1])


if __name__ == "__main__":
    unittest.main()

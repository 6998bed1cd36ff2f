"""The figures of how code is written, each on a text whose figure is known."""

import unittest

import idiom


class IdiomTest(unittest.TestCase):
    def test_a_file(self):
        source = """//! Comment.
struct Plan;
enum HitList { One }

/// Doc.
fn first((a, b): (u32, u32), text: &str) -> u32 {
    let of = |x: u32| x + 1; // closure
    let (c, d) = (a, "two words");
    of(c)
}

fn second(pair: (u32, u32)) {}

#[cfg(test)]
mod tests {
    fn third((a, b): (u8, u8)) {
        let one = || 1;
    }
}
"""
        counts = idiom.counts(source)
        expected = {"types": 2, "one word": 1, "tuple parameters": 1, "closures": 1, "longest function": 5, "code lines": 8}
        self.assertEqual({name: counts[name] for name in expected}, expected)

    def test_tokens_are_names_literals_and_operators(self):
        self.assertEqual(idiom.counts("let x = a::b(\"c d\", 1.5e3) >= 'q';  // no\n")["tokens"], 14)

    def test_files_are_added_but_for_the_longest_function(self):
        one, other = idiom.counts("fn a() {\n}\n"), idiom.counts("fn b() {\n    c();\n}\n")
        total = idiom.added([one, other])
        self.assertEqual((total["code lines"], total["longest function"]), (5, 3))
        self.assertEqual(total["tokens"], one["tokens"] + other["tokens"])


if __name__ == "__main__":
    unittest.main()

"""Tests of the dependency policy: unused dependencies are found, and licences and sources that are not allowed."""

import pathlib
import tempfile
import unittest

import dependency_policy


class UnusedTest(unittest.TestCase):
    def unused(self, source, test="", build="", **kinds):
        """What is found in a crate with these sources and dependencies of these kinds."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            for place, text in (("src/lib.rs", source), ("tests/it/main.rs", test), ("build.rs", build)):
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                (folder / place).write_text(text)
            each = [{"name": name.replace("_", "-"), "rename": None, "kind": kind} for name, kind in kinds.items()]
            return list(dependency_policy.unused(folder, {"name": "a", "dependencies": each}))

    def test_a_name_in_the_right_sources_is_a_use(self):
        kinds = {"fs_err": None, "h2": "dev", "protox": "build"}
        self.assertEqual(self.unused("use fs_err::File;", "use h2;", "protox::f()", **kinds), [])

    def test_a_dependency_that_is_not_named_is_unused(self):
        self.assertEqual(self.unused("use std;", serde=None), ["a: `serde` (normal) is not used"])
        self.assertEqual(self.unused('// serde\nlet x = "serde";', serde=None), ["a: `serde` (normal) is not used"])
        self.assertEqual(self.unused("use protox;", protox="build"), ["a: `protox` (build) is not used"])

    def test_a_dependency_of_tests_only(self):
        for source, test in (("", "use serde;"), ("#[cfg(test)]\nmod tests { use serde; }", "")):
            (found,) = self.unused(source, test, serde=None)
            self.assertIn("move it to `[dev-dependencies]`", found)


class PoliciesTest(unittest.TestCase):
    def test_expressions(self):
        allowed = {"MIT", "Apache-2.0", "Unicode-3.0"}
        for expression in ("MIT", "MIT OR X", "X/MIT", "(MIT OR X) AND Unicode-3.0", "X OR MIT AND Apache-2.0"):
            self.assertTrue(dependency_policy.licence_allowed(expression, allowed), expression)
        for expression in ("", "X", "MIT AND X", "(MIT OR X) AND Y", "MIT WITH an-exception", "X OR Y", "MIT X"):
            self.assertFalse(dependency_policy.licence_allowed(expression, allowed), expression)

    def test_licences_and_sources(self):
        policies = {"licenses": {"allow": ["MIT"]}}
        crate = {"name": "x", "version": "1.0.0", "source": dependency_policy.CRATES_IO, "license": "MIT"}
        self.assertEqual(list(dependency_policy.against_policies([crate, {**crate, "source": None}], policies)), [])
        (found,) = dependency_policy.against_policies([{**crate, "license": None}], policies)
        self.assertEqual(found, "x 1.0.0: licence None, expected one of MIT")
        (found,) = dependency_policy.against_policies([{**crate, "source": "git+https://example.com/x"}], policies)
        self.assertIn("expected crates.io", found)


if __name__ == "__main__":
    unittest.main()

import unittest

import type_names


class TypeNames(unittest.TestCase):
    def test_types_of_all_kinds_are_found_with_their_lines(self):
        code = "struct One;\npub(crate) enum Two {}\n\n    pub trait Three {}\ntype Four = u8;\nimpl X for Y {\n    type Item = u8;\n}\nunion Five {}\n"
        self.assertEqual(list(type_names.types(code)), [("One", 1), ("Two", 2), ("Three", 4), ("Four", 5), ("Five", 9)])

    def test_a_name_of_two_types_is_refused_unless_it_is_shared_by_intention(self):
        places = {"Plan": ["a.rs:1", "b.rs:2"], "Error": ["a.rs:3", "b.rs:4"], "Alone": ["a.rs:5"]}
        (line,) = type_names.violations(places)
        self.assertIn("Plan: expected one type of this name, got 2: a.rs:1, b.rs:2", line)


if __name__ == "__main__":
    unittest.main()

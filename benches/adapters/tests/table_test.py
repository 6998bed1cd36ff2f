"""The table of what VIBE has exported."""

import unittest

import stand_in


class Table(unittest.TestCase):
    """What is picked of the rows."""

    def test_the_fastest_that_finds_enough_counts_for_each_recall(self):
        def row(algorithm, recall, qps):
            return {"algorithm": algorithm, "recall": recall, "qps": qps, "build_time": 2.5, "index_size": 2048.0}

        rows = [
            row("hnswlib", 0.96, 500.0),
            row("dyad", 0.91, 900.0),
            row("dyad", 0.98, 700.0),
            row("dyad", 0.95, 600.0),
            row("hnswlib", 0.5, 9000.0),
        ]
        found = stand_in.script("vibe/table.py").best(rows, "qps", (0.9, 0.95, 0.99))
        self.assertEqual(list(found), ["dyad", "hnswlib"])
        self.assertEqual(found["dyad"], {"build_s": 2.5, "size_mb": 2.0, 0.9: 900.0, 0.95: 700.0, 0.99: None})
        self.assertEqual(found["hnswlib"], {"build_s": 2.5, "size_mb": 2.0, 0.9: 500.0, 0.95: 500.0, 0.99: None})


if __name__ == "__main__":
    unittest.main()

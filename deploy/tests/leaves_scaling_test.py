"""What a change of `leaf.count` costs, as deploy/README.md says it: shards that no leaf holds while leaves restart one after another.

Placement is that of searcher/src/leaves/placement.rs. A StatefulSet first starts the leaves that are new, and ends those that are to go; then
it restarts the others, the highest number first, each with its new names.
"""

import pathlib
import re
import unittest

RUNS, SHARDS, MOST_PERCENT, WORD = 10, 100, 105, (1 << 64) - 1


def weight(shard, leaf):
    """The weight of a leaf for a shard."""
    value = 0xCBF29CE484222325
    for byte in shard.encode() + b"\xff" + leaf.encode():
        value = ((value ^ byte) * 0x100000001B3) & WORD
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        value = ((value ^ value >> 33) * factor) & WORD
    return value ^ value >> 33


def placed(shards, leaves, holders):
    """The leaves of each shard; shards are of one size."""
    most, loads = len(shards) * holders * MOST_PERCENT // (100 * len(leaves)), dict.fromkeys(leaves, 0)
    found = {}
    for shard in sorted(shards):
        order = sorted(leaves, key=lambda leaf: (-weight(shard, leaf), leaf))
        others = sorted((leaf for leaf in order if loads[leaf] >= most), key=loads.get)
        found[shard] = ([leaf for leaf in order if loads[leaf] < most] + others)[:holders]
        for leaf in found[shard]:
            loads[leaf] += 1
    return found


def without_holder(run, before, after, holders):
    """How many shards have no holder at some time while a number of leaves becomes another."""
    shards = [f"{run}-{number}" for number in range(SHARDS)]
    old, new = ([f"dyad-leaf-{number}" for number in range(count)] for count in (before, after))
    held, to_hold = placed(shards, old, holders), placed(shards, new, holders)
    done, waiting, missed = set(new) - set(old), [leaf for leaf in old if leaf in new], set()
    while waiting:
        restarts = waiting.pop()
        for shard in shards:
            if not done.intersection(to_hold[shard]) and not set(waiting).intersection(held[shard]):
                missed.add(shard)
        done.add(restarts)
    return len(missed)


class ScalingTest(unittest.TestCase):
    """The shares that are documented."""

    def share(self, before, after, holders):
        """In percent of all shards, in the mean."""
        return sum(without_holder(run, before, after, holders) for run in range(RUNS)) / RUNS / SHARDS * 100

    def test_weights_are_those_of_the_searcher(self):
        text = (pathlib.Path(__file__).resolve().parents[2] / "searcher/src/leaves/placement.rs").read_text()
        told = re.search(r"\[(0x\w+), (0x\w+), 0x\w+\]", text)
        weights = [weight("shard-1", leaf) for leaf in ("leaf-0", "leaf-1")]
        self.assertEqual(weights, [int(one.replace("_", ""), 16) for one in told.groups()])
        self.assertIn(f"const MOST_PERCENT: u128 = {MOST_PERCENT};", text)

    def test_two_holders(self):
        for before, after in ((3, 4), (4, 5), (10, 11)):
            self.assertLessEqual(self.share(before, after, 2), 1, f"{before} to {after}")
        self.assertAlmostEqual(self.share(4, 3, 2), 25, delta=5)
        self.assertAlmostEqual(self.share(10, 9, 2), 10, delta=3)

    def test_three_holders(self):
        for before, after in ((4, 5), (10, 11), (4, 3), (10, 9)):
            self.assertLessEqual(self.share(before, after, 3), 0.5, f"{before} to {after}")

    def test_halving_the_leaves_is_not_covered(self):
        self.assertGreater(self.share(10, 5, 3), 10)


if __name__ == "__main__":
    unittest.main()

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


def missed_in(held, to_hold):
    """The shards that no leaf holds at some time while leaves hold others; each is a leaf's shards by its name."""
    done, waiting, missed = set(to_hold) - set(held), [leaf for leaf in held if leaf in to_hold], set()
    while waiting:
        restarts = waiting.pop()
        there = [to_hold[leaf] for leaf in done] + [held[leaf] for leaf in waiting]
        missed |= set().union(*held.values()) - set().union(*there)
        done.add(restarts)
    return missed


def held_by(shards, counts, pods, holders):
    """The shards of each of so many leaves, which hold what is placed by these numbers of leaves."""
    of_leaf = {f"dyad-leaf-{number}": set() for number in range(pods)}
    for count in counts:
        for shard, leaves in placed(shards, [f"dyad-leaf-{number}" for number in range(count)], holders).items():
            for leaf in leaves:
                of_leaf[leaf].add(shard)
    return of_leaf


def without_holder(run, before, after, holders, steps=None):
    """How many shards have no holder at some time while a number of leaves becomes another: at once, or by steps, each of which is the
    number of leaves, and the numbers by which shards are placed."""
    shards = [f"{run}-{number}" for number in range(SHARDS)]
    held, missed = held_by(shards, [before], before, holders), set()
    for pods, counts in steps or [(after, [after])]:
        to_hold = held_by(shards, counts, pods, holders)
        missed |= missed_in(held, to_hold)
        held = to_hold
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

    def test_halving_the_leaves_at_once_is_not_covered(self):
        self.assertGreater(self.share(10, 5, 3), 10)

    def test_no_shard_is_without_a_holder_by_the_steps_of_the_readme(self):
        for before, after in ((3, 5), (5, 2), (2, 3), (4, 3), (10, 5)):
            pods = max(before, after)
            steps = [(pods, [before, after]), (after, [after])]
            for run in range(RUNS):
                self.assertEqual(without_holder(run, before, after, 2, steps), 0, f"{before} to {after}")


if __name__ == "__main__":
    unittest.main()

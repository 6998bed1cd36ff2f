"""Maximal marginal relevance (Carbonell and Goldstein 1998): hits that are near the question and not near each other."""

from __future__ import annotations

import math
from collections.abc import Sequence


def maximal_marginal_relevance(relevance: Sequence[float], vectors: Sequence[Sequence[float]], k: int, weight: float) -> list[int]:
    """The places of at most `k` candidates, best first. `relevance` are their cosines with the question; `weight`: from 0, where only the
    difference to those that were chosen counts, to 1, where only the relevance does."""
    if not 0 <= weight <= 1:
        raise ValueError(f"`lambda_mult`: expected a number from 0 to 1, got {weight}")
    units = [_unit(vector) for vector in vectors]
    # The largest cosine of each candidate with those that were chosen.
    nearest = [-1.0] * len(units)
    left, chosen = list(range(len(units))), list[int]()
    while left and len(chosen) < k:

        def marginal(at: int) -> float:
            return weight * relevance[at] - ((1 - weight) * nearest[at] if chosen else 0.0)

        # Of equal ones the first, which is the nearest to the question.
        best = max(left, key=marginal)
        chosen.append(best)
        left.remove(best)
        for at in left:
            nearest[at] = max(nearest[at], _dot(units[at], units[best]))
    return chosen


def _dot(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(one * other for one, other in zip(left, right, strict=True))


def _unit(vector: Sequence[float]) -> list[float]:
    length = math.sqrt(_dot(vector, vector)) or 1.0
    return [value / length for value in vector]

"""Vectors of questions and documents as 32-bit floats. numpy is not imported here: its arrays are recognised by what they can do."""

from __future__ import annotations

import array
import math
from collections.abc import Sequence
from typing import Any, Protocol, SupportsFloat, SupportsIndex


class OneDimensional(Protocol):
    """A numpy array, or a tensor, of one dimension."""

    @property
    def ndim(self) -> int: ...

    @property
    def shape(self) -> tuple[int, ...]: ...

    def tolist(self) -> object: ...


#: What is accepted as a vector.
Vector = Sequence[float] | Sequence[SupportsFloat | SupportsIndex] | OneDimensional


def float32s(vector: Vector) -> array.array[float]:
    """The values of a vector of any real type, rounded to 32-bit floats."""
    values: object = vector
    dimensions = getattr(vector, "ndim", None)
    if dimensions is not None:
        if dimensions != 1:
            shape = tuple(getattr(vector, "shape", ()))
            raise ValueError(f"`vector`: expected one dimension, got shape {shape}. Give each row on its own: vector=vectors[0]")
        # Times would become numbers too.
        kind = getattr(getattr(vector, "dtype", None), "kind", "f")
        if kind not in "fiuV":
            raise TypeError(f"`vector`: expected real numbers, got an array of {getattr(vector, 'dtype')}")
        values = getattr(vector, "tolist")()
    if isinstance(values, (str, bytes, bytearray)) or not isinstance(values, Sequence | array.array):
        raise TypeError(f"`vector`: expected a sequence of numbers or a numpy array, got {type(vector).__name__}")
    if not values:
        raise ValueError("`vector`: expected at least one value, got none. Leave it out where there is no vector")
    return _numbers(values) or _checked_one_by_one(values)


def _numbers(values: Sequence[object] | array.array[float]) -> array.array[float] | None:
    """Plain numbers at once, as those of most vectors; None where one of them has to be looked at by itself."""
    if not {float, int}.issuperset(map(type, values)):
        return None
    numbers: Any = values
    try:
        floats: array.array[float] = array.array("f", numbers)
    except OverflowError:
        return None
    # 64-bit floats hold any sum of finite 32-bit ones.
    return floats if math.isfinite(sum(floats)) else None


def _checked_one_by_one(values: Sequence[object] | array.array[float]) -> array.array[float]:
    """The same of any numbers, or an error that says which one is wrong."""
    floats = array.array("f")
    for place, value in enumerate(values):
        if isinstance(value, (str, bytes, bool)) or not isinstance(value, (SupportsFloat, SupportsIndex)):
            raise TypeError(f"`vector`: expected numbers, got {type(value).__name__} at position {place}. Give one vector, as a flat sequence")
        try:
            floats.append(float(value))
        except OverflowError:
            raise ValueError(f"`vector`: expected finite 32-bit floats, got {value!r} at position {place}") from None
        if not math.isfinite(floats[-1]):
            raise ValueError(f"`vector`: expected finite 32-bit floats, got {value!r} at position {place}")
    return floats

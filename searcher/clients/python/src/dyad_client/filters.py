"""Which documents can be hits: `field("year") >= 1990`, `keys([...])`, combined by `&`, `|` and `~`.

A field is `key`, `title`, or one of the documents' metadata: `lang`, and `author.name` for one object inside another. A document without the
field, or with a value of another type, matches no condition on it, and so matches its `~`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NoReturn

from ._generated import filter_pb2

#: Values of different types are never equal: the text "1" is not the number 1.
Value = str | int | float | bool


class Filter:
    """A condition on documents."""

    __slots__ = ("_message",)

    def __init__(self, message: filter_pb2.Filter) -> None:
        self._message = message

    @property
    def message(self) -> filter_pb2.Filter:
        """The protobuf message."""
        return self._message

    def __and__(self, other: Filter) -> Filter:
        return all_of([self, other]) if isinstance(other, Filter) else NotImplemented

    def __or__(self, other: Filter) -> Filter:
        return any_of([self, other]) if isinstance(other, Filter) else NotImplemented

    def __invert__(self) -> Filter:
        message = filter_pb2.Filter()
        getattr(message, "not").CopyFrom(self._message)
        return Filter(message)

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "a filter is neither true nor false. Combine filters by &, | and ~ in place of and, or and not, "
            "and give a range as field(...).between(low, high)"
        )

    def __repr__(self) -> str:
        return f"Filter({' '.join(str(self._message).split())})"


def all_of(filters: Iterable[Filter]) -> Filter:
    """The documents that match all of one or more filters."""
    return Filter(filter_pb2.Filter(all=_joined("all", filters)))


def any_of(filters: Iterable[Filter]) -> Filter:
    """The documents that match at least one of one or more filters."""
    return Filter(filter_pb2.Filter(any=_joined("any", filters)))


def _joined(operator: str, filters: Iterable[Filter]) -> filter_pb2.FilterList:
    """A list in which lists of the same operator are merged: servers limit how deep a filter is."""
    joined = filter_pb2.FilterList()
    for each in filters:
        if not isinstance(each, Filter):
            raise TypeError(f"`filters`: expected filters, got {type(each).__name__}")
        if each.message.WhichOneof("condition") == operator:
            joined.filters.extend(getattr(each.message, operator).filters)
        else:
            joined.filters.append(each.message)
    if not joined.filters:
        raise ValueError("`filters`: expected at least one filter, got none")
    return joined


def keys(keys: Iterable[str]) -> Filter:
    """The documents with these keys."""
    return Filter(filter_pb2.Filter(keys=filter_pb2.FilterKeys(keys=texts("keys", keys))))


def field(name: str) -> Field:
    """A field, to be compared."""
    return Field(name)


class Field:
    """A field of documents. Its comparisons are filters; of a field with many values, one has to match."""

    __slots__ = ("name",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ValueError(f"`field`: expected a name such as 'lang' or 'author.name', got {name!r}")
        self.name = name

    def __eq__(self, value: Value) -> Filter:  # type: ignore[override]
        return Filter(filter_pb2.Filter(equals=filter_pb2.FieldEquals(field=self.name, value=self._value(value))))

    def __ne__(self, value: Value) -> Filter:  # type: ignore[override]
        """Documents without the field match too."""
        return ~(self == value)

    def __ge__(self, value: str | float) -> Filter:
        return self._range(min=self._ordered(value))

    def __gt__(self, value: str | float) -> Filter:
        return self._range(above=self._ordered(value))

    def __le__(self, value: str | float) -> Filter:
        return self._range(max=self._ordered(value))

    def __lt__(self, value: str | float) -> Filter:
        return self._range(below=self._ordered(value))

    def between(self, low: str | float, high: str | float) -> Filter:
        """From `low` to `high`, both included: numbers, or texts by their bytes (ISO 8601 dates are in order that way)."""
        return self._range(min=self._ordered(low), max=self._ordered(high))

    def one_of(self, values: Iterable[Value]) -> Filter:
        """One of some values."""
        if isinstance(values, (str, bytes)):
            raise TypeError(f"`{self.name}`: expected a list of values, got {type(values).__name__}. Use == for one value")
        condition = filter_pb2.FieldOneOf(field=self.name, values=[self._value(value) for value in values])
        return Filter(filter_pb2.Filter(one_of=condition))

    def startswith(self, prefix: str) -> Filter:
        """A text that begins with `prefix`, byte by byte."""
        if not isinstance(prefix, str) or not prefix:
            raise TypeError(f"`{self.name}`: expected a text that others begin with, got {prefix!r}")
        return Filter(filter_pb2.Filter(prefix=filter_pb2.FieldPrefix(field=self.name, prefix=prefix)))

    def exists(self) -> Filter:
        """Any value of any type."""
        return Filter(filter_pb2.Filter(exists=filter_pb2.FieldExists(field=self.name)))

    def _range(
        self,
        min: filter_pb2.FilterValue | None = None,
        max: filter_pb2.FilterValue | None = None,
        above: filter_pb2.FilterValue | None = None,
        below: filter_pb2.FilterValue | None = None,
    ) -> Filter:
        condition = filter_pb2.FieldRange(field=self.name, min=min, max=max, above=above, below=below)
        return Filter(filter_pb2.Filter(range=condition))

    def _ordered(self, value: str | float) -> filter_pb2.FilterValue:
        if isinstance(value, bool):
            raise TypeError(f"`{self.name}`: expected a number or a text to compare by order, got {value}. Use == for true and false")
        return self._value(value)

    def _value(self, value: Value) -> filter_pb2.FilterValue:
        # Scalars of numpy become those of Python.
        scalar = value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value
        if isinstance(scalar, bool):
            return filter_pb2.FilterValue(flag=scalar)
        if isinstance(scalar, str):
            return filter_pb2.FilterValue(text=scalar)
        if not isinstance(scalar, (int, float)):
            fix = "use ~field(...).exists()" if scalar is None else "give a date as value.isoformat(), many values by one_of"
            raise TypeError(f"`{self.name}`: expected a text, a number or a bool, got {type(value).__name__}: {fix}")
        try:
            number = float(scalar)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ValueError(f"`{self.name}`: expected a finite number below 1e309, got {scalar!r:.40}")
        if abs(number) >= 2**53:
            # By its digits: doubles do not tell such numbers apart.
            return filter_pb2.FilterValue(integer=str(int(scalar)))
        return filter_pb2.FilterValue(number=number)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"field {self.name!r} is neither true nor false. Compare it, or ask for field({self.name!r}).exists()")

    def __repr__(self) -> str:
        return f"field({self.name!r})"


def checked(filter: Filter) -> Filter:
    """A filter, and nothing else in its place."""
    if not isinstance(filter, Filter):
        raise TypeError(f"`filter`: expected a Filter such as field('lang') == 'en', got {type(filter).__name__}")
    return filter


def texts(name: str, values: Iterable[str]) -> list[str]:
    """A list of texts, not one text in its place."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"`{name}`: expected a list of texts, got one {type(values).__name__}. Write [{values!r}]")
    listed = list(values)
    for value in listed:
        if not isinstance(value, str):
            raise TypeError(f"`{name}`: expected texts, got {type(value).__name__}")
    return listed

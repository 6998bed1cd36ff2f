"""Filters of metadata as LangChain, LlamaIndex and Haystack write them, as those of a searcher.

What a searcher does not have is refused by its name: a filter that is left out would find what it should not. The frameworks are not
imported here. A document without the field matches `!=` and `not in`, as everywhere in dyad, and so it does in the frameworks' own stores.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .filters import Field, Filter, Value, all_of, any_of, field

#: How a metadata field is named in filters of the searcher.
Named = Callable[[str], Field]


def named(title: str | None) -> Named:
    """Names metadata fields; the one that is the document's title has that name."""

    def name(given: str) -> Field:
        if title is not None and given == title:
            return field("title")
        return field(f"metadata.{given}" if given in ("key", "title") else given)

    return name


def everything() -> Filter:
    """All documents: every one has a key."""
    return field("key").exists()


def nothing(of: Field) -> Filter:
    """No document."""
    return all_of([of.exists(), ~of.exists()])


def _all(parts: Sequence[Filter]) -> Filter:
    """All of some; of one it is that one: servers limit how deep a filter is."""
    return parts[0] if len(parts) == 1 else all_of(parts)


def _any(parts: Sequence[Filter]) -> Filter:
    return parts[0] if len(parts) == 1 else any_of(parts)


def _value(of: Field, value: Any) -> Value:
    """A value to compare with; dates as the metadata have them."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (list, tuple, set, Mapping)):
        raise ValueError(f"`{of.name}`: expected one value to compare with, got a {type(value).__name__}. Use the operator for lists")
    scalar: Value = value
    return scalar


def _equals(of: Field, value: Any) -> Filter:
    return ~of.exists() if value is None else of == _value(of, value)


def _differs(of: Field, value: Any) -> Filter:
    return of.exists() if value is None else of != _value(of, value)


def _one_of(of: Field, values: Any) -> Filter:
    if not isinstance(values, (list, tuple, set, frozenset)):
        raise ValueError(f"`{of.name}`: expected a list of values, got {type(values).__name__}")
    given = [_value(of, value) for value in values if value is not None]
    parts = ([of.one_of(given)] if given else []) + ([~of.exists()] if None in values else [])
    return _any(parts) if parts else nothing(of)


def _ordered(compare: Callable[[Field, Any], Filter]) -> Callable[[Field, Any], Filter]:
    return lambda of, value: nothing(of) if value is None else compare(of, _value(of, value))


def _exists(of: Field, value: Any) -> Filter:
    if not isinstance(value, bool):
        raise ValueError(f"`{of.name}`: expected True or False for `$exists`, got {value!r:.80}")
    return of.exists() if value else ~of.exists()


_COMPARISONS: dict[str, Callable[[Field, Any], Filter]] = {
    "==": _equals,
    "!=": _differs,
    ">": _ordered(lambda of, value: of > value),
    ">=": _ordered(lambda of, value: of >= value),
    "<": _ordered(lambda of, value: of < value),
    "<=": _ordered(lambda of, value: of <= value),
    "in": _one_of,
    "not in": lambda of, values: ~_one_of(of, values),
}

_LANGCHAIN = {
    "$eq": _COMPARISONS["=="],
    "$ne": _COMPARISONS["!="],
    "$gt": _COMPARISONS[">"],
    "$gte": _COMPARISONS[">="],
    "$lt": _COMPARISONS["<"],
    "$lte": _COMPARISONS["<="],
    "$in": _COMPARISONS["in"],
    "$nin": _COMPARISONS["not in"],
    "$exists": _exists,
}


def of_langchain(given: Filter | Mapping[str, Any] | None, name: Named) -> Filter | None:
    """A filter of the client, or a dict such as `{"lang": "en", "year": {"$gte": 2020}}`, with `$and`, `$or` and `$not`."""
    if given is None or isinstance(given, Filter):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"`filter`: expected a dict or a Filter such as field('lang') == 'en', got {type(given).__name__}")
    return _langchain_dict(given, name) if given else None


def _langchain_dict(given: Mapping[str, Any], name: Named) -> Filter:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"`filter`: expected a dict with at least one condition, got {given!r:.80}")
    return _all([_langchain_condition(key, value, name) for key, value in given.items()])


def _langchain_condition(key: str, value: Any, name: Named) -> Filter:
    if key in ("$and", "$or"):
        if not isinstance(value, (list, tuple)) or not value:
            raise ValueError(f"`filter`: expected a list of dicts for `{key}`, got {value!r:.80}")
        parts = [_langchain_dict(one, name) for one in value]
        return _all(parts) if key == "$and" else _any(parts)
    if key == "$not":
        return ~_langchain_dict(value, name)
    if key.startswith("$"):
        raise ValueError(f"`filter`: expected the name of a field, `$and`, `$or` or `$not`, got {key!r}")
    of = name(key)
    if not isinstance(value, Mapping):
        return _equals(of, value)
    for operator in value or [None]:
        if operator not in _LANGCHAIN:
            expected = ", ".join(_LANGCHAIN)
            raise ValueError(f"`filter`: `{key}`: expected one of the operators {expected}, got {operator!r}. A Filter of dyad_client has more")
    return _all([_LANGCHAIN[operator](of, one) for operator, one in value.items()])


def of_llama_index(given: Any, name: Named) -> Filter | None:
    """`MetadataFilters` of LlamaIndex."""
    if given is None or not given.filters:
        return None
    parts = [_llama_index_part(one, name) for one in given.filters]
    condition = "and" if given.condition is None else str(given.condition.value)
    if condition == "not":
        # Of several, none may match.
        return ~_any(parts)
    return _all(parts) if condition == "and" else _any(parts)


def _llama_index_part(given: Any, name: Named) -> Filter:
    if hasattr(given, "filters"):
        part = of_llama_index(given, name)
        if part is None:
            raise ValueError("`filters`: expected at least one filter in MetadataFilters that are part of others, got none")
        return part
    of, operator, value = name(given.key), str(given.operator.value), given.value
    if operator in _COMPARISONS and operator not in ("in", "not in"):
        return _COMPARISONS[operator](of, value)
    if operator in ("in", "any"):
        return _one_of(of, value)
    if operator == "nin":
        return ~_one_of(of, value)
    if operator == "all":
        return _all([_equals(of, one) for one in _list(of, value)])
    if operator == "contains":
        return _equals(of, value)
    if operator == "is_empty":
        return ~of.exists()
    expected = "==, !=, >, >=, <, <=, in, nin, any, all, contains, is_empty"
    raise ValueError(f"`filters`: `{given.key}`: expected one of the operators {expected}, got {operator}. Search for words of texts by mode text_search")


def _list(of: Field, values: Any) -> Sequence[Any]:
    if not isinstance(values, (list, tuple)) or not values:
        raise ValueError(f"`{of.name}`: expected a list of at least one value, got {values!r:.80}")
    return values


def of_haystack(given: Mapping[str, Any] | None, name: Named) -> Filter | None:
    """A comparison or a logical condition of Haystack; none where there is an empty one."""
    return _haystack_part(given, name) if given else None


def _haystack_part(given: Any, name: Named) -> Filter:
    if not isinstance(given, Mapping):
        raise ValueError(f"`filters`: expected a dict, got {type(given).__name__}")
    if "field" not in given:
        for key in ("operator", "conditions"):
            if key not in given:
                raise ValueError(f"`filters`: expected `{key}` in {given!r:.200}, got none. A comparison has field, operator and value")
        parts = [_haystack_part(one, name) for one in given["conditions"]]
        if given["operator"] not in ("AND", "OR", "NOT") or not parts:
            raise ValueError(f"`filters`: expected AND, OR or NOT of at least one condition, got {given!r:.200}")
        if given["operator"] == "OR":
            return _any(parts)
        return _all(parts) if given["operator"] == "AND" else ~_all(parts)
    for key in ("operator", "value"):
        if key not in given:
            raise ValueError(f"`filters`: expected `{key}` in {given!r:.200}, got none")
    return _haystack_comparison(_haystack_field(str(given["field"]), name), str(given["operator"]), given["value"])


def _haystack_field(given: str, name: Named) -> Field:
    if given == "id":
        return field("key")
    if given in ("content", "blob", "score", "embedding", "sparse_embedding"):
        raise ValueError(f"`filters`: expected a field of the metadata (`meta.NAME`) or `id`, got {given!r}, by which nothing can be filtered")
    return name(given.removeprefix("meta."))


def _haystack_comparison(of: Field, operator: str, value: Any) -> Filter:
    if operator not in _COMPARISONS:
        raise ValueError(f"`filters`: `{of.name}`: expected one of the operators {', '.join(_COMPARISONS)}, got {operator!r}")
    if operator in ("in", "not in") and not isinstance(value, list):
        raise ValueError(f"`filters`: `{of.name}`: expected a list for `{operator}`, got {type(value).__name__}")
    if operator[0] in "<>" and isinstance(value, str):
        try:
            datetime.datetime.fromisoformat(value)
        except ValueError:
            raise ValueError(f"`filters`: `{of.name}`: expected a number or a date of ISO 8601 for `{operator}`, got {value!r:.80}") from None
    return _COMPARISONS[operator](of, value)

"""Metadata as JSON: which values of Python become which of JSON, and which are refused.

Whole numbers keep all their digits. Scalars of numpy become those of Python, dates and times ISO 8601. numpy and pandas are not imported
here: their values are recognised by what they can do.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
from collections.abc import Mapping
from typing import Any


def metadata_json(metadata: Mapping[str, Any]) -> str:
    """The JSON text of a document's metadata; empty where there are none."""
    if not metadata:
        return ""
    return json.dumps(json_value("metadata", metadata), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def json_value(name: str, value: Any) -> Any:
    """A value as the `json` module writes it. `name` is the path of its field, for the error."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if is_missing(value) and not isinstance(value, float):
        raise ValueError(f"`{name}`: expected a value, got {value}. Leave the field out, or give None")
    # Subclasses, such as those of enums, are written as the number that they are.
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"`{name}`: expected a finite number, got {value}. Leave the field out, or give None")
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"`{name}`: expected names of fields as texts, got {key!r:.40} ({type(key).__name__})")
        return {str(key): json_value(f"{name}.{key}", one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(f"{name}[{place}]", one) for place, one in enumerate(value)]
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return _number(name, value)
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "M" and getattr(value, "shape", None) == ():
        return str(value)
    if kind in ("b", "i", "u", "f", "U") and hasattr(value, "tolist"):
        return json_value(name, value.tolist())
    expected = "a value of JSON (a text, a number, a bool, None, a list or a dict) or a date"
    raise TypeError(f"`{name}`: expected {expected}, got {type(value).__name__}. Convert it, or leave the field out")


def _number(name: str, value: decimal.Decimal) -> int | float:
    """A decimal number as one of JSON, which has to be the same number."""
    if value.is_finite() and value == value.to_integral_value():
        return int(value)
    number = float(value)
    if decimal.Decimal(repr(number)) != value:
        raise ValueError(f"`{name}`: expected a decimal number that a float holds, got {value}. Give str(value) or float(value)")
    return number


def is_missing(value: Any) -> bool:
    """Whether a cell of a table has no value: None, NaN, NaT, or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    is_number = isinstance(value, (float, decimal.Decimal)) or getattr(getattr(value, "dtype", None), "kind", "") in ("f", "M", "m")
    return is_number and getattr(value, "shape", ()) == () and bool(value != value)

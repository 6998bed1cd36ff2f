"""Rows of tables as documents. pandas, polars and pyarrow are not imported here: their tables are recognised by what they can do."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .document import Document
from .metadata import is_missing, json_value

#: Rows of a data frame that are made values of Python at once.
_ROWS = 1024


def documents_of_table(
    table: Any, key: str, text: str, title: str | None, metadata: Sequence[str] | None, vector: str | None
) -> Iterator[Document]:
    """The documents of a table, row by row. Wrong columns are refused at once."""
    if isinstance(metadata, str):
        raise TypeError(f"`metadata`: expected a list of columns, got one text. Write [{metadata!r}]")
    columns, rows = _columns_and_rows(table, key)
    own = {"key": key, "text": text} | {name: column for name, column in (("title", title), ("vector", vector)) if column is not None}
    if metadata is None:
        metadata = [column for column in columns if column not in own.values()]
    for name, column in [*own.items(), *(("metadata", column) for column in metadata)]:
        if columns.count(column) != 1:
            got = f"{columns.count(column)} of them" if column in columns else f"the columns {', '.join(map(repr, columns))}"[:300]
            raise ValueError(f"`{name}`: expected one column {column!r}, got {got}. Name another: {name}=...")
    places = {name: columns.index(column) for name, column in own.items()}
    row = _Row(places, {column: columns.index(column) for column in metadata}, own)
    return (row.document(number, cells) for number, cells in enumerate(rows))


@dataclasses.dataclass(frozen=True)
class _Row:
    """Where a row has what a document has."""

    places: dict[str, int]
    metadata: dict[str, int]
    columns: dict[str, str]

    def document(self, number: int, cells: Sequence[Any]) -> Document:
        def cell(name: str) -> Any:
            return cells[self.places[name]] if name in self.places else None

        def refused(name: str, expected: str, got: Any) -> Exception:
            found, fix = ("no value", "Leave such rows out") if is_missing(got) else (type(got).__name__, "Convert the column")
            return ValueError(f"row {number}: `{self.columns[name]}`: expected {expected}, got {found}. {fix}")

        key, text, title, vector = cell("key"), cell("text"), cell("title"), cell("vector")
        if isinstance(key, (int, uuid.UUID)) and not isinstance(key, bool):
            key = str(key)
        if not isinstance(key, str):
            raise refused("key", "a text or a whole number", key)
        if not isinstance(text, str):
            raise refused("text", "a text", text)
        if is_missing(title):
            title = ""
        if not isinstance(title, str):
            raise refused("title", "a text", title)
        if "vector" in self.places and is_missing(vector):
            raise refused("vector", "a vector", vector)
        values = {column: cells[place] for column, place in self.metadata.items()}
        try:
            kept = {column: json_value(column, value) for column, value in values.items() if not is_missing(value)}
        except (TypeError, ValueError) as error:
            raise type(error)(f"row {number}: {error}") from error
        return Document(key, text, title, kept, vector)


def _columns_and_rows(table: Any, key: str) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """The names of a table's columns and the values of its rows."""
    # A data frame of polars.
    if hasattr(table, "iter_rows") and hasattr(table, "columns"):
        return list(table.columns), table.iter_rows()
    # A data frame of pandas.
    if hasattr(table, "iterrows") and hasattr(table, "iloc"):
        index = table.index if table.index.name == key and key not in table.columns else None
        columns = [*table.columns, *([key] if index is not None else [])]
        return columns, _rows_of_pandas(table, index)
    # Of pyarrow: record batches one by one, one of them, or many.
    if hasattr(table, "read_next_batch"):
        return list(table.schema.names), _rows_of_batches(table)
    if hasattr(table, "schema") and hasattr(table, "to_pylist") and not hasattr(table, "to_batches"):
        return list(table.schema.names), _rows_of_batches([table])
    if hasattr(table, "schema") and hasattr(table, "to_batches"):
        return list(table.schema.names), _rows_of_batches(table.to_batches())
    if hasattr(table, "to_arrow"):
        return _columns_and_rows(table.to_arrow(), key)
    expected = "a DataFrame of pandas or polars, or a Table, a RecordBatch or a RecordBatchReader of pyarrow"
    raise TypeError(f"`table`: expected {expected}, got {type(table).__name__}. Give documents to `upsert_all`")


def _rows_of_pandas(frame: Any, index: Any) -> Iterator[Sequence[Any]]:
    for begin in range(0, len(frame), _ROWS):
        some = slice(begin, begin + _ROWS)
        part = frame.iloc[some]
        cells = [part.iloc[:, place].tolist() for place in range(len(frame.columns))]
        if index is not None:
            cells.append(index[some].tolist())
        yield from zip(*cells, strict=True)


def _rows_of_batches(batches: Iterable[Any]) -> Iterator[Sequence[Any]]:
    for batch in batches:
        for begin in range(0, batch.num_rows, _ROWS):
            part = batch.slice(begin, _ROWS)
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)

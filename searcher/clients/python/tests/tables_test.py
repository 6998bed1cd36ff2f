"""Rows of tables of pandas, polars and pyarrow, each where it is installed, as documents."""

import collections
import datetime
import decimal
import importlib.util
import json
import math
import subprocess
import sys
import unittest
import uuid

import numpy
from dyad_client.metadata import metadata_json
from dyad_client.tables import documents_of_table

NOON = datetime.datetime(2024, 2, 3, 12, tzinfo=datetime.UTC)
COLUMNS = {
    "id": [1, 2, 3],
    "text": ["one", "two", "three"],
    "head": ["A", None, "C"],
    "lang": ["en", None, "de"],
    "year": [1999, 2000, 2001],
    "score": [0.5, math.nan, None],
    "at": [NOON, None, NOON],
    "tags": [["a", "b"], [], None],
    "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
}
EXPECTED = [
    {"lang": "en", "year": 1999, "score": 0.5, "at": "2024-02-03T12:00:00+00:00", "tags": ["a", "b"]},
    {"year": 2000, "tags": []},
    {"lang": "de", "year": 2001, "at": "2024-02-03T12:00:00+00:00"},
]


def needs(module):
    """A test that needs a module."""
    return unittest.skipUnless(importlib.util.find_spec(module), f"{module} is not installed")


def rows(table, key="id", text="text", title=None, metadata=None, vector=None):
    """All documents of a table."""
    return list(documents_of_table(table, key, text, title, metadata, vector))


class Tables(unittest.TestCase):
    """Tables of every kind."""

    def check(self, table):
        """A table with the columns above."""
        read = rows(table, title="head", vector="vector")
        self.assertEqual([(one.key, one.text, one.title) for one in read], [("1", "one", "A"), ("2", "two", ""), ("3", "three", "C")])
        self.assertEqual([json.loads(metadata_json(one.metadata)) for one in read], EXPECTED)
        self.assertEqual([list(one.vector) for one in read], COLUMNS["vector"])
        [first, *_] = rows(table, metadata=["year"])
        self.assertEqual((first.metadata, first.title, first.vector), ({"year": 1999}, "", None))
        for given, said in (
            ({"key": "_id"}, r"`key`: expected one column '_id', got the columns 'id', 'text'"),
            ({"metadata": ["year", "no"]}, "`metadata`: expected one column 'no'"),
            ({"text": "lang"}, "row 1: `lang`: expected a text, got no value. Leave such rows out"),
            ({"text": "year"}, "row 0: `year`: expected a text, got int"),
            ({"key": "score"}, "row 0: `score`: expected a text or a whole number, got float"),
            ({"vector": "tags"}, "row 2: `tags`: expected a vector, got no value"),
            ({"metadata": "year"}, r"`metadata`: expected a list of columns, got one text. Write \['year'\]"),
        ):
            with self.assertRaisesRegex((TypeError, ValueError), said):
                rows(table, **given)

    @needs("pandas")
    def test_pandas(self):
        import pandas

        frame = pandas.DataFrame(COLUMNS)
        self.check(frame)
        # The values of these types that are missing, and an index that has the keys.
        frame["year"] = frame["year"].astype("Int64")
        frame["lang"] = frame["lang"].astype("category")
        frame["day"] = pandas.to_datetime(["2024-02-03", None, None])
        frame.loc[1, "year"] = pandas.NA
        [first, second, _] = rows(frame.set_index("id"), metadata=["year", "lang", "day", "at"])
        self.assertEqual((first.key, second.metadata), ("1", {}))
        self.assertEqual(first.metadata, {"year": 1999, "lang": "en", "day": "2024-02-03T00:00:00", "at": EXPECTED[0]["at"]})
        with self.assertRaisesRegex(TypeError, r"row 0: `left`: expected a value of JSON.*got Timedelta"):
            rows(frame.assign(left=pandas.Timedelta("1h")))
        with self.assertRaisesRegex(ValueError, "`text`: expected one column 'text', got 2 of them"):
            rows(pandas.concat([frame, frame[["text"]]], axis=1))
        many = pandas.DataFrame({"id": range(3000), "text": "t"})
        self.assertEqual([one.key for one in rows(many)], [str(number) for number in range(3000)])

    @needs("polars")
    def test_polars(self):
        import polars

        self.check(polars.DataFrame(COLUMNS, strict=False))

    @needs("pyarrow")
    def test_pyarrow(self):
        import pyarrow

        table = pyarrow.table(COLUMNS)
        self.check(table)
        self.check(table.to_batches()[0])
        self.check(pyarrow.concat_tables([table.slice(0, 1), table.slice(1)]))
        reader = pyarrow.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=2))
        self.assertEqual([one.text for one in rows(reader)], COLUMNS["text"])
        kinds = pyarrow.table(
            {
                "id": ["a"],
                "text": ["t"],
                "price": [decimal.Decimal("12.50")],
                "large": pyarrow.array([2**64 - 1], pyarrow.uint64()),
                "in": [{"b": [None, 1]}],
                "day": [datetime.date(2024, 2, 3)],
            }
        )
        [one] = rows(kinds)
        self.assertEqual(one.metadata, {"price": 12.5, "large": 2**64 - 1, "in": {"b": [None, 1]}, "day": "2024-02-03"})

    def test_other_tables_are_recognised_by_what_they_can_do_and_nothing_is_imported(self):
        class Table:
            columns = ["id", "text", "n"]

            def iter_rows(self):
                yield uuid.UUID(int=5), "t", numpy.float64("nan")
                yield 7, "t", numpy.int8(3)

        class Other:
            def to_arrow(self):
                return Table()

        for table in (Table(), Other()):
            first, second = rows(table)
            self.assertEqual((first.key, first.metadata), ("00000000-0000-0000-0000-000000000005", {}))
            self.assertEqual((second.key, second.metadata, type(second.metadata["n"])), ("7", {"n": 3}, int))
        with self.assertRaisesRegex(TypeError, "`table`: expected a DataFrame.*got OrderedDict. Give documents to `upsert_all`"):
            rows(collections.OrderedDict())
        imported = "import sys, dyad_client; print({'numpy', 'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
        printed = subprocess.run([sys.executable, "-c", imported], check=True, capture_output=True, text=True).stdout
        self.assertEqual(printed, "set()\n")


if __name__ == "__main__":
    unittest.main()

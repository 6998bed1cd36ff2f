"""The client that changes an index, against a server that keeps the documents; and against one at DYAD_INDEX_URL."""

import datetime
import decimal
import itertools
import json
import os
import threading
import unittest
from unittest import mock

import dyad_client as dyad
import grpc
import numpy
from dyad_client._generated import common_pb2
from dyad_client.retry import PUSHBACK
from index_server import BUSY, QUICK, TRY_AGAIN, UNAVAILABLE, documents, serving


class Changes(unittest.TestCase):
    """One change: what is sent, and what is refused before."""

    def test_documents_are_sent_with_their_metadata_as_json(self):
        with serving() as (server, target), dyad.Index(target) as index:
            metadata = {
                "id": 2**200,
                "tags": ("a", numpy.int64(3), numpy.float32(0.5)),
                "at": datetime.datetime(2024, 2, 3, tzinfo=datetime.UTC),
                "day": numpy.datetime64("2024-02-03"),
                "price": decimal.Decimal("9.90"),
                "none": None,
                "in": {"ü": True},
                "values": numpy.arange(2),
            }
            reply = index.upsert([dyad.Document("a", "A text", "T", metadata), {"key": "b", "text": "B"}])
            self.assertEqual((reply.generation, reply.documents, reply.read, reply.indexed), (1, 2, 2, 2))
            self.assertEqual(reply.message.read, 2)
            sent = server.documents["a"]
            self.assertEqual((sent.text, sent.title, server.documents["b"].metadata_json), ("A text", "T", ""))
            self.assertIn(f'"id":{2**200},"tags":["a",3,0.5],"at":"2024-02-03T00:00:00+00:00","day":"2024-02-03"', sent.metadata_json)
            self.assertEqual(json.loads(sent.metadata_json)["in"], {"ü": True})
            self.assertIn('"price":9.9,"none":null', sent.metadata_json)
            self.assertEqual(index.upsert(dyad.Document("c", "C")).documents, 3)
            self.assertEqual((index.delete("c").documents, index.delete(["a", "b"]).documents), (2, 0))
            with self.assertRaises(AttributeError):
                reply.read = 3

    def test_a_filter_says_what_is_deleted(self):
        recent = (dyad.field("year") > 2024) & ~(dyad.field("lang") == "en")
        with serving() as (server, target), dyad.Index(target) as index:
            index.delete_where(recent)
            [[sent]] = server.calls
            self.assertEqual((sent.filter, list(sent.keys)), (recent.message, []))
            with self.assertRaisesRegex(TypeError, "filter"):
                index.delete_where("year > 2024")
            self.assertEqual(len(server.calls), 1)

    def test_what_is_wrong_is_refused_by_number_key_and_field_before_a_call(self):
        with serving() as (server, target), dyad.Index(target) as index:
            wrong = [
                ({"a": float("nan")}, r"document 0 \('k'\): `metadata.a`: expected a finite number, got nan"),
                ({"a": {"b": [1, {2}]}}, r"`metadata.a.b\[1\]`: expected a value of JSON.*got set"),
                ({"a": numpy.datetime64("NaT")}, "`metadata.a`: expected a value, got NaT"),
                ({"a": {1: 2}}, "`metadata.a`: expected names of fields as texts, got 1"),
                ({"a": datetime.timedelta(1)}, "`metadata.a`: .*got timedelta"),
                ({"a": b"x"}, "`metadata.a`: .*got bytes"),
                ({"a": decimal.Decimal("0.1234567890123456789")}, "`metadata.a`: .*Give str"),
            ]
            for metadata, said in wrong:
                with self.assertRaisesRegex((TypeError, ValueError), said):
                    index.upsert(dyad.Document("k", "t", metadata=metadata))
            for given, said in (
                ("text", "`documents`: expected a Document"),
                (["text"], "document 0: expected a Document or a dict, got str"),
                ([dyad.Document("a", "b"), {"key": "c"}], r"document 1 \('c'\): `text`: expected a text, got no such field"),
                ({"key": "c", "text": "", "lang": "en"}, "expected the fields key, text, .*got 'lang'"),
                (dyad.Document(7, "b"), r"`key`: expected a text, got int. Give str\(value\)"),
                (dyad.Document("a", None), "`text`: expected a text, got NoneType"),
                (dyad.Document("a", "\ud800"), "`text`: expected Unicode"),
                (dyad.Document("a", "b", metadata={"a": "\ud800"}), "`metadata`: expected Unicode"),
            ):
                with self.assertRaisesRegex((TypeError, ValueError), said):
                    index.upsert(given)
            with self.assertRaisesRegex(TypeError, "`metadata`: expected a dict, got list"):
                dyad.Document("a", "b", metadata=[1])
            with self.assertRaisesRegex(TypeError, "key 0: `key`: expected a text, got int"):
                index.delete([1])
            self.assertEqual(server.calls, [])

    def test_a_change_is_one_call_of_messages_that_a_server_takes(self):
        with serving() as (server, target), dyad.Index(target) as index:
            index.upsert(documents(2500))
            self.assertEqual([len(message.documents) for message in server.calls[0]], [1024, 1024, 452])
            index.upsert(dyad.Document(str(number), "x" * 1_000_000) for number in range(7))
            self.assertEqual([len(message.documents) for message in server.calls[1]], [3, 3, 1])
            index.delete(f"{number:04000}" for number in range(1500))
            self.assertTrue(all(message.ByteSize() <= 4 << 20 for message in server.calls[2]))
            with mock.patch("dyad_client.changes.CALL_BYTES", 2 << 20):
                with self.assertRaisesRegex(ValueError, "at most 2 MiB in one call.*`upsert_all`"):
                    index.upsert(dyad.Document(str(number), "x" * 10_000) for number in itertools.count())
            with mock.patch("dyad_client.changes.DOCUMENT_BYTES", 1 << 20):
                with self.assertRaisesRegex(ValueError, r"document 0 \('a'\): expected at most 1 MiB"):
                    index.upsert(dyad.Document("a", "x" * (1 << 20)))

    def test_vectors_come_with_every_document_and_their_fingerprint(self):
        rows = numpy.array([[0.5, -1], [2, 3]], "f8")
        own = [dyad.Document(key, "t", vector=row) for key, row in zip("ab", rows.tolist(), strict=True)]
        with serving() as (server, target), dyad.Index(target) as index:
            for given in (
                {"documents": documents(2), "vectors": rows},
                {"documents": documents(2), "vectors": iter(rows.tolist())},
                {"documents": own},
            ):
                index.upsert(**given, fingerprint="f00d", context="late")
                [[sent]] = server.calls
                self.assertEqual([list(one.values) for one in sent.vectors], rows.tolist())
                self.assertEqual((sent.fingerprint, sent.context), ("f00d", "late"))
                server.calls.clear()
            index.upsert_all(iter(documents(5)), vectors=numpy.ones((5, 2), "f2"), fingerprint="f00d", batch=2)
            self.assertEqual(sorted(len(call[0].vectors) for call in server.calls), [1, 2, 2])
            self.assertEqual({call[0].fingerprint for call in server.calls}, {"f00d"})
            server.calls.clear()
            for given, said in (
                ({"vectors": rows}, "`fingerprint`: expected with `vectors`"),
                ({"context": "late"}, "`fingerprint`: expected with `context`"),
                ({"fingerprint": "f00d"}, "document 0 .*`vector`: expected one for every document"),
                ({"documents": own}, "document 0 .*`fingerprint`: expected that of the model"),
                ({"vectors": rows[:1], "fingerprint": "f"}, "`vectors`: expected as many as documents, got 1 and more documents"),
                ({"vectors": [*rows, rows[0]], "fingerprint": "f"}, "`vectors`: expected as many as documents, 2, got more"),
                ({"vectors": [rows[0], [float("inf"), 0]], "fingerprint": "f"}, r"document 1 \('k1'\): `vector`: expected finite"),
                ({"vectors": rows[0], "fingerprint": "f"}, "document 0 .*`vector`: expected one dimension"),
            ):
                with self.assertRaisesRegex((TypeError, ValueError), said):
                    index.upsert(**({"documents": documents(2)} | given))
            self.assertEqual(server.calls, [])

    def test_a_document_of_a_reply_can_be_written_again(self):
        with serving() as (server, target), dyad.Index(target) as index:
            index.upsert(dyad.Document("a", "A", "T", {"n": 2**70}))
            stored = server.documents["a"]
            read = dyad.replies.document(stored)
            index.upsert(read)
            self.assertEqual(server.documents["a"], stored)
            self.assertEqual(read, dyad.Document("a", "A", "T", {"n": 2**70}, vector=[1.0]))


    def test_what_is_expected_of_the_index_is_sent_once(self):
        with serving() as (server, target), dyad.Index(target) as index:
            index.upsert(documents(1500), expected={"k1": "e7ag", "new": None})
            first, second = server.calls[0]
            self.assertEqual([(one.key, one.etag) for one in first.expected], [("k1", "e7ag"), ("new", "")])
            self.assertEqual((len(first.documents), len(second.documents), len(second.expected)), (1024, 476, 0))
            index.delete("k1", expected={"k1": "e7ag"})
            index.delete_where(dyad.field("n") == 1, expected={"k2": None})
            self.assertEqual([call[0].expected[0].key for call in server.calls[1:]], ["k1", "k2"])
            server.calls.clear()
            for given, said in (
                ({"expected": ["k1"]}, "`expected`: expected a dict of keys and etags, got list"),
                ({"expected": {"k1": ""}}, "`expected`: expected the etag of 'k1', got an empty one"),
                ({"expected": {"k1": 7}}, "`expected`: expected a text, got int"),
                ({"documents": [], "expected": {"k1": None}}, "`expected`: expected a change with it"),
                ({"expected": dict.fromkeys(map(str, range(1025)))}, "at most 1024 documents, got 1025"),
            ):
                with self.assertRaisesRegex((TypeError, ValueError), said):
                    index.upsert(**({"documents": documents(1)} | given))
            self.assertEqual(server.calls, [])

    def test_a_document_of_a_reply_has_its_etag(self):
        read = dyad.replies.document(common_pb2.Document(key="a", text="A", etag="f00d"))
        self.assertEqual((read.etag, read), ("f00d", dyad.Document("a", "A")))


class Failures(unittest.TestCase):
    """Retries and errors."""

    def test_a_change_is_sent_again_where_it_was_not_made_or_the_connection_was_lost(self):
        with serving() as (server, target), dyad.Index(target, retry=QUICK, api_key="s3cret") as index:
            server.refusals = [TRY_AGAIN, (UNAVAILABLE, ((PUSHBACK, "0"),))]
            # Several messages, which a server need not read before it refuses.
            self.assertEqual(index.upsert(documents(4000)).read, 4000)
            self.assertEqual((len(server.calls), server.metadata[0]["authorization"]), (3, "Bearer s3cret"))
            unsure = "may have been made"
            # The connection is lost, and each attempt has the same name.
            server.calls, server.refusals = [], [(UNAVAILABLE, ())]
            self.assertEqual(index.upsert(documents(2)).read, 2)
            self.assertEqual(len(server.calls), 2)
            server.calls = []
            index.delete("a", request_key="mine")
            index.delete_where(dyad.field("n") == 1)
            index.upsert_all(documents(4), batch=2)
            keys = [call[0].request_key for call in server.calls]
            self.assertEqual((keys[0], len(set(keys))), ("mine", 4))
            self.assertTrue(all(len(key) == 32 for key in keys[1:]), keys)
            with self.assertRaisesRegex(ValueError, "`request_key`: expected a text, got an empty one"):
                index.delete("a", request_key="")
            for refusal, kind, said in (
                ((BUSY, ()), dyad.Busy, None),
                ((BUSY, ((PUSHBACK, "-1"),)), dyad.Busy, None),
                ((grpc.StatusCode.INTERNAL, ()), dyad.Internal, unsure),
                ((grpc.StatusCode.ABORTED, ()), dyad.Aborted, None),
                ((grpc.StatusCode.FAILED_PRECONDITION, ()), dyad.FailedPrecondition, None),
            ):
                server.calls, server.refusals = [], [refusal]
                with self.assertRaisesRegex(kind, "as told") as raised:
                    index.delete("a")
                self.assertEqual((len(server.calls), raised.exception.attempts), (1, 1), refusal)
                self.assertEqual(unsure in str(raised.exception), said is not None, refusal)
            server.calls, server.refusals = [], [(UNAVAILABLE, ((PUSHBACK, "0"),))] * 3
            with self.assertRaisesRegex(dyad.Unavailable, r"3 attempts") as raised:
                index.delete("a")
            self.assertNotIn(unsure, str(raised.exception))

    def test_a_change_waits_until_it_is_searchable(self):
        with serving() as (server, target), dyad.Index(target) as index:
            self.assertIsNone(index.upsert(documents(1)).searchable)
            server.searchable = [True, False, True, True, True, False]
            self.assertIs(index.delete("a", wait="searchable").searchable, True)
            self.assertIs(index.delete_where(dyad.field("n") == 1, wait="searchable").searchable, False)
            for searchable in (True, False):
                reply = index.upsert_all(documents(4), batch=2, in_flight=1, wait="searchable")
                self.assertIs(reply.searchable, searchable)
            self.assertEqual(server.searchable, [])
            with self.assertRaisesRegex(ValueError, "`wait`: expected 'durable' or 'searchable', got 'flushed'"):
                index.delete("a", wait="flushed")

    def test_deadlines_and_closed_clients_end_calls(self):
        with serving() as (server, target), dyad.Index(target, timeout=0.2) as index:
            server.wait = 1
            with self.assertRaisesRegex(dyad.DeadlineExceeded, "may have been made"):
                index.delete("a")
            closer = threading.Timer(0.2, index.close)
            closer.start()
            for call in (lambda: index.delete("a", timeout=30), lambda: index.delete("a")):
                with self.assertRaisesRegex(dyad.Cancelled, "(?i)closed"):
                    call()
            closer.join()
        with dyad.Index("127.0.0.1:1") as nobody, self.assertRaises(dyad.Unavailable) as raised:
            nobody.delete("a")
        self.assertNotIn("may have been made", str(raised.exception))


@unittest.skipUnless(os.environ.get("DYAD_INDEX_URL"), "DYAD_INDEX_URL is not set: the client with a real server of changes")
class RealIndex(unittest.TestCase):
    """A `dyad-indexer serve` with an encoder service, over any index."""

    def test_every_call(self):
        with dyad.Index(os.environ["DYAD_INDEX_URL"]) as index:
            before = index.upsert([]).documents
            some = [dyad.Document(f"test of the client {number}", f"Comet number {number}.", metadata={"n": number}) for number in range(30)]
            told = []
            try:
                reply = index.upsert_all(some, batch=8, progress=told.append)
                self.assertEqual((reply.read, reply.indexed, reply.documents, len(told)), (30, 30, before + 30, 4))
                again = index.upsert_all(some)
                self.assertEqual((again.unchanged, again.indexed, again.generation), (30, 0, 0))
                one = index.delete_where((dyad.field("n") >= 29) & dyad.field("key").startswith("test of the client"))
                self.assertEqual((one.read, one.indexed, one.documents), (1, 1, before + 29))
                self.assertEqual(index.upsert(some[29]).indexed, 1)
                reused = index.upsert(dyad.Document(some[0].key, some[0].text, metadata={"n": -1}))
                self.assertEqual((reused.indexed, reused.reused), (1, 1))
                with self.assertRaisesRegex(dyad.InvalidArgument, r"documents\[1\].*key"):
                    index.upsert([some[0], dyad.Document(" ", "text")])
            finally:
                gone = index.delete_all([one.key for one in some] + ["none of them"])
            self.assertEqual((gone.indexed, gone.rejected, gone.documents), (30, 1, before))


if __name__ == "__main__":
    unittest.main()

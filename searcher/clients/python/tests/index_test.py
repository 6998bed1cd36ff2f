"""The client that changes an index, against a server of its own that keeps the documents; and against one at DYAD_INDEX_URL."""

import asyncio
import concurrent.futures
import contextlib
import datetime
import decimal
import itertools
import json
import os
import threading
import time
import unittest
from unittest import mock

import dyad_client as dyad
import grpc
import numpy
from dyad_client._generated import index_pb2
from dyad_client.retry import PUSHBACK

BUSY, UNAVAILABLE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
QUICK = dyad.RetryPolicy(attempts=3, first_wait=0.001)


class Server(grpc.GenericRpcHandler):
    """Keeps documents and the messages of each call; each call is refused by the next of `refusals`, a status and its trailers, while
    there are any; calls with a key of `refused` are refused always."""

    def __init__(self):
        self.calls, self.refusals, self.refused, self.documents, self.generation = [], [], (), {}, 0
        # Those that are under way, the most of them there were, and whether two of them had a key in common.
        self.under_way, self.most, self.mixed, self.lock = [], 0, False, threading.Lock()
        # Each call waits for as many others as `together` has, or for a time.
        self.together, self.wait, self.metadata = None, 0.0, []

    def service(self, details):
        request = {"Upsert": index_pb2.UpsertRequest, "Delete": index_pb2.DeleteRequest}[details.method.rsplit("/", 1)[1]]
        return grpc.stream_unary_rpc_method_handler(
            self.change, request.FromString, index_pb2.ChangeResponse.SerializeToString
        )

    def change(self, messages, context):
        if self.refusals:
            code, trailers = self.refusals.pop(0)
            self.calls.append(None)
            context.set_trailing_metadata(trailers)
            context.abort(code, "as told")
        messages = list(messages)
        records = [one for message in messages for one in getattr(message, "documents", getattr(message, "keys", ()))]
        keys = [getattr(one, "key", one) for one in records]
        with self.lock:
            self.calls.append(messages)
            self.metadata.append(dict(context.invocation_metadata()))
            self.mixed |= any(other.intersection(keys) for other in self.under_way)
            self.under_way.append(set(keys))
            self.most = max(self.most, len(self.under_way))
        if self.together:
            self.together.wait(30)
        time.sleep(self.wait)
        with self.lock:
            self.under_way.remove(set(keys))
            if set(self.refused).intersection(keys):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "as told")
            self.generation += 1
            for key, one in zip(keys, records, strict=True):
                self.documents[key] = one
            if isinstance(messages[0], index_pb2.DeleteRequest):
                self.documents = {key: one for key, one in self.documents.items() if key not in keys}
            superseded = len(keys) - len(set(keys))
            return index_pb2.ChangeResponse(
                generation=self.generation,
                documents=len(self.documents),
                read=len(keys),
                indexed=len(set(keys)),
                superseded=superseded,
            )


@contextlib.contextmanager
def serving():
    """The server, and its address."""
    handler = Server()
    server = grpc.server(
        concurrent.futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", 32 << 20)]
    )
    server.add_generic_rpc_handlers([handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield handler, f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def documents(count, *, keys=None):
    """Documents, whose keys come again where there are fewer of them."""
    return [dyad.Document(f"k{number % (keys or count)}", f"text {number}") for number in range(count)]


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


class Failures(unittest.TestCase):
    """Retries and errors."""

    def test_a_change_is_sent_again_only_where_the_server_says_that_nothing_was_changed(self):
        with serving() as (server, target), dyad.Index(target, retry=QUICK, api_key="s3cret") as index:
            server.refusals = [(BUSY, ((PUSHBACK, "1"),)), (UNAVAILABLE, ((PUSHBACK, "0"),))]
            # Several messages, which a server need not read before it refuses.
            self.assertEqual(index.upsert(documents(4000)).read, 4000)
            self.assertEqual((len(server.calls), server.metadata[0]["authorization"]), (3, "Bearer s3cret"))
            unsure = "may have been made"
            for refusal, kind, said in (
                ((BUSY, ()), dyad.Busy, None),
                ((BUSY, ((PUSHBACK, "-1"),)), dyad.Busy, None),
                ((UNAVAILABLE, ()), dyad.Unavailable, unsure),
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


class Bulk(unittest.TestCase):
    """Any number of documents, in threads and in an event loop."""

    def each(self, run):
        """Runs a test with both kinds of client: `run` is given the server and a function that makes a call."""

        def sync(target):
            def call(name, *given, **options):
                with dyad.Index(target, retry=QUICK) as index:
                    return getattr(index, name)(*given, **options)

            return call

        def asynchronous(target):
            def call(name, *given, **options):
                async def awaited():
                    async with dyad.AsyncIndex(target, retry=QUICK) as index:
                        return await getattr(index, name)(*given, **options)

                return asyncio.run(asyncio.wait_for(awaited(), 60))

            return call

        for kind in (sync, asynchronous):
            with self.subTest(kind=kind.__name__), serving() as (server, target):
                run(server, kind(target))

    def test_a_few_calls_are_under_way_at_once_and_each_is_told(self):
        def run(server, call):
            server.together, told = threading.Barrier(4), []
            reply = call("upsert_all", iter(documents(500)), batch=64, progress=told.append)
            self.assertEqual((reply.read, reply.indexed, reply.documents, reply.generation), (500, 500, 500, 8))
            self.assertEqual(([len(call[0].documents) for call in server.calls].count(64), len(server.calls)), (7, 8))
            self.assertEqual((server.most, len(told), told[-1].read), (4, 8, 500))
            server.together = None
            self.assertEqual([one.read for one in told], sorted(one.read for one in told))
            reply = call("delete_all", (f"k{number}" for number in range(500)), batch=150, in_flight=2)
            self.assertEqual((reply.read, reply.documents, len(server.documents)), (500, 0, 0))
            self.assertEqual(call("upsert_all", []).read, 0)
            with self.assertRaisesRegex(ValueError, "`batch`"):
                call("upsert_all", [], batch=0)
            with self.assertRaisesRegex(ValueError, "`in_flight`"):
                call("upsert_all", [], in_flight=0)

        self.each(run)

    def test_of_several_documents_with_one_key_the_last_counts(self):
        def run(server, call):
            server.wait = 0.01
            reply = call("upsert_all", documents(200, keys=7), batch=3, in_flight=8)
            self.assertEqual((reply.read, server.mixed), (200, False))
            self.assertEqual(sorted(one.text for one in server.documents.values()), [f"text {number}" for number in range(193, 200)])

        self.each(run)

    def test_a_call_is_bounded_in_bytes(self):
        def run(server, call):
            with mock.patch("dyad_client.bulk.BYTES", 164_000):
                call("upsert_all", (dyad.Document(str(number), "x" * 10_000) for number in range(40)), batch=10_000)
            sizes = [sum(len(message.documents) for message in one) for one in server.calls]
            self.assertEqual(sorted(sizes, reverse=True), [16, 16, 8])

        self.each(run)

    def test_a_failure_says_how_much_was_acknowledged_and_where_to_go_on(self):
        def run(server, call):
            server.refused, server.wait = ("k25",), 0.02
            read = itertools.count()
            endless = (dyad.Document(f"k{number}", "t") for number in read)
            with self.assertRaisesRegex(dyad.Unfinished, r"as told.*Go on from the key 'k20' \(number 20") as raised:
                call("upsert_all", endless, batch=10, in_flight=3)
            error = raised.exception
            self.assertIsInstance(error.__cause__, dyad.InvalidArgument)
            self.assertEqual((error.position, error.key, error.code), (20, "k20", grpc.StatusCode.INVALID_ARGUMENT))
            self.assertEqual((error.acknowledged, error.reply.read), (len(server.documents), len(server.documents)))
            self.assertTrue(server.documents.keys() >= {f"k{number}" for number in range(20)})
            self.assertLess(next(read), 200, "nothing is read on")
            server.refusals = [(BUSY, ((PUSHBACK, "1"),))] * 2
            self.assertEqual(call("upsert_all", documents(3)).read, 3)

        self.each(run)

    def test_an_error_of_the_documents_is_raised_after_those_before_it_were_sent(self):
        def broken():
            yield from documents(25)
            raise KeyError("no more documents")

        def run(server, call):
            for given, kind, said in (
                (broken(), KeyError, "no more documents"),
                ([*documents(25), dyad.Document("z", "t", metadata={"a": {1}})], TypeError, r"document 25 \('z'\): `metadata.a`"),
            ):
                with self.assertRaisesRegex(kind, said) as raised:
                    call("upsert_all", given, batch=10)
                self.assertEqual(len(server.documents), 25)
                self.assertIn("25 were acknowledged. Go on from number 25", raised.exception.__notes__[0])
                server.documents = {}

            def no_longer(reply):
                raise RuntimeError("no longer told")

            with self.assertRaisesRegex(RuntimeError, "no longer told"):
                call("upsert_all", documents(25), batch=10, progress=no_longer)

        self.each(run)

    def test_documents_can_be_awaited_and_a_cancelled_task_sends_no_more(self):
        async def awaited():
            for number in itertools.count():
                await asyncio.sleep(0)
                yield dyad.Document(f"k{number}", "t")

        async def run(server, target):
            async with dyad.AsyncIndex(target) as index:
                self.assertEqual(repr(index), f"AsyncIndex({target!r})")
                tasks = len(asyncio.all_tasks())
                task = asyncio.ensure_future(index.upsert_all(awaited(), batch=2))
                while server.generation < 20:
                    await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while len(asyncio.all_tasks()) > tasks or server.under_way:
                    await asyncio.sleep(0.01)
                calls = len(server.calls)
                await asyncio.sleep(0.1)
                self.assertEqual(len(server.calls), calls)
                server.wait = 1
                waiting = asyncio.ensure_future(index.delete_all(["a", "b"], batch=1))
                while not server.under_way:
                    await asyncio.sleep(0.01)
                await index.close()
                with self.assertRaisesRegex(dyad.Unfinished, "(?i)closed.*Go on from the key 'a'"):
                    await waiting

        with serving() as (server, target):
            asyncio.run(asyncio.wait_for(run(server, target), 60))


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
                reused = index.upsert(dyad.Document(some[0].key, some[0].text, metadata={"n": -1}))
                self.assertEqual((reused.indexed, reused.reused), (1, 1))
                with self.assertRaisesRegex(dyad.InvalidArgument, r"documents\[1\].*key"):
                    index.upsert([some[0], dyad.Document(" ", "text")])
            finally:
                gone = index.delete_all([one.key for one in some] + ["none of them"])
            self.assertEqual((gone.indexed, gone.rejected, gone.documents), (30, 1, before))


if __name__ == "__main__":
    unittest.main()

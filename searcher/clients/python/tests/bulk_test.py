"""Changes of any number of documents, in threads and in an event loop, against a server that keeps the documents."""

import asyncio
import itertools
import threading
import time
import unittest
from unittest import mock

import dyad_client as dyad
import grpc
from index_server import QUICK, TRY_AGAIN, documents, serving


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
            server.refusals = [TRY_AGAIN] * 2
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

    def test_an_interrupted_program_does_not_wait_for_calls(self):
        def interrupt(_):
            raise KeyboardInterrupt

        with serving() as (server, target), dyad.Index(target) as index:
            server.slow, began = ("k1", "k2"), time.monotonic()
            with self.assertRaises(KeyboardInterrupt):
                index.upsert_all(documents(20), batch=1, progress=interrupt)
            self.assertLess(time.monotonic() - began, 20)
            server.release.set()

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
                while len(asyncio.all_tasks()) > tasks:
                    await asyncio.sleep(0.01)
                # Those that were sent before may reach a busy server after that, so that it is asked until no more come: the documents
                # never end, and those of a task that went on would not either.
                calls = None
                while server.under_way or calls != len(server.calls):
                    calls = len(server.calls)
                    await asyncio.sleep(0.2)
                server.wait = 1
                waiting = asyncio.ensure_future(index.delete_all(["a", "b"], batch=1))
                while not server.under_way:
                    await asyncio.sleep(0.01)
                await index.close()
                with self.assertRaisesRegex(dyad.Unfinished, "(?i)closed.*Go on from the key 'a'"):
                    await waiting

        with serving() as (server, target):
            asyncio.run(asyncio.wait_for(run(server, target), 60))


if __name__ == "__main__":
    unittest.main()

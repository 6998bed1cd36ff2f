"""The client against a server of its own that refuses, waits and echoes as told; and against a searcher at DYAD_SEARCHER_URL."""

import asyncio
import concurrent.futures
import contextlib
import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import unittest

import dyad_client as dyad
import grpc
import numpy
from dyad_client._generated import admin_pb2, searcher_pb2
from dyad_client.retry import PUSHBACK

BUSY, UNAVAILABLE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE


def invalid():
    """One request, and one that cannot be sent."""
    return iter([dyad.Request("a"), dyad.Request("b", mode="both"), dyad.Request("c")])


def breaking():
    """One request, and an error."""
    yield dyad.Request("a")
    raise KeyError("no more questions")


FAILING = ((invalid, ValueError, "`mode`: expected one of"), (breaking, KeyError, "no more questions"))


class Server(grpc.GenericRpcHandler):
    """Keeps the requests; each call is refused by the next of `refusals`, a status and its trailers, while there are any."""

    def __init__(self):
        self.requests, self.metadata, self.refusals, self.times_left = [], [], [], []
        self.release = threading.Event()
        self.release.set()
        self.taken, self.ends_after = 0, None
        self.listed = admin_pb2.ListIndexesResponse()

    def service(self, details):
        method = details.method.rsplit("/", 1)[1]
        if method == "SearchStream":
            return grpc.stream_stream_rpc_method_handler(
                self.stream, searcher_pb2.SearchRequest.FromString, searcher_pb2.SearchStreamResponse.SerializeToString
            )
        request, answer = {
            "Search": (searcher_pb2.SearchRequest, self.search),
            "SearchBatch": (searcher_pb2.SearchBatchRequest, self.batch),
            "GetDocuments": (searcher_pb2.GetDocumentsRequest, lambda request: searcher_pb2.GetDocumentsResponse()),
            "SampleDocuments": (
                searcher_pb2.SampleDocumentsRequest,
                lambda request: searcher_pb2.SampleDocumentsResponse(
                    documents=[{"key": request.index}], of=request.count, generation=request.seed
                ),
            ),
            "ScrollDocuments": (searcher_pb2.ScrollDocumentsRequest, self.page),
            "CountDocuments": (
                searcher_pb2.CountDocumentsRequest,
                lambda request: searcher_pb2.CountDocumentsResponse(documents=3 if request.HasField("filter") else 7),
            ),
            "ListFields": (
                searcher_pb2.ListFieldsRequest,
                lambda request: searcher_pb2.ListFieldsResponse(
                    fields=[{"name": request.index, "documents": 7, "types": {"texts": 6, "flags": 2}}], documents=9, generation=4
                ),
            ),
            "Explain": (searcher_pb2.ExplainRequest, lambda request: searcher_pb2.ExplainResponse(allowed=True)),
            "ListIndexes": (admin_pb2.ListIndexesRequest, lambda request: self.listed),
            "Status": (
                admin_pb2.StatusRequest,
                lambda request: admin_pb2.StatusResponse(version="1", documents=7, name=request.index),
            ),
        }[method]
        return grpc.unary_unary_rpc_method_handler(
            lambda message, context: self.unary(message, context, answer),
            request.FromString,
            lambda message: message.SerializeToString(),
        )

    def unary(self, message, context, answer):
        self.requests.append(message)
        self.metadata.append(dict(context.invocation_metadata()))
        self.times_left.append(context.time_remaining())
        if self.refusals:
            code, trailers = self.refusals.pop(0)
            context.set_trailing_metadata(trailers)
            context.abort(code, "as told")
        self.release.wait(5)
        return answer(message)

    def search(self, request):
        text = "Größe: ein Komet"
        start = text.encode().index(b"Komet")
        snippet = searcher_pb2.Snippet(text=text, highlights=[searcher_pb2.Highlight(start=start, end=start + 5)])
        hit = searcher_pb2.Hit(rank=1, key=request.query, score=0.5, snippet=snippet)
        hit.document.key, hit.document.metadata_json = request.query, '{"a": [1]}'
        hit.group.value.number = 3
        hit.group.hits.add(rank=2, key="other")
        return searcher_pb2.SearchResponse(hits=[hit], mode=request.mode, generation=3, index=request.index)

    def page(self, request):
        """Of the documents a to e."""
        keys = [key for key in "abcde" if key > request.after_key]
        page, more = keys[: request.page_size], keys[request.page_size :]
        documents = [{"document": {"key": key, "text": key * 2, "metadata_json": '{"n": 1}'}} for key in page]
        if request.with_vectors:
            for document in documents:
                document["vector"] = {"values": [0.5, -1], "precision": "VECTOR_PRECISION_F16"}
        last = page[-1] if page else request.after_key
        return searcher_pb2.ScrollDocumentsResponse(documents=documents, next_after_key=last, has_more=bool(more))

    def batch(self, request):
        return searcher_pb2.SearchBatchResponse(responses=[self.search(one) for one in request.requests])

    def stream(self, requests, context):
        for request in requests:
            if self.ends_after == self.taken:
                return
            self.taken += 1
            self.release.wait(5)
            yield searcher_pb2.SearchStreamResponse(id=request.id, response=self.search(request))


@contextlib.contextmanager
def serving(credentials=None):
    """The server, and its address."""
    handler = Server()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers([handler])
    if credentials:
        port = server.add_secure_port("localhost:0", credentials)
    else:
        port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield handler, f"localhost:{port}" if credentials else f"127.0.0.1:{port}"
    finally:
        handler.release.set()
        server.stop(None).wait()


class Calls(unittest.TestCase):
    """Requests and replies."""

    def test_every_argument_is_sent_and_every_reply_read(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            where = (dyad.field("year") >= 1990) & ~dyad.keys(["p1"])
            reply = searcher.search(
                "comet", mode="dense", k=3, offset=2, fields=["title"], snippet_bytes=99, group_by="a", group_hits=2, filter=where
            )
            sent = server.requests[0]
            self.assertEqual((sent.query, sent.mode, sent.k, sent.offset, list(sent.fields)), ("comet", 1, 3, 2, ["title"]))
            self.assertEqual((sent.snippet_bytes, sent.group_by.field, sent.group_by.hits), (99, "a", 2))
            self.assertEqual(getattr(sent.filter, "all").filters[0].range.min.number, 1990)
            self.assertFalse(sent.HasField("score_threshold") or sent.HasField("dense_weight"))
            hit = reply.hits[0]
            self.assertEqual((hit.key, hit.document.metadata, hit.dense, reply.mode), ("comet", {"a": [1]}, None, "dense"))
            self.assertEqual((hit.group.value, [one.key for one in hit.group.hits]), (3.0, ["other"]))
            # The server's ranges are of bytes.
            [(start, end)] = hit.snippet.highlights
            self.assertEqual(hit.snippet.text[start:end], "Komet")
            batch = searcher.search_batch(
                [dyad.Request("a", fusion="log-odds"), dyad.Request("b", fusion="min-max", dense_weight=0.0, document_weight=0.5, rerank_weight=1.0, rerank_depth=20)]
            )
            self.assertEqual([one.hits[0].key for one in batch], ["a", "b"])
            first, second = server.requests[1].requests
            self.assertEqual(first.fusion, 4)
            self.assertEqual((second.fusion, second.dense_weight, second.document_weight, second.rerank_depth), (3, 0.0, 0.5, 20))
            self.assertEqual(second.rerank_weight, 1.0)
            self.assertEqual((hit.rerank, reply.reranked, reply.rerank_weight), (None, 0, 0.0))
            self.assertEqual(searcher.status().documents, 7)
            sample = searcher.sample(5, seed=3, fields=["title"], filter=dyad.field("lang") == "en", index="news")
            self.assertEqual((sample.documents[0].key, sample.of, sample.generation), ("news", 5, 3))
            self.assertEqual((list(server.requests[-1].fields), server.requests[-1].filter.equals.value.text), (["title"], "en"))
            with self.assertRaisesRegex(TypeError, "`filter`: expected a Filter"):
                searcher.sample(5, filter="en")

    def test_a_scroll_reads_pages_as_they_are_needed_and_what_there_is_is_counted(self):
        with serving() as (server, target), dyad.Searcher(target, index="wiki") as searcher:
            for page_size in range(1, 7):
                self.assertEqual([one.key for one in searcher.scroll(page_size=page_size)], list("abcde"))
            server.requests.clear()
            documents = searcher.scroll(page_size=2, after="a", fields=["text"], filter=dyad.field("n") == 1, with_vectors=True, index="news")
            self.assertEqual(server.requests, [])
            first = next(documents)
            self.assertEqual((first, list(first.vector)), (dyad.Document("b", "bb", metadata={"n": 1}), [0.5, -1.0]))
            [sent] = server.requests
            self.assertEqual((sent.page_size, sent.after_key, list(sent.fields), sent.with_vectors, sent.index), (2, "a", ["text"], True, "news"))
            self.assertEqual(sent.filter.equals.value.number, 1)
            self.assertEqual([one.key for one in documents], ["c", "d", "e"])
            self.assertEqual([request.after_key for request in server.requests], ["a", "c"])
            server.refusals = [(grpc.StatusCode.INVALID_ARGUMENT, ())]
            documents = searcher.scroll(after="c")
            with self.assertRaises(dyad.InvalidArgument):
                next(documents)
            with self.assertRaisesRegex(TypeError, "`filter`: expected a Filter"):
                searcher.scroll(filter="en")
            self.assertEqual((searcher.count(), searcher.count(dyad.keys(["a"]))), (7, 3))
            listed = dyad.Fields((dyad.FieldInfo("wiki", 7, {"texts": 6, "flags": 2}),), False, 9, 4)
            self.assertEqual(searcher.fields(), listed)
            self.assertEqual(searcher.fields(index="news").fields[0].name, "news")

    def test_a_call_names_its_index_or_the_client_s(self):
        with serving() as (server, target), dyad.Searcher(target, index="wiki") as searcher:
            self.assertEqual([searcher.search("q").index, searcher.search("q", index="news").index], ["wiki", "news"])
            batch = searcher.search_batch([dyad.Request("a"), dyad.Request("b", index="news")])
            stream = searcher.search_stream([dyad.Request("a"), dyad.Request("b", index="news")], timeout=30)
            self.assertEqual([[reply.index for reply in replies] for replies in (batch, stream)], [["wiki", "news"]] * 2)
            self.assertEqual([searcher.status().index, searcher.status(index="news").index], ["wiki", "news"])
            searcher.documents(["k"])
            searcher.documents(["k"], index="news")
            self.assertEqual([request.index for request in server.requests[-2:]], ["wiki", "news"])
            searcher.explain("k", "q")
            searcher.explain("k", dyad.Request("q", index="news"))
            self.assertEqual([request.search.index for request in server.requests[-2:]], ["wiki", "news"])
            server.listed.indexes.add(name="wiki", is_default=True, generation=3, documents=7, shards=2, has_question_tower=True, language="de")
            server.listed.indexes[0].model.fingerprint = "f00d"
            listed = dyad.IndexInfo("wiki", True, 3, 7, 2, 0, "f00d", True, "", "de")
            self.assertEqual(searcher.indexes(), [listed])
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            self.assertEqual(searcher.search("q").index, "")

    def test_vectors_of_numpy_and_lists_are_32_bit_floats(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            for vector in ([0.5, -1], numpy.array([0.5, -1], "f2"), numpy.array([0.5, -1], "f8"), (0.5, -1)):
                searcher.search(mode="dense", vector=vector, fingerprint="f00d")
                self.assertEqual((list(server.requests[-1].vector), server.requests[-1].fingerprint), ([0.5, -1.0], "f00d"))
            for wrong in (numpy.ones((2, 2)), [float("nan")], [1e300], [], "text", ["1"]):
                with self.assertRaises((TypeError, ValueError), msg=repr(wrong)):
                    searcher.search(mode="dense", vector=wrong, fingerprint="f00d")
            self.assertEqual(len(server.requests), 4)

    def test_a_vector_alone_is_searched_by_itself_and_all_else_is_hybrid(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            for arguments, mode in (
                ({"vector": [0.5]}, 1),
                ({"query": "q"}, 3),
                ({"query": "q", "vector": [0.5]}, 3),
                ({"query": dyad.Request(vector=[0.5])}, 1),
                ({"vector": [0.5], "mode": "hybrid"}, 3),
                ({"query": "q", "mode": "bm25"}, 2),
            ):
                searcher.search(**arguments)
                self.assertEqual(server.requests[-1].mode, mode, arguments)

    def test_wrong_arguments_are_refused_by_name_before_a_call(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            for arguments, name in (({"mode": "both"}, "mode"), ({"fusion": "sum"}, "fusion"), ({"fields": "title"}, "fields")):
                with self.assertRaisesRegex((TypeError, ValueError), f"`{name}`"):
                    searcher.search("q", **arguments)
            with self.assertRaises(TypeError):
                bool(dyad.field("a") == 1)
            with self.assertRaisesRegex(TypeError, "`keys`"):
                searcher.documents("p1")
            self.assertEqual(server.requests, [])

    def test_a_stream_is_read_no_further_ahead_than_its_replies_allow(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            read = itertools.count()
            endless = (dyad.Request(str(next(read))) for _ in itertools.repeat(None))
            replies = searcher.search_stream(endless, timeout=30)
            keys = [next(replies).hits[0].key for _ in range(200)]
            replies.close()
            self.assertEqual(keys, [str(number) for number in range(200)])
            self.assertLessEqual(next(read), 200 + 64 + 1)

    def test_an_exception_of_the_requests_is_raised_after_the_replies_to_those_before_it(self):
        with serving() as (_, target), dyad.Searcher(target) as searcher:
            for requests, kind, said in FAILING:
                keys = []
                with self.assertRaisesRegex(kind, said):
                    for reply in searcher.search_stream(requests(), timeout=30):
                        keys.append(reply.hits[0].key)
                self.assertEqual(keys, ["a"])


    def test_a_stream_that_the_server_ends_is_an_error_after_its_replies(self):
        requests = [dyad.Request(str(number)) for number in range(100)]

        async def run(target):
            keys, tasks = [], len(asyncio.all_tasks())
            async with dyad.AsyncSearcher(target) as searcher:
                with self.assertRaisesRegex(dyad.Unavailable, "ended the stream after 7 replies"):
                    async for reply in searcher.search_stream(requests, timeout=30):
                        keys.append(reply.hits[0].key)
                # The one that read the requests ends too.
                while len(asyncio.all_tasks()) > tasks:
                    await asyncio.sleep(0.01)
            return keys

        with serving() as (server, target):
            server.ends_after, keys = 7, []
            with dyad.Searcher(target) as searcher, self.assertRaisesRegex(dyad.Unavailable, "ended the stream after 7 replies"):
                for reply in searcher.search_stream(requests, timeout=30):
                    keys.append(reply.hits[0].key)
            server.taken = 0
            self.assertEqual([keys, asyncio.run(asyncio.wait_for(run(target), 60))], [[str(number) for number in range(7)]] * 2)
            server.taken = server.ends_after = 0
            with dyad.Searcher(target) as searcher:
                self.assertEqual(list(searcher.search_stream([], timeout=30)), [])

    def test_what_would_be_sent_as_something_else_is_refused(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            for vector in (numpy.array([1, 2], "datetime64[ns]"), numpy.array([1, 2], "timedelta64[s]"), bytearray(b"ab")):
                with self.assertRaisesRegex(TypeError, "`vector`"):
                    searcher.search(vector=vector)
            with self.assertRaisesRegex(ValueError, "a finite number below 1e309"):
                searcher.search("a", filter=dyad.field("id") == 10**309)
            digits = {2**53 - 1: "", 2**53 + 1: "9007199254740993", -(2**63): "-9223372036854775808", 1e18: "1000000000000000000"}
            for number, sent in digits.items():
                self.assertEqual((dyad.field("id") == number).message.equals.value.integer, sent)
            searcher.search("a", filter=dyad.field("id") == 2**53)
            with self.assertRaisesRegex(ValueError, "`timeout`"):
                searcher.search("a", timeout=1e10)
            self.assertEqual(len(server.requests), 1)
        key = "-----BEGIN PRIVATE KEY-----secret"
        for given in ({"ca": key}, {"cert": key, "key": key}):
            with self.assertRaises(ValueError) as refused:
                dyad.Searcher("localhost:1", tls=dyad.TlsConfig(**given))
            self.assertNotIn("secret", str(refused.exception))


class Failures(unittest.TestCase):
    """Deadlines, retries and errors."""

    def test_what_passes_is_tried_again_and_nothing_else(self):
        quick = dyad.RetryPolicy(attempts=3, first_wait=0.001)
        with serving() as (server, target), dyad.Searcher(target, retry=quick) as searcher:
            server.refusals = [(BUSY, ()), (UNAVAILABLE, ((PUSHBACK, "1"),))]
            self.assertEqual(searcher.search("q").generation, 3)
            self.assertEqual(len(server.requests), 3)
            for refusals, kind, attempts in (
                ([(BUSY, ())] * 3, dyad.Busy, 3),
                ([(BUSY, ((PUSHBACK, "-1"),))], dyad.Busy, 1),
                ([(BUSY, ((PUSHBACK, "600000"),))], dyad.Busy, 1),
                ([(grpc.StatusCode.INVALID_ARGUMENT, ())], dyad.InvalidArgument, 1),
                ([(grpc.StatusCode.INTERNAL, ())], dyad.Internal, 1),
            ):
                server.requests, server.refusals = [], list(refusals)
                with self.assertRaisesRegex(kind, "as told") as raised:
                    searcher.search("q")
                self.assertEqual((len(server.requests), raised.exception.attempts, server.refusals), (attempts, attempts, []))
                self.assertIsInstance(raised.exception.__cause__, grpc.RpcError)

    def test_a_client_that_is_closed_ends_waits_and_refuses_later_calls_with_cancelled(self):
        with serving() as (server, target), dyad.Searcher(target, timeout=60) as searcher:
            server.refusals = [(BUSY, ((PUSHBACK, "30000"),))]
            closer = threading.Timer(0.2, searcher.close)
            closer.start()
            began = time.monotonic()
            for call in (lambda: searcher.search("a"), searcher.indexes, lambda: list(searcher.search_stream([], timeout=9))):
                with self.assertRaisesRegex(dyad.Cancelled, "closed"):
                    call()
            self.assertLess(time.monotonic() - began, 20)
            closer.join()

    def test_a_request_that_no_server_reads_is_refused_and_not_tried_again(self):
        large = dyad.Request("a", filter=dyad.keys(["k" * 1_000_000] * 70))
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            for call in (lambda: searcher.search(large), lambda: list(searcher.search_stream([large], timeout=30))):
                with self.assertRaisesRegex(ValueError, "at most 64 MiB.*got 70,"):
                    call()
            self.assertEqual((server.requests, server.taken), ([], 0))

    def test_a_deadline_covers_all_attempts(self):
        with serving() as (server, target), dyad.Searcher(target) as searcher:
            server.release.clear()
            server.refusals = [(BUSY, ((PUSHBACK, "300"),))]
            with self.assertRaises(dyad.DeadlineExceeded):
                searcher.search("q", timeout=2)
            first, second = server.times_left
            self.assertLess(second, first - 0.2, "the second attempt has what the first one and the wait have left")
            with self.assertRaisesRegex(ValueError, "`timeout`"):
                searcher.search("q", timeout=0)
        with dyad.Searcher("127.0.0.1:1", timeout=1) as nobody, self.assertRaises(dyad.DyadError):
            nobody.search("q")

    def test_waits_are_random_and_double_up_to_a_longest(self):
        policy = dyad.RetryPolicy(attempts=9, first_wait=0.1, longest_wait=0.35)
        waits = [policy.wait(attempt, BUSY, (), draw=lambda: 1.0) for attempt in range(1, 5)]
        self.assertEqual(waits, [0.1, 0.2, 0.35, 0.35])
        self.assertEqual(policy.wait(1, BUSY, (), draw=lambda: 0.0), 0.0)
        self.assertIsNone(policy.wait(9, BUSY, ()))
        hints = [policy.wait(2, UNAVAILABLE, ((PUSHBACK, "1500"),), draw=lambda: drawn) for drawn in (0.0, 1.0)]
        self.assertEqual(hints, [1.5, 1.7])
        for never in ("-1", "soon", "9" * 11, "9" * 400, "9" * 5000):
            self.assertIsNone(policy.wait(1, BUSY, ((PUSHBACK, never),)), never)


class Security(unittest.TestCase):
    """TLS and keys."""

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed: TLS with a certificate of one's own")
    def test_a_key_goes_over_tls_alone_and_is_told_to_nobody(self):
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = (pathlib.Path(folder) / name for name in ("key.pem", "cert.pem"))
            make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
            make += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
            subprocess.run(make, check=True, capture_output=True)
            credentials = grpc.ssl_server_credentials([(key.read_bytes(), certificate.read_bytes())])
            with serving(credentials) as (server, target):
                tls = dyad.TlsConfig(ca=certificate)
                with dyad.Searcher(target, tls=tls, api_key="s3cret") as searcher:
                    self.assertEqual(searcher.search("q").generation, 3)
                    self.assertEqual(server.metadata[0]["authorization"], "Bearer s3cret")
                    self.assertNotIn("s3cret", repr(searcher) + repr(vars(searcher)))
                with dyad.Searcher(target, tls=True, timeout=2) as stranger, self.assertRaises(dyad.DyadError):
                    stranger.search("q")
        with self.assertRaisesRegex(ValueError, "expected TLS") as raised:
            dyad.Searcher("search.example:7700", api_key="s3cret")
        self.assertNotIn("s3cret", str(raised.exception))


class Async(unittest.TestCase):
    """The same with asyncio."""

    def test_calls_retries_and_streams(self):
        async def run(server, target):
            quick = dyad.RetryPolicy(attempts=3, first_wait=0.001)
            async with dyad.AsyncSearcher(target, retry=quick) as searcher:
                server.refusals = [(BUSY, ()), (UNAVAILABLE, ((PUSHBACK, "1"),))]
                self.assertEqual((await searcher.search("a", k=2)).hits[0].key, "a")
                self.assertEqual(len(server.requests), 3)
                server.refusals = [(grpc.StatusCode.NOT_FOUND, ())]
                with self.assertRaises(dyad.NotFound):
                    await searcher.search("a")
                self.assertEqual(len(await searcher.search_batch([dyad.Request("a")] * 3)), 3)
                self.assertEqual((await searcher.status()).documents, 7)
                self.assertEqual((await searcher.status(index="wiki")).index, "wiki")
                self.assertEqual((await searcher.search("a", index="wiki")).index, "wiki")
                self.assertEqual((await searcher.indexes(), (await searcher.documents(["k"])).documents), ([], ()))
                self.assertEqual([one.key async for one in searcher.scroll(page_size=2, after="b")], ["c", "d", "e"])
                self.assertEqual((await searcher.count(), (await searcher.fields(index="f")).fields[0].name), (7, "f"))
                read = itertools.count()

                async def endless():
                    while True:
                        yield dyad.Request(str(next(read)))

                keys = []
                async with contextlib.aclosing(searcher.search_stream(endless(), timeout=30)) as replies:
                    async for reply in replies:
                        keys.append(reply.hits[0].key)
                        if len(keys) == 200:
                            break
                self.assertEqual(keys, [str(number) for number in range(200)])
                self.assertLessEqual(next(read), 200 + 64 + 1)

        with serving() as (server, target):
            asyncio.run(run(server, target))

    def test_an_exception_of_the_requests_is_raised_after_the_replies_to_those_before_it(self):
        async def run(target):
            async with dyad.AsyncSearcher(target) as searcher:
                for requests, kind, said in FAILING:
                    keys = []
                    with self.assertRaisesRegex(kind, said):
                        async for reply in searcher.search_stream(requests(), timeout=30):
                            keys.append(reply.hits[0].key)
                    self.assertEqual(keys, ["a"])

        with serving() as (_, target):
            asyncio.run(run(target))

    def test_a_closed_client_ends_calls_with_cancelled_and_a_cancelled_task_stays_one(self):
        async def run(server, target):
            server.release.clear()

            async def stream(searcher):
                return [reply async for reply in searcher.search_stream([dyad.Request("a")], timeout=30)]

            async def started(searcher):
                """A search and a stream that the server has taken."""
                server.requests, server.taken = [], 0
                tasks = [asyncio.ensure_future(searcher.search("a")), asyncio.ensure_future(stream(searcher))]
                while not (server.requests and server.taken):
                    await asyncio.sleep(0.01)
                return tasks

            for close, kind in ((True, dyad.Cancelled), (False, asyncio.CancelledError)):
                async with dyad.AsyncSearcher(target) as searcher:
                    tasks = await started(searcher)
                    if close:
                        await searcher.close()
                    else:
                        for task in tasks:
                            task.cancel()
                    for ended in await asyncio.gather(*tasks, return_exceptions=True):
                        self.assertIsInstance(ended, kind)

        with serving() as (server, target):
            asyncio.run(run(server, target))

    def test_a_client_that_is_closed_ends_waits_and_refuses_later_calls_with_cancelled(self):
        async def run(server, target):
            async with dyad.AsyncSearcher(target, timeout=60) as searcher:
                server.refusals = [(BUSY, ((PUSHBACK, "30000"),))]
                waiting = asyncio.ensure_future(searcher.search("a"))
                while server.refusals:
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.1)
                await searcher.close()
                stream = searcher.search_stream([], timeout=9)
                for call in (waiting, searcher.indexes(), anext(stream)):
                    with self.assertRaisesRegex(dyad.Cancelled, "closed"):
                        await asyncio.wait_for(call, 20)

        with serving() as (server, target):
            asyncio.run(run(server, target))


@unittest.skipUnless(os.environ.get("DYAD_SEARCHER_URL"), "DYAD_SEARCHER_URL is not set: the client with a real searcher")
class RealSearcher(unittest.TestCase):
    """A searcher over any index with text and a question tower."""

    def test_every_call(self):
        with dyad.Searcher(os.environ["DYAD_SEARCHER_URL"]) as searcher:
            status = searcher.status()
            [default] = [index for index in searcher.indexes() if index.is_default]
            self.assertEqual((default.name, default.documents), (status.index, status.documents))
            self.assertEqual(searcher.search("what is a comet", index=status.index).index, status.index)
            with self.assertRaisesRegex(dyad.NotFound, "there is no index named"):
                searcher.search("what is a comet", index="no-index")
            for mode in ("dense", "bm25", "hybrid"):
                reply = searcher.search("what is a comet", mode=mode, k=3, snippet_bytes=60)
                self.assertEqual((reply.mode, reply.fingerprint, reply.degraded), (mode, status.fingerprint, ""))
                self.assertTrue(reply.hits and all(hit.snippet and hit.document for hit in reply.hits))
            self.assertEqual(set(searcher.search("what is a comet", mode="compare").rankings), {"dense", "bm25", "hybrid"})
            vector = numpy.random.default_rng(7).normal(size=status.dim)
            dense = searcher.search(mode="dense", vector=vector, fingerprint=status.fingerprint, k=2)
            self.assertEqual(len(dense.hits), 2)
            with self.assertRaises(dyad.FailedPrecondition):
                searcher.search(mode="dense", vector=vector, fingerprint="beef")
            requests = [dyad.Request(f"what is comet {number}", k=1) for number in range(200)]
            # With time for a busy machine: questions that cannot be embedded in time are asked of BM25.
            together = list(searcher.search_batch(requests, timeout=60))
            streamed = list(searcher.search_stream(iter(requests), timeout=60))
            self.assertEqual({reply.degraded for reply in together + streamed}, {""})
            self.assertEqual([reply.hits[0].key for reply in streamed], [reply.hits[0].key for reply in together])
            key = dense.hits[0].key
            found = searcher.documents([key, "none of them"])
            self.assertEqual(([one.key for one in found.documents], found.missing), ([key], ("none of them",)))
            sample = searcher.sample(3, filter=~dyad.keys([key]))
            self.assertEqual((len(sample.documents), sample.of), (3, status.documents - 1))
            keys = [one.key for one in searcher.scroll(page_size=7, fields=["title"])]
            self.assertEqual((keys, len(set(keys))), (sorted(keys, key=str.encode), status.documents))
            self.assertEqual((searcher.count(), searcher.count(~dyad.keys([key]))), (status.documents, status.documents - 1))
            [same] = searcher.scroll(filter=dyad.keys([key]), with_vectors=True)
            self.assertEqual((same, len(same.vector)), (found.documents[0], status.dim))
            listed = searcher.fields()
            self.assertEqual(listed.documents, status.documents)
            for one in listed.fields:
                self.assertLessEqual(one.documents, searcher.count(dyad.field(one.name).exists()))
            self.assertFalse(searcher.explain(key, "q", filter=~dyad.keys([key])).allowed)
            only = searcher.search("what is a comet", filter=dyad.keys([key]), k=5)
            self.assertEqual([hit.key for hit in only.hits], [key])
            with self.assertRaisesRegex(dyad.InvalidArgument, "`k`"):
                searcher.search("q", k=10_001)


if __name__ == "__main__":
    unittest.main()

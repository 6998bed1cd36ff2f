"""A server of changes for tests, which keeps documents and refuses, waits and counts as told."""

import concurrent.futures
import contextlib
import threading
import time

import dyad_client as dyad
import grpc
from dyad_client._generated import index_pb2
from dyad_client.retry import PUSHBACK

BUSY, UNAVAILABLE = grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE
# A refusal after which a call may be sent again at once.
TRY_AGAIN = (BUSY, ((PUSHBACK, "1"),))
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
        # Calls with one of these keys wait until they are released.
        self.slow, self.release = (), threading.Event()
        # What each call that waits until its change is searchable is told.
        self.searchable = []

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
        if set(self.slow).intersection(keys):
            self.release.wait(30)
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
            waits = messages[0].wait == index_pb2.WAIT_SEARCHABLE
            return index_pb2.ChangeResponse(
                searchable=self.searchable.pop(0) if waits else None,
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

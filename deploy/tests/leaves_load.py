"""Clients that ask a root as long as a block runs, and what their answers have to be; for the tests of roots and leaves."""

import concurrent.futures
import itertools
import statistics
import threading
import time

SPREAD_S, CLIENTS = 60, 4


def until(what, is_so, within_s=SPREAD_S):
    """Waits until something is so; returns the seconds that it took."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() > began + within_s:
            raise AssertionError(f"{what}: not within {within_s} s")
        time.sleep(0.1)
    return time.monotonic() - began


def keys_of(reply):
    """Keys and scores."""
    return [(hit["key"], hit["score"]) for hit in reply["hits"]]


def same_answers(whole, questions):
    """A check of answers against those of a searcher that has all."""
    expected = {question: keys_of(whole.ask({"query": question, "k": 10})) for question in questions}

    def check(question, reply):
        if keys_of(reply) != expected[question] or reply.get("degraded"):
            raise AssertionError(f"{question}: {keys_of(reply)}, expected {expected[question]}")

    return check


def percentile(times, share):
    """The time within which this share of calls was answered, in seconds."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Load:
    """Clients that ask a root as long as the block runs, with pauses where some are given; every answer is checked.

    Questions are texts, or whole searches.
    """

    def __init__(self, root, questions, check, clients=CLIENTS, pause_s=0):
        self.root, self.questions, self.check, self.clients, self.pause_s = root, questions, check, clients, pause_s
        self.stop, self.times, self.failed = threading.Event(), [], []

    def work(self, first):
        for question in itertools.islice(itertools.cycle(self.questions), first, None):
            if self.stop.is_set():
                return
            began = time.perf_counter()
            try:
                self.check(question, self.root.ask(question if isinstance(question, dict) else {"query": question, "k": 10}))
            except Exception as error:  # noqa: BLE001
                self.failed.append(f"{type(error).__name__}: {error}")
            self.times.append(time.perf_counter() - began)
            if self.pause_s:
                time.sleep(self.pause_s)

    def __enter__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(self.clients)
        for number in range(self.clients):
            self.pool.submit(self.work, number * 7)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.pool.shutdown()

    def told(self):
        """The number of answers, and their median and 99th percentile in milliseconds."""
        p50, p99 = 1e3 * statistics.median(self.times), 1e3 * percentile(self.times, 0.99)
        return f"{len(self.times)} answers, p50 {p50:.1f} ms, p99 {p99:.1f} ms, {len(self.failed)} failed"


def expect_no_failure(load):
    """Prints what a load has measured; none of its questions may have failed."""
    print("  ", load.told(), flush=True)
    if load.failed:
        raise AssertionError(load.failed[0])

"""What a call costs from Python, of dyad_search and of its peers in one process: calls.py VECTORS.npy QUERIES.npy [--vectors N].

    single     microseconds of a call for one question, the median, and recall@10; engines take turns
    threads    questions per second of batches on two threads over those on one
    other      the rate that another Python thread keeps while one searches, over its rate alone
    copied     bytes that Python allocates for a batch of float32 rows, over the bytes of the rows

Needs numpy and dyad_search; of hnswlib, usearch and faiss those that are installed. M 16, efConstruction 200, k 10, inner products.
"""

import argparse
import statistics
import threading
import time
import tracemalloc

import numpy

K, EF, M, EF_CONSTRUCTION = 10, 64, 16, 200
ROUNDS, BATCH_S, OTHER_S = 5, 1.0, 2.0


class DyadSearch:
    """dyad_search, with two widths: that which the others have, and that by which it finds as much."""

    def __init__(self, base, ef):
        import dyad_search

        self.index = dyad_search.Index.build(base, metric="cosine", m=M, ef_construction=EF_CONSTRUCTION)
        self.name, self.ef = f"dyad_search, ef {ef}", ef

    def one(self, question):
        return self.index.search(question, K, self.ef)[0]

    def many(self, questions, threads):
        return self.index.search(questions, K, self.ef, threads=threads)[0]


class Hnswlib:
    """hnswlib."""

    def __init__(self, base, ef):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=base.shape[1])
        self.index.init_index(max_elements=len(base), M=M, ef_construction=EF_CONSTRUCTION)
        self.index.add_items(base)
        self.index.set_ef(ef)
        self.name = f"hnswlib, ef {ef}"

    def one(self, question):
        return self.index.knn_query(question, K, num_threads=1)[0][0]

    def many(self, questions, threads):
        return self.index.knn_query(questions, K, num_threads=threads)[0]


class Usearch:
    """usearch."""

    def __init__(self, base, ef):
        import usearch.index

        self.index = usearch.index.Index(
            ndim=base.shape[1], metric="ip", dtype="f32", connectivity=M, expansion_add=EF_CONSTRUCTION, expansion_search=ef
        )
        self.index.add(numpy.arange(len(base)), base)
        self.name = f"usearch, ef {ef}"

    def one(self, question):
        return self.index.search(question, K, threads=1).keys

    def many(self, questions, threads):
        return self.index.search(questions, K, threads=threads).keys


class Faiss:
    """faiss's HNSW over float32 rows."""

    def __init__(self, base, ef):
        import faiss

        self.faiss = faiss
        self.index = faiss.IndexHNSWFlat(base.shape[1], M, faiss.METRIC_INNER_PRODUCT)
        self.index.hnsw.efConstruction = EF_CONSTRUCTION
        self.index.add(base)
        self.index.hnsw.efSearch = ef
        self.name = f"faiss, ef {ef}"

    def one(self, question):
        return self.index.search(question[None], K)[1][0]

    def many(self, questions, threads):
        self.faiss.omp_set_num_threads(threads)
        return self.index.search(questions, K)[1]


def recall(found, truth):
    """Mean share of the true neighbours that were found."""
    shares = [len(set(map(int, hits)) & set(exact)) / len(exact) for hits, exact in zip(found, truth, strict=True)]
    return statistics.mean(shares)


def exact_neighbours(base, questions):
    """The `K` nearest rows of each question."""
    scores = questions @ base.T
    return numpy.argpartition(-scores, K, axis=1)[:, :K].tolist()


def single_calls(engines, questions, truth):
    """Medians in microseconds over rounds in which engines take turns, and recalls."""
    medians, found = {engine.name: [] for engine in engines}, {}
    for _ in range(ROUNDS):
        for engine in engines:
            times, hits = [], []
            for question in questions:
                started = time.perf_counter_ns()
                answer = engine.one(question)
                times.append(time.perf_counter_ns() - started)
                hits.append(answer)
            medians[engine.name].append(statistics.median(times) / 1e3)
            found[engine.name] = recall(hits, truth)
    return {name: (statistics.median(of), found[name]) for name, of in medians.items()}


def batch_rate(engine, questions, threads):
    """Questions per second."""
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < BATCH_S:
        engine.many(questions, threads)
        done += len(questions)
    return done / (time.perf_counter() - started)


def two_threads(engine, questions):
    """The median ratio of rates on two threads and on one, in turn."""
    ratios = []
    for _ in range(ROUNDS):
        one = batch_rate(engine, questions, 1)
        ratios.append(batch_rate(engine, questions, 2) / one)
    return statistics.median(ratios)


def rate_alone():
    """How often a Python thread adds a number in a while."""
    count, until = 0, time.perf_counter() + OTHER_S
    while time.perf_counter() < until:
        count += 1
    return count


def other_thread(engine, questions):
    """The rate that this thread keeps while another one searches, over its rate alone."""
    alone, stop = rate_alone(), threading.Event()

    def search():
        while not stop.is_set():
            engine.many(questions, 1)

    worker = threading.Thread(target=search)
    worker.start()
    beside = rate_alone()
    stop.set()
    worker.join()
    return beside / alone


def copied(engine, questions):
    """Bytes that Python has allocated at most for a batch, over those of its rows."""
    tracemalloc.start()
    engine.many(questions, 1)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / questions.nbytes


def installed(base):
    """The engines that there are, with the width that all have."""
    for engine, ef in ((DyadSearch, EF), (DyadSearch, 32), (Hnswlib, EF), (Usearch, EF), (Faiss, EF)):
        try:
            yield engine(base, ef)
        except ImportError as error:
            print(f"left out: {engine.__name__}: {error}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("queries")
    parser.add_argument("--vectors", type=int, default=100_000)
    given = parser.parse_args()
    base = numpy.ascontiguousarray(numpy.load(given.base, mmap_mode="r")[: given.vectors], dtype=numpy.float32)
    questions = numpy.ascontiguousarray(numpy.load(given.queries)[:1000], dtype=numpy.float32)
    truth, engines = exact_neighbours(base, questions), list(installed(base))
    print(f"{len(base)} vectors of {base.shape[1]} values, {len(questions)} questions, medians of {ROUNDS} rounds")
    calls = single_calls(engines, questions, truth)
    for engine in engines:
        microseconds, found = calls[engine.name]
        figures = two_threads(engine, questions), other_thread(engine, questions), copied(engine, questions)
        ratio, other, bytes_ratio = figures
        print(
            f"{engine.name:22} single {microseconds:7.1f} us at recall {found:.3f}, two threads {ratio:.2f} x, "
            f"another thread keeps {other:.2f}, copied {bytes_ratio:.2f}"
        )


if __name__ == "__main__":
    main()

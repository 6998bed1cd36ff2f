"""hnswlib, faiss and usearch: HNSW as libraries. The table in ../ann.py says why each is called as it is."""

import time

import numpy as np

EF = [10, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 192, 256]
# int8 without -128, so that a range is symmetric.
INT8_MAX = 127


def int8_scale(base):
    """Takes the largest component to 127. One factor for all: inner products and distances keep their order."""
    largest = float(np.abs(base).max())
    return INT8_MAX / largest if largest > 0 else 1.0


def scaled(vectors, factor):
    """Rounded to the int8 grid, still float32; a query outside the base's range is cut to it."""
    return np.clip(np.rint(vectors * np.float32(factor)), -INT8_MAX, INT8_MAX)


class Hnswlib:
    """hnswlib, float32."""

    any_length = True
    sweep = "ef"
    defaults = EF
    settings = "float32, knn_query over all queries, num_threads as asked, compiled with -march=native"

    def __init__(self):
        import importlib.metadata

        import hnswlib

        self.library = hnswlib
        self.version = importlib.metadata.version("hnswlib")
        self.index = None
        self.threads = 1
        self.k = 0

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """add_items over all rows."""
        index = self.library.Index(space=metric, dim=base.shape[1])
        started = time.perf_counter()
        index.init_index(max_elements=len(base), M=m, ef_construction=ef_construction, random_seed=seed)
        index.add_items(base, num_threads=threads)
        seconds = time.perf_counter() - started
        index.save_index(str(directory / "index.bin"))
        return seconds

    def open(self, directory, meta):
        """Reads the file into memory, the only way hnswlib has."""
        self.index = self.library.Index(space=meta["metric"], dim=meta["dim"])
        self.index.load_index(str(directory / "index.bin"), max_elements=meta["n"])

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """ef and threads."""
        self.index.set_ef(int(value))
        self.threads = threads

    def search(self, queries):
        """knn_query."""
        return self.index.knn_query(queries, k=self.k, num_threads=self.threads)

    @staticmethod
    def ids(answer):
        """Labels are row numbers."""
        return answer[0].astype(np.int64)


class HnswlibReplace(Hnswlib):
    """hnswlib whose deleted elements are marked, and whose places new ones take."""

    settings = Hnswlib.settings + "; mark_deleted, then add_items with replace_deleted"

    def open(self, directory, meta):
        """As before, with places that may be taken again."""
        self.index = self.library.Index(space=meta["metric"], dim=meta["dim"])
        path = str(directory / "index.bin")
        self.index.load_index(path, max_elements=meta["n"], allow_replace_deleted=True)

    def change(self, delete, rows, labels, threads):
        """mark_deleted one by one, the only way; then one call for all new rows."""
        for label in delete.tolist():
            self.index.mark_deleted(label)
        self.index.add_items(rows, labels, num_threads=threads, replace_deleted=True)

    def merge(self, whole, threads):
        """hnswlib has nothing of the kind."""
        del whole, threads


class Faiss:
    """faiss HNSW, float32 or with a scalar quantiser."""

    any_length = True
    sweep = "efSearch"
    defaults = EF

    def __init__(self, quantizer):
        import faiss

        self.library = faiss
        self.version = faiss.__version__
        self.quantizer = quantizer
        kind = f"IndexHNSWSQ {quantizer}, no rescoring" if quantizer else "IndexHNSWFlat, float32"
        self.settings = f"{kind}; search over all queries, omp_set_num_threads as asked; {faiss.get_compile_options().strip()}"
        self.index = None
        self.factor = None
        self.filter = None
        self.ef = 0
        self.k = 0

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """train, where there is something to train, and add. The levels' generator takes no seed from Python."""
        del seed
        faiss = self.library
        kind = faiss.METRIC_INNER_PRODUCT if metric == "ip" else faiss.METRIC_L2
        if self.quantizer:
            index = faiss.IndexHNSWSQ(base.shape[1], getattr(faiss.ScalarQuantizer, self.quantizer), m, kind)
        else:
            index = faiss.IndexHNSWFlat(base.shape[1], m, kind)
        index.hnsw.efConstruction = ef_construction
        faiss.omp_set_num_threads(threads)
        started = time.perf_counter()
        if self._is_direct():
            factor = int8_scale(base)
            base = scaled(base, factor)
            np.save(directory / "factor.npy", np.float64(factor))
        index.train(base)
        index.add(base)
        seconds = time.perf_counter() - started
        faiss.write_index(index, str(directory / "index.faiss"))
        return seconds

    def _is_direct(self):
        return self.quantizer is not None and "direct" in self.quantizer

    def open(self, directory, meta):
        """read_index into memory."""
        del meta
        self.index = self.library.read_index(str(directory / "index.faiss"))
        self.factor = float(np.load(directory / "factor.npy")) if self._is_direct() else None

    def prepare(self, queries, k):
        """Queries of a direct quantiser are scaled as the base was, and not rounded."""
        self.k = k
        return queries if self.factor is None else queries * np.float32(self.factor)

    def configure(self, value, threads):
        """efSearch and OpenMP's threads."""
        self.index.hnsw.efSearch = self.ef = int(value)
        self.library.omp_set_num_threads(threads)

    def select(self, rows, conditions):
        """IDSelectorBitmap, the selector of dense sets; faiss evaluates no conditions."""
        del conditions
        passes = np.zeros(self.index.ntotal, dtype=bool)
        passes[rows] = True
        # The selector points into the bitmap, which has to live as long.
        bitmap = np.packbits(passes, bitorder="little")
        return bitmap, self.library.IDSelectorBitmap(bitmap)

    def search(self, queries):
        """search; under a filter with parameters that hold its selector."""
        if self.filter is None:
            return self.index.search(queries, self.k)
        parameters = self.library.SearchParametersHNSW(efSearch=self.ef, sel=self.filter[1])
        return self.index.search(queries, self.k, params=parameters)

    @staticmethod
    def ids(answer):
        """faiss pads with -1 itself."""
        return answer[1]


class Usearch:
    """usearch, float32, bfloat16 or int8."""

    sweep = "expansion_search"
    defaults = EF

    def __init__(self, dtype):
        import usearch
        import usearch.index

        self.library = usearch.index
        self.version = usearch.__version__
        self.dtype = dtype
        self.settings = f"{dtype}, viewed (mapped) file, search over all queries, threads as asked, no rescoring"
        self.index = None
        self.factor = None
        self.threads = 1
        self.k = 0

    def _kind(self, metric):
        # In int8 an inner product leaves usearch's result range, the cosine does not; over unit vectors they rank alike.
        return {"ip": "cos" if self.dtype == "i8" else "ip", "l2": "l2sq"}[metric]

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """add of all rows. There is no seed."""
        del seed
        index = self.library.Index(
            ndim=base.shape[1], metric=self._kind(metric), dtype=self.dtype, connectivity=m, expansion_add=ef_construction
        )
        started = time.perf_counter()
        if self.dtype == "i8":
            factor = int8_scale(base)
            base = scaled(base, factor).astype(np.int8)
            np.save(directory / "factor.npy", np.float64(factor))
        index.add(np.arange(len(base), dtype=np.uint64), base, threads=threads, log=False)
        seconds = time.perf_counter() - started
        index.save(str(directory / "index.usearch"))
        return seconds

    def open(self, directory, meta):
        """Maps the file, as the README has it for serving; 7 % slower than reading it into memory, measured here."""
        self.index = self.library.Index(
            ndim=meta["dim"], metric=self._kind(meta["metric"]), dtype=self.dtype, connectivity=meta["m"]
        )
        self.index.view(str(directory / "index.usearch"))
        self.factor = float(np.load(directory / "factor.npy")) if self.dtype == "i8" else None

    def prepare(self, queries, k):
        """int8 queries are cast here, outside the clock."""
        self.k = k
        return queries if self.factor is None else scaled(queries, self.factor).astype(np.int8)

    def configure(self, value, threads):
        """expansion_search and threads."""
        self.index.expansion_search = int(value)
        self.threads = threads

    def search(self, queries):
        """search of a matrix, a matrix of one row too."""
        return self.index.search(queries, self.k, threads=self.threads)

    @staticmethod
    def ids(answer):
        """The first `counts` keys of a row are valid."""
        keys = np.atleast_2d(answer.keys).astype(np.int64)
        counts = np.atleast_1d(getattr(answer, "counts", keys.shape[1]))
        keys[np.arange(keys.shape[1]) >= counts[:, None]] = -1
        return keys

"""faiss: `IndexRefine`, a coarse index whose best k * k_factor are scored again by vectors of 16 bits (`Refine(SQfp16)`).

Indexes are those that `index_factory` makes of these texts, where NLIST is the power of two next to 4 sqrt(n), as the wiki advises ("Guidelines
to choose an index"), and D is the number of dimensions:

| name | base index | k_factor | sweep |
|---|---|---|---|
| hnsw-sq8, -sq4 | `HNSW{M}_SQ8`, `_SQ4`: HNSW over scalar codes; `-r64` is M 32 | 2 | efSearch |
| ivf-pqfs | `IVF{NLIST},PQ{D/2}x4fs`: product codes of 4 bits, scored by lookups in registers | 4 | nprobe |
| ivf-rabitq | `IVF{NLIST},RaBitQfs`: one-bit codes, scored likewise | 8 | nprobe |

`HNSW{M}_RaBitQ4` answered five times as slowly as dyad (minilm-5k, 198 us a call) and is left out.

Timed: train and add, of base and refining index. Threads are OpenMP's. Both parts are read into memory.
"""

import math
import time

WIDTHS = {
    "efSearch": [10, 16, 22, 32, 36, 40, 46, 53, 62, 77, 102, 140, 192, 256],
    "nprobe": [4, 6, 8, 12, 16, 20, 24, 32, 40, 56, 80, 112, 160, 256],
}
# name -> base index, its sweep, k_factor
BASES = {
    "hnsw-sq8": ("HNSW{m}_SQ8", "efSearch", 2),
    "hnsw-sq4": ("HNSW{m}_SQ4", "efSearch", 2),
    "ivf-pqfs": ("IVF{nlist},PQ{half}x4fs", "nprobe", 4),
    "ivf-rabitq": ("IVF{nlist},RaBitQfs", "nprobe", 8),
}


class FaissRefine:
    """One base index."""

    def __init__(self, name, m=None):
        import faiss

        self.library = faiss
        self.version = faiss.__version__
        self.factory, self.sweep, self.k_factor = BASES[name]
        self.defaults = WIDTHS[self.sweep]
        self.m = m
        self.settings = (
            f"IndexRefine of {self.factory}, M {m or 'as asked'}, by SQfp16, k_factor {self.k_factor}; search over all queries, "
            f"omp_set_num_threads as asked; {faiss.get_compile_options().strip()}"
        )
        self.index = self.base = None
        self.k = 0

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """train and add. The levels' generator takes no seed from Python."""
        del seed
        faiss = self.library
        kind = faiss.METRIC_L2 if metric == "l2" else faiss.METRIC_INNER_PRODUCT
        count, dim = base.shape
        nlist = 2 ** round(math.log2(4 * math.sqrt(count)))
        text = self.factory.format(m=self.m or m, nlist=nlist, half=dim // 2)
        index = faiss.index_factory(dim, f"{text},Refine(SQfp16)", kind)
        inner = faiss.downcast_index(index.base_index)
        if self.sweep == "efSearch":
            inner.hnsw.efConstruction = ef_construction
        faiss.omp_set_num_threads(threads)
        started = time.perf_counter()
        index.train(base)
        index.add(base)
        seconds = time.perf_counter() - started
        faiss.write_index(index, str(directory / "index.faiss"))
        return seconds

    def open(self, directory, meta):
        """read_index into memory."""
        del meta
        self.index = self.library.read_index(str(directory / "index.faiss"))
        self.index.k_factor = self.k_factor
        self.base = self.library.downcast_index(self.index.base_index)

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """efSearch or nprobe, and OpenMP's threads."""
        if self.sweep == "efSearch":
            self.base.hnsw.efSearch = int(value)
        else:
            self.base.nprobe = int(value)
        self.library.omp_set_num_threads(threads)

    def search(self, queries):
        """search."""
        return self.index.search(queries, self.k)

    @staticmethod
    def ids(answer):
        """faiss pads with -1 itself."""
        return answer[1]

"""What fewer bytes of a vector cost, of dyad_search and of its peers in one run: compression.py VECTORS.npy QUERIES.npy [--vectors N].

    disk        bytes of a vector in the file of vectors, codes and graph
    resident    bytes of a vector by which a process has grown that has opened the file and answered all questions at ef 64
    recall@10   share of the ten nearest by all values of float32 that a search finds, at two widths and by comparing all that is stored

Each index is built in one process and opened in another. M 16, efConstruction 200, cosine; nprobe is a quarter of the width. Fewer dimensions
are the first ones, of length 1 again. Needs numpy and dyad_search; of usearch and faiss those that are installed. b1 is the sign of each value,
compared by Hamming distance.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy

K, M, EF_CONSTRUCTION = 10, 16, 200
WIDTHS = (64, 256)
DIMENSIONS = (384, 256, 192, 128, 96, 64)


def leading(rows, dim):
    """The first values, of length 1."""
    cut = rows[:, :dim].astype(numpy.float32)
    return cut / numpy.linalg.norm(cut, axis=1, keepdims=True)


class DyadSearch:
    """An index of so many values and a type of rows."""

    def __init__(self, dim, kind):
        self.dim, self.kind = int(dim), kind

    def build(self, base, place):
        import dyad_search

        dyad_search.Index.build(
            base, m=M, ef_construction=EF_CONSTRUCTION, dtype=self.kind, dimensions=self.dim, path=place, keys=range(len(base))
        )
        return sum(path.stat().st_size for path in pathlib.Path(place).rglob("dense.dyad"))

    def open(self, place):
        import dyad_search

        self.index = dyad_search.Index.open(place)

    def search(self, questions, width):
        return self.index.search(questions, K, width)[0]

    def exact(self, questions):
        return self.index.search(questions, K, exact=True)[0]


class Usearch:
    """usearch, whose rows are of one type."""

    def __init__(self, dim, kind):
        self.dim, self.kind = int(dim), kind

    def _rows(self, rows):
        cut = leading(rows, self.dim)
        return numpy.packbits(cut >= 0, axis=1) if self.kind == "b1" else cut

    def _index(self):
        import usearch.index

        metric = "hamming" if self.kind == "b1" else "ip"
        return usearch.index.Index(ndim=self.dim, metric=metric, dtype=self.kind, connectivity=M, expansion_add=EF_CONSTRUCTION)

    def build(self, base, place):
        index = self._index()
        index.add(numpy.arange(len(base)), self._rows(base))
        file = pathlib.Path(place) / "index.usearch"
        index.save(str(file))
        return file.stat().st_size

    def open(self, place):
        self.index = self._index()
        self.index.load(str(pathlib.Path(place) / "index.usearch"))

    def search(self, questions, width):
        self.index.expansion_search = width
        return self.index.search(self._rows(questions), K).keys

    def exact(self, questions):
        return self.index.search(self._rows(questions), K, exact=True).keys


class Faiss:
    """faiss, by the text of its factory, with `half` and `nlist` in it."""

    def __init__(self, dim, kind):
        self.dim, self.kind = int(dim), kind

    def build(self, base, place):
        import faiss

        rows = leading(base, self.dim)
        nlist = 2 ** round(math.log2(4 * math.sqrt(len(rows))))
        text = self.kind.format(m=M, half=self.dim // 2, eighth=self.dim // 8, nlist=nlist)
        index = faiss.index_factory(self.dim, text, faiss.METRIC_INNER_PRODUCT)
        if "HNSW" in text:
            self._base(index).hnsw.efConstruction = EF_CONSTRUCTION
        index.train(rows)
        index.add(rows)
        file = pathlib.Path(place) / "index.faiss"
        faiss.write_index(index, str(file))
        return file.stat().st_size

    def _base(self, index):
        import faiss

        return faiss.downcast_index(index.base_index) if isinstance(index, faiss.IndexRefine) else index

    def open(self, place):
        import faiss

        self.index = faiss.read_index(str(pathlib.Path(place) / "index.faiss"))

    def search(self, questions, width):
        import faiss

        base = self._base(self.index)
        if isinstance(self.index, faiss.IndexRefine):
            self.index.k_factor = 4
        if hasattr(base, "hnsw"):
            base.hnsw.efSearch = width
        else:
            base.nprobe = width // 4
        return self.index.search(leading(questions, self.dim), K)[1]

    def exact(self, questions):
        base = self._base(self.index)
        if hasattr(base, "hnsw"):
            return None
        base.nprobe = base.nlist
        return self.index.search(leading(questions, self.dim), K)[1]


KINDS = {"dyad_search": DyadSearch, "usearch": Usearch, "faiss": Faiss}
ENGINES = [f"dyad_search {dim} {kind}" for dim in DIMENSIONS for kind in ("float32", "float16", "int8")]
ENGINES += [f"usearch {dim} {kind}" for dim in (384, 128) for kind in ("f32", "f16", "i8", "b1")]
ENGINES += [f"faiss {dim} HNSW{{m}}_SQ8" for dim in (384, 128)]
ENGINES += [f"faiss 384 IVF{{nlist}},{codes}" for codes in ("PQ{half}x4fs", "PQ{eighth}")]
ENGINES += [f"faiss 384 IVF{{nlist}},{codes},Refine(SQ8)" for codes in ("PQ{half}x4fs", "PQ{eighth}")]


def engine_of(name):
    """By its name, its dimensions and its kind."""
    library, dim, kind = name.split(" ", 2)
    return KINDS[library](dim, kind)


def resident():
    """Bytes of this process in memory, mapped files included."""
    pages = int(pathlib.Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def step(arguments):
    """Builds an index, or opens and measures it, and prints what came of it."""
    engine, place = engine_of(arguments.engine), arguments.place
    if arguments.step == "build":
        print(json.dumps(engine.build(numpy.load(arguments.base), place)))
        return
    questions, truth = numpy.load(arguments.questions), numpy.load(arguments.truth)
    # What the libraries take that are loaded first is not the index's.
    __import__({"usearch": "usearch.index"}.get(arguments.engine.split()[0], arguments.engine.split()[0]))
    before = resident()
    engine.open(place)
    found = [engine.search(questions, width) for width in WIDTHS[:1]]
    grown = resident() - before
    found += [engine.search(questions, width) for width in WIDTHS[1:]] + [engine.exact(questions)]
    told = [None if hits is None else recall(hits, truth) for hits in found]
    print(json.dumps({"resident": grown, "recall": told}))


def recall(found, truth):
    """Mean share of the true neighbours that were found."""
    shared = [len(set(map(int, hits)) & set(map(int, exact))) for hits, exact in zip(found, truth, strict=True)]
    return sum(shared) / (K * len(truth))


def exact_neighbours(base, questions):
    """The `K` nearest rows of each question."""
    scores = questions @ base.T
    return numpy.argpartition(-scores, K, axis=1)[:, :K]


def called(*arguments):
    """What a process of this program prints."""
    command = [sys.executable, __file__, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    """Measures all engines, one after another, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("questions")
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--engines", help="those whose names contain one of these, between commas")
    for name in ("engine", "place", "step", "truth"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step(arguments)
        return
    wanted = (arguments.engines or "").split(",")
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        rows = numpy.load(arguments.base)[: arguments.vectors]
        base, questions = leading(rows, rows.shape[1]), numpy.load(arguments.questions).astype(numpy.float32)
        files = {"base": base, "questions": questions, "truth": exact_neighbours(base, questions)}
        for name, values in files.items():
            numpy.save(place / f"{name}.npy", values)
        given = [str(place / "base.npy"), str(place / "questions.npy"), "--truth", str(place / "truth.npy")]
        print("| engine | dimensions | vectors | disk | resident | recall@10, ef 64 | ef 256 | all |")
        print("|---|---|---|---|---|---|---|---|")
        for engine in ENGINES:
            if not any(part in engine for part in wanted):
                continue
            folder = place / "index"
            folder.mkdir()
            of = [*given, "--engine", engine, "--place", str(folder)]
            try:
                disk, opened = called(*of, "--step", "build"), called(*of, "--step", "open")
            except subprocess.CalledProcessError as error:
                print(f"{engine}: {error}", file=sys.stderr)
                continue
            finally:
                subprocess.run(["rm", "-r", str(folder)], check=True)
            library, dim, kind = engine.split(" ", 2)
            told = ["-" if share is None else f"{share:.4f}" for share in opened["recall"]]
            cells = [library, dim, kind, f"{disk / len(base):.0f}", f"{opened['resident'] / len(base):.0f}", *told]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

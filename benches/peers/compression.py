"""What fewer bytes of a vector cost, of dyad_search and of its peers in one run:

    compression.py VECTORS.npy QUERIES.npy [--vectors N] [--judgements QRELS.tsv]

    disk        bytes of a vector in the file of vectors, codes and graph
    resident    bytes of a vector by which a process has grown that has opened the file and answered all questions at ef 64
    recall@10   share of the ten nearest by all values of float32 that a search finds, at two widths and by comparing all that is stored
    nDCG@10     of the hits at ef 256, where there are judgements; both files are then parts of embeddings, with their `.keys` beside them

Each index is built in one process and opened in another. M 16, efConstruction 200, cosine; nprobe is a quarter of the width. Fewer dimensions
are the first ones, of length 1 again. Needs numpy and dyad_search; of usearch, faiss and qdrant-edge those that are installed. b1 is the sign of
each value, compared by Hamming distance. Qdrant's codes stand next to the vectors; `rescored` ranks twice (of 1 bit four times) as many
hits by those.
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


class Qdrant:
    """qdrant-edge: the type of its vectors, and its codes, which are ranked again by those or not."""

    BATCH = 1000
    # In KB, above any base used here: one segment.
    LARGEST_SEGMENT = 1 << 30

    def __init__(self, dim, kind):
        import qdrant_edge

        self.edge, self.dim = qdrant_edge, int(dim)
        self.vectors, _, codes = kind.partition(" + ")
        self.codes, self.rescored = codes.removesuffix(" rescored"), codes.endswith("rescored")

    def _config(self):
        edge = self.edge
        scalar = edge.ScalarQuantizationConfig(type=edge.ScalarType.Int8, quantile=0.99, memory=edge.Memory.Pinned)
        binary = edge.BinaryQuantizationConfig(encoding=edge.BinaryQuantizationEncoding.OneBit, memory=edge.Memory.Pinned)
        return edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(
                size=self.dim,
                distance=edge.Distance.Dot,
                memory=edge.Memory.Cached,
                datatype=getattr(edge.VectorStorageDatatype, self.vectors.capitalize()),
            ),
            hnsw_config=edge.HnswIndexConfig(
                m=M, ef_construct=EF_CONSTRUCTION, full_scan_threshold=10, max_indexing_threads=1, memory=edge.Memory.Pinned
            ),
            quantization_config={"": None, "int8": scalar, "1 bit": binary}[self.codes],
            optimizers=edge.EdgeOptimizersConfig(
                default_segment_number=1, max_segment_size=self.LARGEST_SEGMENT, indexing_threshold=1
            ),
            max_search_threads=1,
            wal_enabled=False,
        )

    def build(self, base, place):
        edge, rows = self.edge, leading(base, self.dim).tolist()
        shard = edge.EdgeShard.create(str(place), self._config())
        for start in range(0, len(rows), self.BATCH):
            numbered = enumerate(rows[start : start + self.BATCH], start)
            points = [edge.Point(id=number, vector=row, payload=None) for number, row in numbered]
            shard.update(edge.UpdateOperation.upsert_points(points))
        while shard.optimize():
            pass
        shard.flush()
        shard.close()
        # As in the other engines without keys; files are longer than what was written into them.
        parts = [path for part in ("vector_storage*", "vector_index*") for path in pathlib.Path(place).rglob(part)]
        files = {path for part in parts for path in [part, *part.rglob("*")] if path.is_file()}
        return sum(min(path.stat().st_size, path.stat().st_blocks * 512) for path in files)

    def open(self, place):
        self.shard = self.edge.EdgeShard.load(str(place), self._config())

    def _asked(self, questions, **how):
        edge = self.edge
        factor = 4.0 if self.codes == "1 bit" else 2.0
        codes = edge.QuantizationSearchParams(rescore=self.rescored, oversampling=factor if self.rescored else 1.0)
        params = edge.SearchParams(quantization=codes, **how)
        asked = [
            edge.QueryRequest(limit=K, query=edge.Query.Nearest(row), params=params, with_vector=False, with_payload=False)
            for row in leading(questions, self.dim).tolist()
        ]
        found = self.shard.query_batch(edge.QueryBatchRequest(asked))
        return numpy.array([[hit.id for hit in hits] for hits in found])

    def search(self, questions, width):
        return self._asked(questions, hnsw_ef=width)

    def exact(self, questions):
        return self._asked(questions, exact=True)


KINDS = {"dyad_search": DyadSearch, "usearch": Usearch, "faiss": Faiss, "qdrant-edge": Qdrant}
ENGINES = [f"dyad_search {dim} {kind}" for dim in DIMENSIONS for kind in ("float32", "float16", "int8")]
ENGINES += [f"usearch {dim} {kind}" for dim in (384, 128) for kind in ("f32", "f16", "i8", "b1")]
ENGINES += [f"faiss {dim} HNSW{{m}}_SQ8" for dim in (384, 128)]
ENGINES += [f"faiss 384 IVF{{nlist}},{codes}" for codes in ("PQ{half}x4fs", "PQ{eighth}")]
ENGINES += [f"faiss 384 IVF{{nlist}},{codes},Refine(SQ8)" for codes in ("PQ{half}x4fs", "PQ{eighth}")]
ENGINES += [f"qdrant-edge {dim} float32" for dim in (384, 128)]
ENGINES += [f"qdrant-edge 384 {kind}" for kind in ("float16", "float16 + int8", "float16 + int8 rescored", "float16 + 1 bit", "float16 + 1 bit rescored")]


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
    library = arguments.engine.split()[0]
    __import__({"usearch": "usearch.index", "qdrant-edge": "qdrant_edge"}.get(library, library))
    before = resident()
    engine.open(place)
    found = [engine.search(questions, width) for width in WIDTHS[:1]]
    grown = resident() - before
    found += [engine.search(questions, width) for width in WIDTHS[1:]] + [engine.exact(questions)]
    told = [None if hits is None else recall(hits, truth) for hits in found]
    if arguments.judgements:
        judged = json.loads(pathlib.Path(arguments.judgements).read_text(encoding="utf-8"))
        told.append(gain(found[len(WIDTHS) - 1], judged))
    print(json.dumps({"resident": grown, "told": told}))


def recall(found, truth):
    """Mean share of the true neighbours that were found."""
    shared = [len(set(map(int, hits)) & set(map(int, exact))) for hits, exact in zip(found, truth, strict=True)]
    return sum(shared) / (K * len(truth))


def gain(found, judged):
    """Mean nDCG@10 (Jarvelin and Kekalainen 2002, linear gains as trec_eval has them)."""
    discounts = [1 / math.log2(rank + 2) for rank in range(K)]
    total = 0.0
    for hits, relevant in zip(found, judged, strict=True):
        best = sorted(relevant.values(), reverse=True)
        ideal = sum(gain * discount for gain, discount in zip(best, discounts, strict=False))
        got = sum(relevant.get(str(hit), 0) * discount for hit, discount in zip(hits, discounts, strict=True))
        total += got / ideal
    return total / len(judged)


def judgements(qrels, base, questions):
    """Of each judged question its row, and the judgements of rows of the base."""
    row_of, question_of = ({key: row for row, key in enumerate(keys(path))} for path in (base, questions))
    judged = {}
    for line in pathlib.Path(qrels).read_text(encoding="utf-8").splitlines()[1:]:
        question, passage, grade = line.split("\t")
        if int(grade) > 0 and question in question_of and passage in row_of:
            judged.setdefault(question_of[question], {})[row_of[passage]] = int(grade)
    return sorted(judged), [judged[row] for row in sorted(judged)]


def keys(vectors):
    """The keys of a part of embeddings, which stand beside its vectors."""
    lines = pathlib.Path(vectors).with_suffix(".keys").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


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
    parser.add_argument("--judgements", help="qrels of a BEIR folder: query-id, corpus-id and score, behind a line of names")
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
        judged = []
        if arguments.judgements:
            asked, judged = judgements(arguments.judgements, arguments.base, arguments.questions)
            questions = questions[asked]
        files = {"base": base, "questions": questions, "truth": exact_neighbours(base, questions)}
        for name, values in files.items():
            numpy.save(place / f"{name}.npy", values)
        given = [str(place / "base.npy"), str(place / "questions.npy"), "--truth", str(place / "truth.npy")]
        columns = ["engine", "dimensions", "vectors", "disk", "resident", "recall@10, ef 64", "ef 256", "all"]
        if judged:
            (place / "judged.json").write_text(json.dumps(judged), encoding="utf-8")
            given += ["--judgements", str(place / "judged.json")]
            columns.append("nDCG@10")
        print(f"| {' | '.join(columns)} |")
        print(f"|{'---|' * len(columns)}")
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
            told = ["-" if share is None else f"{share:.4f}" for share in opened["told"]]
            cells = [library, dim, kind, f"{disk / len(base):.0f}", f"{opened['resident'] / len(base):.0f}", *told]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""Scalable Vector Search (SVS): Vamana graphs over floats, LVQ and LeanVec codes.

Which release. 0.5.0 ends the process when LVQ or LeanVec is asked for on a processor that is not Intel's, and its licence
forbids altering how it runs. 0.0.5 is the last under the AGPL; it has no such rule, and its loader documents
SVS_OVERRIDE_BACKEND for processors it does not know by name. So benches/peers/ann-venv.sh installs 0.5.0 on Intel and 0.0.5
elsewhere, and `version` in the record says which one was measured: on another vendor's processor the ratio is to 0.0.5, not to
the newest SVS on the hardware it is made for. 0.0.5 builds LVQ4, LVQ8, LVQ4x8 and LeanVec 8x8.

Build. graph_max_degree = 2 M (the ground level of HNSW has 2 M links), window_size = ef_construction, alpha 0.95 for inner
product and 1.2 for L2 (VamanaBuildParameters), prune_to = degree - 4 (0.5.0's default) and max_candidate_pool_size =
window_size (the documentation wants it no smaller): together 0.8 points more recall at window 32 than the defaults of 0.0.5 (no
slack, a pool of 80), LVQ4x8 on minilm-100k. Each variant's graph is built over its own codes; padding 32 and the packing Auto,
which takes Turbo where the release has it. LeanVec keeps half the dimensions, the default of Redis's LEANVEC_DIM.

Search. search_window_size is swept with search_buffer_capacity equal to it (1.5 and 2 times were slower at equal recall for
LVQ8 and LVQ4x8 here), the visited set on (the default of 0.5.0; 5 to 25 % faster here than off), prefetch_lookahead 4 and
prefetch_step 1 (the defaults; best or level with the best of 13 settings here).
"""

import contextlib
import os
import pathlib
import re
import shutil
import time

import numpy as np

WINDOWS = [10, 14, 18, 20, 24, 28, 32, 40, 48, 64, 80, 96, 128, 192]
PADDING = 32
# What 0.0.5 was compiled to build, of the compressed kinds.
IN_0_0_5 = ["lvq4", "lvq8", "lvq4x8", "leanvec8x8"]
COMPRESSED = ["lvq4", "lvq8", "lvq4x4", "lvq4x8", "lvq8x8", "leanvec8x8", "leanvec4x8"]
BACKENDS = {"icelake": {"avx512_vnni", "avx512_vbmi2", "avx512_bitalg"}, "cascadelake": {"avx512_vnni"}}


def cpu():
    """Vendor and flags of the first processor."""
    text = pathlib.Path("/proc/cpuinfo").read_text("utf-8")
    found = [re.search(rf"^{name}\s*: (.*)$", text, re.MULTILINE) for name in ("vendor_id", "flags")]
    vendor, flags = (match.group(1) if match else "" for match in found)
    return vendor, set(flags.split())


def library():
    """The module, its release, and the compressed kinds that it can build on this processor."""
    import importlib.metadata

    release = importlib.metadata.version("scalable-vs")
    vendor, flags = cpu()
    old = release.startswith("0.0.")
    if old and vendor != "GenuineIntel":
        backend = next((name for name, needed in BACKENDS.items() if needed <= flags), None)
        if backend is None:
            raise RuntimeError(f"scalable-vs {release}: expected a processor with AVX-512 VNNI, got one without")
        os.environ.setdefault("SVS_OVERRIDE_BACKEND", backend)
    # The loader warns of the override on stderr; the worker shows stderr only when it fails.
    import svs

    if release == "0.0.5":
        kinds = IN_0_0_5
    elif vendor == "GenuineIntel":
        kinds = COMPRESSED
    else:
        kinds = []
    return svs, release, kinds


class Family:
    """`svs-lvq`, and `svs-r64` of degree 64: the list of variants, one worker each."""

    sweep = "search_window_size"
    defaults = WINDOWS
    any_length = True
    settings = "a list: run each of `variants` as an engine of its own and take the best of them at each recall"

    def __init__(self, suffix=""):
        _, self.version, kinds = library()
        if not kinds:
            raise RuntimeError(f"scalable-vs {self.version} has no LVQ on this processor. Make the environment by benches/peers/ann-venv.sh")
        self.variants = [f"svs-{kind}{suffix}" for kind in kinds]


class Svs:
    """One kind of vectors."""

    sweep = "search_window_size"
    defaults = WINDOWS

    def __init__(self, kind, degree):
        self.svs, self.version, kinds = library()
        if kind in COMPRESSED and kind not in kinds:
            can = ", ".join(kinds) or "none"
            raise RuntimeError(f"scalable-vs {self.version} cannot build {kind} on this processor, only: {can}")
        self.kind = kind
        self.degree = degree
        backend = os.environ.get("SVS_OVERRIDE_BACKEND")
        self.settings = (
            f"Vamana over {kind}, graph_max_degree {degree or '2 M'}, search_buffer_capacity = search_window_size, visited set, "
            f"prefetch 4/1, Vamana.search over all queries, num_threads as asked" + (f", backend {backend}" if backend else "")
        )
        self.index = None
        self.k = 0

    def _compressed(self, source):
        """The loader of this kind, from vectors (a loader) or from what was saved (a path)."""
        svs = self.svs
        if self.kind in ("f32", "f16"):
            kind = svs.DataType.float32 if self.kind == "f32" else svs.DataType.float16
            return svs.VectorDataLoader(source, kind) if isinstance(source, str) else source
        first, second = re.fullmatch(r"\D+(\d+)x?(\d*)", self.kind).groups()
        if self.kind.startswith("lvq"):
            if isinstance(source, str):
                return svs.LVQLoader(source, padding=PADDING)
            return svs.LVQLoader(source, primary=int(first), residual=int(second or 0), padding=PADDING)
        if isinstance(source, str):
            return svs.LeanVecLoader(source, alignment=PADDING)
        kinds = {"4": svs.LeanVecKind.lvq4, "8": svs.LeanVecKind.lvq8}
        return svs.LeanVecLoader(
            source,
            leanvec_dims=source.dims // 2,
            primary_kind=kinds[first],
            secondary_kind=kinds[second],
            alignment=PADDING,
        )

    @contextlib.contextmanager
    def _vectors(self, base, directory):
        """The base as a file of SVS, the only form its compressors read."""
        svs = self.svs
        place = directory / "vectors"
        place.mkdir()
        try:
            source, kind = place / "base.fvecs", svs.DataType.float32
            svs.write_vecs(base, str(source))
            if self.kind == "f16":
                source, kind = place / "base.hvecs", svs.DataType.float16
                svs.convert_fvecs_to_float16(str(place / "base.fvecs"), str(source))
            svs.convert_vecs_to_svs(str(source), str(place / "base.svs"), kind)
            yield svs.VectorDataLoader(str(place / "base.svs"), kind, dims=base.shape[1])
        finally:
            shutil.rmtree(place)

    def _distance(self, metric):
        return {"ip": self.svs.DistanceType.MIP, "l2": self.svs.DistanceType.L2}[metric]

    def build(self, base, metric, m, ef_construction, threads, seed, directory):
        """Reads, compresses and builds. There is no seed."""
        del seed
        degree = self.degree or 2 * m
        parameters = self.svs.VamanaBuildParameters(
            alpha=0.95 if metric == "ip" else 1.2,
            graph_max_degree=degree,
            window_size=ef_construction,
            max_candidate_pool_size=ef_construction,
            prune_to=degree - 4 if degree >= 16 else degree,
        )
        with self._vectors(base, directory) as vectors:
            started = time.perf_counter()
            index = self.svs.Vamana.build(parameters, self._compressed(vectors), self._distance(metric), num_threads=threads)
            seconds = time.perf_counter() - started
        index.save(*(str(directory / part) for part in ("config", "graph", "data")))
        return seconds

    def open(self, directory, meta):
        """Reads graph and codes into memory (huge pages where the kernel gives them); SVS maps nothing."""
        self.index = self.svs.Vamana(
            str(directory / "config"),
            self.svs.GraphLoader(str(directory / "graph")),
            self._compressed(str(directory / "data")),
            self._distance(meta["metric"]),
            num_threads=1,
        )

    def prepare(self, queries, k):
        """Keeps k."""
        self.k = k
        return queries

    def configure(self, value, threads):
        """Window and threads; a window below k is not possible."""
        svs, window = self.svs, max(int(value), self.k)
        self.index.search_parameters = svs.VamanaSearchParameters(
            buffer_config=svs.SearchBufferConfig(window, window),
            search_buffer_visited_set=True,
            prefetch_lookahead=4,
            prefetch_step=1,
        )
        if self.index.num_threads != threads:
            self.index.num_threads = threads

    def search(self, queries):
        """search."""
        return self.index.search(queries, self.k)

    @staticmethod
    def ids(answer):
        """Row numbers, unsigned."""
        return answer[0].astype(np.int64)

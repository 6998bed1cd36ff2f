"""A dense index in this process, over NumPy arrays: built, searched and changed here, and served by `dyad-searcher`.

    index = dyad_search.Index.build(vectors)
    ids, scores = index.search(question, k=10)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ._native import VERSION, NativeIndex

__all__ = ["Index", "Progress", "__version__"]

__version__ = VERSION

#: Is called with the stage of a build, what is done of it, and all that there is to do, or 0 where that is not known.
Progress = Callable[[str, int, int], object]

#: A key: a text, or a whole number.
Key = str | int


class Index:
    """An index in a directory. Threads may share it: searches and builds let Python's other threads go on.

    A change is on disk when its method returns, and this object serves it then; what others change, after `reload`. Objects of other
    processes share the pages of the same directory. Pickled, it is its path."""

    __slots__ = ("_native",)

    def __init__(self, native: NativeIndex) -> None:
        """Not to be called: `Index.build` and `Index.open` make one."""
        self._native = native

    @classmethod
    def build(
        cls,
        vectors: Any,
        metric: str = "cosine",
        m: int = 16,
        ef_construction: int = 200,
        *,
        keys: Iterable[Key] | None = None,
        texts: Iterable[str] | None = None,
        titles: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        model: str = "unknown",
        threads: int = 0,
        path: str | os.PathLike[str] | None = None,
        dtype: str = "float32",
        dimensions: int | None = None,
        seed: int = 42,
        progress: Progress | None = None,
    ) -> Index:
        """Builds an index of an array of shape [documents, values], and opens it.

        `metric`: "cosine" (vectors are scaled to length 1), "dot" or "l2". `keys` are texts or whole numbers, by default those of the
        rows. `dtype` is that of the stored rows, "float32", "float16" (half the bytes) or "int8" (none: the codes
        that every index has stand for them, and scores change by about 3e-4). `dimensions` keeps as many of the first
        values of each vector, for models that were trained so that these say most (Matryoshka); vectors of later changes and searches may
        have all values, or these. `model` names what made the vectors: an index takes no others later. `threads`: 0 for one of each core. Without a `path`
        it is in a temporary directory, which goes with the object; an index that is in `path` gets another generation. Ctrl-C ends a
        build, and leaves what was there."""
        return cls(
            NativeIndex.build(
                vectors,
                metric=metric,
                dtype=dtype,
                dimensions=dimensions,
                m=m,
                ef_construction=ef_construction,
                keys=keys,
                texts=texts,
                titles=titles,
                metadata=metadata,
                model=model,
                threads=threads,
                path=None if path is None else os.fspath(path),
                seed=seed,
                progress=progress,
            )
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Index:
        """Opens the index in a directory, which `build` or `dyad-indexer` has made, or one of its shards (`INDEX/shards/ID`), which is
        read alone and cannot be changed."""
        return cls(NativeIndex.open(os.fspath(path)))

    def search(
        self,
        vectors: Any,
        k: int = 10,
        ef: int | None = None,
        *,
        recall: float | None = None,
        exact: bool = False,
        filter: Any = None,
        threads: int = 1,
    ) -> tuple[Any, Any]:
        """Ids and scores of the `k` nearest documents, the nearest first: arrays of `k`, or of [questions, k] for rows of questions.

        Ids are int64 where the keys of the index are numbers, as far as some of them tell, and objects otherwise, as in a call that finds
        another one. Where there are fewer than `k`, ids are -1 or None, and scores NaN. Scores are cosines, inner products, or minus half the square of the distance ("l2").

        At most one of these: `ef`, the mean width of the beams (128); `recall`, by which the certificates of the shards choose it, as
        `ef_for` tells; `exact`, which compares with every vector. `filter`: keys, an array of booleans with one for each number of a
        document, or conditions as the searcher takes them: `{"lang": "en", "year": {">=": 2020}}`. `threads` share the questions of a
        batch; 0 for one of each core."""
        return self._native.search(vectors, k, ef=ef, recall=recall, exact=exact, filter=filter, threads=threads)

    def hybrid(
        self,
        texts: str | Sequence[str],
        vectors: Any,
        k: int = 10,
        ef: int | None = None,
        *,
        recall: float | None = None,
        exact: bool = False,
        filter: Any = None,
        dense_weight: float | None = None,
        depth: int = 100,
        threads: int = 1,
    ) -> tuple[Any, Any]:
        """Ids and scores of the `k` best documents by the vector and the words of a question, or of many: a text and a row for each.

        Both rankings, `depth` hits of each, are fused as `dyad-searcher` does it: as was learned for the index, or else by log odds
        where it knows its model's logit scale, and by a weighted sum where not. `dense_weight`, from 0 to 1, is that of the vectors.
        The rest is as for `search`."""
        return self._native.hybrid(
            texts,
            vectors,
            k,
            ef=ef,
            recall=recall,
            exact=exact,
            filter=filter,
            dense_weight=dense_weight,
            depth=depth,
            threads=threads,
        )

    def bm25(
        self, texts: str | Sequence[str], k: int = 10, *, filter: Any = None, threads: int = 1
    ) -> tuple[Any, Any]:
        """Ids and scores of the `k` best documents by the words of a question, or of many, with the statistics of the whole index."""
        return self._native.hybrid(
            texts,
            None,
            k,
            ef=None,
            recall=None,
            exact=False,
            filter=filter,
            dense_weight=None,
            depth=k,
            threads=threads,
        )

    def documents(self, keys: Iterable[Key]) -> list[dict[str, Any] | None]:
        """The documents with these keys, in their order: `key`, `title`, `text` and `metadata`; None for keys that no document has, as
        the -1 that `search` fills up with."""
        found = self._native.documents(keys)
        return [
            None
            if one is None
            else {
                "key": one["key"],
                "title": one["title"],
                "text": one["text"],
                "metadata": json.loads(one["metadata_json"] or "{}"),
            }
            for one in found
        ]

    def ef_for(self, recall: float, k: int = 10, *, filtered: bool = False) -> tuple[int, str | None]:
        """The beam width that has reached a recall in all shards when they were measured, and why it is not guaranteed, if so."""
        return self._native.ef_for(recall, k, filtered)

    def append(
        self,
        vectors: Any,
        *,
        keys: Sequence[Key],
        texts: Iterable[str] | None = None,
        titles: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        threads: int = 0,
    ) -> dict[str, int]:
        """Adds documents, whose keys must be new; returns what it came to."""
        return self._native.upsert(vectors, keys=keys, texts=texts, titles=titles, metadata=metadata, threads=threads, replace=False)

    def upsert(
        self,
        vectors: Any,
        *,
        keys: Sequence[Key],
        texts: Iterable[str] | None = None,
        titles: Iterable[str] | None = None,
        metadata: Iterable[Mapping[str, Any] | None] | None = None,
        threads: int = 0,
    ) -> dict[str, int]:
        """Adds documents, and replaces those whose keys are there; returns what it came to."""
        return self._native.upsert(vectors, keys=keys, texts=texts, titles=titles, metadata=metadata, threads=threads, replace=True)

    def delete(self, keys: Iterable[Key]) -> dict[str, int]:
        """Deletes documents by key; keys that no document has are counted as `rejected`."""
        return self._native.delete(keys)

    def merge(self, threads: int = 0) -> dict[str, int]:
        """Merges all shards into one, without what was deleted."""
        return self._native.merge(threads)

    def certificate(self) -> list[dict[str, Any]]:
        """What each shard has measured of its graph: recall and cost by beam width."""
        measured: list[dict[str, Any]] = json.loads(self._native.certificate())
        return measured

    def memory(self) -> dict[str, int]:
        """Bytes: `hot` pages of files, which nearly every search reads (graphs and codes); `cold` ones (vectors, keys, texts); and
        `anonymous` memory. Pages are those of the system's cache, which processes share."""
        return self._native.memory()

    def reload(self) -> int:
        """Serves the generation that others have published; returns its number."""
        return self._native.reload()

    @property
    def path(self) -> str:
        """Its directory."""
        return str(self._native.path)

    @property
    def generation(self) -> int:
        """The generation that is served."""
        return self._native.generation

    @property
    def dim(self) -> int:
        """Values of each vector."""
        return self._native.dim

    @property
    def metric(self) -> str:
        """How vectors are compared."""
        return self._native.metric

    def __len__(self) -> int:
        return len(self._native)

    def __contains__(self, key: Key) -> bool:
        return key in self._native

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (Index.open, (self.path,))

    def __repr__(self) -> str:
        return f"Index({self.path!r}, documents={len(self)}, dim={self.dim}, metric={self.metric!r}, generation={self.generation})"

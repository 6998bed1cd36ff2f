"""`Store`: one index to read and write, as the modules of LangChain, LlamaIndex and Haystack need it: a searcher and a server of changes.

Clients are made when they are first needed, so that a process may fork before; those of asyncio for each event loop (`async_store.py`).
"""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

from .changes import Wait
from .connection import TlsConfig
from .diversity import maximal_marginal_relevance
from .document import Document
from .filters import Filter
from .filters import keys as with_keys
from .index import Index
from .replies import ChangeReply, Hit, SearchResponse, Status
from .request import Request
from .searcher import Searcher
from .store_filters import Named, named
from .vectors import Vector

if TYPE_CHECKING:
    from .async_store import AsyncStore

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: What a search may be asked for besides question, filter and number of hits: nothing that leaves out a part of the documents.
SEARCH_ARGUMENTS = (
    "mode", "offset", "score_threshold", "ef", "target_recall", "exact", "group_by", "rerank_depth", "rerank_weight", "fusion",
    "dense_weight", "document_weight", "min_coverage", "fusion_depth", "rrf_k",
)  # fmt: skip
#: Keys of one look-up, and documents of one change that has to be made as a whole.
MOST_KEYS = 1024
MOST_NEW = 256
_COSINE = 1


class StoreOptions(TypedDict, total=False):
    """How an index is read and written, besides the addresses."""

    #: Name of the index, where the searcher serves several.
    index: str
    #: Of searches that name none: `hybrid`, `dense` or `bm25`; None: hybrid, or dense where there is a vector alone.
    mode: str | None
    #: The metadata field that is a document's title, which the server embeds and searches with the text (`title`); None: no field is.
    title: str | None
    #: Of the model of vectors that are given; without one they are taken for vectors of the index's own model.
    fingerprint: str
    #: What a change waits for: `searchable`, so that the next search sees it, or `durable`.
    wait: Wait
    #: Seconds for each call.
    timeout: float
    tls: bool | TlsConfig | None
    api_key: str | None
    #: Of the server of changes, where it is another one.
    indexer_api_key: str | None


class Store:
    """One index, at the address of a searcher, and of `dyad-indexer serve` where it is to be changed."""

    def __init__(self, searcher: str, indexer: str | None, **options: Unpack[StoreOptions]) -> None:
        for name in options:
            if name not in StoreOptions.__annotations__:
                raise TypeError(f"expected options of {', '.join(StoreOptions.__annotations__)}, got {name!r}")
        self.searcher_target, self.indexer_target, self.index_name = searcher, indexer, options.get("index", "")
        self.mode, self.title = checked_mode(options.get("mode")), options.get("title", "title")
        self.wait, self.timeout = options.get("wait", "searchable"), options.get("timeout", 30.0)
        self.tls, self.api_key = options.get("tls"), options.get("api_key")
        self.indexer_api_key = options.get("indexer_api_key") or self.api_key
        self.known_fingerprint = options.get("fingerprint", "")
        self._lock = threading.Lock()
        self._searcher: Searcher | None = None
        self._index: Index | None = None
        self._of_loops: dict[asyncio.AbstractEventLoop, AsyncStore] = {}

    @property
    def named(self) -> Named:
        """How filters name metadata fields."""
        return named(self.title)

    @property
    def searcher(self) -> Searcher:
        """The client that searches."""
        with self._lock:
            if self._searcher is None:
                self._searcher = Searcher(
                    self.searcher_target, tls=self.tls, api_key=self.api_key, timeout=self.timeout, index=self.index_name
                )
            return self._searcher

    @property
    def index(self) -> Index:
        """The client that changes the index."""
        target = self.writable()
        with self._lock:
            if self._index is None:
                self._index = Index(target, tls=self.tls, api_key=self.indexer_api_key, timeout=self.timeout)
            return self._index

    def writable(self) -> str:
        """The address of the server of changes."""
        if self.indexer_target is None:
            raise ValueError("`indexer`: expected the address of `dyad-indexer serve` for a change, such as '127.0.0.1:7702', got None")
        return self.indexer_target

    def for_loop(self) -> AsyncStore:
        """The same for the event loop that runs."""
        from .async_store import AsyncStore

        loop = asyncio.get_running_loop()
        with self._lock:
            for ended in [one for one in self._of_loops if one.is_closed()]:
                del self._of_loops[ended]
            if loop not in self._of_loops:
                self._of_loops[loop] = AsyncStore(self)
            return self._of_loops[loop]

    def close(self) -> None:
        """Closes the clients that were made outside of event loops."""
        with self._lock:
            for client in (self._searcher, self._index):
                if client is not None:
                    client.close()

    async def aclose(self) -> None:
        """Closes the clients of the event loop that runs."""
        with self._lock:
            one = self._of_loops.pop(asyncio.get_running_loop(), None)
        if one is not None:
            await one.close()

    # Documents, and what the frameworks call their metadata.

    def document(self, key: str, text: str, metadata: Mapping[str, Any], vector: Vector | None = None) -> Document:
        """The document that is stored."""
        title = metadata.get(self.title) if self.title is not None else None
        if title is None or title == "":
            return Document(key, text, "", metadata, vector)
        if not isinstance(title, str):
            fix = "Give a text, or name another field by `title=` of the store (None: none)"
            raise ValueError(f"document {key!r:.80}: `{self.title}`: expected a text, since it is the document's title, got {type(title).__name__}. {fix}")
        return Document(key, text, title, {name: value for name, value in metadata.items() if name != self.title}, vector)

    def metadata(self, document: Document) -> dict[str, Any]:
        """The metadata of a stored document, with its title."""
        if self.title is None or not document.title:
            return dict(document.metadata)
        if document.metadata.get(self.title) not in (None, ""):
            fix = "Name another field by `title=` of the store (None leaves titles out)"
            raise ValueError(f"document {document.key!r:.80}: expected a title or the metadata field `{self.title}`, got both. {fix}")
        return {self.title: document.title, **{name: value for name, value in document.metadata.items() if name != self.title}}

    # Searches.

    def request(
        self, text: str, vector: Vector | None, fingerprint: str, k: int, filter: Filter | None, arguments: Mapping[str, Any]
    ) -> Request:
        """A search by a text, a vector, or both: then BM25 searches for the text, and the vector is the question's."""
        given = dict(arguments)
        for name in given:
            if name not in SEARCH_ARGUMENTS:
                raise TypeError(f"search: expected arguments of {', '.join(SEARCH_ARGUMENTS)}, got {name!r}")
        asked = checked_mode(given.pop("mode", None))
        mode = asked or self.mode
        if not text and vector is not None:
            if asked not in (None, "dense"):
                raise ValueError(f"`mode`: expected dense for a vector without a text, got {asked}")
            mode = "dense"
        if k < 1:
            # The searcher would choose a number.
            raise ValueError(f"`k`: expected at least 1 hit, got {k}")
        if vector is not None and mode != "bm25":
            given |= {"vector": vector, "fingerprint": fingerprint}
        return Request(text, k=k, mode=mode, filter=filter, **given)

    def search(
        self, text: str, vector: Vector | None, k: int, filter: Filter | None, arguments: Mapping[str, Any]
    ) -> tuple[Hit, ...]:
        """The best hits, with their documents."""
        fingerprint = self.fingerprint() if vector is not None else ""
        return told(self.searcher.search(self.request(text, vector, fingerprint, k, filter, arguments)))

    def diverse(
        self, text: str, vector: Vector | None, k: int, fetch_k: int, weight: float, filter: Filter | None, arguments: Mapping[str, Any]
    ) -> list[Hit]:
        """Those of the `fetch_k` nearest documents that are near the question and not near each other."""
        check_cosine(self.searcher.status())
        hits = self.search(text, vector, max(k, fetch_k), filter, dense(arguments))
        if not hits:
            return []
        found = self.searcher.scroll(filter=with_keys([hit.key for hit in hits]), with_vectors=True, fields=["key"])
        return diverse(hits, found, k, weight)

    def fingerprint(self) -> str:
        """Of the model of vectors that are given."""
        if not self.known_fingerprint:
            self.known_fingerprint = self.searcher.status().fingerprint
        return self.known_fingerprint

    def read(self, keys: Sequence[str]) -> list[Document]:
        """The documents with these keys that there are, in the order of the keys."""
        return [document for some in batches(list(dict.fromkeys(keys)), MOST_KEYS) for document in self.searcher.documents(some).documents]

    # Changes.

    def upsert(self, documents: Sequence[Document]) -> None:
        """Adds documents and replaces those with the same keys. Those without a vector are embedded by the server."""
        for some, has_vectors in by_vectors(documents):
            fingerprint = self.fingerprint() if has_vectors else ""
            made(self.index.upsert_all(some, fingerprint=fingerprint, wait=self.wait))

    def insert(self, documents: Sequence[Document], added: set[str] | None = None) -> None:
        """Adds documents with new keys; `Aborted` where one of them is there. Up to 256 with vectors, or without, are added together or not at all.
        `added` is told the keys of those that were added, also where others were refused afterwards."""
        for some, has_vectors in by_vectors(documents):
            fingerprint = self.fingerprint() if has_vectors else ""
            for batch in batches(some, MOST_NEW):
                new = {document.key: None for document in batch}
                made(self.index.upsert(batch, fingerprint=fingerprint, expected=new, wait=self.wait))
                if added is not None:
                    added.update(new)

    def update(self, keys: Sequence[str], metadata: Mapping[str, Any]) -> int:
        """Sets fields of the metadata of documents, and counts them. `Aborted` where somebody else changes one of them meanwhile."""
        count = 0
        for some in batches(keys, MOST_NEW):
            found = self.searcher.documents(some).documents
            expected = {document.key: document.etag for document in found}
            if found:
                made(self.index.upsert(self.changed(found, metadata), expected=expected, wait=self.wait))
            count += len(found)
        return count

    def changed(self, documents: Iterable[Document], metadata: Mapping[str, Any]) -> list[Document]:
        """Documents with some other metadata. They come without vectors: those of unchanged texts stay as they are."""
        return [self.document(one.key, one.text, {**self.metadata(one), **metadata}) for one in documents]

    def delete(self, keys: Sequence[str]) -> None:
        """Deletes documents; keys that no document has are left alone."""
        if keys:
            made(self.index.delete_all(keys, wait=self.wait))

    def delete_where(self, filter: Filter) -> int:
        """Deletes all documents that match, and counts them."""
        return made(self.index.delete_where(filter, wait=self.wait)).indexed


def checked_mode(mode: str | None) -> str | None:
    """A mode whose reply is one ranking."""
    if mode not in (None, "dense", "bm25", "hybrid"):
        raise ValueError(f"`mode`: expected dense, bm25, hybrid or None, got {mode!r}")
    return mode


def told(response: SearchResponse) -> tuple[Hit, ...]:
    """The hits of a reply; what is missing is told as a warning, and what its notes say is logged."""
    if response.degraded:
        warnings.warn(f"the searcher's answer is degraded: {response.degraded}", RuntimeWarning, stacklevel=4)
    for note in response.notes:
        logger.info("searcher: %s", note)
    return response.hits


def made(reply: ChangeReply) -> ChangeReply:
    """A change that was made; a warning where searchers do not serve it yet."""
    if reply.searchable is False:
        message = f"the change is made (generation {reply.generation}), but a searcher did not serve it in time: searches may not see it yet"
        warnings.warn(message, RuntimeWarning, stacklevel=4)
    return reply


def by_vectors(documents: Sequence[Document]) -> Iterator[tuple[list[Document], bool]]:
    """Documents with vectors and those without, for the calls of a client have either. Of several with one key the last counts."""
    last = list({document.key: document for document in documents}.values())
    for has_vectors in (True, False):
        if some := [document for document in last if (document.vector is not None) == has_vectors]:
            yield some, has_vectors


def batches(given: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Parts of at most `most`."""
    return (given[start : start + most] for start in range(0, len(given), most))


def dense(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the search for candidates of maximal marginal relevance, which compares cosines."""
    if arguments.get("mode", "dense") not in (None, "dense"):
        raise ValueError(f"`mode`: expected dense, by whose scores maximal marginal relevance chooses, got {arguments['mode']!r}")
    return {**arguments, "mode": "dense"}


def check_cosine(status: Status) -> None:
    """Scores have to be cosines where they are compared with those of documents, or are to be from 0 to 1."""
    if status.message.index_model.metric != _COSINE:
        raise ValueError(f"index {status.index!r}: expected one that compares by cosine, got another metric. Search by similarity, without relevance scores")


def diverse(hits: Sequence[Hit], found: Iterable[Document], k: int, weight: float) -> list[Hit]:
    """The hits that are chosen, by the vectors of their documents; those that were deleted since the search are left out."""
    vectors: dict[str, Any] = {document.key: document.vector for document in found}
    there = [hit for hit in hits if hit.key in vectors]
    chosen = maximal_marginal_relevance([hit.score for hit in there], [vectors[hit.key] for hit in there], k, weight)
    return [there[at] for at in chosen]

"""The client of VectorDBBench: it changes an index by `dyad-indexer serve`, and searches by a `dyad-searcher serve --watch` over it.

Keys are the ids, and the metadata of each document are `id` (for filters "id >= N"), `labels` and `tenant` where a case has them. Vectors
are the benchmark's, so neither server needs a model: they go under the fingerprint that the index declares.
"""

import time
from contextlib import contextmanager

from dyad_client import DyadError, Index, Searcher, Unfinished, field

from vectordb_bench.backend.filter import Filter, FilterOp
from vectordb_bench.backend.payload import PayloadProfile

from ..api import VectorDB
from .config import DyadCaseConfig

#: Documents of one change. Each change is a generation with a shard of its own, so that few large ones are loaded faster than many.
BATCH = 5000
CHANGE_TIMEOUT_S = 600.0
#: How long a searcher that follows an index may take to serve what was written, and how long its merges may take to come to rest.
VISIBLE_TIMEOUT_S, REST_TIMEOUT_S, REST_S = 60.0, 600.0, 5.0


class Dyad(VectorDB):
    """One index. `init` connects, in each process anew; without it the object holds settings alone, so that it can be pickled."""

    name = "Dyad"
    supported_filter_types = [FilterOp.NonFilter, FilterOp.NumGE, FilterOp.StrEqual]
    thread_safe = True

    def __init__(
        self,
        dim: int,
        db_config: dict,
        db_case_config: DyadCaseConfig | None,
        collection_name: str = "",
        drop_old: bool = False,
        name: str = "Dyad",
        with_scalar_labels: bool = False,
        **kwargs,
    ):
        self.name, self.dim, self.addresses = name, dim, db_config
        self.case_config = db_case_config or DyadCaseConfig()
        self.search_param = self.case_config.search_param()
        self.case_config.index_param()
        self.with_scalar_labels = with_scalar_labels
        self.searcher = self.indexer = self.condition = None
        self.fingerprint = ""
        with self.init():
            served = self.searcher.status().dim
            if served != dim:
                raise ValueError(
                    f"`dim`: expected {served}, the values of the vectors of the served index, got {dim}. Serve another index"
                )
            if drop_old:
                self.indexer.delete_where(field("id") >= 0, timeout=CHANGE_TIMEOUT_S)
                self.wait_for(0)

    @contextmanager
    def init(self):
        """Connects to both programs, until the block ends."""
        self.searcher = Searcher(self.addresses["searcher"], index=self.addresses["index"])
        self.indexer = Index(self.addresses["indexer"], timeout=CHANGE_TIMEOUT_S)
        try:
            self.fingerprint = self.searcher.status().fingerprint
            yield
        finally:
            self.searcher.close()
            self.indexer.close()
            self.searcher = self.indexer = None

    def wait_for(self, documents):
        """Waits until the searcher has so many documents."""
        until = time.monotonic() + VISIBLE_TIMEOUT_S
        while (found := self.searcher.count()) != documents:
            if time.monotonic() > until:
                raise TimeoutError(
                    f"expected {documents} documents within {VISIBLE_TIMEOUT_S} s, got {found}. Serve with `--watch`"
                )
            time.sleep(0.1)

    def insert_embeddings(
        self,
        embeddings: list[list[float]],
        metadata: list[int],
        labels_data: list[str] | None = None,
        tenant_labels_data: list[str] | None = None,
        **kwargs,
    ) -> tuple[int, Exception | None]:
        """Adds vectors under their ids, and replaces those that have them. The changes are on disk when this returns."""
        fields = {"id": metadata}
        if self.with_scalar_labels and labels_data is not None:
            fields["labels"] = labels_data
        if tenant_labels_data is not None:
            fields["tenant"] = tenant_labels_data
        # A document that is written has a text, also where it brings its vector: its key.
        rows = zip(*fields.values(), strict=True)
        documents = (
            {"key": str(row[0]), "text": str(row[0]), "metadata": dict(zip(fields, row, strict=True))} for row in rows
        )
        try:
            told = self.indexer.upsert_all(
                documents,
                vectors=embeddings,
                fingerprint=self.fingerprint,
                batch=BATCH,
                in_flight=1,
                timeout=CHANGE_TIMEOUT_S,
            )
        except Unfinished as error:
            return error.position, error
        except DyadError as error:
            return 0, error
        return told.read, None

    def optimize(self, data_size: int | None = None):
        """Waits until the searcher has all documents and the indexer's merges have come to rest: no new generation for some seconds."""
        if data_size is not None:
            self.wait_for(data_size)
        until = time.monotonic() + REST_TIMEOUT_S
        generation, since = None, time.monotonic()
        while time.monotonic() - since < REST_S:
            served = self.searcher.status().generation
            if served != generation:
                generation, since = served, time.monotonic()
            if time.monotonic() > until:
                raise TimeoutError(
                    f"expected merges to end within {REST_TIMEOUT_S} s, got generation {served} just now"
                )
            time.sleep(0.2)

    def poll_insert_readiness(self, expected_count: int) -> dict:
        """What is found at once is also indexed: a change builds the graph of its shard before it is published."""
        documents = self.searcher.count()
        ready = documents >= expected_count
        return {"fully_searchable": ready, "fully_indexed": ready, "additional_parameters": {"documents": documents}}

    def prepare_filter(self, filters: Filter):
        """The condition of the next searches."""
        if filters.type == FilterOp.NonFilter:
            self.condition = None
        elif filters.type == FilterOp.NumGE:
            self.condition = field(filters.int_field) >= filters.int_value
        elif filters.type == FilterOp.StrEqual:
            self.condition = field(filters.label_field) == filters.label_value
        else:
            raise ValueError(f"`filters.type`: expected NonFilter, NumGE or Label, got {filters.type}")

    def supports_multitenant(self) -> bool:
        """A tenant is a value of the field `tenant`."""
        return True

    def search_embedding(
        self,
        query: list[float],
        k: int = 100,
        payload_profile: PayloadProfile = PayloadProfile.IDS_ONLY,
        tenant: str | None = None,
    ) -> list[int]:
        """Ids of the nearest vectors, the nearest first."""
        condition = self.condition
        if tenant is not None:
            of_tenant = field("tenant") == tenant
            condition = of_tenant if condition is None else condition & of_tenant
        found = self.searcher.search(
            vector=query, fingerprint=self.fingerprint, k=k, keys_only=True, filter=condition, **self.search_param
        )
        return [int(hit.key) for hit in found.hits]

    def __getstate__(self):
        """Settings and the condition as its bytes: connections are each process's own."""
        state = self.__dict__ | {"searcher": None, "indexer": None, "condition": None}
        state["condition_bytes"] = None if self.condition is None else self.condition.message.SerializeToString()
        return state

    def __setstate__(self, state):
        condition = state.pop("condition_bytes")
        self.__dict__.update(state)
        if condition is not None:
            from dyad_client import Filter as Condition
            from dyad_client._generated import filter_pb2

            self.condition = Condition(filter_pb2.Filter.FromString(condition))

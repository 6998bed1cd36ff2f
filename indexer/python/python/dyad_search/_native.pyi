from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

__all__ = ["NativeIndex", "VERSION"]

VERSION: str

@final
class NativeIndex:
    @staticmethod
    def build(
        vectors: Any,
        *,
        metric: str,
        dtype: str,
        dimensions: int | None,
        m: int,
        ef_construction: int,
        keys: Iterable[str | int] | None,
        texts: Iterable[str] | None,
        titles: Iterable[str] | None,
        metadata: Iterable[Mapping[str, Any] | None] | None,
        model: str,
        threads: int,
        path: str | None,
        seed: int,
        progress: Callable[[str, int, int], object] | None,
    ) -> NativeIndex: ...
    @staticmethod
    def open(path: str) -> NativeIndex: ...
    def search(
        self,
        vectors: Any,
        k: int,
        *,
        ef: int | None,
        recall: float | None,
        exact: bool,
        filter: Any,
        threads: int,
    ) -> tuple[Any, Any]: ...
    def hybrid(
        self,
        texts: str | Iterable[str],
        vectors: Any,
        k: int,
        *,
        ef: int | None,
        recall: float | None,
        exact: bool,
        filter: Any,
        dense_weight: float | None,
        depth: int,
        threads: int,
    ) -> tuple[Any, Any]: ...
    def documents(self, keys: Iterable[str | int]) -> list[dict[str, str] | None]: ...
    def ef_for(self, recall: float, k: int, filtered: bool) -> tuple[int, str | None]: ...
    def memory(self) -> dict[str, int]: ...
    def upsert(
        self,
        vectors: Any,
        *,
        keys: Iterable[str | int],
        texts: Iterable[str] | None,
        titles: Iterable[str] | None,
        metadata: Iterable[Mapping[str, Any] | None] | None,
        threads: int,
        replace: bool,
    ) -> dict[str, int]: ...
    def delete(self, keys: Iterable[str | int]) -> dict[str, int]: ...
    def merge(self, threads: int) -> dict[str, int]: ...
    def certificate(self) -> str: ...
    def reload(self) -> int: ...
    @property
    def path(self) -> Any: ...
    @property
    def generation(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def metric(self) -> str: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str | int, /) -> bool: ...

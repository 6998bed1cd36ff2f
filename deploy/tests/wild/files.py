#!/usr/bin/env python3
"""Files as other programs write them, against Python's own readers: compression x encoding x line ends x format x command.

    .venv/bin/python deploy/tests/wild/files.py target/release --seconds 3600 --seed 1

A handful of records is written in one format, with one of the line ends, encodings and compressions that are in use, and read by a
command. What Python reads (json, gzip, zstandard, pyarrow) the command reads, every record of it; or it fails and names the file. A record
that is missing or changed, and an end with 0 where Python finds no records, are differences, which are printed and whose file is kept.
"""

import argparse
import collections
import gzip
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unicodedata
import zlib

import numpy
import pyarrow
import pyarrow.parquet
import zstandard

COMMAND_S = 60
WORDS = "river city \u00e9t\u00e9 na\u00efve e\u0301t\u00e9 \u4f60\u597d \U0001f30b \u03a3\u03bf\u03c6\u03cc\u03c2 \"quoted\" back\\slash tab\\t <b>bold</b> &amp; 007 0.5 \u2028line \u0085next \u00a0space".split(" ")
ENDS = {"unix": "\n", "dos": "\r\n", "mixed": None}
# Encodings, and whether they are read.
ENCODINGS = {"utf-8": True, "utf-8-sig": True, "utf-16": False, "utf-16-le": False, "utf-16-be": False, "utf-32": False, "latin-1": False}


def records(chance):
    """Keys, titles and texts."""
    kept = []
    for at in range(chance.choice([1, 2, 5, 40])):
        words = [chance.choice(WORDS) for _ in range(chance.randint(1, 8))]
        kept.append((f"k{at}" if chance.random() < 0.8 else f"key\u00e9 {at}", chance.choice(["", "A title"]), " ".join(["text", *words])))
    return kept


def joined(lines, ends, chance):
    """Lines with their ends; the last may have none, and empty ones may stand between."""
    text = "".join(line + (ENDS[ends] or chance.choice(["\n", "\r\n"])) + ("\n" if chance.random() < 0.05 else "") for line in lines)
    return text.rstrip("\r\n") if chance.random() < 0.3 else text


def jsonl(kept, chance):
    """One object per line, as different writers have it."""
    names = chance.choice([("_id", "text"), ("id", "contents"), ("docid", "text")])
    ascii_only, gaps = chance.choice([True, False]), chance.choice([(",", ":"), (", ", ": ")])
    lines = []
    for key, title, text in kept:
        fields = [(names[0], key), ("title", title), (names[1], text), ("metadata", {"n": 1})]
        chance.shuffle(fields)
        lines.append(json.dumps(dict(fields), ensure_ascii=ascii_only, separators=gaps))
    return lines


def flat(text):
    """As a format of lines can hold it."""
    return " ".join(text.split())


def tsv(kept, _):
    """Key and text."""
    return [f"{key}\t{flat(text)}" for key, _, text in kept]


def tsv_with_header(kept, _):
    """Columns by a header."""
    return ["id\ttext\ttitle", *(f"{key}\t{flat(text)}\t{title}" for key, title, text in kept)]


def escaped(text):
    """Text as SGML has it."""
    return flat(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def trec(kept, chance):
    """TREC's elements, with the key inside or as LDC has it."""
    lines = []
    for key, title, text in kept:
        attribute = chance.random() < 0.5
        opening = f'<DOC id="{key}" type="story">' if attribute else chance.choice(["<DOC>", "<doc>", "<DOC >"])
        lines += [opening] + ([] if attribute else [f"<DOCNO> {key} </DOCNO>"])
        lines += [f"<HEADLINE>{title}</HEADLINE>"] if title else []
        lines += ["<TEXT>", escaped(text), "</TEXT>", "</DOC>"]
    return lines


FORMATS = {"jsonl": (jsonl, ".jsonl"), "tsv": (tsv, ".tsv"), "tsv-header": (tsv_with_header, ".tsv"), "trec": (trec, ".sgml")}


def gzip_named(data):
    """With the file's name in the header, as gzip(1) writes it."""
    out = io.BytesIO()
    with gzip.GzipFile(filename="name", mode="wb", fileobj=out) as file:
        file.write(data)
    return out.getvalue()


def bgzf(data):
    """Members with an extra field, and an empty last one, as bgzip writes them."""
    members = b""
    for part in [data[at : at + 300] for at in range(0, len(data), 300)] + [b""]:
        packer = zlib.compressobj(6, zlib.DEFLATED, -15)
        body = packer.compress(part) + packer.flush()
        size = (len(body) + 25).to_bytes(2, "little")
        head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + size
        members += head + body + zlib.crc32(part).to_bytes(4, "little") + len(part).to_bytes(4, "little")
    return members


def halves(pack):
    """As two members or frames."""
    return lambda data: pack(data[: len(data) // 2]) + pack(data[len(data) // 2 :])


def zstd(**how):
    """One frame."""
    return lambda data: zstandard.ZstdCompressor(**how).compress(data)


def zstd_streamed(data):
    """A frame that does not say how long it is."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(data) + packer.flush()


def skippable(data):
    """A frame that no reader looks into, as pzstd puts them before its own."""
    return b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + len(data).to_bytes(4, "little")


def long_window(log):
    """A frame that asks for a large window, as `zstd --long` writes it: raw blocks (RFC 8878, 3.1.1)."""
    def pack(data):
        parts = [data[at : at + 1000] for at in range(0, len(data), 1000)] or [b""]
        head = b"\x28\xb5\x2f\xfd\0" + bytes([(log - 10) << 3])
        header = lambda at, part: (len(part) << 3 | (at == len(parts) - 1)).to_bytes(3, "little")
        return head + b"".join(header(at, part) + part for at, part in enumerate(parts))
    return pack


COMPRESSIONS = {
    "none": (lambda data: data, ""),
    "gzip": (gzip.compress, ".gz"),
    "gzip named": (gzip_named, ".gz"),
    "gzip members": (halves(gzip.compress), ".gz"),
    "gzip zeros": (lambda data: gzip.compress(data) + bytes(700), ".gz"),
    "gzip members and zeros": (lambda data: halves(gzip.compress)(data) + bytes(5), ".gz"),
    "bgzf": (bgzf, ".gz"),
    "gzip, named zst": (gzip.compress, ".zst"),
    "zstd": (zstd(), ".zst"),
    "zstd 19 with checksum": (zstd(level=19, write_checksum=True), ".zst"),
    "zstd frames": (halves(zstd()), ".zst"),
    "zstd streamed": (zstd_streamed, ".zst"),
    "pzstd": (lambda data: skippable(data) + zstd()(data), ".zst"),
    "pzstd frames": (halves(lambda data: skippable(data) + zstd()(data)), ".zst"),
    "zstd, skippable last": (lambda data: zstd()(data) + skippable(data), ".zst"),
    "zstd --long=27": (long_window(27), ".zst"),
    "zstd --long=31": (long_window(31), ".zst"),
    "zstd, named gz": (zstd(), ".gz"),
    "not compressed, named gz": (lambda data: data, ".gz"),
}
# What is cut short or followed by something is refused.
DAMAGE = {
    "cut": lambda data: data[:-7],
    "rest": lambda data: data + b"rest",
    "pointer": lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 10\n",
    "empty": lambda data: b"",
}


class Programs:
    """The commands under test."""

    def __init__(self, binaries: pathlib.Path, scratch: pathlib.Path):
        self.binaries, self.scratch = binaries, scratch

    def run(self, program: str, *arguments):
        """The exit code, and both outputs."""
        command = [self.binaries / f"dyad-{program}", *map(str, arguments)]
        environment = os.environ | {"RUST_BACKTRACE": "0"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, env=environment, errors="replace")
        if "panicked" in done.stderr:
            raise AssertionError(f"{command}: {done.stderr}")
        return done.returncode, done.stdout, done.stderr

    def vectors(self, rows: int) -> pathlib.Path:
        """An array of that many rows."""
        path = self.scratch / "rows.npy"
        numpy.save(path, numpy.random.default_rng(1).normal(size=(rows, 4)).astype("f4"))
        return path

    def index(self, *arguments):
        """Builds an index; what it holds, or the failure."""
        folder, out = self.scratch / "index", self.scratch / "projector"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
        code, _, error = self.run("indexer", "build", "--index", folder, "--model-name", "m", "--threads", 1, *arguments)
        if code != 0:
            return None, error
        self.run("indexer", "export", "projector", "--index", folder, "--out", out)
        lines = (out / "metadata.tsv").read_text(encoding="utf-8").split("\n")
        return sorted(tuple(line.split("\t")[:3]) for line in lines[1:] if line), ""


def shown(kept):
    """Records as `export projector` shows them."""
    clean = lambda text: "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in text)
    return sorted((key, clean(title), clean(text)) for key, title, text in kept)


def corpus(programs, chance, tally):
    """A corpus of lines."""
    form, ends = chance.choice(list(FORMATS)), chance.choice(list(ENDS))
    encoding, compression = chance.choice([*["utf-8"] * 4, *ENCODINGS]), chance.choice(list(COMPRESSIONS))
    kept = records(chance)
    write, ending = FORMATS[form]
    if form != "jsonl":
        kept = [(key, title if form != "tsv" else "", flat(text)) for key, title, text in kept]
    text = joined(write(kept, chance), ends, chance)
    reads = ENCODINGS[encoding] or text.isascii() and encoding == "latin-1"
    if encoding == "latin-1":
        text = text if text.isascii() else "".join(c if ord(c) < 256 else "\u00e9" for c in text)
        reads = text.isascii()
    pack, suffix = COMPRESSIONS[compression]
    data = pack(text.encode(encoding))
    damage = chance.choice([None] * 9 + list(DAMAGE))
    # Without what was cut off, text ends earlier, and padding is shorter: both are read.
    survives = {"cut": ("none", "not compressed, named gz", "gzip zeros"), "rest": ("none", "not compressed, named gz")}
    if damage and compression not in survives.get(damage, ()):
        data, reads = DAMAGE[damage](data), False
    path = programs.scratch / f"corpus{ending}{suffix}"
    path.write_bytes(data)
    what = f"corpus, {form}, {ends}, {encoding}, {compression}, {damage or 'whole'}"
    found, error = programs.index("--corpus", path, "--vectors", programs.vectors(len(kept)))
    return judged(what, path, found, error, shown(kept), reads, tally)


def keys(programs, chance, tally):
    """A file of keys."""
    ends, encoding = chance.choice(list(ENDS)), chance.choice([*["utf-8", "utf-8-sig"] * 3, *ENCODINGS])
    compression, kept = chance.choice(list(COMPRESSIONS)), [key for key, _, _ in records(chance)]
    text = joined(kept, ends, chance)
    reads = ENCODINGS[encoding] or text.isascii() and encoding == "latin-1"
    pack, suffix = COMPRESSIONS[compression]
    path = programs.scratch / f"keys.txt{suffix}"
    path.write_bytes(pack(text.encode(encoding)))
    what = f"keys, {ends}, {encoding}, {compression}"
    found, error = programs.index("--keys", path, "--vectors", programs.vectors(len(kept)))
    held = sorted(row[0] for row in found) if found is not None else None
    flaw = judged(what, path, held, error, sorted(kept), reads, tally)
    if flaw or held is None:
        return flaw
    # The same file names what is deleted.
    code, out, error = programs.run("indexer", "delete", "--index", programs.scratch / "index", "--keys", path)
    if code != 0 or f"{len(kept)} -> 0 documents" not in out:
        return f"{what}: delete ended with {code}: {out}{error}"
    return None


def judgements(programs, chance, tally):
    """Judgements and a run."""
    kept = [(f"q{at}", f"d{at}", chance.choice([1, 2])) for at in range(chance.choice([1, 3, 20]))]
    grade = chance.choice([str, lambda number: f"{number}.0", lambda number: f"{number:.3f}"])
    form = chance.choice(["beir", "no header", "trec", "ir_datasets", "other order"])
    lines = {
        "beir": ["query-id\tcorpus-id\tscore"] + [f"{q}\t{d}\t{grade(g)}" for q, d, g in kept],
        "no header": [f"{q}\t{d}\t{grade(g)}" for q, d, g in kept],
        "trec": [f"{q} 0 {d} {grade(g)}" for q, d, g in kept],
        "ir_datasets": ["query_id\tdoc_id\trelevance\titeration"] + [f"{q}\t{d}\t{grade(g)}\t0" for q, d, g in kept],
        "other order": ["doc_id\tquery_id\tlabel"] + [f"{d}\t{q}\t{grade(g)}" for q, d, g in kept],
    }[form]
    ends, encoding = chance.choice(list(ENDS)), chance.choice(["utf-8", "utf-8-sig", "utf-16"])
    compression = chance.choice(list(COMPRESSIONS))
    pack, suffix = COMPRESSIONS[compression]
    path, run = programs.scratch / f"qrels.tsv{suffix}", programs.scratch / "hits.run"
    path.write_bytes(pack(joined(lines, ends, chance).encode(encoding)))
    run.write_text("".join(f"{q} Q0 {d} 1 1.5 tag\n" for q, d, _ in kept))
    code, out, error = programs.run("bench", "metrics", "--qrels", path, "--run", run, "--json")
    what = f"judgements, {form}, {ends}, {encoding}, {compression}"
    found = None
    if code == 0:
        measured = json.loads(out)
        found = "all" if measured["queries"]["judged"] == len(kept) and measured["metrics"]["recip_rank"] == 1.0 else out
    return judged(what, path, found, error, "all", ENCODINGS[encoding], tally)


def parquet(programs, chance, tally):
    """A Parquet file of documents or of vectors, by pyarrow."""
    kept, codec = records(chance), chance.choice(["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
    options = {"compression": codec, "use_dictionary": chance.choice([True, False]), "data_page_version": chance.choice(["1.0", "2.0"])}
    options["row_group_size"] = chance.choice([1, 3, 1000])
    path = programs.scratch / "documents.parquet"
    if chance.random() < 0.5:
        kind = chance.choice([pyarrow.string(), pyarrow.large_string(), pyarrow.string_view(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string())])
        columns = {name: pyarrow.array([row[at] for row in kept]).cast(kind) for at, name in enumerate(["_id", "title", "text"])}
        pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
        found, error = programs.index("--corpus", path, "--vectors", programs.vectors(len(kept)))
        return judged(f"parquet, {kind}, {options}", path, found, error, shown(kept), True, tally)
    number = chance.choice([pyarrow.float16(), pyarrow.float32(), pyarrow.float64()])
    rows = [numpy.asarray([at + 1, 2, 3, 4], {"halffloat": "f2", "float": "f4", "double": "f8"}[str(number)]) for at in range(len(kept))]
    lists = chance.choice([pyarrow.list_(number), pyarrow.list_(number, 4), pyarrow.large_list(number)])
    columns = {"_id": pyarrow.array([key for key, _, _ in kept]), "vector": pyarrow.array(rows, lists)}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)
    found, error = programs.index("--vectors", path)
    held = sorted(row[0] for row in found) if found is not None else None
    return judged(f"parquet, {lists}, {options}", path, held, error, sorted(key for key, _, _ in kept), True, tally)


def judged(what, path, found, error, expected, reads, tally):
    """What is wrong; nothing where the file was read whole, or refused by its name."""
    if found is None:
        tally["refused" if not reads else "REFUSED THOUGH PYTHON READS IT"] += 1
        if reads:
            return f"{what}: refused: {error}"
        return None if path.name in error else f"{what}: the refusal names no file: {error}"
    if not reads:
        return f"{what}: read, where Python reads nothing: {str(found)[:200]}"
    tally["read"] += 1
    return None if found == expected else f"{what}: expected {str(expected)[:300]}, got {str(found)[:300]}"


def main() -> int:
    """0 where nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0, help="first seed; one after another is tried")
    parser.add_argument("--only", type=int, help="this seed alone, and keep its files in ./wild-files")
    given = parser.parse_args()
    tally, differ = collections.Counter(), []
    with tempfile.TemporaryDirectory() as scratch:
        programs = Programs(given.binaries.resolve(), pathlib.Path(scratch))
        until, seed = time.monotonic() + given.seconds, given.seed if given.only is None else given.only
        while time.monotonic() < until:
            chance = random.Random(seed)
            trial = chance.choice([corpus, corpus, corpus, keys, judgements, parquet])
            found = trial(programs, chance, tally)
            if found:
                differ.append(found)
                print(f"DIFFERS: seed {seed}, {found}", flush=True)
            if given.only is not None:
                shutil.copytree(scratch, "wild-files", dirs_exist_ok=True)
                break
            seed += 1
    for what, count in tally.most_common():
        print(f"{count:6}  {what}")
    print(f"{len(differ)} differences")
    return 1 if differ or not tally["read"] else 0


if __name__ == "__main__":
    sys.exit(main())

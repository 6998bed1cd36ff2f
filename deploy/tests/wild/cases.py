#!/usr/bin/env python3
"""Faults that users of other systems reported in public, rebuilt as small inputs: runs those of cases.json.

    python3 deploy/tests/wild/cases.py target/release                   all of them; 0 where each does what it should
    python3 deploy/tests/wild/cases.py target/release --only NAME       one
    .venv/bin/python deploy/tests/wild/cases.py target/release --record vectors of models by sentence-transformers, into cases.json

A case has `files` (text, or bytes as `hex`; `rows` makes an array of that many vectors), and `steps`: a command, the exit `code`, what it
`says` on either output, and what it must not say (`unsaid`). A case of a model has a `model` (a folder of encoder/tests/golden/tiny) with
fields of its JSON files changed (`edit`), `texts`, and either the `vectors` that sentence-transformers gives, or the `refusal`. `source` is the
public report whose kind of fault it is. `TINY` in a file or a command is the folder of those models.
"""

import argparse
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TINY = HERE.parents[2] / "encoder/tests/golden/tiny"
CASES, COMMAND_S, ALIKE = HERE / "cases.json", 60, 1e-5


def array(rows: int, values: int) -> bytes:
    """A .npy file of random float32 (NumPy's format 1.0)."""
    chance = random.Random(rows)
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {values}), }}"
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    body = struct.pack(f"<{rows * values}f", *(chance.uniform(-1, 1) for _ in range(rows * values)))
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header.encode() + body


def content(given) -> bytes:
    """The bytes of a file."""
    if isinstance(given, str):
        return given.replace("TINY", str(TINY)).encode()
    if "rows" in given:
        return array(given["rows"], given.get("values", 8))
    return bytes.fromhex(given["hex"])


def write(folder: pathlib.Path, files: dict) -> None:
    """The files of a case."""
    for name, given in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content(given))


def run(binaries: pathlib.Path, folder: pathlib.Path, command: list[str]) -> subprocess.CompletedProcess:
    """A command of the case, in its folder."""
    program, *arguments = (part.replace("TINY", str(TINY)) for part in command)
    environment = os.environ | {"RUST_BACKTRACE": "0"}
    binary = [binaries / f"dyad-{program}", *arguments]
    return subprocess.run(binary, cwd=folder, capture_output=True, text=True, errors="replace", timeout=COMMAND_S, env=environment)


def check_steps(binaries, folder, steps) -> str | None:
    """What a step does otherwise than it should."""
    for step in steps:
        done = run(binaries, folder, step["run"])
        said, command = done.stdout + done.stderr, " ".join(step["run"])
        if done.returncode != step.get("code", 0):
            return f"{command}: ended with {done.returncode}, expected {step.get('code', 0)}: {said}"
        for part in step.get("says", []):
            if part not in said:
                return f"{command}: does not say {part!r}: {said}"
        for part in step.get("unsaid", []):
            if part in said:
                return f"{command}: says {part!r}: {said}"
    return None


def merged(value: dict, change: dict) -> dict:
    """With these fields; null takes one away."""
    fields = value | change
    return {name: field for name, field in fields.items() if field is not None or name not in change}


def make_model(folder: pathlib.Path, case: dict) -> pathlib.Path:
    """The model of a case."""
    model = folder / "model"
    shutil.copytree(TINY / case["model"], model)
    for name, change in case.get("edit", {}).items():
        path = model / name
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(merged(known, change)))
    for name in case.get("without", []):
        (model / name).unlink()
    write(model, case.get("files", {}))
    return model


def check_model(binaries, folder, case) -> str | None:
    """What a model does otherwise than sentence-transformers."""
    make_model(folder, case)
    for tower in ("question", "answer"):
        command = ["encoder", "encode", "--model", "model", "--threads", "1", "--tower", tower, *case.get("options", [])]
        done = run(binaries, folder, [*command, "--", *case["texts"]])
        for part in case.get("refusal", []):
            if done.returncode == 0 or part not in done.stderr:
                return f"expected a refusal that says {part!r}: {done.stdout[:200]}{done.stderr}"
        if "refusal" in case:
            continue
        if done.returncode != 0:
            return done.stderr
        for part in case.get("says", []):
            if part not in done.stderr:
                return f"does not say {part!r}: {done.stderr}"
        for line, expected, text in zip(done.stdout.splitlines(), case["vectors"][tower], case["texts"], strict=True):
            off = max(abs(ours - theirs) for ours, theirs in zip(json.loads(line)["vector"], unit(expected), strict=True))
            if not off <= ALIKE:
                return f"{tower}, {text!r}: off by {off:.2g}"
    return None


def unit(vector: list[float]) -> list[float]:
    """Of unit length."""
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector]


def record(case: dict) -> None:
    """The vectors of a model by sentence-transformers, each text alone."""
    import torch
    from sentence_transformers import SentenceTransformer

    with tempfile.TemporaryDirectory() as folder:
        model = SentenceTransformer(str(make_model(pathlib.Path(folder), case)), device="cpu", model_kwargs={"dtype": torch.float32})
        encode = {"question": model.encode_query, "answer": model.encode_document}
        rows = {tower: [embed([text])[0].tolist() for text in case["texts"]] for tower, embed in encode.items()}
    case["vectors"] = {tower: [[float(f"{value:.8g}") for value in row] for row in of_tower] for tower, of_tower in rows.items()}


def main() -> int:
    """0 where every case does what it should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", type=pathlib.Path, help="folder of the programs")
    parser.add_argument("--only", help="the case of this name")
    parser.add_argument("--record", action="store_true", help="compute the vectors of models again")
    given = parser.parse_args()
    cases = json.loads(CASES.read_text())
    if given.record:
        for case in cases:
            if "model" in case and "refusal" not in case:
                record(case)
        CASES.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases) + "\n]\n")
        return 0
    cases = [case for case in cases if given.only in (None, case["name"])]
    if not cases:
        sys.exit(f"no case is called {given.only}")
    failed = 0
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if "model" in case:
                flaw = check_model(given.binaries.resolve(), folder, case)
            else:
                write(folder, case["files"])
                flaw = check_steps(given.binaries.resolve(), folder, case["steps"])
        if flaw:
            failed += 1
            print(f"FAILED {case['name']} ({case['source']}): {flaw}", flush=True)
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

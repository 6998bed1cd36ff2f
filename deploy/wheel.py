"""Takes files out of a Python wheel without installing it, and checks each against the wheel's own RECORD.

    wheel.py unpack WHEEL DEST FROM=TO...   FROM a member, or a folder when it ends in "/"; TO a path under DEST
    wheel.py verify DIR                     checks what `pip install --target DIR` laid down

Only the standard library is used.
"""

import base64
import csv
import hashlib
import io
import pathlib
import sys
import zipfile

CHUNK_BYTES = 1 << 20


class Refused(Exception):
    """A file does not match its RECORD."""


def digest(stream):
    """The SHA-256 of a binary stream, as RECORD writes it (urlsafe base64 without padding)."""
    sha256 = hashlib.sha256()
    while chunk := stream.read(CHUNK_BYTES):
        sha256.update(chunk)
    return base64.urlsafe_b64encode(sha256.digest()).rstrip(b"=").decode()


def record_rows(text):
    """Member name -> digest, for the rows that carry a SHA-256."""
    rows = {}
    for row in csv.reader(io.StringIO(text)):
        if len(row) >= 2 and row[1].startswith("sha256="):
            rows[row[0]] = row[1].removeprefix("sha256=")
    return rows


def check(name, member, rows, got):
    """Refuses a member that RECORD does not name or whose digest differs."""
    if member not in rows:
        raise Refused(f"{name}: `{member}` is not in RECORD")
    if got != rows[member]:
        raise Refused(f"{name}: wrong SHA-256 of `{member}`: expected {rows[member]}, got {got}")


def copy_checked(archive, info, target, rows, name):
    """Writes one member to `target`, hashing the bytes as they are written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    sha256 = hashlib.sha256()
    with archive.open(info) as source, open(target, "wb") as sink:
        while chunk := source.read(CHUNK_BYTES):
            sha256.update(chunk)
            sink.write(chunk)
    got = base64.urlsafe_b64encode(sha256.digest()).rstrip(b"=").decode()
    check(name, info.filename, rows, got)


def unpack(wheel, dest, pairs):
    """Extracts the members named by `pairs` (FROM, TO) under `dest`; returns the number of files."""
    wheel, dest = pathlib.Path(wheel), pathlib.Path(dest)
    count = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            records = [n for n in names if n.endswith(".dist-info/RECORD") and n.count("/") == 1]
            if len(records) != 1:
                raise Refused(f"{wheel.name}: expected one RECORD, got {len(records)}")
            rows = record_rows(archive.read(records[0]).decode())
            for source, to in pairs:
                members = [n for n in names if n == source or (source.endswith("/") and n.startswith(source))]
                members = [n for n in members if not n.endswith("/")]
                if not members:
                    raise Refused(f"{wheel.name}: no member `{source}`")
                for member in members:
                    relative = to + member[len(source) :]
                    if ".." in pathlib.PurePosixPath(relative).parts or relative.startswith("/"):
                        raise Refused(f"{wheel.name}: `{member}` would be written outside of {dest}")
                    copy_checked(archive, archive.getinfo(member), dest / relative, rows, wheel.name)
                    count += 1
    except (zipfile.BadZipFile, EOFError) as error:
        raise Refused(f"{wheel.name}: not a whole wheel: {error}") from error
    return count


def verify(folder):
    """Checks every file that the RECORDs of an installed folder name; returns the number of files."""
    folder = pathlib.Path(folder)
    records = sorted(folder.glob("*.dist-info/RECORD"))
    if not records:
        raise Refused(f"{folder}: no RECORD")
    count = 0
    for record in records:
        for member, expected in record_rows(record.read_text()).items():
            path = folder / member
            # pip moves scripts (../../bin/...) elsewhere under --target: they are not needed.
            if member.startswith("../"):
                continue
            if not path.is_file():
                raise Refused(f"{record.parent.name}: `{member}` is missing")
            with open(path, "rb") as stream:
                check(record.parent.name, member, {member: expected}, digest(stream))
            count += 1
    return count


def main(arguments):
    """Runs one of the two verbs."""
    try:
        if len(arguments) >= 4 and arguments[0] == "unpack":
            pairs = [tuple(pair.split("=", 1)) for pair in arguments[3:]]
            count = unpack(arguments[1], arguments[2], pairs)
        elif len(arguments) == 2 and arguments[0] == "verify":
            count = verify(arguments[1])
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except (Refused, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{pathlib.Path(arguments[1]).name}: {count} files, SHA-256 as in RECORD")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

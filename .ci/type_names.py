"""Every type has a name of its own in the workspace: type_names.py ROOT prints each name that two types have and fails if there is one."""

import collections
import pathlib
import re
import sys

from rust_source import crates, product_code

TYPE = re.compile(r"^(?:[ \t]*)(?:pub(?:\([^)]*\))?[ \t]+)?(struct|enum|union|trait|type)[ \t]+(\w+)", re.MULTILINE)
# Names that several crates have, and why.
SHARED = {
    "Error": "each library has one, as is usual in Rust; other crates name it with its crate",
    "Result": "with the crate's `Error`",
}


def types(code):
    """The names of the types that a file declares, with their lines; associated types are none."""
    for found in TYPE.finditer(code):
        kind, name = found.groups()
        is_associated = kind == "type" and found[0][0].isspace()
        if not is_associated:
            yield name, code.count("\n", 0, found.start(2)) + 1


def declared(root):
    """For each name, the places that declare a type of it, outside tests."""
    places = collections.defaultdict(list)
    for folder in crates(root).values():
        for file in [*sorted(folder.glob("src/**/*.rs")), *sorted(folder.glob("build/**/*.rs"))]:
            if "tests" in file.relative_to(folder).with_suffix("").parts:
                continue
            for name, line in types(product_code(file)):
                places[name].append(f"{file.relative_to(root)}:{line}")
    return places


def violations(places):
    """A line for each name that several types have."""
    for name, found in sorted(places.items()):
        if len(found) > 1 and name not in SHARED:
            yield f"{name}: expected one type of this name, got {len(found)}: {', '.join(found)}. Name what each of them is"


def main(root):
    """Prints the violations; the exit code says whether there are any."""
    places = declared(pathlib.Path(root).resolve())
    found = list(violations(places))
    for line in found:
        print(line)
    print(f"type names: {sum(map(len, places.values()))} types, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

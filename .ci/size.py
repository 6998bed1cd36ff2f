"""Size and upkeep of the code: size.py [REVISION ...], of the work tree, or of several revisions for comparison.

    python3 .ci/size.py                the work tree
    python3 .ci/size.py v1 HEAD        two revisions, by `git archive`: before -> after

| column | what is counted |
|---|---|
| files, lines | of product code: `src/` and `build.rs`, without the blocks and files under `#[cfg(test)]` |
| tests | lines of tests, benches, fuzz targets and examples, and of what is under `#[cfg(test)]` |
| cycles | cyclic components of modules, as `module_cycles.py` finds them |
| repeated | lines of product code in blocks of 12 or more that occur twice, without `use`, comments and blank lines |
| unsafe | `unsafe` blocks, functions, traits and implementations in product code |
| dependencies | under `[dependencies]` |

Below the table: how the code is written, as `idiom.py` counts it, and the types that share their name; then the types of hit lists, which are the structs of index, indexer and searcher with a field `hits`.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

import idiom
import module_cycles
import type_names
from rust_source import blank, crates, product_code, test_spans, without_text

# Lines of the shortest block that counts as repeated.
WINDOW = 12
COLUMNS = ("files", "lines", "tests", "cycles", "repeated", "unsafe", "dependencies")
TEST_FOLDERS = ("tests", "benches", "fuzz", "examples")
UNSAFE = re.compile(r"\bunsafe\s*(?:\{|fn\b|impl\b|trait\b|extern\b)")
HIT_LIST = re.compile(r"\bstruct\s+(\w+)[^{};()]*\{[^{}]*\bhits\s*:")
SEARCHES = {"dyad-index", "dyad-indexer", "dyad-searcher"}


def line_count(text):
    """Lines of a text."""
    return len(text.splitlines())


def sources(folder):
    """The product code of a crate by file, and the number of lines of its tests."""
    product, tests = {}, 0
    for part in TEST_FOLDERS:
        tests += sum(line_count(file.read_text()) for file in folder.glob(f"{part}/**/*.rs"))
    for file in [*sorted(folder.glob("src/**/*.rs")), *folder.glob("build.rs")]:
        inside = file.relative_to(folder).with_suffix("").parts
        if "tests" in inside:
            tests += line_count(file.read_text())
        else:
            product[file] = product_code(file)
    return product, tests


def lines_of_tests(file):
    """Lines of what is under `#[cfg(test)]` in a file."""
    code = without_text(file.read_text())
    return sum(code.count("\n", start, end) + 1 for start, end in test_spans(code))


def repeated(products):
    """For each file, its lines that are in a block which occurs elsewhere too."""
    places = collections.defaultdict(list)
    for file, code in products.items():
        code = module_cycles.USE.sub(lambda found: blank(found[0]), code)
        kept = [(at, re.sub(r"\s+", "", line)) for at, line in enumerate(code.splitlines()) if line.strip()]
        for start in range(len(kept) - WINDOW + 1):
            window = kept[start : start + WINDOW]
            places[tuple(line for _, line in window)].append((file, [at for at, _ in window]))
    lines = collections.defaultdict(set)
    for found in places.values():
        if len(found) > 1:
            for file, block in found:
                lines[file].update(block)
    return {file: len(block) for file, block in lines.items()}


def measured(root):
    """The figures of each crate in a tree, how its code is written, and the types of hit lists."""
    figures, hit_lists, products, owners = {}, [], {}, {}
    for name, folder in crates(root).items():
        product, tests = sources(folder)
        inline = sum(map(lines_of_tests, product))
        lines = sum(line_count(file.read_text()) for file in product) - inline
        roots = [folder / "src" / part for part in ("lib.rs", "main.rs")]
        manifest = tomllib.loads((folder / "Cargo.toml").read_text())
        figures[name] = {
            "files": len(product),
            "lines": lines,
            "tests": tests + inline,
            "cycles": sum(len(list(module_cycles.Crate(file).cycles())) for file in roots if file.is_file()),
            "repeated": 0,
            "unsafe": sum(len(UNSAFE.findall(code)) for code in product.values()),
            "dependencies": len(manifest.get("dependencies", {})),
        }
        if name in SEARCHES:
            found = [(file, type_name) for file, code in product.items() for type_name in HIT_LIST.findall(code)]
            hit_lists += [f"{type_name} ({file.relative_to(root)})" for file, type_name in found]
        products |= product
        owners |= dict.fromkeys(product, name)
    for file, count in repeated(products).items():
        figures[owners[file]]["repeated"] += count
    written = idiom.added([idiom.counts(file.read_text()) for file in products])
    written["shared type names"] = len(list(type_names.violations(type_names.declared(root))))
    totals = {column: sum(crate[column] for crate in figures.values()) for column in COLUMNS}
    totals["dependencies"] = (root / "Cargo.lock").read_text().count("[[package]]")
    return {**figures, "all (dependencies: locked)": totals}, written, hit_lists


def of_revision(revision, scratch):
    """The tree of a revision, unpacked."""
    root = pathlib.Path(scratch) / re.sub(r"\W", "-", revision)
    root.mkdir()
    archive = subprocess.run(["git", "archive", revision], check=True, capture_output=True).stdout
    subprocess.run(["tar", "--extract", "--directory", root], input=archive, check=True)
    return measured(root)


def table(trees):
    """The figures of all trees as lines of text, those of one crate and column next to each other."""
    names = list(dict.fromkeys(name for figures, *_ in trees for name in figures))
    rows = [("crate", *COLUMNS)]
    for name in names:
        cells = []
        for column in COLUMNS:
            values = [str(figures[name][column]) if name in figures else "-" for figures, *_ in trees]
            cells.append(values[0] if len(set(values)) == 1 else " -> ".join(values))
        rows.append((name, *cells))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for name, *cells in rows:
        aligned = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        yield "  ".join([name.ljust(widths[0]), *aligned])


def main(revisions):
    """Prints the table and the types of hit lists."""
    with tempfile.TemporaryDirectory() as scratch:
        trees = [of_revision(revision, scratch) for revision in revisions]
    trees = trees or [measured(pathlib.Path(__file__).resolve().parent.parent)]
    for line in table(trees):
        print(line.rstrip())
    for name in trees[0][1]:
        print(f"{name:<24}  {' -> '.join(str(written[name]) for _, written, _ in trees)}")
    for name, (*_, hit_lists) in zip(revisions or ["work tree"], trees, strict=True):
        print(f"hit lists, {name}: {len(hit_lists)}: {', '.join(hit_lists)}")


if __name__ == "__main__":
    main(sys.argv[1:])

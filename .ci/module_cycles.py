"""No two modules of a crate depend on each other: module_cycles.py ROOT [--crates NAME,...] fails on a cycle.

Two graphs of every crate are checked: the modules of each folder (with all that is below them), and all files. An edge is a
`use` or a path in the code; tests, comments and strings do not count. A name is resolved to the file that defines it,
through any number of `pub use`: a re-export is not an edge. Children may use what their `mod.rs` defines if its code uses
none of them.

Where the header of a `lib.rs` has a table of modules and says "lowest first", no module may use one of a later row.
"""

import argparse
import collections
import pathlib
import re
import sys

from rust_source import blank, crates, item_end, product_code, use_tree

MODULE = re.compile(r"\bmod\s+(\w+)\s*(;|\{)")
VISIBLE_WITHIN = re.compile(r"\bpub\s*\([^)]*\)")
USE = re.compile(r"\b(pub\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.'])(\w+(?:\s*::\s*\w+)+)")
DEFINED = re.compile(r"\b(?:fn|struct|enum|trait|type|const|static|union|macro_rules!)\s+(\w+)")
ORDERED = re.compile(r"\blowest first\b")
# Links, or plain names of what is private.
ROW = re.compile(r"^//!\s*\|([^|]*`\w+`[^|]*)\|")
NAME_IN_ROW = re.compile(r"`(\w+)`")

Edge = collections.namedtuple("Edge", "source target file line text")


class Module:
    """One module: a file, or a block in one. A block counts as its file, whose path is `home`."""

    def __init__(self, file, home, code):
        self.file, self.home = file, home
        self.code = VISIBLE_WITHIN.sub(lambda found: "pub" + blank(found[0][3:]), code)
        self.uses = []  # (segments, name, exported, offset)
        for found in USE.finditer(self.code):
            for segments, name in use_tree(found[2]):
                self.uses.append((segments, name, bool(found[1]), found.start()))
        self.names = {name: segments for segments, name, _, _ in self.uses if name not in ("*", "_")}
        self.globs = [segments[:-1] for segments, name, _, _ in self.uses if name == "*"]
        self.body = USE.sub(lambda found: blank(found[0]), self.code)
        self.defined = set(DEFINED.findall(self.body))


class Crate:
    """The modules of one crate root (`lib.rs` or `main.rs`), keyed by path as a tuple."""

    def __init__(self, root_file):
        self.root_file = root_file
        self.modules = {}
        self._read((), (), root_file, root_file.parent, product_code(root_file))

    def _read(self, path, home, file, folder, code):
        """Reads the module at `path`, in the file of the module `home`, and its children, whose files are in `folder`."""
        own, at = code, 0
        while found := MODULE.search(own, at):
            child, name = (*path, found[1]), found[1]
            end = found.end() if found[2] == ";" else item_end(own, found.start())
            if found[2] == "{":
                inside = blank(own[: found.end()]) + own[found.end() : end - 1]
                self._read(child, home, file, folder / name, inside)
                own = own[: found.start()] + blank(own[found.start() : end]) + own[end:]
            else:
                candidates = (folder / f"{name}.rs", folder / name / "mod.rs")
                if candidate := next((candidate for candidate in candidates if candidate.is_file()), None):
                    self._read(child, child, candidate, folder / name, product_code(candidate))
            at = end
        self.modules[path] = Module(file, home, own)

    def resolve(self, path, segments, asked=()):
        """Resolves a path in the module `path` to a module and an item in it (None for the module itself).

        None where it leads out of the crate. `asked` holds the names that are being resolved, as (module, name).
        """
        here, rest = path, list(segments)
        if rest[0] == "crate":
            here, rest = (), rest[1:]
        elif rest[0] in ("self", "super"):
            while rest and rest[0] in ("self", "super"):
                here, rest = here[:-1] if rest[0] == "super" else here, rest[1:]
        elif (here, rest[0]) in asked and (*here, rest[0]) not in self.modules:
            return None
        while rest:
            name, module = rest[0], self.modules[here]
            if (*here, name) in self.modules:
                here, rest = (*here, name), rest[1:]
            elif name in module.names and (here, name) not in asked:
                return self.resolve(here, module.names[name] + rest[1:], (*asked, (here, name)))
            elif name in module.defined:
                return here, name
            else:
                outside = here == path and rest == segments
                return self._by_glob(here, rest, asked) or (None if outside else (here, name))
        return here, None

    def _by_glob(self, here, rest, asked):
        """As `resolve`, for a name that a glob import of the module `here` may provide."""
        for glob in self.modules[here].globs:
            if (here, glob[0]) in asked:
                continue
            source = self.resolve(here, glob, (*asked, (here, glob[0]), (here, rest[0])))
            if source is None or source[1] is not None or source[0] == here:
                continue
            module = self.modules[source[0]]
            if (*source[0], rest[0]) in self.modules or rest[0] in module.names or rest[0] in module.defined:
                return self.resolve(source[0], ["self", *rest], (*asked, (here, rest[0])))
        return None

    def edges(self):
        """Each use of one file by another, the first of each pair."""
        found = {}
        for path, module in sorted(self.modules.items()):
            home = module.home
            for segments, exported, offset in self._mentioned(path, module):
                resolved = self.resolve(path, segments)
                if resolved is None or self.modules[resolved[0]].home == home:
                    continue
                target, item = self.modules[resolved[0]].home, resolved[1]
                above, below = home[: len(target)] == target, target[: len(home)] == home
                # Neither naming a parent module nor re-exporting from a child is an edge.
                if (above and item is None) or (below and exported):
                    continue
                line = module.code.count("\n", 0, offset) + 1
                found.setdefault((home, target), Edge(home, target, module.file, line, "::".join(segments)))
        return list(found.values())

    def _mentioned(self, path, module):
        """The paths in a module's code, whether each is an export, and their offsets."""
        words = None
        for segments, name, exported, offset in module.uses:
            if name != "*":
                yield segments, exported, offset
                continue
            # Only the names that are used.
            source = self.resolve(path, segments[:-1])
            if source and source[1] is None and source[0] != path and not exported:
                words = words or set(re.findall(r"\w+", module.body))
                named = self.modules[source[0]].names.keys() | self.modules[source[0]].defined
                for word in sorted(words & named - module.defined):
                    yield [*segments[:-1], word], exported, offset
        for found in PATH.finditer(module.body):
            yield [part.strip() for part in found[1].split("::")], False, found.start()

    def graphs(self):
        """Name and edges of each graph that must have no cycle: the siblings of every folder, and all files."""
        edges = self.edges()
        folders = sorted({module.home[:-1] for module in self.modules.values() if module.home})
        for folder in folders:
            graph = {}
            for edge in edges:
                ends = [end[: len(folder) + 1] for end in (edge.source, edge.target)]
                if all(end[: len(folder)] == folder for end in ends) and ends[0] != ends[1]:
                    graph.setdefault(tuple(ends), edge)
            yield f"modules of {'::'.join(('crate', *folder))}", graph
        yield "files", {(edge.source, edge.target): edge for edge in edges}

    def cycles(self):
        """Each cyclic component of each graph: the graph's name, its modules, and a shortest cycle as edges."""
        known = set()
        for name, graph in self.graphs():
            after = collections.defaultdict(list)
            for source, target in sorted(graph):
                after[source].append(target)
            for component in components(after):
                if frozenset(component) not in known:
                    known.add(frozenset(component))
                    yield name, component, [graph[pair] for pair in shortest_cycle(after, component)]

    def upward(self):
        """A message for each use of a later row, if the table of `lib.rs` is ordered."""
        header = [line for line in self.root_file.read_text().splitlines() if line.startswith("//!")]
        if not any(ORDERED.search(line) for line in header):
            return
        rows = [NAME_IN_ROW.findall(row[1]) for row in map(ROW.match, header) if row]
        level = {name: at for at, names in enumerate(rows) for name in names}
        for name in sorted({module.home[0] for module in self.modules.values() if module.home} - level.keys()):
            yield f"`{name}` is not in the table of modules"
        for edge in self.edges():
            ends = [level.get(end[0]) if end else None for end in (edge.source, edge.target)]
            if None not in ends and ends[0] < ends[1]:
                yield f"`{edge.source[0]}` uses `{edge.target[0]}`, of a later row: {located(edge)}"


def components(after):
    """The strongly connected components of more than one node (Tarjan 1972), each sorted."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in after.get(node, ()):
            if target not in number:
                visit(target)
            if target in stack:
                low[node] = min(low[node], low[target])
        if low[node] == number[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(after):
        if node not in number:
            visit(node)
    return found


def shortest_cycle(after, component):
    """The edges of a shortest cycle within `component`."""
    best = None
    for start in component:
        before, queue = {}, collections.deque([start])
        while queue and start not in before:
            node = queue.popleft()
            for target in after[node]:
                if target in component and target not in before:
                    before[target] = node
                    queue.append(target)
        cycle, node = [], start
        while not cycle or node != start:
            cycle.append((before[node], node))
            node = before[node]
        if best is None or len(cycle) < len(best):
            best = cycle[::-1]
    return best


def located(edge):
    """The place and text of an edge."""
    return f"{edge.file}:{edge.line}: {edge.text}"


def violations(folder):
    """A message for every cycle and every upward use in the crate in `folder`."""
    for root in (folder / "src" / "lib.rs", folder / "src" / "main.rs"):
        if not root.is_file():
            continue
        crate = Crate(root)
        for name, component, cycle in crate.cycles():
            members = ", ".join("::".join(path) or "crate" for path in component)
            yield "\n    ".join([f"cycle of {name}: {members}", *map(located, cycle)])
        yield from crate.upward()


def main(arguments):
    """Prints each violation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--crates", help="only these packages, separated by commas")
    options = parser.parse_args(arguments)
    folders = crates(options.root)
    wanted = options.crates.split(",") if options.crates else list(folders)
    if unknown := sorted(set(wanted) - folders.keys()):
        parser.error(f"no such crate: {', '.join(unknown)}; there are {', '.join(sorted(folders))}")
    found = [(name, violation) for name in wanted for violation in violations(folders[name])]
    for name, violation in found:
        print(f"error: {name}: {violation}", file=sys.stderr)
    print(f"module cycles: {len(wanted)} crates, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

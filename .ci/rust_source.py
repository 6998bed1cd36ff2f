"""Reads Rust source for the checks: blanks out comments, strings and tests, and parses `use` trees.

Only as much of the grammar as tells names from text. Line numbers are kept.
"""

import pathlib
import re
import tomllib

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*)
    |(?P<raw>\b(?:b|c)?r(?P<hashes>\#*)"(?:.|\n)*?"(?P=hashes))
    |(?P<text>\b[bc]?"(?:[^"\\]|\\(?:.|\n))*"|"(?:[^"\\]|\\(?:.|\n))*")
    |(?P<char>\bb?'(?:[^'\\\n]|\\[^\n]+?)'|'(?:[^'\\\n]|\\[^\n]+?)')""",
    re.VERBOSE,
)
BLOCK_COMMENT_EDGE = re.compile(r"/\*|\*/")
# A string that is a path: `#[serde(with = "option")]`.
PATH_IN_ATTRIBUTE = re.compile(r"\b(?:with|serialize_with|deserialize_with|default)\s*=\s*$")
TEST_ATTRIBUTE = re.compile(r"#\[\s*(?:cfg\s*\(\s*(?:test|all\s*\(\s*test\b[^\]]*)\s*\)|test)\s*\]")


def blank(text):
    """`text` without its characters, on as many lines."""
    return re.sub(r"[^\n]", " ", text)


def without_text(source):
    """`source` with comments, strings and characters blanked out, but for strings that are paths."""
    parts, at = [], 0
    while found := TOKEN.search(source, at):
        parts.append(source[at : found.start()])
        end = found.end()
        if found["comment"] == "/*":
            end = block_comment_end(source, end)
        literal = source[found.start() : end]
        if found["text"] and PATH_IN_ATTRIBUTE.search(source, max(0, found.start() - 30), found.start()):
            parts.append(f" {literal[1:-1]} ")
        else:
            parts.append(blank(literal))
        at = end
    return "".join([*parts, source[at:]])


def block_comment_end(source, at):
    """Where the block comment that is open at `at` ends; they nest."""
    depth = 1
    while depth:
        edge = BLOCK_COMMENT_EDGE.search(source, at)
        if edge is None:
            return len(source)
        depth += 1 if edge[0] == "/*" else -1
        at = edge.end()
    return at


def item_end(code, at):
    """Where the item that starts at `at` ends: after its `;`, or after the braces of its body."""
    depth = 0
    for place in range(at, len(code)):
        char = code[place]
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
            if depth == 0 and char == "}":
                return place + 1
        elif char == ";" and depth == 0:
            return place + 1
    return len(code)


def test_spans(code):
    """Where the items under `#[cfg(test)]` or `#[test]` of `code` (of [`without_text`]) start and end."""
    at = 0
    while found := TEST_ATTRIBUTE.search(code, at):
        at = item_end(code, found.end())
        yield found.start(), at


def product_code(file):
    """The code of a file: no comments, no strings, no tests."""
    code = without_text(file.read_text())
    for start, end in test_spans(code):
        code = code[:start] + blank(code[start:end]) + code[end:]
    return code


def use_tree(tree, alias=None):
    """The leaves of a `use` tree: pairs of a path's segments and the name that it binds."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace >= 0:
        before = [part.strip() for part in tree[:brace].split("::") if part.strip()]
        depth, start = 0, brace + 1
        for at in range(brace + 1, len(tree)):
            if tree[at] == "{":
                depth += 1
            elif tree[at] == "," and depth == 0 or tree[at] == "}" and depth == 0:
                if branch := tree[start:at].strip():
                    for segments, name in use_tree(branch):
                        yield leaf(before + segments, name)
                start = at + 1
            elif tree[at] == "}":
                depth -= 1
        return
    if renamed := re.fullmatch(r"(.*?)\s+as\s+(\w+)", tree, re.DOTALL):
        tree, alias = renamed.groups()
    segments = [part.strip().removeprefix("r#") for part in tree.split("::") if part.strip()]
    if segments:
        yield leaf(segments, alias or segments[-1])


def leaf(segments, name):
    """`a::self` names `a`."""
    if len(segments) > 1 and segments[-1] == "self":
        return segments[:-1], segments[-2] if name == "self" else name
    return segments, name


def crates(root):
    """The folders of the workspace's crates, by package name."""
    members = tomllib.loads((root / "Cargo.toml").read_text())["workspace"]["members"]
    folders = [pathlib.Path(root, member) for member in members]
    return {tomllib.loads((folder / "Cargo.toml").read_text())["package"]["name"]: folder for folder in folders}

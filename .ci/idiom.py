"""How code is written, as `size.py` reports it: counts of one file of product code.

| figure | what is counted |
|---|---|
| tokens | names, numbers, literals and operators, without comments |
| code lines | lines with a token |
| types | structs, enums, unions, traits and aliases |
| one word | types whose name is one word |
| tuple parameters | parameters of functions, not of closures, that are tuples taken apart |
| closures | closures bound by `let` |
| longest function | lines from `fn` to the end of its body |
"""

import re

import type_names
from rust_source import TOKEN as LITERAL_OR_COMMENT
from rust_source import item_end, test_spans, without_text

SYMBOL = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|'[a-z_]+\b|::|->|=>|==|!=|<=|>=|&&|\|\||\.\.=?|[+\-*/%^&|]=|[^\s\w]")
ONE_WORD = re.compile(r"[A-Z][a-z0-9]*")
FUNCTION = re.compile(r"\bfn\s+\w+")
TUPLE_PARAMETER = re.compile(r"[(,]\s*\((?:mut\s+|&\s*)*\w[^():{}]*,[^(){}]*\)\s*:\s*[(&]")
BOUND_CLOSURE = re.compile(r"\blet\s+(?:mut\s+)?\w+\s*(?::[^=;]+)?=\s*(?:move\s*)?(?:async\s*(?:move\s*)?)?\|")


def counts(source):
    """The figures of one file; those of several are added, but for the longest function."""
    code = without_text(source)
    outside = list(code)
    literals = [found.start() for found in LITERAL_OR_COMMENT.finditer(source) if not found["comment"]]
    for start, end in test_spans(code):
        outside[start:end] = re.sub(r"[^\n]", " ", code[start:end])
        literals = [at for at in literals if not start <= at < end]
    code = "".join(outside)
    lines = {at for at, line in enumerate(code.splitlines()) if line.strip()}
    names = [name for name, _ in type_names.types(code)]
    functions = [function_at(code, found.start()) for found in FUNCTION.finditer(code)]
    return {
        "tokens": len(SYMBOL.findall(code)) + len(literals),
        "code lines": len(lines),
        "types": len(names),
        "one word": sum(ONE_WORD.fullmatch(name) is not None for name in names),
        "tuple parameters": sum(len(TUPLE_PARAMETER.findall(head)) for head, _ in functions),
        "closures": len(BOUND_CLOSURE.findall(code)),
        "longest function": max((count for _, count in functions), default=0),
    }


def function_at(code, start):
    """What comes before the body of the function that begins at `start`, and its lines."""
    end = item_end(code, start)
    head = code[start:end].split("{", 1)[0]
    return head, code.count("\n", start, end) + 1


def added(all_counts):
    """The figures of several files together, with those that are shares."""
    total = {}
    for one in all_counts:
        for name, count in one.items():
            combine = max if name == "longest function" else int.__add__
            total[name] = combine(total[name], count) if name in total else count
    total["tokens per line"] = round(total["tokens"] / max(total["code lines"], 1), 1)
    total["closures per 1,000 lines"] = round(1000 * total["closures"] / max(total["code lines"], 1), 1)
    return total

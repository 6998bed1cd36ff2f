"""What the tests of the adapters share: stand-ins for the frameworks' base classes, small data and its exact neighbours.

A framework is a repository that is cloned, and not installed; of each, a stand-in has the modules that an adapter imports, with the methods
that its base class has, so that the adapter is imported as there: `vibe.algorithms.dyad.module`.
"""

import importlib
import importlib.util
import pathlib
import sys
import types
import unittest

ADAPTERS = pathlib.Path(__file__).resolve().parents[1]


def needs(*names):
    """Skips the tests of a file, and says so, where a module is missing."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"not installed: {', '.join(missing)}. The tests of this adapter need {', '.join(names)}"
        print(f"skipped: {reason}", file=sys.stderr)
        raise unittest.SkipTest(reason)


def module(name, path=None, **members):
    """Puts a module in place, and packages for the names above it; `path` is where a package finds its own modules."""
    parent, _, last = name.rpartition(".")
    made = types.ModuleType(name)
    made.__path__ = [] if path is None else [str(path)]
    made.__dict__.update(members)
    if parent and parent not in sys.modules:
        module(parent)
    if parent:
        setattr(sys.modules[parent], last, made)
    sys.modules[name] = made
    return made


def adapter(name, path):
    """The module of an adapter, imported by the name that it has in its framework."""
    package = name.rpartition(".")[0]
    module(package, path)
    return importlib.import_module(name)


def script(path):
    """A script of this folder's parent as a module."""
    spec = importlib.util.spec_from_file_location(path.replace("/", "_").removesuffix(".py"), ADAPTERS / path)
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def rows(count, dim=24, seed=1):
    """Vectors of many lengths that lie in clusters, as float32."""
    import numpy

    random = numpy.random.default_rng(seed)
    centres = random.standard_normal((20, dim))
    return (centres[random.integers(0, 20, count)] + 0.5 * random.standard_normal((count, dim))).astype(numpy.float32)


def nearest(base, query, k, metric):
    """Numbers of the nearest rows, the nearest first."""
    import numpy

    base, query = base.astype(numpy.float64), query.astype(numpy.float64)
    if metric == "euclidean":
        far = numpy.linalg.norm(base - query, axis=1)
    else:
        far = -(base @ query)
        if metric == "angular":
            far /= numpy.linalg.norm(base, axis=1)
    return numpy.argsort(far, kind="stable")[:k]


def recall(found, expected):
    """The share of the expected ids that were found, over all queries."""
    pairs = list(zip(found, expected, strict=True))
    return sum(len(set(map(int, some)) & set(map(int, others))) for some, others in pairs) / sum(
        len(others) for _, others in pairs
    )

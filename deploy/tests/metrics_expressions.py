"""Which metrics and labels the expressions of dashboard, alerts and autoscaling name, and which ones a scrape has."""

import collections
import itertools
import json
import pathlib
import re

import yaml

DASHBOARD, ALERTS = pathlib.Path("deploy/grafana/dyad.json"), pathlib.Path("deploy/prometheus/alerts.yml")
ADAPTER = pathlib.Path("deploy/prometheus/adapter.yml")
# Prometheus' own metrics, and the labels that it adds to all.
OWN_METRICS, OWN_LABELS = {"up", "ALERTS"}, {"job", "instance"}
# Values of these labels come with events that no test can order; they are looked up in the source.
SOURCES = {"status": "proto/src/status.rs", "outcome": "proto/src/service/security_metrics.rs", "reason": "encoder/src/serve/error.rs"}
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"], "info": ["_info"]}

MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
SELECTOR = re.compile(r'([a-zA-Z_:][\w:]*)?\s*\{((?:[^{}"]|"(?:[^"\\]|\\.)*")*)\}')
GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)")
NUMBER_OR_RANGE = re.compile(r"\[[^\]]*\]|\b\d[\w.]*")
NAME, OPERATORS = re.compile(r"[a-zA-Z_:][\w:]*\b(?!\s*\()"), {"and", "or", "unless", "bool", "offset"}

Named = collections.namedtuple("Named", "matchers labels")


def named(expression):
    """Matchers (label, operator, value) by metric, and the labels of groupings."""
    matchers = collections.defaultdict(list)
    for name, inner in SELECTOR.findall(expression):
        found = MATCHER.findall(inner)
        names = [name] if name else [value for label, _, value in found if label == "__name__"]
        for name in itertools.chain.from_iterable(value.split("|") for value in names):
            matchers[name] += [matcher for matcher in found if matcher[0] != "__name__"]
    rest = SELECTOR.sub(" ", expression)
    labels = {label for inner in GROUPING.findall(rest) for label in re.findall(r"\w+", inner)}
    rest = NUMBER_OR_RANGE.sub(" ", GROUPING.sub(" ", rest))
    for name in set(NAME.findall(rest)) - OPERATORS:
        matchers[name] += []
    return Named(dict(matchers), labels)


def dashboard_expressions():
    """Place and expression of every query of the dashboard, those of variables included."""
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield f"panel `{panel['title']}`", target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            # `label_values` is Grafana's own.
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            yield f"variable `{variable['name']}`", f"group by ({label}) ({selector})"
    for annotation in board["annotations"]["list"]:
        yield f"annotation `{annotation['name']}`", annotation["expr"]


def alerts():
    """The alert rules."""
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def alert_expressions():
    """Name and expression of every alert."""
    return [(f"alert `{rule['alert']}`", rule["expr"]) for rule in alerts()]


def adapter_expressions():
    """Name and expression of every metric that Kubernetes scales by, with the labels that the adapter puts in."""
    for rule in yaml.safe_load(ADAPTER.read_text())["rules"]:
        query = rule["metricsQuery"].replace("<<.GroupBy>>", "instance").replace("<<.LabelMatchers>>", 'instance="one"')
        yield f"adapter `{rule['name']['as']}`", query


def families(scrape):
    """The names of samples of each family that is exported, by the family's name."""
    types = re.findall(r"^# TYPE (\S+) (\S+)$", scrape, re.MULTILINE)
    return {name: {name + suffix for suffix in SUFFIXES[kind]} for name, kind in types}


def series(scrape):
    """Values of each label of each metric."""
    found = {}
    for name, inner in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", scrape, re.MULTILINE):
        labels = found.setdefault(name, collections.defaultdict(set))
        for label, _, value in MATCHER.findall(inner):
            labels[label].add(value)
    return found


def problems(expression, metrics):
    """What an expression names that is not in `metrics`, which `series` gives."""
    wanted, known = named(expression), set(OWN_LABELS)
    for name, matchers in wanted.matchers.items():
        if name in OWN_METRICS:
            known |= {"alertname", "alertstate"}
            continue
        if name not in metrics:
            yield f"there is no metric `{name}`"
            continue
        known |= metrics[name].keys()
        for label, operator, value in matchers:
            if label not in metrics[name].keys() | OWN_LABELS:
                yield f"`{name}` has no label `{label}`"
                continue
            for one in value.split("|") if operator in ("=~", "!~") else [value]:
                in_source = label in SOURCES and f'"{one}"' in pathlib.Path(SOURCES[label]).read_text()
                if not (one.startswith("$") or label in OWN_LABELS or in_source or one in metrics[name][label]):
                    yield f"`{name}` has no `{label}=\"{one}\"`"
    for label in sorted(wanted.labels - known):
        yield f"no metric of `{expression}` has the label `{label}`"

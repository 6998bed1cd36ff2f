"""The chart rendered by Helm, and what is in a manifest, for helm.py and helm_runs.py."""

import pathlib
import subprocess
import tomllib

import yaml

DEPLOY = pathlib.Path(__file__).resolve().parent.parent
CHART = DEPLOY / "helm"
CASES = DEPLOY / "tests/helm"
NAMES = ("volume", "store", "vectors", "leaves")
HELM_S = 120
# Set by the script that runs the tests: `helm`, and where they are given `binaries` and `model`.
SETTINGS = {}


def case(name):
    """Options that choose the values of a case."""
    return ["--values", str(CASES / f"{name}.yaml")]


# The cases, and what each changes in one of them.
MATRIX = {
    **{name: case(name) for name in NAMES},
    "no policies": [*case("volume"), "--set", "networkPolicy.enabled=false,podDisruptionBudget.enabled=false"],
    "a claim that is there": [*case("volume"), "--set", "index.volume.existingClaim=old-index"],
    "keys on a volume": [
        *case("volume"),
        "--set",
        "security.insecure=false,security.tlsSecret=t,security.keysSecret=k",
        "--set",
        "security.clientKeySecret=c,security.adminKeySecret=a",
    ],
    "an encoder elsewhere": [*case("volume"), "--set", "encoder.enabled=false,encoderUrl=https://encoder.example:443"],
    "no index by clients": [*case("volume"), "--set", "indexer.enabled=false,jobs.build.enabled=false"],
    "monitors without TLS": [*case("vectors"), "--set", "serviceMonitor.enabled=true"],
    "scaled with disks": [*case("vectors"), "--set", "searcher.autoscaling.enabled=true"],
    "many encoders": [*case("store"), "--set", "encoder.autoscaling.enabled=true"],
    "leaves on disks of nodes": [*case("leaves"), "--set", "leaf.cache.persistent=false,leaf.holders=1,store.env=null"],
    "leaves without keys": [
        *case("leaves"),
        "--set",
        "security.insecure=true,security.tlsSecret=,security.keysSecret=,security.adminKeySecret=",
        "--set",
        "leaf.cache.persistent=false,serviceMonitor.keySecret=",
    ],
    "leaves whose number changes": [*case("leaves"), "--set", "leaf.alsoCount=2"],
    "roots with an encoder": [*case("leaves"), "--set", "encoder.enabled=true,security.clientKeySecret=c"],
    **{
        f"bulk {step}": [*case("store"), "--set", f"bulk.step={step},bulk.partitions=7,bulk.shards=3"]
        for step in ("embed", "shard", "commit")
    },
}


def helm(*words):
    """Runs helm without a cluster; gives exit code and output."""
    command = [SETTINGS["helm"], *words]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=HELM_S, check=False
    )
    return done.returncode, done.stdout


def rendered(*options):
    """What `helm template` prints for the release `dyad`."""
    code, said = helm("template", "dyad", str(CHART), *options)
    if code != 0:
        raise AssertionError(f"helm template {' '.join(options)}: {said}")
    return said


def documents(*options):
    """The objects of a rendering."""
    return [one for one in yaml.safe_load_all(rendered(*options)) if one]


def of_kind(objects, *kinds):
    """The objects of some kinds, by their names."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] in kinds}


def pod_template(one):
    """Labels and pod of what makes pods; none for others."""
    spec = one.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    return spec.get("template") if isinstance(spec.get("template"), dict) else None


def pods(objects):
    """Name, template and the pod of everything that makes pods."""
    made = ((one["metadata"]["name"], pod_template(one)) for one in objects)
    return [(name, template, template["spec"]) for name, template in made if template]


def configuration(objects, pod):
    """The files of a pod's ConfigMap; none where it has none."""
    maps = of_kind(objects, "ConfigMap")
    names = [volume["configMap"]["name"] for volume in pod.get("volumes", []) if "configMap" in volume]
    return maps[names[0]]["data"] if names else {}


def server_options(objects, pod):
    """The options of a pod's server by its file, or by its command where it reads none; nothing of a job."""
    files = configuration(objects, pod)
    if files:
        return tomllib.loads(next(iter(files.values())))
    command, *words = pod["containers"][0]["args"]
    if command != "leaf":
        return {}
    given = dict(word.removeprefix("--").partition("=")[::2] for word in words)
    return {key: int(value) if value.isdigit() else value or True for key, value in given.items()}


def matches(selector, labels):
    """Whether a label selector selects labels; it may have expressions with `In` alone."""
    listed = selector.get("matchExpressions", [])
    if any(one["operator"] != "In" for one in listed):
        raise AssertionError(f"expected operators `In`, got {selector}")
    named = selector.get("matchLabels", {}).items() <= labels.items()
    return named and all(labels.get(one["key"]) in one["values"] for one in listed)

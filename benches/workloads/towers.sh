#!/usr/bin/env bash
# Trains the towers that `towers.toml` and `any-question.py` measure, by the recipe of Dong et al. (2022), and embeds 50,000 sentences of Wikipedia's
# articles with each answer tower and 2,655 natural questions with each question tower.
#
#   DYAD_DATA=DIR benches/workloads/towers.sh OUT [MODEL]
#   dyad-bench ann --workload benches/workloads/towers.toml --data OUT/ade --out RESULTS
#   DYAD_DATA=DIR DYAD_TOWERS=OUT .venv-ann/bin/python benches/workloads/any-question.py OUT.csv ADE
#
# DIR holds `squad-train`, `wikipedia-articles` and `nq-oracle`; MODEL is the model that all towers begin from, by default what `deploy/model.sh`
# has fetched. OUT has a folder for each sharing, `sde`, `ade` and `ade-ste`: its run, and `towers` with `base` and `queries`. Once interrupted, it goes on where it was.
set -euo pipefail

data=$(realpath "${DYAD_DATA:?DYAD_DATA: expected the folder of squad-train, wikipedia-articles and nq-oracle}")
out=$(realpath -m "${1:?usage: towers.sh OUT [MODEL]}")
root=$(cd "$(dirname "$0")/../.." && pwd)
model=$(realpath "${2:-$root/.models/all-MiniLM-L6-v2}")
export LD_LIBRARY_PATH=$root/.libtorch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
programs=${DYAD_PROGRAMS:-$root/target/release}

mkdir -p "$out"
if [[ ! -f $out/sentences.jsonl ]]; then
  "$programs/dyad-bench" sentences --corpus "$data/wikipedia-articles/corpus.jsonl.gz" --out "$out/all.jsonl"
  head -n 50000 "$out/all.jsonl" >"$out/first.jsonl"
  mv "$out/first.jsonl" "$out/sentences.jsonl"
  rm "$out/all.jsonl"
fi

for sharing in sde ade ade-ste; do
  towers=$out/$sharing
  mkdir -p "$towers"
  # The paper's Adafactor, rate, batch and linear decay; one epoch in place of 117. The rate is relative to a tensor's values, so random projections get
  # twenty times as much, as in reproduce/sharing.toml. bf16, and the gradient cache, so that two cores and 4 GiB suffice.
  cat >"$towers/train.toml" <<TOML
dtype = "bf16"
[model]
path = "$model"
sharing = "$sharing"
dim = 384
[data]
paths = ["$data/squad-train/pairs.jsonl.gz"]
question-tokens = 64
answer-tokens = 128
[batch]
size = 512
chunk = 64
[optimizer]
kind = "adafactor"
learning-rate = 1e-3
[schedule]
kind = "linear"
[training]
epochs = 1.0
groups = [{ names = ["*_Dense/*"], rate = 20.0 }]
[checkpoints]
every = 20
keep = 1
[log]
tensorboard = false
TOML
  "$programs/dyad-encoder" train --config "$towers/train.toml" --out "$towers/run"
  # Questions are records like documents, so the same command embeds them.
  "$programs/dyad-encoder" embed --model "$towers/run/final" --tower question \
    --corpus "$data/nq-oracle/queries.jsonl.gz" --out "$towers/towers/queries"
  "$programs/dyad-encoder" embed --model "$towers/run/final" --vector-type f16 \
    --corpus "$out/sentences.jsonl" --out "$towers/towers/base"
done

#!/usr/bin/env bash
# Embeds what `wikipedia-sentences.toml` measures: 907,072 sentences of Wikipedia's articles, and natural questions.
#
#   DYAD_DATA=DIR benches/workloads/wikipedia-sentences.sh OUT [MODEL]
#   dyad-bench ann --workload benches/workloads/wikipedia-sentences.toml --data OUT --out RESULTS
#
# DIR holds `wikipedia-articles` and `nq-oracle`; MODEL is a model's directory, by default what `deploy/model.sh` has fetched. In
# int8 two cores take a quarter of an hour. Once interrupted, it goes on where it was.
set -euo pipefail

data=${DYAD_DATA:?DYAD_DATA: expected the folder of wikipedia-articles and nq-oracle}
out=${1:?usage: wikipedia-sentences.sh OUT [MODEL]}
root=$(cd "$(dirname "$0")/../.." && pwd)
model=${2:-$root/.models/all-MiniLM-L6-v2}
export LD_LIBRARY_PATH=$root/.libtorch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
programs=${DYAD_PROGRAMS:-$root/target/release}

mkdir -p "$out"
"$programs/dyad-bench" sentences --corpus "$data/wikipedia-articles/corpus.jsonl.gz" --out "$out/sentences.jsonl"
# Questions are records like documents, so the same command embeds them.
"$programs/dyad-encoder" embed --model "$model" --dtype int8 --tower question \
  --corpus "$data/nq-oracle/queries.jsonl.gz" --out "$out/wikipedia-sentences/queries"
"$programs/dyad-encoder" embed --model "$model" --dtype int8 --vector-type f16 \
  --corpus "$out/sentences.jsonl" --out "$out/wikipedia-sentences/base"

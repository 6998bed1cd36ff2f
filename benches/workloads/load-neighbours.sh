#!/usr/bin/env bash
# Ordinary searches alone, and next to 32 clients that send costly ones, in turn.
# load-neighbours.sh BIN ROUNDS: BIN has dyad-searcher, dyad-indexer and dyad-bench; the index is made where there is none.
# Each line: which, answers per second, p50, p99 and max in milliseconds, the share that failed.
set -euo pipefail
bin=$(realpath "${1:?the folder of the programs}") rounds=${2:-3} seconds=${SECONDS_EACH:-10}
here=$(dirname "$(realpath "$0")")
data=${DYAD_LOAD_DATA:-target/dyad-bench}/load-neighbours
mkdir -p "$data"
if [[ ! -d $data/index ]]; then
  "$bin/dyad-bench" synth --n 60000 --dim 64 --queries 1000 --clusters 1000 --out "$data/vectors"
  python3 -c '
import json, random
chance, words = random.Random(1), [f"word{number}" for number in range(5000)]
weights = [1 / (rank + 1) for rank in range(5000)]
for number in range(60_000):
    metadata = {"kind": "one", "site": f"s{number % 300}", "number": number}
    print(json.dumps({"_id": f"d{number}", "text": " ".join(chance.choices(words, weights, k=60)), "metadata": metadata}))' > "$data/corpus.jsonl"
  "$bin/dyad-indexer" build --corpus "$data/corpus.jsonl" --vectors "$data/vectors/base.npy" --model-name synthetic --index "$data/index"
fi
log=$data/server.log
"$bin/dyad-searcher" serve --index "$data/index" --question-tower none --listen 127.0.0.1:0 > "$log" 2>&1 &
server=$!
costly=
trap 'kill $server $costly 2>/dev/null || true' EXIT
url=
for _ in $(seq 100); do
  url=$(grep -ao '127\.0\.0\.1:[0-9]*' "$log" | head -1 || true)
  [[ -n $url ]] && break
  sleep 0.1
done
load() { # WORKLOAD CLIENTS SECONDS OUT
  "$bin/dyad-bench" load --workload "$here/$1.toml" --data "${data%/*}" --server "http://$url" --closed "$2" --seconds "$3" --out "$4" > "$4.txt" 2>&1
}
figures() { # WHICH POINTS
  python3 -c '
import csv, sys
for row in csv.DictReader(open(sys.argv[2])):
    print(sys.argv[1], *(f"{name} {float(row[name]):.2f}" for name in ("qps", "p50_ms", "p99_ms", "max_ms", "failed_share")))' "$1" "$2"
}
for round in $(seq "$rounds"); do
  mkdir -p "$data/out"
  load load-plain 4 "$seconds" "$data/out/alone"
  figures "$round alone" "$data/out/alone/points.csv"
  # No more urgent on the cores that all share; ended when the others are measured.
  nice -n 10 "$bin/dyad-bench" load --workload "$here/load-costly.toml" --data "${data%/*}" --server "http://$url" --closed 32 \
    --seconds 600 --out "$data/out/costly" > "$data/out/costly.txt" 2>&1 &
  costly=$!
  until grep -q ' load$' "$data/out/costly.txt"; do
    kill -0 $costly
    sleep 0.5
  done
  load load-plain 4 "$seconds" "$data/out/next"
  kill $costly
  wait $costly || true
  figures "$round next to costly" "$data/out/next/points.csv"
done

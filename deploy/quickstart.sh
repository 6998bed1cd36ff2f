#!/usr/bin/env bash
# From a clean clone to answers: libtorch, model, build, embed, index, serve, three questions, the quality table.
#
#   deploy/quickstart.sh                 on the small corpus in deploy/quickstart
#   DATA=DIR deploy/quickstart.sh        on any BEIR folder (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv; also .gz, .zst)
#   SERVE=1 deploy/quickstart.sh         leaves the server running, with a page for browsers; LISTEN=127.0.0.1:7700 and
#                                        HTTP=127.0.0.1:7780 set its addresses
#   MODEL=NAME deploy/quickstart.sh      another model of the hub, or a directory that holds one
#
# Also: PROFILE (default release), SPLIT (default test), SHARDS (default 2). Work files are in .quickstart/, where `corpus`, `embeddings` and
# `index` are links to those of the last run: the commands of the READMEs go on with them.
set -euo pipefail

# Both are relative to the caller's directory.
data=${DATA:+$(realpath -m "$DATA")}
model=${MODEL:-all-MiniLM-L6-v2}
if [[ -d $model ]]; then model=$(realpath "$model"); fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
started=$(now_ms)
python=${PYTHON:-python3}
profile=${PROFILE:-release}
data=${data:-deploy/quickstart}
split=${SPLIT:-test}
shards=${SHARDS:-2}
listen=${LISTEN:-127.0.0.1:0}
http=${HTTP:-127.0.0.1:0}
start_deadline_s=120
stop_deadline_s=30

# plain_or_packed FILE: the first that exists, or nothing.
plain_or_packed() {
  local suffix
  for suffix in '' .gz .zst; do
    if [[ -f $1$suffix ]]; then
      echo "$1$suffix"
      return
    fi
  done
}
corpus_file=$(plain_or_packed "$data/corpus.jsonl")
queries_file=$(plain_or_packed "$data/queries.jsonl")
qrels_file=$(plain_or_packed "$data/qrels/$split.tsv")
splits() {
  local file names=()
  for file in "$data"/qrels/*.tsv*; do
    if [[ -f $file ]]; then names+=("$(basename "${file%%.tsv*}")"); fi
  done
  echo "${names[*]:-(there are none)}"
}
[[ -n $corpus_file ]] || die "no corpus.jsonl (or .gz, .zst) in DATA: $data"
# Standard Python reads no Zstandard before 3.14; the programs of dyad read it by themselves.
if [[ $queries_file == *.zst ]] && ! command -v zstd >/dev/null; then
  die "the three questions come from $queries_file, which needs the program zstd. Install it, or unpack the file"
fi
[[ -n $queries_file ]] || die "no queries.jsonl (or .gz, .zst) in DATA: $data"

step 'libtorch' deploy/libtorch.sh
if [[ ! -d $model ]]; then
  step 'model' deploy/model.sh "$model" ".models/$model"
  model=.models/$model
fi

step 'build' cargo build --profile "$profile" --workspace --bins --locked
binaries=${CARGO_TARGET_DIR:-target}/$profile
if [[ $profile == dev ]]; then binaries=${binaries%dev}debug; fi
find_libtorch_from_elsewhere

# One folder per corpus and model, by content, so that embeddings are reused and never mixed up.
content=$({ sha256sum <"$corpus_file" && find -L "$model" -name '*.safetensors' -printf '%P %s %T@\n' | sort; } | sha256sum | cut -c 1-8)
work=.quickstart/$(basename "$data")-$(basename "$model")-$content
mkdir -p "$work"
step 'embed the corpus' "$binaries/dyad-encoder" embed --model "$model" --tower answer --corpus "$data" --out "$work/embeddings"
rm -rf "$work/index"
step 'build the index' "$binaries/dyad-indexer" build --corpus "$data" --index "$work/index" --embeddings "$work/embeddings" --shards "$shards"
step 'what is in it' "$binaries/dyad-indexer" inspect --index "$work/index"

# link NAME TARGET: the same name after every run, whatever its corpus and model were.
link() { ln -sfnT "$(realpath -m --relative-to=.quickstart "$2")" ".quickstart/$1"; }
link corpus "$data"
link embeddings "$work/embeddings"
link index "$work/index"

# wait_until DEADLINE_S COMMAND...: retries every 0.1 s; fails at the deadline.
wait_until() {
  local end=$(($(now_ms) + $1 * 1000))
  shift
  until "$@"; do
    (($(now_ms) < end)) || return 1
    sleep 0.1
  done
}

server=''
gone() { ! kill -0 "$server" 2>/dev/null; }

# Stops the server in any case.
end_server() {
  [[ -n $server ]] || return 0
  kill -TERM "$server" 2>/dev/null || true
  wait_until 5 gone || kill -KILL "$server" 2>/dev/null || true
}
trap end_server EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

listening_or_gone() {
  address=$(sed -n 's/^listening on //p' "$work/server.out")
  page=$(sed -n 's/^HTTP on //p' "$work/server.out")
  [[ -n $address && -n $page ]] || gone
}

start_server() {
  show "$@"
  # The child opens it a little later: until then the address of an earlier run's server would be read.
  : >"$work/server.out"
  "$@" >"$work/server.out" 2>"$work/server.err" &
  server=$!
  address='' page=''
  wait_until "$start_deadline_s" listening_or_gone || true
  if [[ -z $address || -z $page ]]; then
    tail -n 20 "$work/server.err" >&2
    die "the server did not say where it listens (it had $start_deadline_s s). All it said is in $work/server.err"
  fi
  echo "listening on $address"
}

# stop_server: stops it, and fails unless it ends within the deadline and with exit code 0.
stop_server() {
  local status=0
  show kill -TERM "$server"
  kill -TERM "$server" 2>/dev/null || true
  wait_until "$stop_deadline_s" gone || die "the server did not stop within $stop_deadline_s s"
  wait "$server" || status=$?
  server=''
  ((status == 0)) || { tail -n 20 "$work/server.err" >&2; die "the server ended with exit code $status"; }
}

step 'serve' start_server "$binaries/dyad-searcher" serve --index "$work/index" --question-tower "$model" --listen "$listen" \
  --http "$http"
url=http://$address

# Three questions of the folder, from its beginning, middle and end; tabs and line ends become spaces.
three_questions() {
  "$python" - "$1" <<'PYTHON'
import gzip, json, subprocess, sys

path = sys.argv[1]
if path.endswith(".gz"):
    body = gzip.open(path).read()
elif path.endswith(".zst"):
    body = subprocess.run(["zstd", "-dc", path], check=True, capture_output=True).stdout
else:
    body = open(path, "rb").read()
lines = [line for line in body.split(b"\n") if line.strip()]
for index in sorted({len(lines) // 6, len(lines) // 2, len(lines) * 5 // 6}):
    print(" ".join(json.loads(lines[index])["text"].split()))
PYTHON
}
mapfile -t questions < <(three_questions "$queries_file")
((${#questions[@]} > 0)) || die "no questions in $queries_file"
for question in "${questions[@]}"; do
  step 'ask' "$binaries/dyad-searcher" query --server "$url" --mode compare --k 5 -- "$question"
done

if [[ -n $qrels_file ]]; then
  step 'quality' "$binaries/dyad-bench" quality --server "$url" --data "$data" --split "$split" \
    --modes dense,bm25,hybrid --run-dir "$work/runs"
else
  printf '\nno quality table: no judgements for the split "%s" in %s/qrels. Set SPLIT to one of: %s\n' "$split" "$data" \
    "$(splits)"
fi

if [[ ${SERVE:-} == 1 ]]; then
  cat <<EOT

The server is running (process $server) until Ctrl-C. Open http://$page/ in a browser, or ask it:

  $binaries/dyad-searcher query --server $url --mode hybrid --k 10 ${questions[0]@Q}
  grpcurl -plaintext -d '{"query": "${questions[0]//[\"\'\\]/}", "mode": "MODE_HYBRID", "k": 10}' $address dyad.v1.Searcher/Search

EOT
  trap 'printf "\nstopping\n"; stop_server; printf "quickstart: ok\n"; exit 0' INT TERM
  status=0
  wait "$server" || status=$?
  server=''
  tail -n 20 "$work/server.err" >&2
  die "the server ended by itself with exit code $status"
fi

step 'stop the server' stop_server
printf '\nall of it in %s\n' "$(seconds_since "$started")"
printf 'to go on: %s/dyad-searcher serve --index .quickstart/index --question-tower %s, and the other commands of README.md\n' "$binaries" "$model"
printf 'to search in a browser: SERVE=1 HTTP=127.0.0.1:7780 deploy/quickstart.sh, then open http://127.0.0.1:7780/\n'
printf 'quickstart: ok\n'

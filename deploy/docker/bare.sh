#!/usr/bin/env bash
# The wheel on a Debian that has Python and nothing else, timed: installed, its quick start, a search from Python, and a server that answers.
#
#   deploy/docker/bare.sh WHEEL      as root, with debootstrap; WHEEL is of deploy/package.sh
#
# A chroot of the minimal Debian 12 stands for the container. It has this machine's certificates of CAs, its addresses of names, and the
# variables of pip, as a container would be given them.
set -euo pipefail

wheel=$(realpath "${1:?usage: deploy/docker/bare.sh WHEEL}")
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
[[ $(id -u) == 0 ]] || die 'chroots and mounts need root'
command -v debootstrap >/dev/null || die 'debootstrap is not installed: apt-get install debootstrap'

bare=$(mktemp -d)
finish() {
  for mounted in "$bare/proc" "$bare/dev"; do
    if mountpoint -q "$mounted"; then umount "$mounted"; fi
  done
  rm -rf "$bare"
}
trap finish EXIT

# What a container has of its host.
debian() {
  show debootstrap --variant=minbase --include=python3-venv bookworm "$bare"
  debootstrap --variant=minbase --include=python3-venv bookworm "$bare" >"$bare.log" 2>&1 || {
    tail "$bare.log" >&2
    return 1
  }
  rm -f "$bare.log"
  mount -t proc proc "$bare/proc" || return
  mount --bind /dev "$bare/dev" || return
  cp /etc/resolv.conf /etc/hosts "$bare/etc/" || return
  mkdir -p "$bare/etc/ssl/certs" && cp -L /etc/ssl/certs/ca-certificates.crt "$bare/etc/ssl/certs/" || return
  cp "$wheel" "$bare/root/" || return
  if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$bare/etc/"; fi
}

# inside COMMAND...: runs a command there, with no variable but those of pip and of proxies.
inside() {
  local kept=(HOME=/root PATH=/venv/bin:/usr/bin:/bin LANG=C.UTF-8) name
  for name in $(compgen -e | grep -E -i '^(pip_(default_timeout|cert|index_url)|ssl_cert_file|https?_proxy|no_proxy)$'); do
    kept+=("$name=${!name}")
  done
  chroot "$bare" /usr/bin/env --ignore-environment "${kept[@]}" "$@"
}

environment() { inside python3 -m venv /venv; }
without_compiler() {
  if inside sh -c 'command -v cc gcc clang rustc cargo'; then return 1; fi
  echo 'no compiler'
}
search() {
  inside python3 - <<'PYTHON'
import dyad_search

index = dyad_search.Index.open("/root/.quickstart/index")
ids, scores = index.bm25("Who was Temüjin?", k=3)
print(index, list(ids), index.ef_for(0.97))
assert ids[0] == "p158"
PYTHON
}
serve() {
  # shellcheck disable=SC2016 # The shell inside expands them.
  inside bash -euc '
    cd /root
    dyad-encoder serve --model .models/all-MiniLM-L6-v2 --listen 127.0.0.1:17701 >encoder.log 2>&1 &
    encoder=$!
    dyad-searcher serve --index .quickstart/index --question-tower http://127.0.0.1:17701 --wait-s 60 --listen 127.0.0.1:17700 >searcher.log 2>&1 &
    searcher=$!
    trap "kill $encoder $searcher; wait" EXIT
    until grep -q "^listening on" searcher.log; do sleep 0.1; kill -0 $searcher; done
    dyad-searcher query --server http://127.0.0.1:17700 --k 3 "Who was Temüjin?"'
}

step 'a Debian with Python' debian
step 'there is no compiler' without_compiler
step 'virtual environment' environment
step 'pip install' inside python3 -m pip install --quiet --only-binary=:all: "/root/$(basename "$wheel")"
step 'quick start' inside dyad-quickstart /root
step 'quick start again, nothing to fetch' inside dyad-quickstart /root
step 'search from Python' search
step 'serve' serve
printf '\n'
printf '%s\n' "${step_times[@]}"

#!/usr/bin/env bash
# Makes the Python environment of the peers of `dyad-bench ann`: benches/peers/ann-venv.sh [DIR] (default .venv-ann; 0.4 GB on disk).
# A second run changes nothing, unless ann-requirements.txt has changed. hnswlib needs a C++ compiler.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/steps.sh
source "$root/deploy/steps.sh"
requirements=$root/benches/peers/ann-requirements.txt
python=${PYTHON:-python3}
venv=${1:-$root/.venv-ann}

# LVQ of a newer scalable-vs ends the process on other vendors' processors; 0.0.5 under the AGPL does not.
wanted=$(<"$requirements")
if ! grep -qs '^vendor_id.*GenuineIntel' /proc/cpuinfo; then
  # shellcheck disable=SC2001 # a line of several
  wanted=$(sed 's/^scalable-vs==.*/scalable-vs==0.0.5/' <<<"$wanted")
fi

# Written last: a venv cannot be renamed into place, so this file marks a complete one.
stamp=$venv/made-from
made_from=$(sha256sum <<<"$wanted" | cut -d ' ' -f 1)
if [[ -f $stamp && $(<"$stamp") == "$made_from" ]] && "$venv/bin/python" -c ''; then
  echo "$venv is already there"
  exit 0
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "the peers need Python 3.11 or newer. Set PYTHON to one: $("$python" --version)"
rm -rf "$venv"
"$python" -m venv "$venv" || die "no venv could be made. On Debian: apt-get install python3-venv"
quiet=(--quiet)
if [[ -t 1 ]]; then quiet=(); fi
install() { "$venv/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check --no-compile --no-deps "$@"; }
list=$venv/requirements.txt
printf '%s\n' "$wanted" >"$list"
# hnswlib has no wheels; its setup.py compiles for this CPU (-march=native) unless HNSWLIB_NO_NATIVE is set.
# Those that have no wheel for this machine are left out: a run names them as skipped.
optional='^(rabitqlib|pyvsag|pyglass-portable|diskannpy)=='
install --only-binary=:all: --no-binary=hnswlib -r <(grep -vE "$optional" "$list")
while read -r package; do
  install --only-binary=:all: "$package" || echo "$package is left out: it does not install here" >&2
done < <(grep -E "$optional" "$list")
"$venv/bin/python" -c 'import faiss, hnswlib, numpy, qdrant_edge, usearch.index, zvec'
echo "$made_from" >"$stamp"
echo "$venv: $(du -sm "$venv" | cut -f 1) MB"

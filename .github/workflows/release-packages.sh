#!/usr/bin/env bash
# Makes wheel and archive in a container of AlmaLinux 8, of the checkout in the working directory, into packages/,
# with the Rust of the host, whose ~/.rustup and ~/.cargo are mounted.
set -euo pipefail

dnf install --assumeyes gcc-toolset-13 git make python3.12 python3.12-pip
# It reads variables that may not be set, such as MANPATH.
set +u
# shellcheck source=/dev/null
source /opt/rh/gcc-toolset-13/enable
set -u
export PATH=/root/.cargo/bin:$PATH
python3.12 -m venv /venv
/venv/bin/pip install --quiet maturin wheel
PYTHON=/venv/bin/python deploy/package.sh packages

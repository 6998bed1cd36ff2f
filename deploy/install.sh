#!/bin/sh
# Installs the programs of a release: dyad-indexer, dyad-searcher, dyad-encoder.
#
#   sh install.sh FROM [PREFIX]     PREFIX is ~/.local by default: programs go to PREFIX/bin
#
# FROM is what holds dyad-VERSION-MACHINE-linux.tar.gz and its .sha256: that file, or its URL. Nothing is installed unless the checksum
# fits. The encoder needs libtorch: `--libtorch` fetches what the CPU needs of it (0.5 GB, by Python's pip) into PREFIX/lib.
set -eu

say() { printf '%s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

libtorch=0
if [ "${1:-}" = --libtorch ]; then
  libtorch=1
  shift
fi
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  say 'usage: sh install.sh [--libtorch] FILE_OR_URL [PREFIX]' >&2
  exit 2
fi
from=$1
prefix=${2:-$HOME/.local}
name=${from##*/}
case $name in
  dyad-*-linux.tar.gz) ;;
  *) die "$from: expected dyad-VERSION-MACHINE-linux.tar.gz, got $name" ;;
esac
# Linux calls them the same in `uname` and in the name.
case $name in
  *-"$(uname -m)"-linux.tar.gz) ;;
  *) die "$name: is not for this machine, $(uname -m). Take the archive that is" ;;
esac

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT TERM HUP

# fetch SOURCE TARGET
fetch() {
  case $1 in
    *://*)
      if command -v curl >/dev/null; then
        curl --fail --silent --show-error --location --output "$2" "$1" || die "$1: could not be fetched"
      elif command -v wget >/dev/null; then
        wget --quiet --output-document="$2" "$1" || die "$1: could not be fetched"
      else
        die 'curl or wget is needed to fetch a URL. Install one, or fetch the archive and its .sha256 otherwise'
      fi
      ;;
    *) cp "$1" "$2" || die "$1: could not be read" ;;
  esac
}
fetch "$from" "$temporary/$name"
fetch "$from.sha256" "$temporary/$name.sha256"
(cd "$temporary" && sha256sum --check --status "$name.sha256") ||
  die "$name: its SHA-256 is not that of $name.sha256. Fetch both again; nothing was installed"

tar -xzf "$temporary/$name" -C "$temporary"
tree=$temporary/${name%.tar.gz}
mkdir -p "$prefix/bin" "$prefix/share/dyad"
for program in "$tree"/bin/*; do
  # By a rename: a program that runs goes on, and none is ever half there.
  new=$prefix/bin/.${program##*/}.$$
  cp "$program" "$new"
  mv "$new" "$prefix/bin/${program##*/}"
done
cp "$tree"/share/dyad/* "$prefix/share/dyad/"
say "installed $("$prefix/bin/dyad-indexer" --version | head -n 1) in $prefix/bin"

if [ $libtorch = 1 ] && [ ! -f "$prefix/lib/libtorch_cpu.so" ]; then
  "${PYTHON:-python3}" "$prefix/share/dyad/libtorch.py" cpu "$temporary/libtorch"
  mkdir -p "$prefix/lib"
  cp -P "$temporary"/libtorch/lib/* "$prefix/lib/"
fi
if [ ! -f "$prefix/lib/libtorch_cpu.so" ]; then
  say "dyad-encoder needs libtorch in $prefix/lib, or in LD_LIBRARY_PATH: run this again with --libtorch"
fi
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) say "add $prefix/bin to PATH" ;;
esac

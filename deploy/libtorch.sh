#!/usr/bin/env bash
# Installs libtorch into .libtorch/, where .cargo/config.toml looks for it.
#
#   deploy/libtorch.sh          for the CPU: the necessary files of the PyPI wheel (0.5 GB download, 0.5 GB on disk)
#   deploy/libtorch.sh --cuda   the wheel with its CUDA libraries (2.5 GB download, 5 GB on disk)
#
# LIBTORCH in the environment takes precedence: .libtorch becomes a link to it. A second run changes nothing.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
python=${PYTHON:-python3}
target=$root/.libtorch
version=$("$python" deploy/libtorch.py version)

cuda=0
case ${1:-} in
  '') ;;
  --cuda) cuda=1 ;;
  *)
    printf 'usage: deploy/libtorch.sh [--cuda]\n' >&2
    exit 2
    ;;
esac

# libtorch_version DIR: from build-version (libtorch archives), version.py (an installed torch) or the headers.
libtorch_version() {
  local header=$1/include/torch/headeronly/version.h
  [[ -f $header ]] || header=$1/include/torch/csrc/api/include/torch/version.h
  if [[ -f $1/build-version ]]; then
    head -n 1 "$1/build-version"
  elif [[ -f $1/version.py ]]; then
    sed -n "s/^__version__ = '\(.*\)'/\1/p" "$1/version.py"
  elif [[ -f $header ]]; then
    sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$header" | paste -sd .
  fi
}

# complaint DIR: prints why DIR cannot be used, or nothing.
complaint() {
  local file found
  [[ -d $1 ]] || { echo "no such directory: $1"; return; }
  [[ -d $1/include ]] || { echo "no include/ in $1"; return; }
  for file in libtorch_cpu.so libc10.so libtorch.so; do
    [[ -f $1/lib/$file ]] || { echo "no lib/$file in $1"; return; }
  done
  found=$(libtorch_version "$1")
  [[ ${found%%+*} == "${version%.*}".* ]] || { echo "wrong libtorch version in $1: expected $version, got ${found:-none}"; return; }
  if ((cuda)) && [[ ! -f $1/lib/libtorch_cuda.so ]]; then echo "no lib/libtorch_cuda.so in $1"; fi
}

kind() { if [[ -f $1/lib/libtorch_cuda.so ]]; then echo CUDA; else echo CPU; fi; }

# put NEW: NEW replaces .libtorch. By renames only, so that .libtorch is never incomplete.
put() {
  local old=''
  if [[ -L $target ]]; then
    rm "$target"
  elif [[ -e $target ]]; then
    old=$(mktemp -d "$target.XXXXXX")
    mv "$target" "$old/"
  fi
  mv -T "$1" "$target"
  if [[ -n $old ]]; then rm -rf "$old"; fi
}

if [[ -n ${LIBTORCH:-} && $(realpath -m "$LIBTORCH") != $(realpath -m "$target") ]]; then
  why=$(complaint "$LIBTORCH")
  [[ -z $why ]] || die "LIBTORCH cannot be used. Unset it to have libtorch fetched, or point it at libtorch $version: $why"
  link=$target.link.$$
  ln -s "$(realpath "$LIBTORCH")" "$link"
  put "$link"
  echo "libtorch $(libtorch_version "$target") ($(kind "$target")): .libtorch -> $LIBTORCH"
  exit 0
fi

was=none
if [[ -e $target || -L $target ]]; then
  why=$(complaint "$target")
  if [[ -z $why ]]; then
    echo "libtorch $(libtorch_version "$target") ($(kind "$target")) is already in .libtorch"
    exit 0
  fi
  was=$(kind "$target")
  echo "replacing .libtorch: $why"
fi

"$python" -m pip --version >/dev/null || die "pip is needed to fetch libtorch. Install it, or set LIBTORCH to a libtorch $version"

temporary=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
new=$temporary/libtorch
mkdir "$new"

wanted=cpu
if ((cuda)); then wanted=cuda; fi
"$python" deploy/libtorch.py "$wanted" "$new"

why=$(complaint "$new")
[[ -z $why ]] || die "what was fetched is not whole: $why"
for library in "$new"/lib/libtorch_c*.so; do
  missing=$(LD_LIBRARY_PATH='' ldd "$library" | sed -n 's/^[[:space:]]*\(.*\) => not found.*/\1/p' | paste -sd ' ')
  [[ -z $missing ]] || die "$(basename "$library") needs libraries that this system lacks: $missing"
done
size=$(du -sm "$new" | cut -f1)
put "$new"
echo "libtorch $version ($(kind "$target")) is in .libtorch: $size MB"
if [[ $was != none && $was != "$(kind "$target")" && -d target ]]; then
  echo "what was built with the other one has to be built again: cargo clean -p torch-sys"
fi

#!/usr/bin/env bash
# Installs libtorch into .libtorch/, where .cargo/config.toml looks for it.
#
#   deploy/libtorch.sh          for the CPU: the necessary files of the PyPI wheel (0.5 GB download, 0.5 GB on disk)
#   deploy/libtorch.sh --cuda   the wheel with its CUDA libraries (2.5 GB download, 5 GB on disk)
#
# LIBTORCH in the environment takes precedence: .libtorch becomes a link to it. A second run changes nothing.
set -euo pipefail

version=2.11.0
# Requirements of that torch (cuda-toolkit 13.0.2): libtorch_cpu.so is linked with both, with or without a GPU.
cuda_runtime=13.0.96
cuda_cupti=13.0.85
# All builds of the wheel have the same C++ libraries; this one is used when pip has none for this Python.
stand_in_python=3.12

cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
python=${PYTHON:-python3}
target=$root/.libtorch

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

platform=$(uname -sm)
[[ $platform == 'Linux x86_64' ]] || die "no libtorch known for this platform. Set LIBTORCH to a libtorch $version: $platform"
"$python" -m pip --version >/dev/null || die "pip is needed to fetch libtorch. Install it, or set LIBTORCH to a libtorch $version"

quiet=(--quiet)
if [[ -t 1 ]]; then quiet=(); fi
temporary=$(mktemp -d "$target.XXXXXX")
trap 'rm -rf "$temporary"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
new=$temporary/libtorch
mkdir "$new"

# for_this_python COMMAND...: runs pip, and again for the stand-in Python when this one has no wheel.
for_this_python() {
  local log=$temporary/pip.log
  if "$python" -m pip "$@" --only-binary=:all: 2>"$log"; then return; fi
  if grep -q 'No matching distribution' "$log"; then
    echo "no wheel for $("$python" --version): taking the one for Python $stand_in_python"
    "$python" -m pip "$@" --only-binary=:all: --python-version "$stand_in_python"
  else
    cat "$log" >&2
    die "pip could not fetch libtorch. Check the network or proxy, or set LIBTORCH to a libtorch $version"
  fi
}

if ((cuda)); then
  # The libraries find each other by paths relative to torch/lib, so the layout of the wheels stays as it is.
  for_this_python install "${quiet[@]}" --no-compile --no-warn-conflicts --target "$new/site-packages" "torch==$version"
  "$python" deploy/wheel.py verify "$new/site-packages"
  ln -s site-packages/torch/lib "$new/lib"
  ln -s site-packages/torch/include "$new/include"
else
  for_this_python download "${quiet[@]}" --no-deps --dest "$temporary/wheels" \
    "torch==$version" "nvidia-cuda-runtime==$cuda_runtime" "nvidia-cuda-cupti==$cuda_cupti"
  "$python" deploy/wheel.py unpack "$temporary"/wheels/torch-*.whl "$new" torch/include/=include/ \
    torch/lib/{libtorch_cpu.so=lib/libtorch_cpu.so,libc10.so=lib/libc10.so,libgomp.so.1=lib/libgomp.so.1}
  "$python" deploy/wheel.py unpack "$temporary"/wheels/nvidia_cuda_runtime-*.whl "$new" nvidia/cu13/lib/libcudart.so.13=lib/libcudart.so.13
  "$python" deploy/wheel.py unpack "$temporary"/wheels/nvidia_cuda_cupti-*.whl "$new" nvidia/cu13/lib/libcupti.so.13=lib/libcupti.so.13
  # The wheel's own libtorch.so would pull in the CUDA half.
  ln -s libtorch_cpu.so "$new/lib/libtorch.so"
fi
echo "$version" >"$new/build-version"

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

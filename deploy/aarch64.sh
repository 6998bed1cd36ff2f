#!/usr/bin/env bash
# Builds the programs without libtorch and the Python module for 64-bit ARM on a machine of another kind, and runs
# them by QEMU, with the unit tests of dyad-index:
#
#   deploy/aarch64.sh [BINARIES]
#
# BINARIES (default target/ci) has the programs of this machine, with whose indexes and answers theirs are compared
# (deploy/tests/aarch64.py). It is no part of deploy/test.sh, for which it takes too long. Needed are Debian's
# gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu and qemu-user. What users install is built on a machine of that kind:
# .github/workflows/release.yml.
set -euo pipefail

binaries=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../target/ci}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
started=$(now_ms)
python=${PYTHON:-python3}
target=aarch64-unknown-linux-gnu
folder=${CARGO_TARGET_DIR:-target}/$target

if [[ $(uname -m) == aarch64 ]]; then die 'this machine is of that kind: deploy/test.sh has its tests'; fi
for tool in gcc g++; do
  command -v "aarch64-linux-gnu-$tool" >/dev/null ||
    die "aarch64-linux-gnu-$tool is not installed. On Debian: apt-get install $tool-aarch64-linux-gnu"
done
qemu=$(command -v qemu-aarch64 || command -v qemu-aarch64-static) ||
  die 'QEMU is not installed. On Debian: apt-get install qemu-user'
[[ -d $(rustc --print sysroot)/lib/rustlib/$target ]] ||
  die "Rust has no library for $target: rustup target add $target"
for program in dyad-indexer dyad-searcher; do
  [[ -x $binaries/$program ]] || die "$binaries/$program: no such program. Build it, or name the folder that has it"
done
find_libtorch_from_elsewhere

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$qemu
# Where QEMU finds the libraries of that processor.
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu

# As deploy/package.sh does it.
step 'programs' cargo build --profile dist --locked --target "$target" --no-default-features \
  -p dyad-searcher -p dyad-indexer
if "$python" -P -c 'import maturin' 2>/dev/null; then
  step 'Python module' "$python" -m maturin build --profile dist --locked --target "$target" \
    --manifest-path indexer/python/Cargo.toml --out "$folder/module"
else
  echo 'no Python module: maturin is not installed (pip install maturin)'
fi
# Tests that start themselves once more need a system that starts programs for ARM by itself.
skip=()
if [[ ! -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ]]; then
  echo 'left out: kernels::tests::forced, for want of a registration with binfmt_misc (Debian: qemu-user-binfmt)'
  skip=(--skip kernels::tests::forced)
fi
step 'unit tests of dyad-index' cargo test --profile ci --locked --target "$target" -p dyad-index --lib -- "${skip[@]}"
step 'answers' "$python" deploy/tests/aarch64.py "$binaries" "$folder/dist" "$qemu"

printf '\n'
printf '%s\n' "${step_times[@]}"
printf 'aarch64.sh: ok (%s)\n' "$(seconds_since "$started")"

#!/usr/bin/env bash
# Prints the folder of `prometheus` and `promtool`, for the tests of dashboard and alerts: deploy/prometheus.sh. Where they are not
# installed, Debian's package is unpacked into .prometheus/ (in 10 minutes at most); it is not installed, so that no service is started.
# Exit code 1 with the reason where there is none in the end.
set -euo pipefail

if command -v prometheus >/dev/null && path=$(command -v promtool); then
  dirname "$path"
  exit 0
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.prometheus
if [[ -x $folder/usr/bin/promtool ]]; then
  echo "$folder/usr/bin"
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo 'Prometheus is not installed. Install prometheus and promtool, and put them on PATH' >&2
  exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
download() { (cd "$scratch" && timeout 240 apt-get download prometheus) >&2; }
# The lists of packages may be missing, or too old.
if ! download && ! { timeout 120 apt-get update >&2 && download; }; then
  echo 'Prometheus could not be fetched: apt-get install prometheus' >&2
  exit 1
fi
dpkg-deb --extract "$scratch"/prometheus_*.deb "$scratch/unpacked"
rm -rf "$folder"
mv "$scratch/unpacked" "$folder"
echo "$folder/usr/bin"

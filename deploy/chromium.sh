#!/usr/bin/env bash
# Prints the path of Chromium, for the tests of the searcher's page: deploy/chromium.sh. Where there is none, and root may install Debian's,
# it does (in 5 minutes at most). Exit code 1 with the reason where there is none in the end.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
  if command -v "$name"; then exit 0; fi
done
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
  echo 'no Chromium is installed. On Debian: apt-get install chromium' >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
{
  timeout 120 apt-get update
  timeout 300 apt-get install --yes --no-install-recommends chromium fonts-dejavu-core
} >&2 || true
command -v chromium || {
  echo 'Chromium could not be installed: apt-get install chromium' >&2
  exit 1
}

#!/usr/bin/env bash
# Prints the folder of the TypeScript compiler and of what makes types of OpenAPI, for the test of the README's TypeScript: deploy/typescript.sh.
# Where they are not in .typescript yet, npm fetches them (in 5 minutes at most). Exit code 1 with the reason where there are none in the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# The last releases that work together: openapi-typescript is for the compiler's API of TypeScript 5.
packages=(typescript@5.9.3 openapi-typescript@7.13.0 openapi-fetch@0.17.0)
folder=$PWD/.typescript

command -v npm >/dev/null || {
  echo 'npm is not installed. On Debian: apt-get install npm' >&2
  exit 1
}
if [[ $(cat "$folder/packages" 2>/dev/null) != "${packages[*]}" ]]; then
  rm -rf "$folder"
  mkdir -p "$folder"
  timeout 300 npm install --prefix "$folder" --ignore-scripts --no-audit --no-fund "${packages[@]}" >&2 || {
    echo "npm could not fetch ${packages[*]}" >&2
    exit 1
  }
  echo "${packages[*]}" >"$folder/packages"
fi
echo "$folder"

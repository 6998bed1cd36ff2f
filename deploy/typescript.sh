#!/usr/bin/env bash
# Prints the folder with the packages that build the TypeScript client, for its test: deploy/typescript.sh. Their versions are those of
# its package.json. Where they are not in .typescript yet, npm fetches them (in 5 minutes at most). Exit code 1 with the reason where
# there are none in the end.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=$PWD/.typescript

command -v npm >/dev/null || {
  echo 'npm is not installed. On Debian: apt-get install npm' >&2
  exit 1
}
node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || {
  echo "Node.js: expected 20 or newer, got $(node --version)" >&2
  exit 1
}
# The last releases that work together: openapi-typescript is for the compiler's API of TypeScript 5.
names='Object.entries(JSON.parse(fs.readFileSync(0)).devDependencies).map(([name, version]) => name + "@" + version).join("\n")'
mapfile -t packages < <(node -p "$names" <searcher/clients/typescript/package.json)
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

#!/usr/bin/env bash
# Builds the images of deploy/docker/Dockerfile where no registry can be reached, and serves from each.
#
#   deploy/docker/try.sh             as root, with buildah and debootstrap of Debian, curl, and what deploy/quickstart.sh leaves
#   PROFILE=ci deploy/docker/try.sh  another cargo profile than release
#   COMPILE=1 deploy/docker/try.sh   compiles in containers too, as the Dockerfile does (15 minutes on two cores)
#
# Debian by debootstrap is taken for docker.io/library/debian:bookworm-slim, and with this machine's Rust for
# docker.io/library/rust:1.95-slim-bookworm. Without COMPILE the stages that compile are left out: their commands run on this
# machine, and what they build is given to buildah as the result of those stages. All else is as the Dockerfile says. Containers
# are chroots (buildah's isolation of that name), with their root file system mounted read-only, as the user that the image names.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
# shellcheck source=deploy/steps.sh
source deploy/steps.sh
profile=${PROFILE:-release}
target=${CARGO_TARGET_DIR:-$root/target}/$profile
[[ $(id -u) == 0 ]] || die 'chroots and mounts need root'
for tool in buildah debootstrap; do
  command -v "$tool" >/dev/null || die "$tool is not installed: apt-get install $tool"
done

start_deadline_s=120
read -r quickstart _ <<<"$(echo .quickstart/*/index)"
[[ -f $quickstart/CURRENT ]] || die "no index in .quickstart to serve: run deploy/quickstart.sh"
model=${MODEL:-.models/all-MiniLM-L6-v2}
[[ -x $target/dyad-encoder ]] || die "no $target/dyad-encoder, which the indexer's image is tried with: run deploy/quickstart.sh"

work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
store=(--root "$work/store" --runroot "$work/run")
container='' server='' other=''
finish() {
  kill ${server:+"$server"} ${other:+"$other"} 2>/dev/null || true
  if mountpoint -q "$work/root"; then umount -R "$work/root"; fi
  if [[ -n $container ]]; then buildah "${store[@]}" umount "$container" >/dev/null || true; fi
  rm -rf "$work"
}
trap finish EXIT

debian() {
  show debootstrap --variant=minbase bookworm "$work/debian"
  debootstrap --variant=minbase bookworm "$work/debian" >"$work/log" 2>&1 || { tail "$work/log" >&2; return 1; }
  local base
  base=$(buildah "${store[@]}" from scratch) || return
  buildah "${store[@]}" add --quiet "$base" "$work/debian" / >/dev/null || return
  buildah "${store[@]}" commit --quiet "$base" docker.io/library/debian:bookworm-slim >/dev/null || return
  rm -rf "$work/debian"
}

# With the Rust of this machine, its certificates of CAs, and the compiler that the image of Rust has.
rust() {
  local base mounted
  base=$(buildah "${store[@]}" from --pull-never docker.io/library/debian:bookworm-slim) || return
  mounted=$(buildah "${store[@]}" mount "$base") || return
  buildah "${store[@]}" run "$base" -- sh -c 'apt-get update && apt-get install --yes --no-install-recommends ca-certificates gcc libc6-dev' \
    >"$work/log" 2>&1 || { tail "$work/log" >&2; return 1; }
  cp -a "$(rustc --print sysroot)/." "$mounted/usr/local/" || return
  cp -L /etc/ssl/certs/ca-certificates.crt "$mounted/etc/ssl/certs/" || return
  if [[ -f /etc/pip.conf ]]; then cp /etc/pip.conf "$mounted/etc/"; fi
  buildah "${store[@]}" umount "$base" >/dev/null || return
  buildah "${store[@]}" config --env CARGO_HOME=/usr/local/cargo "$base" || return
  buildah "${store[@]}" commit --quiet "$base" docker.io/library/rust:1.95-slim-bookworm >/dev/null
}

# compile STAGE PACKAGE...: what a stage that compiles leaves.
compile() {
  local stage=$1 built=$work/$1/dyad/target/release package packages=()
  shift
  for package in "$@"; do packages+=(-p "$package"); done
  show cargo build --profile "$profile" --locked --no-default-features "${packages[@]}"
  cargo build --profile "$profile" --locked --no-default-features "${packages[@]}" || return
  mkdir -p "$built" || return
  for package in "$@"; do cp "$target/$package" "$built/" || return; done
  [[ $stage != with-torch ]] || install -D -t "$work/with-torch/dyad/.libtorch/lib" .libtorch/lib/*
}

image() {
  local build=(bud --quiet --pull-never --layers --file deploy/docker/Dockerfile --target "$1" --tag "dyad-$1")
  if [[ ${COMPILE:-} == 1 ]]; then
    # Crates that were fetched once are not fetched again.
    mkdir -p "${CARGO_HOME:-$HOME/.cargo}/registry" || return
    build+=(--volume "${CARGO_HOME:-$HOME/.cargo}/registry:/usr/local/cargo/registry" .)
  else
    build+=(--build-context "without-torch=$work/without-torch" --build-context "with-torch=$work/with-torch" .)
  fi
  show buildah "${build[@]}"
  buildah "${store[@]}" "${build[@]}"
}

# answers FILE URL: waits until a server that writes to FILE listens, and answers.
answers() {
  local until=$((SECONDS + start_deadline_s))
  while ! grep -q '^listening on' "$1" || { [[ -n $2 ]] && ! curl --silent --fail --max-time 5 --output "$work/answer" "$2"; }; do
    if ! kill -0 "$server" 2>/dev/null || ((SECONDS > until)); then
      cat "$1" >&2
      return 1
    fi
    sleep 0.2
  done
}

# Starts the server of a container on what the quick start has left, and asks it.
serve() {
  local name=$1 log=$work/$1.log url=http://127.0.0.1:$((20000 + RANDOM % 10000)) options=(--listen 127.0.0.1:0)
  shift
  case $name in
    searcher)
      mount --bind "$quickstart" "$work/root/var/lib/dyad/index" && mount -o remount,ro,bind "$work/root/var/lib/dyad/index" || return
      options+=(--index /var/lib/dyad/index --question-tower none --http "${url#http://}")
      ;;
    encoder)
      mount --bind "$model" "$work/root/opt/dyad/model" && mount -o remount,ro,bind "$work/root/opt/dyad/model" || return
      options+=(--model /opt/dyad/model --http "${url#http://}")
      ;;
    indexer)
      cp -a "$quickstart" "$work/index" && chown -R "$user" "$work/index" || return
      mount --bind "$work/index" "$work/root/var/lib/dyad/index" || return
      url=''
      # It wants an encoder service that answers.
      "$target/dyad-encoder" serve --model "$model" --listen 127.0.0.1:0 >"$work/encoder-here.log" 2>&1 &
      server=$!
      other=$server
      answers "$work/encoder-here.log" '' || return
      options+=(--index /var/lib/dyad/index --encoder "http://$(sed -n 's/^listening on //p' "$work/encoder-here.log")")
      ;;
  esac
  : >"$log"
  show "$@" serve "${options[@]}"
  "$@" serve "${options[@]}" >"$log" 2>&1 &
  server=$!
  answers "$log" "${url:+$url/readyz}" || return
  if [[ $name == searcher ]]; then
    curl --silent --fail --max-time 10 --json '{"query": "which planet is the largest", "mode": "MODE_BM25", "k": 1}' "$url/v1/search" || return
    echo
  elif [[ $name == encoder ]]; then
    curl --silent --fail --max-time 60 --json '{"input": ["a question"], "input_type": "question"}' "$url/v1/embeddings" | head -c 120 || return
    echo ...
  fi
  kill -TERM "$server" && wait "$server" || return
  if [[ -n $other ]]; then kill "$other" && wait "$other"; fi
  server='' other=''
  tail -n 1 "$log"
}

# run SERVER: prints version and configuration in the image of a server, lets it try to write, and serves from it.
run() {
  local user mounted inside
  container=$(buildah "${store[@]}" from --pull-never "localhost/dyad-$1") || return
  user=$(buildah "${store[@]}" inspect --format '{{.OCIv1.Config.User}}' "$container") || return
  mounted=$(buildah "${store[@]}" mount "$container") || return
  install -D -m 644 "deploy/config/$1.toml" "$mounted/etc/dyad/$1.toml" || return
  mkdir -p "$mounted/var/lib/dyad/index" "$mounted/opt/dyad/model" || return
  mkdir -p "$work/root" && mount --bind "$mounted" "$work/root" && mount -o remount,ro,bind "$work/root" || return
  # The loader finds libtorch from the program's path, which it reads there.
  mount --bind /proc "$work/root/proc" || return
  inside=(chroot "--userspec=$user" "$work/root")
  show "${inside[@]}" "/opt/dyad/bin/dyad-$1" config print --config "/etc/dyad/$1.toml"
  "${inside[@]}" "/opt/dyad/bin/dyad-$1" --version || return
  "${inside[@]}" "/opt/dyad/bin/dyad-$1" config print --config "/etc/dyad/$1.toml" || return
  if "${inside[@]}" touch /tmp/file 2>/dev/null; then echo 'expected a read-only root' >&2; return 1; fi
  serve "$1" "${inside[@]}" "/opt/dyad/bin/dyad-$1" || return
  umount -R "$work/root" || return
  buildah "${store[@]}" umount "$container" >/dev/null || return
  container=''
}

step 'Debian by debootstrap' debian
if [[ ${COMPILE:-} == 1 ]]; then
  step 'Rust' rust
else
  step 'the stage without-torch' compile without-torch dyad-searcher dyad-indexer
  step 'libtorch' deploy/libtorch.sh
  step 'the stage with-torch' compile with-torch dyad-encoder
fi
for server in searcher indexer encoder; do
  step "image of the $server" image "$server"
  step "run the image of the $server" run "$server"
done
not_tried='a container engine'
if [[ ${COMPILE:-} != 1 ]]; then not_tried="compiling in a container (COMPILE=1), and $not_tried"; fi
printf '\ntry.sh: ok. Not tried: %s\n' "$not_tried"

#!/usr/bin/env bash
# Builds the images of deploy/docker/Dockerfile where no registry can be reached, and runs each.
#
#   deploy/docker/try.sh             as root, with buildah and debootstrap of Debian
#   PROFILE=ci deploy/docker/try.sh  another cargo profile than release
#
# The stages that compile are left out: their commands run on this machine, and what they build is given to buildah as the
# result of those stages. Debian by debootstrap is taken for docker.io/library/debian:bookworm-slim. All else is as the
# Dockerfile says. Containers are chroots (buildah's isolation of that name), with their root file system mounted read-only,
# as the user that the image names.
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

work=$(mktemp -d)
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
store=(--root "$work/store" --runroot "$work/run")
container=''
finish() {
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
  local build=(bud --quiet --pull-never --file deploy/docker/Dockerfile --target "$1" --tag "dyad-$1"
    --build-context "without-torch=$work/without-torch" --build-context "with-torch=$work/with-torch" .)
  show buildah "${build[@]}"
  buildah "${store[@]}" "${build[@]}"
}

# run SERVER: prints version and configuration in the image of a server, and lets it try to write.
run() {
  local user mounted inside
  container=$(buildah "${store[@]}" from --pull-never "localhost/dyad-$1") || return
  user=$(buildah "${store[@]}" inspect --format '{{.OCIv1.Config.User}}' "$container") || return
  mounted=$(buildah "${store[@]}" mount "$container") || return
  install -D -m 644 "deploy/config/$1.toml" "$mounted/etc/dyad/$1.toml" || return
  mkdir -p "$work/root" && mount --bind "$mounted" "$work/root" && mount -o remount,ro,bind "$work/root" || return
  # The loader finds libtorch from the program's path, which it reads there.
  mount --bind /proc "$work/root/proc" || return
  inside=(chroot "--userspec=$user" "$work/root")
  show "${inside[@]}" "/opt/dyad/bin/dyad-$1" config print --config "/etc/dyad/$1.toml"
  "${inside[@]}" "/opt/dyad/bin/dyad-$1" --version || return
  "${inside[@]}" "/opt/dyad/bin/dyad-$1" config print --config "/etc/dyad/$1.toml" || return
  if "${inside[@]}" touch /tmp/file 2>/dev/null; then echo 'expected a read-only root' >&2; return 1; fi
  umount -R "$work/root" || return
  buildah "${store[@]}" umount "$container" >/dev/null || return
  container=''
}

step 'Debian by debootstrap' debian
step 'the stage without-torch' compile without-torch dyad-searcher dyad-indexer
step 'libtorch' deploy/libtorch.sh
step 'the stage with-torch' compile with-torch dyad-encoder
for server in searcher indexer encoder; do
  step "image of the $server" image "$server"
  step "run the image of the $server" run "$server"
done
printf '\ntry.sh: ok. Not tried: compiling in a container, and a container engine\n'

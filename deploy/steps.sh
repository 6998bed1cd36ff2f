# shellcheck shell=bash
# Sourced by the scripts here and by .ci/run: each step printed with its command and the time it took.

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# The bash of AlmaLinux 8, where packages are built, is 4.4, which has no EPOCHREALTIME.
now_ms() { date +%s%3N; }

seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

# A command as it would be typed: only words that need quotes get them.
as_typed() {
  local word line=''
  for word in "$@"; do
    if [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]]; then line+=" $word"; else line+=" ${word@Q}"; fi
  done
  printf '%s' "${line# }"
}

show() { printf '   $ %s\n' "$(as_typed "$@")"; }

# One line per completed step, for the summary.
step_times=()

# step TITLE COMMAND...: prints, runs and times a command; if it fails, the script ends with the name of the step.
# A function must print its own commands and check them: `set -e` is off inside.
step() {
  local title=$1 start status=0
  shift
  printf '\n== %s\n' "$title"
  if [[ $(type -t "$1") != function ]]; then show "$@"; fi
  start=$(now_ms)
  "$@" || status=$?
  if ((status != 0)); then
    printf 'error: step "%s" failed with exit code %d after %s\n' "$title" "$status" "$(seconds_since "$start")" >&2
    exit "$status"
  fi
  step_times+=("$(printf '%9s  %s' "$(seconds_since "$start")" "$title")")
  printf '   %s: %s\n' "$title" "$(seconds_since "$start")"
}

# begin_beside FUNCTION: runs a function of steps in the background, next to other steps; its output is kept. One at a time.
begin_beside() {
  beside_log=$(mktemp)
  beside_times=$(mktemp)
  # A process group of its own, which can be ended as a whole.
  set -m
  keep_times "$1" "$beside_times" >"$beside_log" 2>&1 &
  beside=$!
  set +m
}

# keep_times FUNCTION FILE: runs a function of steps, and writes their times into a file.
keep_times() {
  local step_times=()
  "$1"
  printf '%s\n' "${step_times[@]}" >"$2"
}

# end_beside: waits for these steps and prints what they printed; if one has failed, the script ends as it did.
end_beside() {
  local status=0
  wait "$beside" || status=$?
  beside=''
  cat "$beside_log"
  mapfile -t -O "${#step_times[@]}" step_times <"$beside_times"
  rm -f "$beside_log" "$beside_times"
  if ((status != 0)); then exit "$status"; fi
}

# stop_beside: for a trap on EXIT; ends what still runs beside a step that has failed, and prints what it printed.
stop_beside() {
  if [[ -n ${beside:-} ]]; then
    kill -- "-$beside" 2>/dev/null || true
    wait "$beside" 2>/dev/null || true
    cat "$beside_log"
    rm -f "$beside_log" "$beside_times"
  fi
}

# Binaries look for libtorch relative to the usual target/; for another target directory its path is set here. Run in the root.
find_libtorch_from_elsewhere() {
  if [[ -n ${CARGO_TARGET_DIR:-} ]]; then
    export LD_LIBRARY_PATH=$PWD/.libtorch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
}

# The Python unit tests of a folder, one process per file, as many at once as there are cores.
unit_tests() {
  basename --multiple "$1"/*_test.py | xargs -P "$(nproc)" -I {} \
    "${PYTHON:-python3}" -m unittest discover --start-directory "$1" --pattern {}
}

# Modules are compiled once, not by every process that imports them: with all of torch and transformers that is most of a
# short script's time. Kept in the environment VENV, away from the sources.
keep_bytecode() {
  unset PYTHONDONTWRITEBYTECODE
  export PYTHONPYCACHEPREFIX=$1/bytecode
}

# shellcheck shell=bash
# Sourced by the other scripts, after they went to the repository's root.

jobs=$(nproc)
export CMAKE_BUILD_PARALLEL_LEVEL=${CMAKE_BUILD_PARALLEL_LEVEL:-$jobs}

configure_options=()
if command -v ccache >/dev/null; then
  configure_options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

# quietly LOG COMMAND...: the output goes to LOG, and is shown when the command fails.
quietly() {
  local log=$1
  shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    echo "failed: $*" >&2
    return 1
  fi
}

#!/usr/bin/env bash
# How platform/host conforms to HIP, measured by ROCm's own hip-tests: builds the listed cases from a checkout of
# github.com/ROCm/hip-tests, runs each in a process of its own, prints a table and compares it with what is known.
# Usage: scripts/hip_tests.sh CHECKOUT [options of scripts/hip_tests/run.py]
#   CHECKOUT   a work tree, or a git directory without one; commit 87c8a04 is taken where the latter has it, else HEAD
set -euo pipefail
if [[ $# -lt 1 || $1 == -* ]]; then
  echo "usage: scripts/hip_tests.sh CHECKOUT [--only REGEX] [--limit SECONDS] [--devices N]" >&2
  exit 64
fi
checkout=$(cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."

scripts/install_deps.sh demo
. scripts/common.sh
command -v python3 >/dev/null || {
  echo "hip_tests.sh: needs python3 (apt-get install python3)" >&2
  exit 1
}

build=build/hip-tests
commit=87c8a04
if [[ -d $checkout/catch ]]; then
  catch=$checkout/catch
  commit=$(git -C "$checkout" rev-parse HEAD 2>/dev/null || echo "a work tree without git")
elif git --git-dir="$checkout" rev-parse --verify --quiet HEAD >/dev/null; then
  commit=$(git --git-dir="$checkout" rev-parse --verify --quiet "$commit^{commit}" ||
    git --git-dir="$checkout" rev-parse HEAD)
  catch=$PWD/$build/$commit/catch
  if [[ ! -f $build/$commit/complete ]]; then
    mkdir -p "$build/$commit"
    git --git-dir="$checkout" archive "$commit" catch | tar -x -C "$build/$commit"
    touch "$build/$commit/complete"
  fi
else
  echo "hip_tests.sh: $checkout is neither a work tree of hip-tests nor a git directory" >&2
  exit 64
fi

python3 scripts/hip_tests/rewrite.py "$catch" "$build/source" include hipTestMain kernels unit/graph unit/stream
quietly "$build/configure.log" cmake -S scripts/hip_tests -B "$build/build" -G Ninja -DHIP_TESTS_CATCH="$catch" \
  -DHIP_TESTS_SOURCES="$PWD/$build/source" "${configure_options[@]}"
quietly "$build/build.log" cmake --build "$build/build"
echo "hip-tests, $commit"
exec python3 scripts/hip_tests/run.py "$build/build/bin" "$@"

#!/usr/bin/env bash
# From a bare Debian 12 to everything that can be had without a card: installs Debian's HIP 5.2, builds the preset amd
# for gfx90a and runs the tests. Without a GPU those that need one count as skipped, and programs must say what is
# missing and return 2, which is a test too.
# Usage: scripts/amd_build.sh [--all]
#   --all   all kernels, and host code as it is shipped; else bf16 with head dimensions up to 64 and 128, and host code
#           that nobody has optimised, in a third of the time
set -euo pipefail
cd "$(dirname "$0")/.."

subset=(-DFMHAX_HEAD_DIMS="64;128" -DFMHAX_DATA_TYPES=bf16 -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0)
case ${1:-} in
  '') ;;
  --all) subset=(-UFMHAX_HEAD_DIMS -UFMHAX_DATA_TYPES -UCMAKE_CXX_FLAGS_RELWITHDEBINFO) ;;
  *)
    echo "amd_build.sh: unknown option '$1': --all or nothing" >&2
    exit 64
    ;;
esac

scripts/install_deps.sh amd
. scripts/common.sh

quietly build/amd-configure.log cmake --preset amd -DFMHAX_BUILD_TESTS=ON "${subset[@]}" \
  "${configure_options[@]}" "${configure_options[@]/CXX/HIP}"
grep 'Kernels for' build/amd-configure.log
quietly build/amd-build.log cmake --build --preset amd
ctest --preset amd --no-tests=error </dev/null
# clang 15 spills here and there; the instructions must be the right ones.
python3 scripts/amd_isa_report.py build/amd --check --allow-spills

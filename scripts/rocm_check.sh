#!/usr/bin/env bash
# Compiles include/ and executor/ against ROCm's own HIP headers, links them with its runtime, and runs a program
# that plans a problem: where there is no GPU it must end with one clear message and exit status 2.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh rocm
. scripts/common.sh

quietly build/rocm-configure.log cmake -S tests/rocm_headers -B build/rocm-headers -G Ninja \
  -DCMAKE_BUILD_TYPE=Debug "${configure_options[@]}"
quietly build/rocm-build.log cmake --build build/rocm-headers

status=0
message=$(build/rocm-headers/bin/rocm_check 2>&1 </dev/null) || status=$?
echo "rocm_check (exit status $status): $message"
if [[ -e /dev/kfd ]]; then
  [[ $status -eq 0 || $status -eq 2 ]]
else
  [[ $status -eq 2 && $(wc -l <<<"$message") -eq 1 && $message == *hipError* && $message == *FMHAX_PLATFORM=host* ]]
fi || {
  echo "rocm_check: expected one line with HIP's error and what to do, and exit status 2" >&2
  exit 1
}
